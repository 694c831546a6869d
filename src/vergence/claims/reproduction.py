"""Running claims: which, in what order, and remembering what was found by this version of the code."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vergence.claims.claim import SOURCES, Claim
from vergence.run import write_bytes
from vergence.tables import UnknownName


@dataclass(frozen=True)
class Finding:
    """What a claim's check found, and when."""

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


def findings(rows: Sequence[Claim], cache: Path | None = None) -> Iterator[Finding]:
    """Check the claims one after another; with a cache, what this version of the code found before is not run again."""
    known = _remembered(cache)
    for row in rows:
        if str(row.number) not in known:
            known[str(row.number)] = asdict(found(row))
            if cache is not None:
                text = json.dumps({"version": code_version(), "findings": known}, indent=1, default=_listed)
                write_bytes(cache, text.encode())
        yield Finding(**known[str(row.number)])


def found(row: Claim) -> Finding:
    """Run one check."""
    start = time.perf_counter()
    outcome = row.check()
    verdict = row.verdict(outcome)
    return Finding(
        row.number, row.sentence, row.source, row.kind, row.tolerance, verdict,
        verdict == ("refuted" if row.false else "confirmed"), outcome.measured,
        round(time.perf_counter() - start, 3), outcome.figures,
    )  # fmt: skip


def code_version() -> str:
    """A digest of the package's source: results of another version are not reused."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _remembered(cache: Path | None) -> dict[str, dict[str, Any]]:
    if cache is None or not cache.exists():
        return {}
    stored = json.loads(cache.read_text(encoding="utf-8"))
    return stored["findings"] if stored.get("version") == code_version() else {}


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else float(value)
