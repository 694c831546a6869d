"""Several runs side by side: what differs in their configs, and what came of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from vergence.report import figures
from vergence.report.document import Section, document, section
from vergence.report.experiments import scatter
from vergence.report.finetuning import compared
from vergence.report.gains import percent
from vergence.report.pieces import bullets, details, paragraph, picture, side_by_side, stacked, table
from vergence.report.record import Record, flat, read
from vergence.runs.hits import ROWS, Difference, difference, read_hits
from vergence.runs.results import TRAINED, Score

Key = tuple[str, str, str]  # features, classifier, labels
SPLIT, MOST_BESIDE = 8, 4  # settings from which on their table is set in two columns, unless more runs make it wide


def compare(run_directories: Sequence[str | Path], *, label_free: Mapping[str, Sequence[str]] | None = None) -> str:
    """Several runs as one page, like with like: runs on other data or in another size form groups of their own.

    ``label_free`` holds, for each group by name, what scores without labels say of it.
    """
    if not run_directories:
        raise ValueError("Nothing to compare: expected at least one run directory, got none.")
    records = _named([read(directory) for directory in run_directories])
    groups = grouped(records)
    parts: list[Section | None] = [_apart(groups)]
    for name, members in groups.items():
        title = f" on {name}" if len(groups) > 1 else ""
        said = (label_free or {}).get(name, ())
        parts += [_accuracies(members, said, title), _learning(members, title), _diagnostics(members, title)]
    parts += [compared(records), _settings(records), _missing(records)]
    verdict = " ".join(f"{f'On {name}: ' if len(groups) > 1 else ''}{_verdict(each)}" for name, each in groups.items())
    return document(f"{len(records)} runs side by side", verdict, parts)


def grouped(records: Mapping[str, Record]) -> dict[str, dict[str, Record]]:
    """Records by what their numbers depend on before anything is learned: the data, how much of it, in which size."""
    groups: dict[str, dict[str, Record]] = {}
    for name, record in records.items():
        settings = flat(record.config)
        more = [f", {key} {settings[key]}" for key in ("limit", "size") if settings.get(key)]
        groups.setdefault(f"{settings.get('data', 'data that is not known')}{''.join(more)}", {})[name] = record
    return groups


def _apart(groups: Mapping[str, Mapping[str, Record]]) -> Section | None:
    """Which runs stand together, and that no number goes from one group to the other."""
    if len(groups) < 2:
        return None
    words = "These runs were trained on different data or sizes: numbers of different groups are not comparable."
    rows = [[name, ", ".join(members)] for name, members in groups.items()]
    return section("What is comparable", paragraph(words), table(["group", "runs"], rows))


def _named(records: Sequence[Record]) -> dict[str, Record]:
    """Records by directory name, or by path where two directories share a name."""
    names = [record.name for record in records]
    return {
        name if names.count(name) == 1 else str(record.path): record
        for name, record in zip(names, records, strict=True)
    }


def _verdict(records: dict[str, Record]) -> str:
    """Which run is the most accurate, when the intervals can tell."""
    rows = [row for record in records.values() for row in record.results.accuracy if row.features == TRAINED]
    if not rows:
        return f"{len(records)} runs, none with an accuracy yet."
    key = _key(max(rows, key=lambda row: row.accuracy))
    scores = {name: row for name, record in records.items() for row in record.results.accuracy if _key(row) == key}
    first, *others = sorted(scores, key=lambda name: -scores[name].accuracy)
    low, _ = scores[first].interval
    close = [name for name in others if scores[name].interval[1] >= low]
    told = ", ".join(f"{name} {percent(scores[name].accuracy)}" for name in (first, *close))
    how = f"by {key[1]} with {key[2]}"
    if not others:
        return f"{told} {how}."
    return f"No run is clearly ahead {how}: {told}." if close else f"{first} is the most accurate {how}: {told}."


def _accuracies(records: dict[str, Record], label_free: Sequence[str] = (), title: str = "") -> Section | None:
    keys = dict.fromkeys(_key(row) for record in records.values() for row in record.results.accuracy)
    trained = [_line(records, key, key[2]) for key in keys if key[0] == TRAINED]
    others = [_line(records, key, f"{key[0]}, {key[2]}") for key in keys if key[0] != TRAINED]
    headings = ["classifier", *records]
    baselines = table(headings, others, caption="The baselines") if others else None
    said = _without_labels(label_free)
    return section(
        f"Accuracies{title}",
        side_by_side(_differences(records), _against_time(records)),
        side_by_side(
            table(headings, trained, caption="Frozen features of the trained encoders") if trained else None,
            said or baselines,
        ),
        details("The baselines", baselines) if baselines and said else None,
    )


def _without_labels(said: Sequence[str]) -> Markup | None:
    """What scores that need no labels say: the leading one, and the others behind a fold."""
    if not said:
        return None
    others = details(f"{len(said) - 1} other scores", bullets(said[1:])) if len(said) > 1 else Markup("")
    return paragraph("Without labels, by the leading score, which is not to be relied on:") + bullets(said[:1]) + others


def _differences(records: dict[str, Record]) -> Markup | None:
    """How far each run is behind the best, paired on the samples that both were tested on."""
    found = {name: right[TRAINED] for name, record in records.items() if TRAINED in (right := read_hits(record.path))}
    classifiers = {key for right in found.values() for key in right if key != ROWS}
    probe = next((key for key in sorted(classifiers, key=lambda key: not key.startswith("linear probe"))), None)
    known = {name: right for name, right in found.items() if probe in right}
    if probe is None or len(known) < 2:
        return None
    order = sorted(known, key=lambda name: -known[name][probe].mean())
    rows: list[list[Any]] = [[order[0], percent(float(known[order[0]][probe].mean())), "best"]]
    for name in order[1:]:
        apart = difference(known[order[0]], known[name], probe)
        told = None if apart is None else _behind(apart)
        rows.append([name, percent(float(known[name][probe].mean())), told])
    caption = f"Behind the best by {probe}, paired on the same test samples, with a 95 % interval"
    return table(["run", "accuracy", "behind the best"], rows, caption=caption)


def _behind(apart: Difference) -> Markup:
    words = f"{100 * apart.low:.1f} to {100 * apart.high:.1f}, n = {apart.n:,}"
    return stacked(f"{100 * apart.value:.1f} points{'' if apart.certain else ', may be none'}", words)


def _against_time(records: dict[str, Record]) -> Markup | None:
    """Accuracy against the time that training took."""
    points: dict[str, tuple[float, float]] = {}
    for name, record in records.items():
        best, seconds = record.results.best(TRAINED), record.seconds
        if best is not None and seconds:
            points[name] = (seconds / 60, 100 * best.accuracy)
    if len(points) < 2:
        return None
    words = ", ".join(f"{name} {up:.1f} % in {across:.1f} minutes" for name, (across, up) in points.items())
    heights = [up for _, up in points.values()]
    note = figures.axis_note(min(heights), max(heights), 100.0)
    drawing = scatter({"runs": points}, "minutes of training", "accuracy in %")
    return picture(
        drawing, f"Accuracy against the time of training. {note}", description=f"Accuracy against time: {words}."
    )


def _line(records: dict[str, Record], key: Key, below: str) -> list[Any]:
    """One classifier over all runs; a run without it has a dash."""
    cells = [
        next((_accuracy(row) for row in record.results.accuracy if _key(row) == key), None)
        for record in records.values()
    ]
    return [stacked(key[1], below), *cells]


def _accuracy(row: Score) -> Markup:
    low, high = row.interval
    return stacked(percent(row.accuracy), f"{100 * low:.1f} to {100 * high:.1f}" if low < high else None)


def _key(row: Score) -> Key:
    return row.features, row.classifier, row.labels


def _learning(records: dict[str, Record], title: str = "") -> Section | None:
    """Where the losses stand between chance and floor; losses by value only where objective and batch are the same."""
    heats = {name: heat for name, record in records.items() if (heat := record.results.thermometer) is not None}
    positions = {name: heat.position for name, heat in heats.items() if heat.position is not None}
    found = {name: _positions(record) for name, record in records.items()}
    curves = {name: curve for name, curve in found.items() if curve is not None}
    scales = {(heat.objective, heat.n, tuple(sorted(heat.hyperparameters.items()))) for heat in heats.values()}
    words = "Objectives, batches or their settings differ, so losses are compared by their place between chance and "
    words += "floor, never by value."
    drawn = []
    if curves:
        ends = ", ".join(f"{name} ends at {places[-1]:.2f}" for name, (_, places) in curves.items())
        figure = figures.loss_curves(curves, label="0 is chance, 1 the floor")
        drawn.append(picture(figure, "Place of the loss along training.", description=f"Thermometers: {ends}."))
    if positions:
        told = ", ".join(f"{name} {position:.2f}" for name, position in positions.items())
        caption = "Thermometers: 0 is chance, 1 the floor of each run's own objective."
        drawn.append(picture(figures.thermometer(positions), caption, description=f"At the end: {told}."))
    if not drawn:
        return None
    return section(f"Is it learning{title}?", paragraph(words) if len(scales) > 1 else None, side_by_side(*drawn))


def _positions(record: Record) -> tuple[np.ndarray, np.ndarray] | None:
    """The loss along training as a place between chance and floor; the loss itself has no scale of its own."""
    steps, loss = record.series("step", "loss")
    heat = record.results.thermometer
    if not len(steps) or heat is None or heat.chance == heat.floor:
        return None
    return steps, (heat.chance - loss) / (heat.chance - heat.floor)


def _diagnostics(records: dict[str, Record], title: str = "") -> Section | None:
    names = dict.fromkeys(name for record in records.values() for name in record.results.diagnostics)
    cells = [[name.replace("_", " "), *(record.results.number(name) for record in records.values())] for name in names]
    leading = [row for row in cells if row[0] in ("alignment", "uniformity", "effective rank")]
    if not cells:
        return None
    folded = details(f"All {len(cells)} diagnostics", table(["diagnostic", *records], cells))
    first = table(["diagnostic", *records], leading, caption="What to look at first") if leading else None
    return section(f"Geometry{title}", side_by_side(first, folded))


def _settings(records: dict[str, Record]) -> Section | None:
    """Only what differs; a setting that a run does not have is a dash."""
    settings = [flat(record.config) for record in records.values()]
    names = dict.fromkeys(name for mine in settings for name in mine)
    rows: list[list[Any]] = [[name, *(mine.get(name) for mine in settings)] for name in names]
    rows = [row for row in rows if any(value != row[1] for value in row[2:])]
    if not rows:
        return section("What differs", paragraph("The configs are equal."))
    half = len(rows) if len(rows) < SPLIT or len(records) > MOST_BESIDE else (len(rows) + 1) // 2
    columns = [table(["setting", *records], part) for part in (rows[:half], rows[half:]) if part]
    return section("What differs", side_by_side(*columns))


def _missing(records: dict[str, Record]) -> Section | None:
    rows = [[name, line] for name, record in records.items() for line in record.missing]
    return section("What is missing", table(["run", "what"], rows)) if rows else None
