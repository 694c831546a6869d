"""Selection without labels: which of several like runs is best, and which runs are alike.

No label-free score survives a change of data, of augmentation or of the family of encoders: among runs that differ in
these, the best of them (``matching``) fell from a rank correlation of .84 with accuracy to -.03. So :func:`unlike` says
in a sentence why runs cannot be ranked together, and :func:`selection` is for the rest.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# What makes a score good: its sort key, least first. ``matching`` leads: it alone was found to rank like runs.
# Not here: alignment and hubness, which pointed the wrong way, and isotropy, which prefers noise.
SCORES: dict[str, Callable[[float], float]] = {
    "matching": lambda value: -value,
    "held_out_loss": lambda value: value,
    "effective_rank": lambda value: -value,
    "lidar": lambda value: -value,
    "participation_ratio": lambda value: -value,
    "uniformity": lambda value: value,
    "decay_exponent": lambda value: abs(value - 1),  # Agrawal et al. (2022): near 1 is best
}
LEADING = "matching"
WRONG = (0.23, 0.30)  # shares of pairs that it orders wrongly, over 176 encoders (docs/measured/doctor.md)
# They had two of five pairs or more wrong where they were tested, up to 83 %: shown only beside labels that judge them.
MISLEADING = ("lidar", "uniformity", "decay_exponent")
# What runs must have in common to be ranked by any score, and by a loss besides.
SHARED = {"data": "data", "views": "augmentation", "encoder": "family of encoders"}
SHARED_BY_LOSS = {
    "objective": "objective",
    "hyperparameters": "hyperparameters of the objective",
    "batch": "batch size",
}


def unlike(settings: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Why runs cannot be ranked together, in a sentence; None where they can.

    ``settings`` maps a run's name to its ``data``, ``views`` and ``encoder``; what is not known counts as different.
    """
    differing = [name for key, name in SHARED.items() if _differ(settings, key)]
    if not differing:
        return None
    what = " and ".join([", ".join(differing[:-1]), differing[-1]] if len(differing) > 1 else differing)
    return (
        f"These runs are not ranked: they differ in {what}, and no score without labels has been found to order such "
        "runs. Go by labels, or compare runs that differ in nothing but method, objective and schedule."
    )


def _differ(settings: Mapping[str, Mapping[str, Any]], key: str) -> bool:
    values = [found.get(key) for found in settings.values()]
    return any(value is None or value != values[0] for value in values)


@dataclass(frozen=True)
class Ranking:
    """Runs from best to worst by one score; with labels, how well that order is the order of accuracy.

    ``agreement`` is Spearman's correlation, 1 when the score ranks as the labels do, with a 95 % interval.
    ``experimental`` scores are shown, not recommended: they were not found to rank like runs.
    """

    score: str
    runs: tuple[str, ...]
    agreement: float | None = None
    interval: tuple[float, float] | None = None
    experimental: bool = False

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def selection(
    runs: Mapping[str, Mapping[str, Any]],
    accuracy: Mapping[str, float] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[Ranking, ...]:
    """Rank runs by each score of SCORES that is known of all of them, the leading one first.

    ``runs`` maps a run's name to the ``diagnostics`` of its results; ``accuracy`` maps it to what labels say. With
    ``settings``, runs that are not alike are not ranked (see :func:`unlike`), unless labels are there to judge the
    scores by; and held-out losses only rank runs with one objective and one batch size. Without labels, scores that
    were found to mislead rank nothing.
    """
    if len(runs) < 2:
        raise ValueError(f"Ranking needs at least two runs; got {len(runs)}")
    if settings is not None and accuracy is None and unlike(settings):
        return ()
    table = {score: {name: _value(found.get(score)) for name, found in runs.items()} for score in SCORES}
    shared = {score: values for score, values in table.items() if not any(map(math.isnan, values.values()))}
    shared = {score: values for score, values in shared.items() if accuracy is not None or score not in MISLEADING}
    if settings is not None and any(_differ(settings, key) for key in SHARED_BY_LOSS):
        shared.pop("held_out_loss", None)
    return tuple(_ranking(score, values, accuracy) for score, values in shared.items())


def _ranking(score: str, values: Mapping[str, float], accuracy: Mapping[str, float] | None) -> Ranking:
    badness = {name: SCORES[score](value) for name, value in values.items()}
    ordered = tuple(sorted(badness, key=badness.__getitem__))
    experimental = score != LEADING
    if accuracy is None:
        return Ranking(score, ordered, experimental=experimental)
    agreement = spearman([-badness[name] for name in ordered], [accuracy[name] for name in ordered])
    return Ranking(score, ordered, agreement, spearman_interval(agreement, len(ordered)), experimental)


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of ranks, NaN where one side has no order."""
    from scipy.stats import spearmanr

    ordered = len(set(first)) > 1 and len(set(second)) > 1
    return float(spearmanr(first, second).statistic) if ordered else math.nan


def spearman_interval(correlation: float, n: int) -> tuple[float, float]:
    """Fisher's interval with the variance 1.06 / (n - 3); for fewer than four runs, anything is possible.

    A perfect order has no spread by that rule; its interval starts from the order with one exchange of neighbors.

    References:
        Fieller, Hartley & Pearson (1957), Biometrika 44.
    """
    from scipy.stats import norm

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
