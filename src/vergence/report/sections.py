"""The sections of a run's page: each takes the record, and is None when the run has no results for it."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from vergence import __version__
from vergence.report import figures
from vergence.report.document import Section, section
from vergence.report.formulas import formulas, linked
from vergence.report.pieces import (
    bullets,
    code,
    details,
    paragraph,
    percent,
    picture,
    shown,
    side_by_side,
    stacked,
    table,
)
from vergence.report.record import Record, finite, flat, mapping, sequence
from vergence.report.summary import accuracy_rows


def recommendations(record: Record) -> Section | None:
    """What to change: each piece of advice with the measurement behind it and the override that does it."""
    rows = [mapping(row) for row in sequence(record.results.get("recommendations"))]
    cells = [[row.get("sentence"), row.get("measurement"), row.get("override")] for row in rows]
    return section("What to change", table(["advice", "because", "override"], cells)) if cells else None


def learning(record: Record) -> Section | None:
    """The loss, where it stands, the path in the alignment-uniformity plane, and what was measured on the way."""
    heat = {key: value for key, value in mapping(record.results.get("thermometer")).items() if finite(value)}
    left = [_loss(record, heat), _thermometer(heat)]
    measured = _progress(record, "knn", "kNN accuracy") or _progress(record, "effective_rank", "effective rank")
    right = [_plane(record), measured]
    columns = [Markup("").join(piece for piece in column if piece) for column in (left, right)]
    return section("Is it learning?", side_by_side(*columns))


def accuracies(record: Record) -> Section | None:
    """What the representation is worth, beside an untrained encoder and the raw input."""
    rows = accuracy_rows(record)
    if not rows:
        return None
    best = max(rows, key=lambda row: row["accuracy"])
    caption = "An encoder that is no better than an untrained one has learned nothing that predicts these labels."
    words = f"{percent(best['accuracy'])}, of {best['features']} by {best['classifier']}"
    drawing = picture(
        figures.accuracies(rows), caption, description=f"{len(rows)} accuracies, all in the table; the best is {words}."
    )
    columns = [(drawing, _label_curves(record)), (_accuracy_table(rows), _layers(record))]
    joined = [Markup("").join(piece for piece in column if piece) for column in columns]
    return section("What it is worth", side_by_side(*joined), formulas(row["classifier"] for row in rows))


def geometry(record: Record) -> Section | None:
    """The spectrum of the representation, and every diagnostic with its interval and its n."""
    entries = {name.replace("_", " "): entry for name, entry in mapping(record.results.get("diagnostics")).items()}
    groups = {name: entry for name, entry in entries.items() if isinstance(entry, Mapping) and "value" not in entry}
    rows = [[linked(name), *_diagnostic(entry)] for name, entry in entries.items() if name not in groups]
    folded = [details(name.capitalize(), table(["", "value"], entry.items())) for name, entry in groups.items()]
    listing = table(["diagnostic", "value", "interval", "n", "remarks"], rows) if rows else None
    return section("Geometry", side_by_side(_spectrum(record), Markup("").join(folded)), listing, formulas(entries))


def certificates(record: Record) -> Section | None:
    """Inequalities of the theory with both sides measured; a violated one is a finding."""
    rows = [mapping(row) for row in sequence(record.results.get("certificates"))]
    keys = ("statement", "verdict", "left", "right", "slack", "source")
    cells = [[*(row.get(key) for key in keys), mapping(row.get("assumptions"))] for row in rows]
    listing = table([*keys, "assumptions"], cells) if cells else None
    return section("Certificates", listing, *(_terms(row) for row in rows), *(_trade_off(row) for row in rows))


def _terms(certificate: Mapping[str, Any]) -> Markup | None:
    terms = mapping(certificate.get("terms"))
    return details(f"Terms of: {certificate.get('statement')}", table(["", "value"], terms.items())) if terms else None


def _trade_off(certificate: Mapping[str, Any]) -> Markup | None:
    curves = mapping(certificate.get("curves"))
    if not {"epsilon", "R", "rho", "bound"} <= set(curves):
        return None
    figure = figures.trade_off(curves, chance=mapping(certificate.get("terms")).get("chance error"))
    words = "Epsilon, at the best delta: a larger one leaves fewer samples unstable and asks more of the centers."
    return picture(figure, words, description="The bound on the error and its parts against epsilon.")


def data(record: Record) -> Section | None:
    """Notes, and the files that could not be read."""
    notes = [str(note) for note in sequence(record.results.get("notes"))]
    skipped = [sequence(row) for row in sequence(record.results.get("skipped")) if len(sequence(row)) == 2]
    listing = (
        details(f"Files that were skipped: {len(skipped):,}", table(["file", "reason"], skipped)) if skipped else None
    )
    return section("Notes on the data", bullets(notes) if notes else None, listing)


def repetition(record: Record) -> Section | None:
    """The command that repeats the run, its config and where it ran."""
    name = shlex.quote(record.name)
    command = f"vergence train --config {name}/config.yaml --run {shlex.quote(record.name + '-again')}"
    config = [[key, value] for key, value in flat(record.config).items()]
    machine = [[key, value] for key, value in flat(record.environment).items()]
    version = record.environment.get("vergence", __version__)
    return section(
        "How to repeat it",
        code(command) if config else None,
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
    known = ("per_class", "accuracy", "spread")
    stored = [mapping(row) for row in sequence(record.results.get("few_labels"))]
    rows = [{"features": "features", **row} for row in stored if all(finite(row.get(key)) for key in known)]
    if not rows:
        return None
    draws = max(row.get("draws", 1) for row in rows)
    ends = [f"{row['features']} {percent(row['accuracy'])}" for row in rows if row["per_class"] == rows[0]["per_class"]]
    return picture(
        figures.label_curves(rows),
        f"How many labels it takes: nearest class center, mean over {draws} draws of the labeled samples; "
        "the band is one standard deviation over the draws.",
        description=f"Accuracy against labels of each class. With {rows[0]['per_class']:.0f}: {', '.join(ends)}.",
    )


def _layers(record: Record) -> Markup | None:
    """A probe after every layer: where the classes become separable, and where the objective discards them."""
    rows = [mapping(row) for row in sequence(record.results.get("layers"))]
    known = [row for row in rows if finite(row.get("accuracy"))]
    cells = [[row.get("layer"), row.get("width"), percent(row["accuracy"]), _share_interval(row)] for row in known]
    caption = "A linear probe after every layer"
    return table(["layer", "width", "accuracy", "interval"], cells, caption=caption) if cells else None


def _share_interval(row: Mapping[str, Any]) -> str | None:
    return _interval(row, lambda share: f"{100 * share:.1f}")


def _accuracy_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """A line per classifier and labels, a column per kind of features."""
    kinds = dict.fromkeys(row["features"] for row in rows)
    cells: dict[Markup, dict[str, Markup]] = {}
    for row in rows:
        line = cells.setdefault(stacked(linked(row["classifier"]), row["labels"]), {})
        line[row["features"]] = stacked(percent(row["accuracy"]), _share_interval(row))
    counts = sorted({row["n"] for row in rows if finite(row.get("n"))})
    caption = f"Accuracy and its interval on n = {shown(counts)} held-out samples" if counts else ""
    lines = [[heading, *(line.get(kind) for kind in kinds)] for heading, line in cells.items()]
    return table(["classifier", *kinds], lines, caption=caption)


def _loss(record: Record, heat: Mapping[str, Any]) -> Markup | None:
    steps, loss = record.series("step", "loss")
    if not len(steps):
        return None
    levels = {key: heat[key] for key in ("chance", "floor", "random") if key in heat}
    words = "".join(f" {name.capitalize()} is {value:.3f}." for name, value in levels.items())
    return picture(
        figures.loss_curve(steps, loss, **levels),
        "The loss along training.",
        description=f"The loss goes from {loss[0]:.3f} to {loss[-1]:.3f} in {steps[-1]:,.0f} steps.{words}",
    )


def _thermometer(heat: Mapping[str, Any]) -> Markup | None:
    if not {"position", "chance", "floor"} <= heat.keys():
        return None
    positions = {"this run": float(heat["position"])}
    if "random" in heat and heat["chance"] != heat["floor"]:
        positions["random embeddings"] = (heat["chance"] - heat["random"]) / (heat["chance"] - heat["floor"])
    return picture(
        figures.thermometer(positions, chance=float(heat["chance"]), floor=float(heat["floor"])),
        "The thermometer: where the loss stands between collapse and the best that is attainable.",
        description=f"The loss stands at {heat['position']:.2f} of the way from chance to floor.",
    )


def _plane(record: Record) -> Markup | None:
    steps, align, uniform = record.series("step", "alignment", "uniformity")
    if not len(steps):
        return None
    floor = record.diagnostic("uniformity", "floor")
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
    words = f"{label} goes from {values[0]:.3f} to {values[-1]:.3f}."
    return picture(figures.progress(steps, values, label=label), f"{label} along training.", description=words)


def _spectrum(record: Record) -> Markup | None:
    stored = sequence(mapping(record.results.get("spectrum")).get("singular_values"))
    values = [float(value) for value in stored if finite(value)]
    if not values:
        return None
    rank = record.diagnostic("effective_rank")
    words = f"{len(values)} singular values" + ("" if rank is None else f", effective rank {rank:.1f}")
    caption = "The spectrum: a slow decay uses many directions; after a sharp drop the remaining directions are unused."
    return picture(figures.spectrum(np.array(values), effective_rank=rank), caption, description=f"{words}.")


def _interval(row: Mapping[str, Any], form: Callable[[float], str]) -> str | None:
    known = finite(row.get("low")) and finite(row.get("high"))
    return f"{form(row['low'])} to {form(row['high'])}" if known else None


def _diagnostic(entry: Any) -> list[Any]:
    """Value, interval, n, and whatever else the diagnostic carries."""
    parts = entry if isinstance(entry, Mapping) else {"value": entry}
    known = ("value", "low", "high", "n", "method")
    worth = {key: mapping(value).get("value", value) for key, value in parts.items() if key not in known}
    rest = [f"{key.replace('_', ' ')} {shown(value)}" for key, value in worth.items()]
    remarks = "; ".join([*rest, *([f"interval by {parts['method']}"] if parts.get("method") else [])])
    return [parts.get("value"), _interval(parts, shown), parts.get("n"), remarks or None]
