"""What an estimator answers: nats, an interval, how far to trust it and why, and what it cannot see."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scipy.special import ndtri

from vergence.information.bounds import Side
from vergence.information.limits import samples_needed

# A bound with the perfect critic falls short of its ceiling by about one nat when the truth is at it: InfoNCE of 20
# correlated pairs with I = log K says log K - 1.1 at K = 256.
MARGIN = 1.25
# What a two-sided 90 % interval leaves out below and above. People rely on the lower end, so it is the safer one: an
# exact 95 % bound is invalid in more than 5 % of every second series of runs.
TAILS = (0.025, 0.075)
BELOW, ABOVE = (float(ndtri(1 - tail)) for tail in TAILS)
# The widest interval that is called high and moderate, in nats and as a share of the answer. Chosen on the development
# kinds of benchmarks/information_trust.py.
HIGH_WIDTH = (0.15, 0.2)
MODERATE_WIDTH = (0.5, 0.5)
WORDS = ("low", "moderate", "high")


class Trust(str):
    """How far an answer can be relied on: the word high, moderate or low, with a ``sentence`` that says why."""

    sentence: str

    def __new__(cls, word: str, sentence: str = "") -> "Trust":
        trust = super().__new__(cls, word)
        trust.sentence = sentence
        return trust

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.sentence

    @property
    def word(self) -> str:
        return str(self)

    def _asdict(self) -> dict[str, str]:
        return {"word": self.word, "sentence": self.sentence}


class Doubt(NamedTuple):
    """A fact about the data or the fit that trust must respect: no more than ``most``, because of ``sentence``."""

    most: str
    sentence: str


@dataclass(frozen=True)
class Information:
    """How many nats two variables share.

    ``interval`` is two-sided at 90 %, with 2.5 % below, so that its lower end serves as a 95 % lower confidence bound
    with something to spare; its upper end is infinite where nothing limits the answer from above. ``ceiling`` is the
    largest value that the estimator could have said, or checked, with these samples, and ``saturated`` says that the
    estimate is too near to it to be an answer; of a lower bound it means "at least". A negative estimate means that
    nothing was found. ``trust`` is a word, high, moderate or low, and its ``sentence`` says why.
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


# The name of this class in version 0.1, when diagnostics had a class of the same name.
Estimate = Information


def answer(
    nats: float,
    interval: tuple[float, float],
    *,
    ceiling: float,
    estimator: str,
    n: int,
    second_opinion: float = -math.inf,
    side: Side = "lower",
    doubts: Iterable[Doubt] = (),
    reasons: tuple[str, ...] = (),
) -> Information:
    """An estimate with its verdicts.

    ``second_opinion`` is the answer of an estimator without that ceiling (the Gaussian copula): a bound can stand well
    under its ceiling only because its critic learned badly. ``side`` is where the estimate stands if not at the truth.
    ``doubts`` limit the word of trust, which never exceeds what the width of the interval allows.
    """
    saturated = max(nats, second_opinion) > ceiling - MARGIN
    found = list(doubts)
    if saturated:
        found.insert(0, _saturation(nats, ceiling, side))
    elif second_opinion > interval[1] + max(0.1, 0.1 * nats):
        found.insert(
            0, Doubt("low", f"The Gaussian copula says {second_opinion:.2f}: a bound may be far below the truth.")
        )
    if saturated and side == "lower":
        interval = interval[0], math.inf
    trust = _trust(nats, interval, ceiling, found)
    reasons = (*reasons, *(doubt.sentence for doubt in found if doubt.sentence != trust.sentence))
    if nats < 0:
        reasons = (*reasons, "The estimate is negative: nothing was found. Read it as zero.")
    return Information(nats, interval, ceiling, saturated, trust, estimator, n, reasons)


def _saturation(nats: float, ceiling: float, side: Side) -> Doubt:
    if side == "lower" and nats <= ceiling:
        return Doubt("low", f"The ceiling is {ceiling:.2f} nats, and the truth may be above it: read this as at least.")
    return Doubt("low", f"Not more than {ceiling:.2f} nats can be checked here: this may be far off, either way.")


def _trust(nats: float, interval: tuple[float, float], ceiling: float, doubts: list[Doubt]) -> Trust:
    """The lowest word among those of the doubts and of the width, with the sentence of the first that says it."""
    width = interval[1] - interval[0]
    wide = Doubt(word_of_width(width, nats), f"The interval is {width:.2f} nats wide.")
    word, sentence = min([*doubts, wide], key=lambda doubt: WORDS.index(doubt.most))
    if word != "high":
        return Trust(word, sentence)
    room = "there is no ceiling" if math.isinf(ceiling) else f"the ceiling of {ceiling:.2f} nats is far"
    return Trust("high", f"The interval is narrow, and {room}.")


def word_of_width(width: float, nats: float) -> str:
    """The most that an interval of this width allows."""
    for word, (absolute, share) in (("high", HIGH_WIDTH), ("moderate", MODERATE_WIDTH)):
        if width <= max(absolute, share * abs(nats)):
            return word
    return "low"
