"""Evidence: how surely an order of means over seeds holds, and whether the design could have shown it.

A training claim is made of contrasts: differences, one a seed, that the source says are above a margin. With a flat
prior, the posterior of a mean of n differences is Student's t around their average, so the chance that it is above the
margin is known. A claim is *confirmed* when that chance is at least .95 for all contrasts, *contradicted* when it is at
most .05 for one of them (shared among as many as there are), and else *undecided*.

Two or three seeds say little of their own spread, but a claim has many contrasts of one unit, and they say it together:
``pooled`` gives each the spread of all as a prior.

References:
    Gelman et al. (2013), Bayesian Data Analysis, Sec. 3.2: the posterior of a mean with an unknown variance.
    Berger (1982), intersection-union tests: all of several, each at the same level, is a test of that level.
    Smyth (2004), moderated t-statistics: the prior of a variance, estimated from many. doi:10.2202/1544-6115.1027
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Decision = Literal["confirmed", "contradicted", "undecided"]

ERROR = 0.05  # chance of a wrong decision that is accepted
ROUNDING = 1e-9  # spread below which differences are the same number


@dataclass(frozen=True)
class Contrast:
    """A difference that a claim says is above ``margin``: ``differences`` has one for each seed.

    ``reported`` is the difference that the source reports, where it gives one; ``about`` names what the contrast is
    about (a method), where a claim speaks of several. Contrasts of one ``unit`` share what they know of their spread:
    ``spread`` is the standard deviation known beforehand, worth ``freedom`` degrees of freedom.
    """

    name: str
    differences: tuple[float, ...]
    margin: float = 0.0
    reported: float | None = None
    about: str = ""
    unit: str = ""
    spread: float = 0.0
    freedom: float = 0.0

    @property
    def mean(self) -> float:
        return statistics.fmean(self.differences)

    @property
    def deviation(self) -> float:
        """The standard deviation of these differences alone; nan with one seed."""
        return statistics.stdev(self.differences) if len(self.differences) > 1 else math.nan

    @property
    def degrees(self) -> float:
        """Degrees of freedom behind the standard error: of the differences, and of what was known beforehand."""
        return len(self.differences) - 1 + self.freedom

    @property
    def error(self) -> float:
        """The standard error of the mean; infinite with one seed and nothing known beforehand."""
        n = len(self.differences)
        if math.isinf(self.freedom):
            return self.spread / math.sqrt(n)
        if self.degrees <= 0:
            return math.inf
        squares = (n - 1) * (self.deviation**2 if n > 1 else 0.0) + self.freedom * self.spread**2
        return math.sqrt(squares / self.degrees / n)

    @property
    def chance(self) -> float:
        """The posterior probability that the mean difference is above the margin; 1/2 where nothing is known."""
        from scipy.special import ndtr, stdtr

        if self.error < ROUNDING:
            return 0.5 + 0.5 * ((self.mean > self.margin) - (self.mean < self.margin))
        if not math.isfinite(self.error):
            return 0.5
        ratio = (self.mean - self.margin) / self.error
        return float(ndtr(ratio) if math.isinf(self.degrees) else stdtr(self.degrees, ratio))

    def power(self, error: float = ERROR) -> float | None:
        """How often as many seeds, with this spread, would confirm the contrast if the source's difference were true.

        None where the source reports no difference, or where the spread is not known.
        """
        from scipy.special import ndtr, ndtri, stdtrit
        from scipy.stats import nct

        if self.reported is None or not ROUNDING <= self.error < math.inf:
            return None
        center = (self.reported - self.margin) / self.error
        if math.isinf(self.degrees):
            return float(ndtr(center - ndtri(1 - error)))
        return float(nct.sf(stdtrit(self.degrees, 1 - error), self.degrees, center))

    def detectable(self, error: float = ERROR, *, power: float = 0.8) -> float | None:
        """The true difference that as many seeds, with this spread, would confirm with this power.

        What a design can decide, whether or not the source reports a figure; None where the spread is not known.
        """
        from scipy.special import stdtrit

        if not ROUNDING <= self.error < math.inf:
            return None
        degrees = min(self.degrees, 1e6)  # a t law of so many degrees is the normal one
        return self.margin + self.error * float(stdtrit(degrees, 1 - error) + stdtrit(degrees, power))

    def to_dict(self, error: float = ERROR) -> dict[str, Any]:
        return {
            "name": self.name, "about": self.about, "mean": self.mean, "n": len(self.differences),
            "error": self.error if math.isfinite(self.error) else None, "degrees": self.degrees, "margin": self.margin,
            "reported": self.reported, "chance": self.chance, "power": self.power(error),
            "detectable": self.detectable(error),
        }  # fmt: skip


def contrast(
    name: str, above: Sequence[float], below: Sequence[float], *, margin: float = 0.0, reported: float | None = None,
    about: str = "", unit: str = "",
) -> Contrast:  # fmt: skip
    """The contrast of two settings, seed by seed."""
    differences = tuple(float(a) - float(b) for a, b in zip(above, below, strict=True))
    return Contrast(name, differences, margin, reported, about, unit)


def pooled(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """The contrasts, each with what all of its unit know of their spread.

    The variances of a unit are taken for draws from a scaled inverse chi-squared law whose degrees of freedom fit them;
    these count for no more than half of what the other contrasts have, as contrasts share settings. With one contrast
    nothing changes.
    """
    made = []
    for each in contrasts:
        kin = [other for other in contrasts if each.unit and other.unit == each.unit and other.deviation > ROUNDING]
        spread, freedom = _prior(kin) if len(kin) > 1 else (0.0, 0.0)
        made.append(replace(each, spread=spread, freedom=freedom) if freedom else each)
    return made


def _prior(contrasts: Sequence[Contrast]) -> tuple[float, float]:
    """The spread that contrasts have in common, and the degrees of freedom it is worth (Smyth 2004, Sec. 6.2)."""
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    degrees = [len(each.differences) - 1 for each in contrasts]
    logs = [
        2 * math.log(each.deviation) - digamma(d / 2) + math.log(d / 2)
        for each, d in zip(contrasts, degrees, strict=True)
    ]
    squares = sum(d * each.deviation**2 for each, d in zip(contrasts, degrees, strict=True))
    excess = statistics.variance(logs) - statistics.fmean(float(polygamma(1, d / 2)) for d in degrees)
    most = (sum(degrees) - max(degrees)) / 2
    # The mean of the variances, where Smyth takes that of their logarithms: it errs to the side of caution.
    center = math.sqrt(squares / sum(degrees))
    if excess <= polygamma(1, most / 2):
        return center, most
    return center, 2 * float(brentq(lambda half: polygamma(1, half) - excess, 1e-3, most / 2))


def decision(contrasts: Sequence[Contrast], *, error: float = ERROR) -> Decision:
    """What contrasts say together; ``error`` is the accepted chance of a wrong decision."""
    if not contrasts:
        return "undecided"
    if all(each.chance >= 1 - error for each in contrasts):
        return "confirmed"
    if any(each.chance <= error / len(contrasts) for each in contrasts):
        return "contradicted"
    return "undecided"


def by_subject(contrasts: Sequence[Contrast], *, error: float = ERROR) -> Mapping[str, Decision]:
    """The decision for each of what the contrasts are about, such as methods."""
    subjects = dict.fromkeys(each.about for each in contrasts if each.about)
    return {name: decision([each for each in contrasts if each.about == name], error=error) for name in subjects}


def in_words(contrasts: Sequence[Contrast], *, error: float = ERROR) -> str:
    """For what a claim holds, and the contrast that it hangs on: the least sure."""
    if not contrasts:
        return ""
    parts = []
    decided = by_subject(contrasts, error=error)
    if len(decided) > 1:
        kinds = {
            kind: [name for name, each in decided.items() if each == kind] for kind in dict.fromkeys(decided.values())
        }
        parts.append("; ".join(f"{kind} for {', '.join(names)}" for kind, names in kinds.items()))
    weakest = min(contrasts, key=lambda each: each.chance)
    text = (
        f"least sure: {weakest.name}, {weakest.mean:+.3f} ± {weakest.error:.3f} over {len(weakest.differences)} seeds"
    )
    text += f", above {weakest.margin:g} with probability {weakest.chance:.2f}"
    power = weakest.power(error)
    if weakest.reported is not None:
        text += f"; the source reports {weakest.reported:+.3f}"
    if power is not None:
        text += f", which this design would confirm with probability {power:.2f}"
    return "; ".join([*parts, text])
