"""Findings: what is wrong, what it is about, what it costs on these rows, and what was tried against it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from vergence.diagnostics.estimate import Estimate

About = Literal["rows", "pairs", "learning"]
LEVELS = ("fault", "note", "unknown")
Detector = TypeVar("Detector", bound=Callable[..., Any])

ABOUT: tuple[About, ...] = ("rows", "pairs", "learning")


@dataclass(frozen=True)
class Finding:
    """A fault by name, with its evidence.

    ``level`` is *fault* for what should be changed, *note* for what is so and costs nothing measurable here, and
    *unknown* for a question that these inputs cannot answer. ``cost`` is what it takes from the accuracy of neighbors
    (or of retrieval) on these rows; ``remedy`` names what was tried on them, ``gain`` is what that gave.
    """

    fault: str
    about: About
    sentence: str
    measurement: str
    advice: str
    level: str = "fault"
    cost: Estimate | None = None
    remedy: str | None = None
    gain: Estimate | None = None
    override: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def fault(about: About, *, order: int) -> Callable[[Detector], Detector]:
    """Mark a detector with its group and its place: the lower the order, the graver the fault."""

    def mark(function: Detector) -> Detector:
        function.about, function.order = about, order  # type: ignore[attr-defined]
        return function

    return mark


@dataclass(frozen=True)
class Verdict:
    """A label, a sentence to act on, and the evidence; of one group, or of all."""

    label: str
    sentence: str
    evidence: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "sentence": self.sentence, "evidence": list(self.evidence)}


def faults_only(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.level == "fault")


def group_verdict(findings: tuple[Finding, ...], about: About, *, examined: bool) -> Verdict:
    """What is wrong with the rows, with pairs and labels, or with the learning; or that nobody could look."""
    missing = {"rows": "rows", "pairs": "labels or second views", "learning": "objective and views of a training run"}
    if not examined:
        return Verdict("not examined", f"There are no {missing[about]}.")
    own = tuple(finding for finding in findings if finding.about == about)
    wrong, unsure = faults_only(own), [finding for finding in own if finding.level == "unknown"]
    if wrong:
        return Verdict("faulty", f"{wrong[0].fault.capitalize()}. {wrong[0].advice}", tuple(f.sentence for f in wrong))
    if unsure:
        return Verdict("cannot tell", unsure[0].sentence, tuple(finding.sentence for finding in unsure))
    return Verdict("no fault", "No fault found.", tuple(finding.sentence for finding in own))
