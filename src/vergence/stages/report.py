"""``vergence report``: a run's page, made again from its files."""

from pathlib import Path

from vergence import report as pages
from vergence.runs import results
from vergence.runs.results import Answer
from vergence.runs.run import Run


def report(run: Path) -> Answer:
    """Write a run's page again from its files."""
    page = pages.write(Run(run).path)
    found = results.read(run)
    verdict = [f"Verdict: {found.verdict.label}. {found.verdict.sentence}"] if found else []
    values = {"report": str(page), **(found.to_dict() if found else {})}
    return Answer((*pages.summary(run), *verdict, f"Report: {page}"), values)
