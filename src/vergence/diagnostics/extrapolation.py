"""Where a run's own curves lead: how many epochs are worth while, and from which batch on negatives are hard."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vergence.counters import drawn

POWERS = np.linspace(0.1, 3.0, 59)  # exponents tried: slower decay cannot be told from a line, faster is a step
RESAMPLES = 200
SHARE = 0.9  # of the whole fall that a training should take
FEWEST = 6  # epochs below which a curve of three parameters says nothing
FURTHEST = 5.0  # times the length of the run: no extrapolation goes beyond
LARGEST = 16  # times the batch: no more is suggested at once
ANCHORS = 1000  # pairs that a matching curve is measured on
EASY = 0.95  # matching above which the negatives of a batch teach little
WANTED = 0.9  # matching at which they teach something


@dataclass(frozen=True)
class Forecast:
    """A figure that a curve leads to, with a 95 % interval from resampled residuals or pairs."""

    value: float
    low: float
    high: float


def epochs_worth(losses: np.ndarray) -> tuple[Forecast, Forecast] | None:
    r"""The limit of a loss by epoch, and the epochs that take nine tenths of the way to it; None where it cannot tell.

    Fits :math:`L(e) = c + a e^{-b}` to the means of the epochs by least squares over a grid of b. Residuals are
    resampled for the intervals. It assumes that the schedule of the learning rate is stretched with the run; a decay
    to zero makes the end of a short run look flatter than a longer one is.

    References:
        The form is that of learning curves: Hestness et al. (2017). https://arxiv.org/abs/1712.00409
    """
    values = np.asarray(losses, dtype=float)
    if len(values) < FEWEST or not np.isfinite(values).all():
        return None
    epochs = np.arange(1, len(values) + 1, dtype=float)
    fitted = _fitted(epochs, values)
    if fitted is None:
        return None
    generator = np.random.default_rng(0)
    smooth = fitted[0] + fitted[1] * epochs ** -fitted[2]
    residuals = values - smooth
    draws = [_fitted(epochs, smooth + generator.choice(residuals, len(values))) for _ in range(RESAMPLES)]
    kept = [draw for draw in draws if draw is not None]
    if len(kept) < RESAMPLES // 2:
        return None
    most = FURTHEST * len(values)
    limits, lengths = [draw[0] for draw in kept], [min(most, _length(draw[2])) for draw in kept]
    return _forecast(fitted[0], limits), _forecast(min(most, _length(fitted[2])), lengths)


def _fitted(epochs: np.ndarray, values: np.ndarray) -> tuple[float, float, float] | None:
    """Limit, amplitude and power of the best falling curve; None where none falls."""
    bases = epochs[None] ** -POWERS[:, None]
    centered, target = bases - bases.mean(axis=1, keepdims=True), values - values.mean()
    slopes = (centered @ target) / np.square(centered).sum(axis=1)
    errors = np.square(target - slopes[:, None] * centered).sum(axis=1)
    errors = np.where(slopes > 0, errors, np.inf)
    best = int(errors.argmin())
    if not math.isfinite(errors[best]):
        return None
    return float(values.mean() - slopes[best] * bases[best].mean()), float(slopes[best]), float(POWERS[best])


def _length(power: float) -> float:
    """Epochs after which a share of the fall from the first epoch on is done: e^-b = 1 - share."""
    return (1 - SHARE) ** (-1 / power)


def batch_worth(z1: Tensor, z2: Tensor, batch: int, *, seed: int = 0) -> tuple[Forecast, Forecast] | None:
    r"""The share of pairs matched in a batch, and the batch at which nine in ten are; None where it is hard enough.

    With :math:`q_i` the share of other samples nearer to view i than its own partner, a batch of n matches a share
    :math:`E(1 - q_i)^{n - 1}`. Where nearly all are matched, negatives teach little and a larger batch teaches more.
    """
    rows = drawn(len(z1), ANCHORS, seed=seed)
    one, other = (torch.nn.functional.normalize(z[rows].float(), dim=1) for z in (z1, z2))
    n = len(one)
    if n < 50:
        return None
    scores = one @ other.T
    closer = ((scores > scores.diagonal()[:, None]).sum(dim=1) / (n - 1)).double().numpy()
    generator = np.random.default_rng(seed)
    draws = [closer[generator.integers(0, n, n)] for _ in range(RESAMPLES)]
    matched = _forecast(_matched(closer, batch), [_matched(draw, batch) for draw in draws])
    if matched.low < EASY:
        return None
    return matched, _forecast(_batch(closer, batch), [_batch(draw, batch) for draw in draws])


def _matched(closer: np.ndarray, batch: int | float) -> float:
    return float(np.mean((1 - closer) ** (batch - 1)))


def _batch(closer: np.ndarray, batch: int) -> float:
    """The smallest power of two times the batch at which fewer than nine in ten pairs are matched."""
    size = float(batch)
    while _matched(closer, size) > WANTED and size < LARGEST * batch:
        size *= 2
    return size


def _forecast(value: float, draws: list[float]) -> Forecast:
    low, high = np.percentile(draws, (2.5, 97.5)).tolist()
    return Forecast(value, min(value, low), max(value, high))
