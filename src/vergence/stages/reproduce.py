"""``vergence reproduce``: the claims of the sources, run."""

import shlex
from pathlib import Path
from typing import Literal

from vergence.claims import CLAIMS, SOURCES, Claim, Laboratory
from vergence.claims.reproduction import chosen, findings, remembered
from vergence.report.reproduction import reproduction_page
from vergence.runs.progress import Progress
from vergence.runs.results import Answer
from vergence.runs.run import write_bytes


def reproduce(
    claims: tuple[str, ...] = (),
    *,
    training: bool = False,
    scale: Literal["smallest", "small", "medium", "paper"] = "small",
    budget: float | None = None,
    any_version: bool = False,
    run: str | Path = "runs/claims",
    quiet: bool = False,
) -> Answer:
    """Run the claims of the sources, all or by number or source, and say of each whether it is confirmed.

    A training claim is confirmed, contradicted or undecided by the posterior of its differences over seeds; it takes no
    more than ``budget`` minutes of one core (an hour at the medium scale). Trials are kept as they end: the same
    command goes on after any interruption.
    """
    if budget is not None and not budget > 0:
        raise ValueError(f"budget is in minutes of one core, more than 0, got {budget:g}")
    place, found = Path(run), []
    rows = chosen(CLAIMS, claims, training=training)
    with Progress(len(rows), quiet=quiet, unit="claim") as progress:
        laboratory = Laboratory(place, scale, any_version=any_version, budget=budget, say=progress.say)
        minutes = sum(_cost(row, laboratory) for row in rows if remembered(row, laboratory) is None)
        if minutes:
            progress.say(f"about {minutes:.0f} minutes of one core, less the trials that are known already")
        for finding in findings(rows, laboratory):
            found.append(finding)
            progress.advance()
    asked = [*map(str, claims), *["--training"] * training, *(["--scale", scale] if scale != "small" else [])]
    asked += ["--budget", f"{budget:g}"] if budget is not None else []
    again = shlex.join(["vergence", "reproduce", *asked, "--run", place.as_posix()])
    html = reproduction_page(found, SOURCES, command=again, pictures=place / "pictures")
    page = write_bytes(place / "claims.html", html.encode())
    lines = [
        f"{finding.number:>4}  {finding.verdict:13}  {finding.sentence}  ({finding.measured})" for finding in found
    ]
    surprising = [finding for finding in found if not finding.expected]
    lines += [f"{len(found) - len(surprising)} of {len(found)} as the theory expects.", f"Page: {page}"]
    return Answer(tuple(lines), {"claims": [vars(finding) for finding in found]}, failed=bool(surprising))


def _cost(row: Claim, laboratory: Laboratory) -> float:
    """Minutes that a claim took when it was measured at this scale, but no more than its budget."""
    return min(row.cost.get(laboratory.name, 0.0), laboratory.budget)
