"""Several runs side by side: what differs in their configs, and what came of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from vergence.report import figures
from vergence.report.document import Section, document, section
from vergence.report.finetuning import compared
from vergence.report.pieces import details, paragraph, percent, picture, side_by_side, stacked, table
from vergence.report.record import Record, flat, read
from vergence.runs.results import TRAINED, Score

Key = tuple[str, str, str]  # features, classifier, labels


def compare(run_directories: Sequence[str | Path]) -> str:
    """Several runs as one page: accuracies, thermometers, loss curves on one axis, and the settings that differ."""
    if not run_directories:
        raise ValueError("Nothing to compare: expected at least one run directory, got none.")
    records = _named([read(directory) for directory in run_directories])
    return document(
        f"{len(records)} runs side by side",
        _verdict(records),
        [
            _accuracies(records),
            compared(records),
            _learning(records),
            _diagnostics(records),
            _settings(records),
            _missing(records),
        ],
    )


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
    return f"No run is clearly ahead {how}: {told}." if close else f"{first} is the most accurate {how}: {told}."


def _accuracies(records: dict[str, Record]) -> Section | None:
    keys = dict.fromkeys(_key(row) for record in records.values() for row in record.results.accuracy)
    trained = [_line(records, key, key[2]) for key in keys if key[0] == TRAINED]
    others = [_line(records, key, f"{key[0]}, {key[2]}") for key in keys if key[0] != TRAINED]
    headings = ["classifier", *records]
    return section(
        "Accuracies",
        table(headings, trained, caption="Frozen features of the trained encoders") if trained else None,
        details("The baselines", table(headings, others)) if others else None,
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


def _learning(records: dict[str, Record]) -> Section | None:
    curves = {name: record.series("step", "loss") for name, record in records.items()}
    curves = {name: curve for name, curve in curves.items() if len(curve[0])}
    heats = {name: heat for name, record in records.items() if (heat := record.results.thermometer) is not None}
    positions = {name: heat.position for name, heat in heats.items() if heat.position is not None}
    objectives = {heat.objective for heat in heats.values()}
    caution = paragraph("The objectives differ, so their losses are not comparable; the thermometers are.")
    return section(
        "Is it learning?",
        caution if len(objectives) > 1 else None,
        side_by_side(*_drawn(curves, positions)) if curves or positions else None,
    )


def _drawn(curves: dict[str, tuple[np.ndarray, ...]], positions: dict[str, float]) -> list[Markup]:
    drawn = []
    if curves:
        ends = ", ".join(f"{name} ends at {loss[-1]:.3f}" for name, (_, loss) in curves.items())
        drawing = figures.loss_curves({name: (steps, loss) for name, (steps, loss) in curves.items()})
        drawn.append(picture(drawing, "Loss curves on one axis.", description=f"Loss curves: {ends}."))
    if positions:
        words = ", ".join(f"{name} {position:.2f}" for name, position in positions.items())
        caption = "Thermometers: 0 is chance, 1 the floor of each run's own objective."
        drawn.append(
            picture(
                figures.thermometer(positions), caption, description=f"Positions between chance and floor: {words}."
            )
        )
    return drawn


def _diagnostics(records: dict[str, Record]) -> Section | None:
    names = dict.fromkeys(name for record in records.values() for name in record.results.diagnostics)
    cells = [[name.replace("_", " "), *(record.results.number(name) for record in records.values())] for name in names]
    return section("Diagnostics", table(["diagnostic", *records], cells)) if cells else None


def _settings(records: dict[str, Record]) -> Section | None:
    """Only what differs; a setting that a run does not have is a dash."""
    settings = [flat(record.config) for record in records.values()]
    names = dict.fromkeys(name for mine in settings for name in mine)
    rows: list[list[Any]] = [[name, *(mine.get(name) for mine in settings)] for name in names]
    rows = [row for row in rows if any(value != row[1] for value in row[2:])]
    if not rows:
        return section("What differs", paragraph("The configs are equal."))
    return section("What differs", table(["setting", *records], rows))


def _missing(records: dict[str, Record]) -> Section | None:
    rows = [[name, line] for name, record in records.items() for line in record.missing]
    return section("What is missing", table(["run", "what"], rows)) if rows else None
