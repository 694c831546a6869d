"""``vergence report``: a run's page, made again from its files."""

import shlex
import sys
from pathlib import Path

from vergence import report as pages
from vergence.report.atlas import write_atlas
from vergence.report.record import read
from vergence.runs import results
from vergence.runs.progress import After
from vergence.runs.results import Answer
from vergence.runs.run import Run, file_to_write

OPENERS = {"darwin": "open", "win32": "start"}  # what opens a file; elsewhere xdg-open


def report(run: Path, *, atlas: Path | None = None, quiet: bool = False) -> Answer:
    """Write a run's page again from its files; with ``atlas``, its map as a Parquet file for Embedding Atlas too."""
    atlas = None if atlas is None else file_to_write(atlas)
    with After(1, quiet=quiet or not sys.stderr.isatty()) as after:
        after.begin("map and page")
        page = pages.write(Run(run).path, told=after.part)
    lines = [f"Atlas: {write_atlas(read(run), atlas)}"] if atlas is not None else []
    return written(page, *lines)


def written(page: Path, *lines: str) -> Answer:
    """What is said when the page of a run is written: its summary, the verdict, and how to open the page."""
    found = results.read(page.parent)
    verdict = [f"Verdict: {found.verdict.label}. {found.verdict.sentence}"] if found else []
    opening = f"Page: {page}   open it with: {OPENERS.get(sys.platform, 'xdg-open')} {shlex.quote(str(page))}"
    values = {"report": str(page), **(found.to_dict() if found else {})}
    return Answer((*pages.summary(page.parent), *verdict, *lines, opening), values)
