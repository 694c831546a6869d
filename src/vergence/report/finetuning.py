"""Fine-tuning as sections: of a run, and of several side by side."""

from collections.abc import Mapping
from typing import Any

from vergence.report.document import Section, section
from vergence.report.gains import percent
from vergence.report.pieces import paragraph, stacked, table
from vergence.report.record import Record
from vergence.runs.results import FineTuning, Number, Score


def finetuning(record: Record) -> Section | None:
    """The encoder moved with a head on some labels, beside a frozen probe and training from scratch on the same."""
    rows = record.results.finetuning
    if not rows:
        return None
    cells: list[list[Any]] = [
        [
            stacked(f"{row.labels} of the labels" if "%" in row.labels else row.labels, f"{row.count:,} labels"),
            *(_cell(score) for score in row.scores),
            _points(row.over_scratch),
            _points(row.over_probe),
        ]
        for row in rows
    ]
    names = [score.features for score in rows[0].scores]
    words = (
        f"Test accuracy over {rows[0].scores[0].draws} draws of the labels, with 95 % intervals over the draws and the "
        "test samples; the last two columns are paired differences of fine-tuning."
    )
    return section("Fine-tuned", paragraph(words), table(["labels", *names, "over scratch", "over the probe"], cells))


def compared(records: Mapping[str, Record]) -> Section | None:
    """Fine-tuned accuracies of several runs, those with as many labels in one line."""
    found = {name: {row.labels: row for row in record.results.finetuning} for name, record in records.items()}
    specs = dict.fromkeys(spec for rows in found.values() for spec in rows)
    if not specs:
        return None
    cells = [[spec, *(_first(rows.get(spec)) for rows in found.values())] for spec in specs]
    return section("Fine-tuned", table(["labels", *records], cells, caption="Test accuracy after fine-tuning"))


def _first(row: FineTuning | None) -> str | None:
    return None if row is None else _cell(row.scores[0])


def _cell(score: Score) -> str:
    low, high = score.interval
    return stacked(percent(score.accuracy), f"{100 * low:.1f} to {100 * high:.1f}")


def _points(number: Number) -> str | None:
    if number.value is None or number.low is None or number.high is None:
        return None
    return stacked(f"{100 * number.value:+.1f} points", f"{100 * number.low:+.1f} to {100 * number.high:+.1f}")
