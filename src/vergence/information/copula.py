"""The Gaussian copula: information in closed form if the columns, once Gaussianized, are jointly Gaussian."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import digamma

from vergence.information.preprocessing import evenly, gaussianized
from vergence.information.screening import dependence, threshold

RowsX = Float[np.ndarray, "n dx"]
RowsY = Float[np.ndarray, "n dy"]

# Directions whose variance is below this share of the largest count as absent, and a correlation nearer than this to
# one counts as one: float64 resolves both, no sample does.
SMALLEST = 1e-10
# Tests of normality use at most so many rows: more would only find what does not matter.
MOST_TESTED = 20_000


class Canonical(NamedTuple):
    """Canonical variates: the directions of x and y that correlate most, in order, with unit variance."""

    mean_x: np.ndarray
    mean_y: np.ndarray
    weight_x: np.ndarray
    weight_y: np.ndarray
    correlation: np.ndarray

    def first(self, k: int) -> "Canonical":
        return Canonical(self.mean_x, self.mean_y, self.weight_x[:, :k], self.weight_y[:, :k], self.correlation[:k])


def canonical(x: RowsX, y: RowsY) -> Canonical:
    """All canonical variates of two sets of columns."""
    mean_x, mean_y = x.mean(0), y.mean(0)
    x, y = x - mean_x, y - mean_y
    whiten_x, whiten_y = _whitening(x), _whitening(y)
    left, correlation, right = np.linalg.svd(whiten_x.T @ (x.T @ y / len(x)) @ whiten_y, full_matrices=False)
    return Canonical(mean_x, mean_y, whiten_x @ left, whiten_y @ right.T, correlation.clip(0, 1))


def significant(variates: Canonical, n: int) -> Canonical:
    """The variates that correlate more than independent columns would: above sqrt(p / n) + sqrt(q / n).

    That is where the largest sample correlation of independent columns settles, to first order.
    """
    edge = math.sqrt(len(variates.mean_x) / n) + math.sqrt(len(variates.mean_y) / n)
    return variates.first(max(1, int((variates.correlation > edge).sum())))


def copula_information(x: RowsX, y: RowsY) -> tuple[float, float]:
    """Nats and their standard error if x and y are Gaussian after Gaussianizing their columns.

    The sampling bias of the three log determinants is removed exactly; the error is that of the canonical correlations,
    the root of the mean of their squares. Infinite if some direction of y is a linear function of x.
    """
    n, dx, dy = len(x), x.shape[1], y.shape[1]
    if n <= dx + dy + 1:
        return math.nan, math.inf
    rho = canonical(gaussianized(x), gaussianized(y)).correlation
    if max(rho.max(), canonical(x, y).correlation.max()) >= 1 - SMALLEST:
        return math.inf, math.inf
    bias = 0.5 * (_log_det_bias(n, dx) + _log_det_bias(n, dy) - _log_det_bias(n, dx + dy))
    return float(-0.5 * np.log1p(-(rho**2)).sum() - bias), float(math.sqrt((rho**2).sum() / n))


def looks_gaussian(x: RowsX, y: RowsY, *, level: float = 1e-3) -> bool:
    """Whether the Gaussianized columns pass for jointly Gaussian, at any strength of dependence."""
    return not departures(x, y, level=level)


def departures(x: RowsX, y: RowsY, *, level: float = 1e-3) -> list[str]:
    """Which tests of joint normality the Gaussianized columns fail, each at about this level.

    The squared length of a whitened Gaussian row is n times a beta variable, its mean square is known (Mardia 1970),
    for x and y alone as well, and for the directions in which they correlate, where clusters show among many columns
    of noise; and its coordinates have kurtosis 3. What y keeps after its regression on x is independent of x. So a
    dependence that is not linear shows even where it is too strong for any bound; but with few rows many pass.
    """
    rows = evenly(len(x), MOST_TESTED)
    x, y = (part - part.mean(0) for part in (gaussianized(x[rows]), gaussianized(y[rows])))
    return _lengths(x, y, level) + _whitened(np.hstack([x, y]), level) + _residual_dependence(x, y)


def _lengths(x: np.ndarray, y: np.ndarray, level: float) -> list[str]:
    """Whose whitened lengths are not a Gaussian's: x, y, the pair, and the directions in which they correlate."""
    from scipy.stats import norm

    variates = significant(canonical(x, y), len(x))
    parts = {
        "x": lambda: x,
        "y": lambda: y,
        "the pair": lambda: np.hstack([x, y]),
        "x where it correlates": lambda: x @ variates.weight_x,
        "y where it correlates": lambda: y @ variates.weight_y,
    }
    return [f"the lengths of {name}" for name, part in parts.items() if mardia(part()) > norm.isf(level / 2)]


def _whitened(joint: np.ndarray, level: float) -> list[str]:
    """Whether whitened rows have other lengths than Gaussian ones, or a direction other tails."""
    from scipy.stats import beta, kstest, norm

    white = joint @ _whitening(joint)
    n, d = white.shape
    length = kstest((white**2).sum(1) / n, beta(d / 2, (n - d - 1) / 2).cdf).pvalue
    kurtosis = np.abs((white**4).mean(0) - 3).max() / math.sqrt(24 / n)
    failed = ["the lengths of whitened rows"] if length <= level else []
    beyond = float(norm.isf(level / 2)) + math.sqrt(2 * math.log(d))
    return failed + (["the tails of a direction"] if kurtosis >= beyond else [])


def mardia(rows: np.ndarray) -> float:
    """How many deviations the mean fourth power of whitened lengths is from that of a Gaussian.

    References:
        Mardia (1970), on multivariate kurtosis. https://doi.org/10.1093/biomet/57.3.519
    """
    centered = rows - rows.mean(0)
    white = centered @ _whitening(centered)
    n, d = white.shape
    if n <= d + 1:
        return 0.0
    return abs(float(((white**2).sum(1) ** 2).mean()) - d * (d + 2) * (n - 1) / (n + 1)) / math.sqrt(
        8 * d * (d + 2) / n
    )


def _residual_dependence(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Whether what regression leaves of y depends on x, and of x on y, in any pair of directions or in length."""
    for first, second in ((x, y), (y, x)):
        rest = second - first @ np.linalg.lstsq(first, second, rcond=None)[0]
        rest = rest @ _whitening(rest)
        first = first @ _whitening(first)
        sides = [np.hstack([rows, (rows**2).sum(1, keepdims=True)]) for rows in (first, rest)]
        strength = dependence(*sides)
        if strength.max() > threshold(strength.size):
            return ["what regression leaves depends on the other variable"]
    return []


def _whitening(centered: np.ndarray) -> np.ndarray:
    covariance = centered.T @ centered / len(centered)
    values, vectors = np.linalg.eigh(covariance)
    present = values > SMALLEST * values[-1]
    return vectors[:, present] / np.sqrt(values[present])


def _log_det_bias(n: int, d: int) -> float:
    """By how much the log determinant of a sample covariance of n rows falls short, on average."""
    return float((digamma((n - np.arange(1, d + 1)) / 2) - math.log(n / 2)).sum())
