"""Whether the rows are independent of each other: pairs that follow each other in time repeat what they say."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vergence.information.preprocessing import Rows, categorical, codes, gaussianized

LAGS = 20
# The largest probability of taking independent rows for dependent ones.
LEVEL = 1e-4
# Squared autocorrelations that sum to less than this widen an interval by less than a fiftieth.
NEGLIGIBLE = 0.02
# Of more columns than this, evenly chosen ones and the mean of all are tested.
MOST_COLUMNS = 20


class Order(NamedTuple):
    """``memory`` is after how many rows the dependence has faded; zero if the rows are independent."""

    memory: int
    sentence: str


def order(x: Rows, y: Rows) -> Order:
    """Whether values, or their squares, correlate with those of the rows before.

    A portmanteau test over 20 lags of every column (Ljung & Box 1978). Rows that were merely sorted, by a category or
    by one column, or whose categories take turns, are not taken for a series: what that explains is removed first.
    The order of independent rows carries nothing, so shuffled rows of a series pass: whoever shuffles a series must
    say so himself.
    """
    from scipy.stats import chi2

    columns, is_sorted = _unsorted(x, y)
    if columns is None:
        return Order(0, "")
    columns = np.concatenate([columns, gaussianized(columns**2)], axis=1)
    correlation = np.stack([_autocorrelation(column) for column in columns.T])
    n, lags = len(x), correlation.shape[1]
    statistic = n * (correlation**2).sum(1)
    level = chi2.isf(LEVEL / len(correlation), lags)
    dependent = (statistic > level) & ((correlation**2).sum(1) > NEGLIGIBLE)
    if is_sorted:  # a moving average leaves small negative correlations behind
        dependent &= correlation[:, 0] > math.sqrt(NEGLIGIBLE)
    if not dependent.any():
        return Order(0, "")
    strongest = correlation[dependent][int((correlation[dependent] ** 2).sum(1).argmax())]
    memory = _memory(columns[:, dependent], n)
    sentence = (
        f"Rows depend on the rows before them (correlation {strongest[np.abs(strongest).argmax()]:.2f} at lag "
        f"{np.abs(strongest).argmax() + 1}), as in a series: {n} pairs say as much as about {max(1, n // memory)} "
        "independent ones."
    )
    return Order(memory, sentence)


def inflation(terms: Float[np.ndarray, " n"], memory: int) -> float:
    """By how much the variance of a mean of dependent terms exceeds that of independent ones: at least 1.

    From the means of blocks three memories long, or of at least ten blocks.
    """
    if memory == 0:
        return 1.0
    blocks = max(10, len(terms) // (3 * memory))
    means = np.array([part.mean() for part in np.array_split(terms, min(blocks, len(terms) // 2))])
    return max(1.0, float(means.var(ddof=1) * len(terms) / len(means) / max(terms.var(), 1e-12)))


def _unsorted(x: Rows, y: Rows) -> tuple[np.ndarray | None, bool]:
    """Gaussianized columns less what sorting explains, and whether the rows are sorted."""
    columns = gaussianized(np.concatenate([_some(x), _some(y)], axis=1))
    for rows in (x, y):
        if categorical(rows):
            number = codes(rows)
            classes = number.max() + 1
            if (np.diff(number) != 0).sum() < classes or np.array_equal(number[classes:], number[:-classes]):
                means = np.stack([columns[number == k].mean(0) for k in range(number.max() + 1)])
                rest = columns - means[number]
                kept = rest.std(0) > 1e-9
                return (rest[:, kept], True) if kept.any() else (None, True)
    slope = np.diff(np.concatenate([x, y], axis=1), axis=0)
    monotone = (slope >= 0).all(0) | (slope <= 0).all(0)
    if not monotone.any():
        return columns, False
    rest = columns - _moving_average(columns, max(5, len(x) // 40))
    kept = rest.std(0) > 0.2 * columns.std(0)
    return (rest[:, kept], True) if kept.any() else (None, True)


def _some(rows: Rows) -> Rows:
    if rows.shape[1] <= MOST_COLUMNS:
        return rows
    standard = (rows - rows.mean(0)) / rows.std(0)
    even = np.linspace(0, rows.shape[1] - 1, MOST_COLUMNS).astype(int)
    return np.concatenate([standard[:, even], standard.mean(1, keepdims=True)], axis=1)


def _moving_average(columns: np.ndarray, width: int) -> np.ndarray:
    sums = np.cumsum(np.concatenate([np.zeros((1, columns.shape[1])), columns]), axis=0)
    middle = np.arange(len(columns))
    low, high = (middle - width).clip(0), (middle + width + 1).clip(max=len(columns))
    return (sums[high] - sums[low]) / (high - low)[:, None]


def _autocorrelation(column: np.ndarray) -> np.ndarray:
    away = column - column.mean()
    lags = range(1, min(LAGS, len(column) // 10) + 1)
    return np.array([(away[lag:] * away[:-lag]).sum() for lag in lags]) / (len(away) * max(away.var(), 1e-12))


def _memory(columns: np.ndarray, n: int) -> int:
    """The integrated autocorrelation time of the slowest column, by Fourier transform, over the first sixth of lags."""
    longest = 1.0
    for column in columns.T:
        away = column - column.mean()
        spectrum = np.abs(np.fft.rfft(away, 2 * n)) ** 2
        correlation = np.fft.irfft(spectrum)[: max(2, n // 6)]
        correlation = correlation / correlation[0]
        below = np.flatnonzero(correlation < 0.05)
        end = int(below[0]) if len(below) else len(correlation)
        longest = max(longest, 1 + 2 * float((correlation[1:end] ** 2).sum()), float(end))
    return max(2, math.ceil(longest))
