"""The page of a run: the verdict first, then what it rests on."""

import os
import tempfile
from pathlib import Path

from vergence.report import samples, sections
from vergence.report.document import document
from vergence.report.record import mapping, read, sequence
from vergence.report.sprite import make_sprite
from vergence.report.summary import summary_lines


def page(run_directory: str | Path) -> str:
    """A run directory as one self-contained HTML page. Whatever is absent is named at its end, never an error."""
    record = read(run_directory)
    verdict = mapping(record.results.get("verdict"))
    thumbnails = record.features.get("thumbnails")
    sprite = make_sprite(thumbnails) if thumbnails is not None and thumbnails.ndim == 4 else None
    return document(
        f"Run {record.name}",
        str(verdict.get("sentence") or "This run has no verdict yet."),
        [
            sections.recommendations(record),
            sections.learning(record),
            sections.accuracies(record),
            samples.embedding(record, sprite),
            samples.neighbours(record, sprite),
            sections.geometry(record),
            sections.certificates(record),
            sections.data(record),
            sections.repetition(record),
            sections.missing(record),
        ],
        label=str(verdict.get("label") or ""),
        summary=summary_lines(record),
        evidence=[str(line) for line in sequence(verdict.get("evidence"))],
        sprite=sprite,
    )


def write(run_directory: str | Path) -> Path:
    """Write ``report.html`` into a run directory, whole or not at all, and return its path."""
    html = page(run_directory)
    target = Path(run_directory) / "report.html"
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".report-", suffix=".tmp")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(html)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes files that nobody else can read
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target
