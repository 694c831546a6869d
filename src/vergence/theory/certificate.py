"""Certificate: an inequality with both sides measured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Standing = Literal["measured", "assumed", "estimated from below", "estimated from above"]


@dataclass(frozen=True)
class Certificate:
    """A theorem's inequality ``left <= right`` evaluated on features. Never raises: a violated one is a finding.

    ``vacuous`` means that the right side carries no information (an error bound of at least the chance error, a NaN, an
    infinity). ``assumptions`` maps each condition of the theorem to how it was obtained, ``terms`` the parts of both
    sides to their values, and ``curves`` what the free choices trade against each other.
    """

    statement: str
    source: str
    left: float
    right: float
    vacuous: bool = False
    assumptions: Mapping[str, Standing] = field(default_factory=dict)
    terms: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    tolerance: float = 1e-9

    @property
    def slack(self) -> float:
        """Right minus left: how far the inequality is from being violated; negative when it is violated."""
        return self.right - self.left

    @property
    def holds(self) -> bool:
        return not math.isnan(self.slack) and self.slack >= -self.tolerance

    @property
    def verdict(self) -> str:
        if not self.holds:
            return "violated"
        return "vacuous" if self.vacuous else "informative"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "slack": self.slack, "holds": self.holds, "verdict": self.verdict}
