"""The page of a run: the verdict first, then what it rests on."""

from pathlib import Path

from vergence.report import samples, sections
from vergence.report.document import document
from vergence.report.record import read
from vergence.report.sprite import make_sprite
from vergence.report.summary import summary_lines
from vergence.runs.run import write_bytes


def page(run_directory: str | Path) -> str:
    """A run directory as one self-contained HTML page. Whatever is absent is named at its end, never an error."""
    record = read(run_directory)
    verdict = record.results.verdict
    thumbnails = record.features.get("thumbnails")
    sprite = make_sprite(thumbnails) if thumbnails is not None and thumbnails.ndim == 4 else None
    return document(
        f"Run {record.name}",
        verdict.sentence,
        [
            sections.findings(record),
            sections.recommendations(record),
            sections.learning(record),
            sections.accuracies(record),
            samples.embedding(record, sprite),
            samples.neighbors(record, sprite),
            sections.geometry(record),
            sections.certificates(record),
            sections.data(record),
            sections.repetition(record),
            sections.missing(record),
        ],
        label=verdict.label,
        summary=summary_lines(record),
        evidence=verdict.evidence,
        sprite=sprite,
    )


def write(run_directory: str | Path) -> Path:
    """Write ``report.html`` into a run directory, whole or not at all, and return its path."""
    return write_bytes(Path(run_directory) / "report.html", page(run_directory).encode())
