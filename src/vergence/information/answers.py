"""What an estimator answers: nats, how sure it is, and what it cannot see."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scipy.stats import norm

from vergence.information.bounds import Side
from vergence.information.limits import samples_needed

# A bound with the perfect critic falls short of its ceiling by about one nat when the truth is at it: InfoNCE of 20
# correlated pairs with I = log K says log K - 1.1 at K = 256.
MARGIN = 1.25
# What a two-sided 90 % interval leaves out below and above. People rely on the lower end, so it is the safer one: an
# exact 95 % bound is invalid in more than 5 % of every second series of runs.
TAILS = (0.025, 0.075)
BELOW, ABOVE = (float(norm.ppf(1 - tail)) for tail in TAILS)


class Trust(NamedTuple):
    """How far an answer can be relied on, in a word (high, moderate, low, none) and a sentence that says why."""

    word: str
    sentence: str


@dataclass(frozen=True)
class Estimate:
    """How many nats two variables share.

    ``interval`` is two-sided at 90 %, with 2.5 % below, so that its lower end serves as a 95 % lower confidence bound
    with something to spare. ``ceiling`` is the largest value that the estimator could have said, or checked, with these
    samples, and ``saturated`` says that the estimate is too near to it to be an answer; of a lower bound it means "at
    least". A negative estimate means that nothing was found.
    """

    nats: float
    interval: tuple[float, float]
    ceiling: float
    saturated: bool
    trust: Trust
    estimator: str
    n: int
    reasons: tuple[str, ...] = ()

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)

    @property
    def samples_needed(self) -> int:
        """How many pairs could certify this much without assumptions: about e to the nats."""
        return samples_needed(self.nats) if math.isfinite(self.nats) else samples_needed(self.ceiling)

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "trust": self.trust._asdict(),
            "bits": self.bits,
            "samples_needed": self.samples_needed,
        }

    def __str__(self) -> str:
        low, high = self.interval
        note = " (at its ceiling)" if self.saturated else ""
        return f"{self.nats:.3f} nats [{low:.3f}, {high:.3f}]{note}. Trust: {self.trust.word}. {self.trust.sentence}"


def answer(
    nats: float,
    interval: tuple[float, float],
    *,
    ceiling: float,
    estimator: str,
    n: int,
    second_opinion: float = -math.inf,
    side: Side = "lower",
    reasons: tuple[str, ...] = (),
) -> Estimate:
    """An estimate with its verdicts.

    ``second_opinion`` is the answer of an estimator without that ceiling (the Gaussian copula): a bound can stand well
    under its ceiling only because its critic learned badly. ``side`` is where the estimate stands if not at the truth.
    """
    saturated = max(nats, second_opinion) > ceiling - MARGIN
    trust = _saturation(nats, ceiling, side) if saturated else _trust(nats, interval, ceiling, second_opinion)
    if nats < 0:
        reasons = (
            *reasons,
            "The estimate is negative: nothing was found. Read it as zero.",
        )
    return Estimate(nats, interval, ceiling, saturated, trust, estimator, n, reasons)


def _saturation(nats: float, ceiling: float, side: Side) -> Trust:
    if side == "lower" and nats <= ceiling:
        return Trust("low", f"The ceiling is {ceiling:.2f} nats, and the truth may be above it: read this as at least.")
    return Trust("low", f"Not more than {ceiling:.2f} nats can be checked here: this may be far off, either way.")


def _trust(nats: float, interval: tuple[float, float], ceiling: float, second_opinion: float) -> Trust:
    width = interval[1] - interval[0]
    if second_opinion > interval[1] + max(0.1, 0.1 * nats):
        return Trust("low", f"The Gaussian copula says {second_opinion:.2f}: a lower bound may be far below the truth.")
    if width > max(0.5, 0.5 * abs(nats)):
        return Trust("low", f"The interval is {width:.2f} nats wide.")
    if width > max(0.1, 0.1 * abs(nats)):
        return Trust("moderate", f"The interval is {width:.2f} nats wide.")
    room = "there is no ceiling" if math.isinf(ceiling) else f"the ceiling of {ceiling:.2f} nats is far"
    return Trust("high", f"The interval is narrow, and {room}.")
