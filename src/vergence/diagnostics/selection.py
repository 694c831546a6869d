"""Selection without labels: which of several runs is best, by every label-free score; and how far to trust that."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import norm, spearmanr

# What makes a score good: its sort key, least first.
SCORES: dict[str, Callable[[float], float]] = {
    "effective_rank": lambda value: -value,
    "lidar": lambda value: -value,
    "participation_ratio": lambda value: -value,
    "isotropy": lambda value: -value,
    "matching": lambda value: -value,
    "uniformity": lambda value: value,
    "alignment": lambda value: value,
    "hubness": lambda value: value,
    "held_out_loss": lambda value: value,
    "decay_exponent": lambda value: abs(value - 1),  # Agrawal et al. (2022): near 1 is best
}


@dataclass(frozen=True)
class Ranking:
    """Runs from best to worst by one score; with labels, how well that order is the order of accuracy.

    ``agreement`` is Spearman's correlation, 1 when the score ranks as the labels do, with a 95 % interval.
    """

    score: str
    runs: tuple[str, ...]
    agreement: float | None = None
    interval: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def selection(
    runs: Mapping[str, Mapping[str, Any]], accuracy: Mapping[str, float] | None = None
) -> tuple[Ranking, ...]:
    """Rank runs by each score of SCORES that is known of all of them.

    ``runs`` maps a run's name to the ``diagnostics`` of its results; ``accuracy`` maps it to what labels say.
    """
    if len(runs) < 2:
        raise ValueError(f"Ranking needs at least two runs; got {len(runs)}")
    table = {score: {name: _value(found.get(score)) for name, found in runs.items()} for score in SCORES}
    shared = {score: values for score, values in table.items() if not any(map(math.isnan, values.values()))}
    return tuple(_ranking(score, values, accuracy) for score, values in shared.items())


def _ranking(score: str, values: Mapping[str, float], accuracy: Mapping[str, float] | None) -> Ranking:
    badness = {name: SCORES[score](value) for name, value in values.items()}
    ordered = tuple(sorted(badness, key=badness.__getitem__))
    if accuracy is None:
        return Ranking(score, ordered)
    agreement = spearman([-badness[name] for name in ordered], [accuracy[name] for name in ordered])
    return Ranking(score, ordered, agreement, spearman_interval(agreement, len(ordered)))


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of ranks, NaN where one side has no order."""
    ordered = len(set(first)) > 1 and len(set(second)) > 1
    return float(spearmanr(first, second).statistic) if ordered else math.nan


def spearman_interval(correlation: float, n: int) -> tuple[float, float]:
    """Fisher's interval with the variance 1.06 / (n - 3); for fewer than four runs, anything is possible.

    A perfect order has no spread by that rule; its interval starts from the order with one exchange of neighbors.

    References:
        Fieller, Hartley & Pearson (1957), Biometrika 44.
    """
    if n < 4 or math.isnan(correlation):
        return -1.0, 1.0
    half = float(norm.ppf(0.975)) * math.sqrt(1.06 / (n - 3))
    nearly = 1 - 12 / (n * (n**2 - 1))
    center = math.atanh(max(-nearly, min(nearly, correlation)))
    return min(correlation, math.tanh(center - half)), max(correlation, math.tanh(center + half))


def _value(found: Any) -> float:
    """NaN where a score is missing, or has no value on these rows."""
    value = found.get("value") if isinstance(found, Mapping) else found
    return math.nan if value is None else float(value)
