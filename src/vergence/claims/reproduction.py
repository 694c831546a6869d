"""Running claims: which ones, in what order; results of this version of the code are stored and reused."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vergence.claims.claim import SOURCES, Claim, Outcome
from vergence.claims.evidence import ERROR, by_subject, in_words, pooled
from vergence.claims.laboratory import Laboratory, OutOfTime, listed
from vergence.report.colors import PAPER
from vergence.report.pieces import drawn
from vergence.runs.run import write_bytes
from vergence.tables import UnknownName


@dataclass(frozen=True)
class CheckedClaim:
    """What a claim's check found: ``pictures`` are files in the folder of that name, ``minutes`` what training took.

    ``undecidable`` where no number of seeds decides it on this machine; ``why`` says the reason.
    """

    number: int
    sentence: str
    source: str
    kind: str
    tolerance: str
    verdict: str
    expected: bool
    measured: str
    seconds: float
    figures: Mapping[str, Any] = field(default_factory=dict)
    pictures: Sequence[str] = ()
    why: str = ""
    scale: str = ""
    seeds: int = 0
    minutes: float = 0.0
    evidence: Sequence[Mapping[str, Any]] = ()
    holds_for: Mapping[str, str] = field(default_factory=dict)
    undecidable: bool = False


def chosen(claims: Mapping[str, Claim], wanted: Sequence[str], *, training: bool) -> list[Claim]:
    """The claims with these numbers or of these sources; without any, all but the training ones unless asked for."""
    for word in wanted:
        if word not in claims and word not in SOURCES:
            raise UnknownName("claim or source", word, [*claims, *SOURCES])
    return [
        row
        for number, row in claims.items()
        if number in wanted or ((row.source in wanted or not wanted) and (training or row.kind != "training"))
    ]


def findings(rows: Sequence[Claim], laboratory: Laboratory) -> Iterator[CheckedClaim]:
    """Check the claims one after another; what this version of the code found before is not run again."""
    for row in rows:
        finding = remembered(row, laboratory)
        if finding is None:
            finding = found(row, laboratory)
            stored = {"version": code_version(), "finding": asdict(finding)}
            path = _place(row, laboratory)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, json.dumps(stored, indent=1, default=listed).encode())
        yield finding


def found(row: Claim, laboratory: Laboratory) -> CheckedClaim:
    """Run one check, and save its pictures."""
    start, trains = time.perf_counter(), row.kind == "training"
    outcome, error = decided(row, laboratory) if trains else (row.check(), ERROR)
    verdict = row.verdict(outcome, error=error)
    scale: dict[str, Any] = {"scale": laboratory.name, "seeds": len(laboratory.seeds)} if trains else {}
    words = in_words(outcome.contrasts, error=error)
    return CheckedClaim(
        row.number, row.sentence, row.source, row.kind, row.tolerance, verdict,
        expected=verdict == ("refuted" if row.false else "confirmed"),
        measured=outcome.measured + (f"; {words}" if words else ""),
        seconds=round(time.perf_counter() - start, 3),
        figures=outcome.figures,
        pictures=[_saved(picture, laboratory, f"{row.number}-{name}") for name, picture in outcome.pictures.items()],
        why=outcome.undecidable or ("" if verdict == "confirmed" else outcome.why),
        evidence=[contrast.to_dict(error) for contrast in outcome.contrasts],
        holds_for=by_subject(outcome.contrasts, error=error),
        minutes=round(laboratory.minutes, 2),
        undecidable=bool(outcome.undecidable),
        **scale,
    )  # fmt: skip


def decided(row: Claim, laboratory: Laboratory) -> tuple[Outcome, float]:
    """Run a training claim with more and more seeds until its contrasts decide it; and the error of each look.

    The accepted error is shared among the looks, so that looking often decides nothing by itself. A look has no more
    seeds than the budget pays for. Trials are kept one by one: what was killed goes on where it was.
    """
    looks = laboratory.scale.looks or {laboratory.scale.seeds: ERROR}
    outcome, error, seen = None, ERROR, 0
    for wanted, share in looks.items():
        seeds = laboratory.affordable(wanted) if seen else wanted
        if seeds <= seen:
            break
        laboratory.begin(seeds)
        try:
            outcome = row.check(laboratory)
        except OutOfTime as stop:
            laboratory.count = seen
            outcome = outcome or Outcome(
                False, f"nothing with {seeds} seeds", undecidable=f"{stop}, before {seeds} seeds."
            )
            break
        seen, error, outcome = seeds, share, replace(outcome, contrasts=pooled(outcome.contrasts))
        if row.verdict(outcome, error=error) != "undecided" or not outcome.contrasts or outcome.undecidable:
            break
    assert outcome is not None
    return outcome, error


def remembered(row: Claim, laboratory: Laboratory) -> CheckedClaim | None:
    """What was found before, unless by another version of the code."""
    path = _place(row, laboratory)
    if not path.exists():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    same = laboratory.any_version or stored["version"] == code_version()
    return CheckedClaim(**upgraded(stored["finding"])) if same else None


def upgraded(finding: Mapping[str, Any]) -> dict[str, Any]:
    """A finding of an earlier version in the words of this one: what was *not confirmed* was not tested further.

    An exact claim that did not hold was contradicted; of a training claim only the order of a few means was known.
    """
    if finding["verdict"] != "not confirmed":
        return dict(finding)
    return {**finding, "verdict": "undecided" if finding["kind"] == "training" else "contradicted"}


def code_version() -> str:
    """A digest of the package's source: results of another version are not reused."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _place(row: Claim, laboratory: Laboratory) -> Path:
    suffix = f"-{laboratory.name}" if row.kind == "training" else ""
    return laboratory.folder / "findings" / f"{row.number}{suffix}.json"


def _saved(picture: Figure, laboratory: Laboratory, name: str) -> str:
    path = laboratory.folder / "pictures" / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, drawn(picture, facecolor=PAPER).encode())
    return path.name
