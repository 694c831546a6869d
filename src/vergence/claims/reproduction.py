"""Running claims: which ones, in what order; results of this version of the code are stored and reused."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vergence.claims.claim import SOURCES, Claim
from vergence.claims.laboratory import Laboratory, listed
from vergence.report.colors import PAPER
from vergence.report.pieces import drawn
from vergence.runs.run import write_bytes
from vergence.tables import UnknownName


@dataclass(frozen=True)
class CheckedClaim:
    """What a claim's check found: ``pictures`` are files in the folder of that name, ``minutes`` what training took."""

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
    laboratory.minutes = 0.0
    outcome = row.check(laboratory) if trains else row.check()
    verdict = row.verdict(outcome)
    scale: dict[str, Any] = {"scale": laboratory.name, "seeds": len(laboratory.seeds)} if trains else {}
    return CheckedClaim(
        row.number, row.sentence, row.source, row.kind, row.tolerance, verdict,
        expected=verdict == ("refuted" if row.false else "confirmed"),
        measured=outcome.measured,
        seconds=round(time.perf_counter() - start, 3),
        figures=outcome.figures,
        pictures=[_saved(picture, laboratory, f"{row.number}-{name}") for name, picture in outcome.pictures.items()],
        why=outcome.why,
        minutes=round(laboratory.minutes, 2),
        **scale,
    )  # fmt: skip


def remembered(row: Claim, laboratory: Laboratory) -> CheckedClaim | None:
    """What was found before, unless by another version of the code."""
    path = _place(row, laboratory)
    if not path.exists():
        return None
    stored = json.loads(path.read_text(encoding="utf-8"))
    same = laboratory.any_version or stored["version"] == code_version()
    return CheckedClaim(**stored["finding"]) if same else None


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
