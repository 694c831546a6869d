"""The page of a run: what it is worth first, then what that rests on."""

from pathlib import Path

from vergence.report import maps, pairs, samples, sections
from vergence.report.changes import changes
from vergence.report.document import document
from vergence.report.finetuning import finetuning
from vergence.report.gains import badge, headline
from vergence.report.projection import Told
from vergence.report.record import Record, read
from vergence.report.sprite import Pictures
from vergence.report.summary import summary_lines
from vergence.runs.run import write_bytes


def page(run_directory: str | Path, *, told: Told | None = None) -> str:
    """A run directory as one self-contained HTML page. Whatever is absent is named at its end, never an error."""
    record = read(run_directory)
    return composed(record, maps.made(record, told=told))


def write(run_directory: str | Path, *, told: Told | None = None) -> Path:
    """Write ``report.html`` into a run directory, whole or not at all, and return its path; the map is kept beside it.

    ``told`` is called with the steps done and the steps in all while the map is made.
    """
    record = read(run_directory)
    found = maps.made(record, told=told)
    if found is not None:
        maps.keep(record, found)
    return write_bytes(Path(run_directory) / "report.html", composed(record, found).encode())


def composed(record: Record, found: maps.Map | None) -> str:
    """The page of a record with its map."""
    verdict, told = record.results.verdict, headline(record.results)
    pictures = Pictures(record.features.get("thumbnails"), record.results.names or ())
    parts = [
        sections.findings(record),
        changes(record),
        sections.accuracies(record),
        finetuning(record),
        sections.sentences(record),
        pairs.views(record, pictures),
        samples.embedding(record, pictures.count, found),
        pairs.pairs(record, pictures),
        samples.neighbors(record, pictures),
        sections.learning(record),
        sections.geometry(record),
        sections.certificates(record),
        sections.data(record),
        sections.repetition(record),
        sections.missing(record),
    ]
    first, *rest = [*told, verdict.sentence]
    return document(
        f"Run {record.name}",
        first,
        parts,
        label=badge(record.results),
        summary=[*(line for line in rest if line), *summary_lines(record)],
        evidence=verdict.evidence,
        sprite=pictures.sprite(),
    )
