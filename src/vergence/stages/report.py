"""``vergence report``: a run's page, made again from its files."""

from pathlib import Path

from vergence import report as pages
from vergence.runs.results import Answer
from vergence.runs.run import Run


def report(run: Path) -> Answer:
    """Write a run's page again from its files."""
    page = pages.write(Run(run).path)
    results = Run(run).read_json("results.json") or {}
    verdict = [f"Verdict: {results['verdict']['label']}. {results['verdict']['sentence']}"] if results else []
    return Answer((*pages.summary(run), *verdict, f"Report: {page}"), {"report": str(page), **results})
