"""The sections of a run's page: each takes the record, and is None when the run has no results for it."""

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from vergence import __version__
from vergence.report import figures
from vergence.report.document import Section, section
from vergence.report.formulas import formulas, linked
from vergence.report.gains import percent
from vergence.report.pieces import (
    bullets,
    code,
    details,
    paragraph,
    picture,
    piece,
    shown,
    side_by_side,
    stacked,
    table,
)
from vergence.report.plain import cost_and_gain
from vergence.report.record import Record, flat, mapping
from vergence.runs.results import Judged, Layer, Number, Proof, Reading, Score

FEWEST_POINTS = 3  # of a chart: two are a table


def findings(record: Record) -> Section | None:
    """What was found, apart: of the rows, of pairs and labels, of the learning; what it costs and what was tried."""
    found = record.results
    if not found.verdicts and not found.recommendations:
        return None
    groups = {"rows": "The rows", "pairs": "Pairs and labels", "learning": "The learning"}
    verdicts = [[groups.get(about, about), each.label, each.sentence] for about, each in found.verdicts.items()]
    listed = [
        [each.fault, each.level, each.sentence, cost_and_gain(each) or None, each.advice] for each in found.findings
    ]
    heading = ["finding", "kind", "what was seen", "cost, and what was tried", "advice"]
    return section(
        "What was found",
        side_by_side(table(["about", "verdict", ""], verdicts) if verdicts else None, _recommendations(record)),
        table(heading, listed) if listed else None,
    )


def _recommendations(record: Record) -> Markup | None:
    """What to change: each piece of advice with the measurement behind it and the override that does it."""
    cells = [[row.sentence, row.measurement, row.override] for row in record.results.recommendations]
    return table(["advice", "read from", "option"], cells) if cells else None


def learning(record: Record) -> Section | None:
    """The loss, where it stands, the path in the alignment-uniformity plane, and what was measured on the way."""
    heat = record.results.thermometer
    left = [_loss(record, heat), _thermometer(heat)]
    measured = _progress(record, "knn", "kNN accuracy") or _progress(record, "effective_rank", "effective rank")
    right = [_plane(record), measured]
    columns = [Markup("").join(piece for piece in column if piece) for column in (left, right)]
    return section("Is it learning?", side_by_side(*columns))


def accuracies(record: Record) -> Section | None:
    """What the representation is worth, beside an untrained encoder and the raw input."""
    rows = record.results.accuracy
    if not rows:
        return None
    best = max(rows, key=lambda row: row.accuracy)
    caption = "An encoder that is no better than an untrained one has learned nothing that predicts these labels. "
    caption += figures.axis_note(min(row.interval[0] for row in rows), max(row.interval[1] for row in rows), 1.0)
    words = f"{percent(best.accuracy)}, of {best.features} by {best.classifier}"
    drawing = picture(
        figures.accuracies(rows), caption, description=f"{len(rows)} accuracies, all in the table; the best is {words}."
    )
    columns = [(drawing, _layers(record)), (_label_curves(record), details("All accuracies", _accuracy_table(rows)))]
    joined = [Markup("").join(piece for piece in column if piece) for column in columns]
    return section("What it is worth", side_by_side(*joined), formulas(row.classifier for row in rows))


# The three numbers that most readers need, with what they mean; the rest is behind a fold.
LEADING = {
    "alignment": "squared distance of two views of a sample: 0 is perfect agreement, 2 is none",
    "uniformity": "how evenly embeddings cover the sphere: 0 when all coincide, the floor when they are spread evenly",
    "effective_rank": "directions that the representation uses, of its width",
}


def geometry(record: Record) -> Section | None:
    """Three numbers with what they mean; the spectrum and every other diagnostic behind a fold."""
    entries = record.results.diagnostics
    cards = [
        (_title(name, entries[name]), _card_value(record, name), text)
        for name, text in LEADING.items()
        if name in entries and entries[name].value is not None
    ]
    groups = {name: entry for name, entry in entries.items() if entry.value is None and entry.more}
    rows = [[_titled(name, entry), *_diagnostic(entry)] for name, entry in entries.items() if name not in groups]
    listing = table(["diagnostic", "value", "interval", "n", "remarks"], rows) if rows else None
    meanings = [[_title(name, entry), entry.meaning] for name, entry in entries.items() if entry.meaning]
    folded = [
        *([listing] if listing else []),
        *(
            details(_title(name, each).capitalize(), table(["", "value"], each.more.items()))
            for name, each in groups.items()
        ),
        *([details("What each is", table(["", ""], meanings))] if meanings else []),
    ]
    return section(
        "Geometry",
        side_by_side(piece("numbers", cards) if cards else None, _spectrum(record)),
        details(f"All {len(entries)} diagnostics, with intervals", *folded) if folded else None,
    )


def _card_value(record: Record, name: str) -> str:
    """A leading number with its interval and, where it has one, its end of the scale."""
    entry = record.results.diagnostics[name]
    between = _interval(entry, lambda value: f"{value:.3g}")
    value, interval = f"{entry.value:.3g}", f" ({between})" if between else ""
    floor, width = entry.more.get("floor"), len(record.results.singular_values)
    if name == "uniformity" and floor is not None:
        return f"{value}{interval}, floor {shown(floor)}"
    return f"{value} of {width}{interval}" if name == "effective_rank" and width else f"{value}{interval}"


def _title(name: str, entry: Number) -> str:
    return entry.title or name.replace("_", " ")


def _titled(name: str, entry: Number) -> Markup:
    return Markup('<span title="{}">{}</span>').format(entry.meaning, _title(name, entry))


def certificates(record: Record) -> Section | None:
    """Inequalities of the theory with both sides measured; a violated one is a finding."""
    rows = sorted(record.results.certificates, key=lambda row: row.verdict == "vacuous")  # what says something first
    cells = [[row.statement, row.verdict, row.left, row.right, row.slack, row.source, row.assumptions] for row in rows]
    keys = ["statement", "verdict", "left", "right", "slack", "source", "assumptions"]
    listing = table(keys, cells) if cells else None
    return section("Certificates", listing, *(_terms(row) for row in rows), *(_trade_off(row) for row in rows))


def _terms(proof: Proof) -> Markup | None:
    return details(f"Terms of: {proof.statement}", table(["", "value"], proof.terms.items())) if proof.terms else None


def _trade_off(proof: Proof) -> Markup | None:
    if not {"epsilon", "R", "rho", "bound"} <= set(proof.curves):
        return None
    figure = figures.trade_off(proof.curves, chance=proof.terms.get("chance error"))
    words = "Epsilon, at the best delta: a larger one leaves fewer samples unstable and asks more of the centers."
    drawing = picture(figure, words, description="The bound on the error and its parts against epsilon.")
    return details("The bound against epsilon", drawing)


def data(record: Record) -> Section | None:
    """Notes, and the files that could not be read."""
    notes, skipped = record.results.notes, record.results.skipped
    listing = (
        details(f"Files that were skipped: {len(skipped):,}", table(["file", "reason"], skipped)) if skipped else None
    )
    return section("Notes on the data", bullets(notes) if notes else None, listing)


def repetition(record: Record) -> Section | None:
    """The command that repeats the run, its config and where it ran."""
    place = record.path.as_posix()
    command = shlex.join(["vergence", "train", "--config", f"{place}/config.yaml", "--run", f"{place}-again"])
    again = shlex.join(["vergence", "report", place])
    config = [[key, value] for key, value in flat(record.config).items()]
    machine = [[key, value] for key, value in flat(record.environment).items()]
    version = record.environment.get("vergence", __version__)
    return section(
        "How to repeat it",
        code(f"{command}\n{again}") if config else None,
        paragraph("From the folder in which the run was started; the second line writes this page again.")
        if config
        else None,
        paragraph(
            f"Cite as: Vergence, version {version}, with the paper of the method, which “vergence list methods” names."
        ),
        details("The config", table(["setting", "value"], config)) if config else None,
        details("The environment", table(["", "value"], machine)) if machine else None,
    )


def missing(record: Record) -> Section | None:
    """What this page could not show, and why."""
    return section("What is missing", bullets(record.missing)) if record.missing else None


def _label_curves(record: Record) -> Markup | None:
    """Accuracy along the number of labels, beside the baselines."""
    rows = record.results.few_labels
    if not rows:
        return None
    draws, least = max(row.draws or 1 for row in rows), rows[0].per_class
    ends = [f"{row.features} {percent(row.accuracy)}" for row in rows if row.per_class == least]
    return picture(
        figures.label_curves(rows),
        f"How many labels it takes: nearest class center, mean over {draws} draws of the labeled samples; "
        "the band is one standard deviation over the draws.",
        description=f"Accuracy against labels of each class. With {least:.0f}: {', '.join(ends)}.",
    )


def _layers(record: Record) -> Markup | None:
    """A probe after every layer: where the classes become separable, and where the objective discards them."""
    cells = [[row.layer, row.width, percent(row.accuracy), _share_interval(row)] for row in record.results.layers]
    caption = "A linear probe after every layer"
    return table(["layer", "width", "accuracy", "interval"], cells, caption=caption) if cells else None


def _share_interval(row: Score | Layer) -> str | None:
    return _interval(row, lambda share: f"{100 * share:.1f}")


def sentences(record: Record) -> Section | None:
    """What the encoder of texts is worth on data that it was not trained on, beside rows that need no training."""
    rows = record.results.sentences
    if not rows:
        return None
    columns = list(dict.fromkeys(row.features for row in rows))
    lines = []
    for data, measure, part in dict.fromkeys((row.data, row.measure, row.set) for row in rows):
        mine = {row.features: row for row in rows if (row.data, row.measure, row.set) == (data, measure, part)}
        cells = [stacked(f"{mine[name].value:.3f}", _range(mine[name])) if name in mine else None for name in columns]
        lines.append([f"{data}{f', {part}' if part != 'all' else ''}", measure, *cells, next(iter(mine.values())).n])
    note = paragraph("TF-IDF needs no training: it is the bar that a learned encoder has to clear.")
    return section("Sentences", note, table(["data", "measure", *columns, "n"], lines))


def _range(row: Judged) -> str:
    """The interval of a result on texts, where it has one: alignment and uniformity have none."""
    return "" if row.low == row.high else f"{row.low:.3f} to {row.high:.3f}"


def _accuracy_table(rows: Sequence[Score]) -> Markup:
    """A line per classifier and labels, a column per kind of features."""
    kinds = dict.fromkeys(row.features for row in rows)
    cells: dict[Markup, dict[str, Markup]] = {}
    for row in rows:
        line = cells.setdefault(stacked(linked(row.classifier), row.labels), {})
        line[row.features] = stacked(percent(row.accuracy), _share_interval(row))
    counts = sorted({row.n for row in rows if row.n is not None})
    caption = f"Accuracy and its interval on n = {shown(counts)} held-out samples" if counts else ""
    lines = [[heading, *(line.get(kind) for kind in kinds)] for heading, line in cells.items()]
    return table(["classifier", *kinds], lines, caption=caption)


def _loss(record: Record, heat: Reading | None) -> Markup | None:
    steps, loss = record.series("step", "loss")
    if not len(steps):
        return None
    known = {} if heat is None else {"chance": heat.chance, "floor": heat.floor, "random": heat.random}
    levels = {key: value for key, value in known.items() if value is not None}
    words = "".join(f" {name.capitalize()} is {value:.3f}." for name, value in levels.items())
    return picture(
        figures.loss_curve(steps, loss, **levels),
        "The loss along training.",
        description=f"The loss goes from {loss[0]:.3f} to {loss[-1]:.3f} in {steps[-1]:,.0f} steps.{words}",
    )


def _thermometer(heat: Reading | None) -> Markup | None:
    if heat is None or heat.position is None:
        return None
    positions = {"this run": heat.position}
    if heat.random is not None and heat.chance != heat.floor:
        positions["random embeddings"] = (heat.chance - heat.random) / (heat.chance - heat.floor)
    return picture(
        figures.thermometer(positions, chance=heat.chance, floor=heat.floor),
        "The thermometer: where the loss stands between collapse and the best that is attainable.",
        description=f"The loss stands at {heat.position:.2f} of the way from chance to floor.",
    )


def _plane(record: Record) -> Markup | None:
    steps, align, uniform = record.series("step", "alignment", "uniformity")
    if not len(steps):
        return None
    if len(steps) < FEWEST_POINTS:
        told = [[f"{step:,.0f}", one, other] for step, one, other in zip(steps, align, uniform, strict=True)]
        words = f"Alignment and uniformity along training: {len(steps)} measurements make no curve"
        return table(["step", "alignment", "uniformity"], told, caption=words)
    uniformity = record.results.diagnostics.get("uniformity")
    floor = uniformity.more.get("floor") if uniformity is not None else None
    return picture(
        figures.alignment_uniformity_plane(align, uniform, steps=steps, floor=floor),
        "Alignment and uniformity along training: lower left is better.",
        description=f"Alignment goes from {align[0]:.3f} to {align[-1]:.3f}, "
        f"uniformity from {uniform[0]:.3f} to {uniform[-1]:.3f}.",
    )


def _progress(record: Record, key: str, label: str) -> Markup | None:
    steps, values = record.series("step", key)
    if len(steps) < 2:
        return None
    if len(steps) < FEWEST_POINTS:
        told = [[f"{step:,.0f}", value] for step, value in zip(steps, values, strict=True)]
        return table(["step", label], told, caption=f"{label} along training: {len(steps)} measurements make no curve")
    words = f"{label} goes from {values[0]:.3f} to {values[-1]:.3f}."
    return picture(figures.progress(steps, values, label=label), f"{label} along training.", description=words)


def _spectrum(record: Record) -> Markup | None:
    values = record.results.singular_values
    if not values:
        return None
    rank = record.results.number("effective_rank")
    words = f"{len(values)} singular values" + ("" if rank is None else f", effective rank {rank:.1f}")
    caption = "The spectrum: a slow decay uses many directions; after a sharp drop the remaining directions are unused."
    return picture(figures.spectrum(np.array(values), effective_rank=rank), caption, description=f"{words}.")


def _interval(row: Number | Score | Layer, form: Callable[[float], str]) -> str | None:
    return None if row.low is None or row.high is None else f"{form(row.low)} to {form(row.high)}"


def _diagnostic(entry: Number) -> list[Any]:
    """Value, interval, n, and whatever else the diagnostic carries."""
    worth = {key: mapping(value).get("value", value) for key, value in entry.more.items()}
    rest = [f"{key.replace('_', ' ')} {shown(value)}" for key, value in worth.items()]
    remarks = "; ".join([*rest, *([f"interval by {entry.method}"] if entry.method else [])])
    return [entry.value, _interval(entry, shown), entry.n, remarks or None]
