"""Estimate: a measured number with a 95 % interval, the rows it rests on, and how the interval was made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit


@dataclass(frozen=True)
class Estimate:
    """``low`` to ``high`` covers the population's value in about 95 of 100 samples of ``n`` rows."""

    value: float
    low: float
    high: float
    n: int
    method: str

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    def __float__(self) -> float:
        return self.value

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n, "method": self.method}


def mean(values: np.ndarray, *, method: str = "Student's t") -> Estimate:
    """The mean of independent values."""
    n = len(values)
    error = float(np.std(values, ddof=1, dtype=np.float64)) / math.sqrt(n)
    return normal(float(np.mean(values, dtype=np.float64)), error, n=n, method=method)


def normal(value: float, error: float, *, n: int, method: str) -> Estimate:
    """A value with a standard error."""
    half = float(stdtrit(max(1, n - 1), 0.975)) * error
    return Estimate(value, value - half, value + half, n, method)


def share(value: float, *, n: int) -> Estimate:
    """A share of n independent trials, with Wilson's interval."""
    return Estimate(value, *wilson(value, n), n, "Wilson")


def wilson(share: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share of n trials: never leaves [0, 1], and is not empty at 0 or 1."""
    z2 = float(ndtri(0.5 + level / 2)) ** 2
    seen = round(share * n) / n
    middle = (seen + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (seen * (1 - seen) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # Rounding would leave 0, 1 or the share itself outside.
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def variance_ratio(value: float, *, groups: int, n: int) -> Estimate:
    """A variance of ``groups`` independent means over a known one; with several columns the interval is too wide."""
    low, high = (value * (groups - 1) / float(chdtri(groups - 1, tail)) for tail in (0.025, 0.975))
    return Estimate(value, low, high, n, f"chi-square with {groups - 1} degrees of freedom")


def jackknife(value: float, without: Sequence[float], *, n: int) -> Estimate:
    """A value with the values found when each of g groups of rows is left out.

    The standard error is sqrt((g - 1) / g sum (value_g - mean)^2), with g - 1 degrees of freedom.
    """
    groups = len(without)
    error = math.sqrt((groups - 1) * float(np.var(without)))
    half = float(stdtrit(groups - 1, 0.975)) * error
    return Estimate(value, value - half, value + half, n, f"jackknife over {groups} groups of rows")


def bootstrap(value: float, resampled: np.ndarray, *, n: int) -> Estimate:
    """A value with the standard deviation of its bootstrap values.

    Not their percentiles: a maximum is biased upward in every resample, and its percentiles need not hold the value.
    """
    half = float(stdtrit(len(resampled) - 1, 0.975) * np.std(resampled, ddof=1))
    return Estimate(value, value - half, value + half, n, f"bootstrap, {len(resampled)} resamples")
