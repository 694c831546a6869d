"""What training changed of the weights it started from, as a section of the page."""

from vergence.report.document import Section, section
from vergence.report.pieces import bullets, details, paragraph, stacked, table
from vergence.report.record import Record
from vergence.runs.results import Change


def changes(record: Record) -> Section | None:
    """Every measurement before and after, and a word on each tensor of the starting weights that did not fit."""
    found = record.results.changes
    if found is None:
        return None
    rows = [
        [stacked(row.name, row.meaning), row.before, row.after, _difference(row), row.verdict or None]
        for row in found.rows
    ]
    taken = f"Started from {found.source}: {found.taken} {found.inputs}"
    misfits = details(f"Tensors that did not fit: {len(found.misfits):,}", bullets(found.misfits))
    return section(
        "What training changed",
        paragraph(found.sentence),
        table(["", "before", "after", "difference, 95 %", ""], rows),
        paragraph(taken),
        misfits if found.misfits else None,
    )


def _difference(row: Change) -> str | None:
    return None if row.low is None or row.high is None else f"{row.low:+.3f} to {row.high:+.3f}"
