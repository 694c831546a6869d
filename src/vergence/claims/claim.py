"""Claim: a sentence of a source with a check that calls the product's own functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from matplotlib.figure import Figure

from vergence.claims.evidence import ERROR, Contrast, decision

Kind = Literal["exact", "monte_carlo", "training"]
Verdict = Literal["confirmed", "contradicted", "undecided", "refuted"]

SOURCES = {
    "wang_isola": "Wang & Isola (2020), alignment and uniformity. https://arxiv.org/abs/2005.10242",
    "huang": "Huang et al. (2023), generalization of contrastive learning. https://arxiv.org/abs/2111.00743",
    "tschannen": "Tschannen et al. (2020), mutual information maximization. https://arxiv.org/abs/1907.13625",
    "limits": "McAllester & Stratos (2020); Poole et al. (2019); Song & Ermon (2020): limits of estimators",
    "haochen": "HaoChen et al. (2021), spectral contrastive loss. https://arxiv.org/abs/2106.04156",
    "flatnce": "Chen et al. (2021), FlatNCE. https://arxiv.org/abs/2107.01152",
    "regularizers": "Balestriero & LeCun (2025), LeJEPA; Zhu et al. (2022), TiCo; Bardes et al. (2022), VICReg",
}


@dataclass(frozen=True)
class Outcome:
    """The result of a check: whether the sentence held, in words, the numbers behind it, and figures of them.

    ``why`` is the likely reason where the sentence did not hold. A training claim is decided by its ``contrasts``,
    where it has any; ``undecidable`` says why this machine cannot decide it, whatever was measured.
    """

    holds: bool
    measured: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, Figure] = field(default_factory=dict)
    why: str = ""
    contrasts: Sequence[Contrast] = ()
    undecidable: str = ""


@dataclass(frozen=True)
class Claim:
    """One sentence of a source, and how it is checked.

    The check of a training claim is given a laboratory to train in; ``minutes`` of one core is what it takes there at
    the small scale, ``medium`` at the medium one, when no trial is known yet.
    ``false`` marks an erratum: the sentence is in a source and is wrong, so its check looks for the counterexample and
    the expected verdict is *refuted*.
    """

    number: int
    sentence: str
    check: Callable[..., Outcome]
    source: str = ""
    kind: Kind = "exact"
    tolerance: str = ""
    minutes: float = 0.0
    medium: float = 0.0
    false: bool = False

    @property
    def cost(self) -> Mapping[str, float]:
        """Minutes of one core by scale, as measured."""
        return {"small": self.minutes, "medium": self.medium}

    def verdict(self, outcome: Outcome, *, error: float = ERROR) -> Verdict:
        """What was found: by the contrasts where there are any, with this chance of a wrong decision."""
        if outcome.undecidable:
            return "undecided"
        if outcome.contrasts:
            return decision(outcome.contrasts, error=error)
        if outcome.holds:
            return "confirmed"
        if self.false:
            return "refuted"
        return "undecided" if self.kind == "training" else "contradicted"


def claim(number: int, sentence: str, **fields: Any) -> Callable[[Callable[..., Outcome]], Claim]:
    """Turn a check into a claim: ``@claim(1, "For unit vectors ...")``; the list of its source makes it a row."""
    return lambda check: Claim(number, sentence, check, **fields)


def claims_of(source: str, *rows: Claim) -> tuple[Claim, ...]:
    """The claims of a source, each with its name."""
    if source not in SOURCES:
        raise ValueError(f"Unknown source {source!r}. Known: {', '.join(SOURCES)}")
    return tuple(replace(row, source=source) for row in rows)


def within(error: float, tolerance: float, what: str = "largest error") -> Outcome:
    """The outcome of a check that is one number under a tolerance."""
    return Outcome(float(error) <= tolerance, f"{what} {float(error):.2g} (allowed {tolerance:.0e})")
