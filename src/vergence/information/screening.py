"""Which columns of x depend on which columns of y, linearly or not: a smooth test of every pair at once."""

import math

import numpy as np
from jaxtyping import Float

Columns = Float[np.ndarray, "n _"]

# Cosines of the rank: enough for two full waves, and few enough (16 degrees of freedom a pair) to keep the power.
WAVES = 4
# Products of columns are looked at only if every one of them has so many pairs.
PAIRS_PER_PRODUCT = 8
# Single products are searched among so many columns: their waves stay below 100 MB for 10,000 pairs.
MOST_PRODUCTS = 300


def dependence(x: Columns, y: Columns) -> Float[np.ndarray, "dx dy"]:
    r"""How far each pair of columns is from independent, in standard deviations of the statistic under independence.

    :math:`n \sum_{kl} \mathrm{corr}(c_k(x_i), c_l(y_j))^2` with :math:`c_k = \cos(\pi k\, \mathrm{rank})`, which is
    chi-squared with 16 degrees of freedom: Neyman's smooth test on ranks. It sees symmetric relations, which
    correlation does not; it does not see what needs three columns at once.
    """
    n = len(x)
    correlation = _waves(x).T @ _waves(y) / n
    squares = (correlation**2).reshape(x.shape[1], WAVES, y.shape[1], WAVES).sum((1, 3))
    return (n * squares - WAVES**2) / math.sqrt(2 * WAVES**2)


def threshold(pairs: int) -> float:
    """What the largest of so many pairs of independent columns rarely exceeds: a chi-squared tail at about 1e-3."""
    # The upper quantile of chi-squared 16 at 1e-3 / pairs, by the bound of Laurent & Massart (2000), Lemma 1.
    tail = math.log(1e3 * max(1, pairs))
    return (2 * math.sqrt(WAVES**2 * tail) + 2 * tail) / math.sqrt(2 * WAVES**2)


def matched(strength: Float[np.ndarray, "dx dy"], *, most: int) -> list[tuple[int, int]]:
    """Pairs of columns that depend significantly, strongest first, each column in one pair at most."""
    left, level = strength.copy(), threshold(strength.size)
    found: list[tuple[int, int]] = []
    while len(found) < min(most, *strength.shape):
        i, j = np.unravel_index(left.argmax(), left.shape)
        if left[i, j] <= level:
            break
        found.append((int(i), int(j)))
        left[i], left[:, j] = -math.inf, -math.inf
    return found


def relevant(strength: Float[np.ndarray, "dx dy"], axis: int, *, most: int) -> np.ndarray:
    """The columns that depend significantly on some column of the other side, strongest first."""
    best = strength.max(1 - axis)
    order = np.argsort(-best)[:most]
    return order[best[order] > threshold(strength.size)]


def _waves(columns: Columns) -> Float[np.ndarray, "n _"]:
    """Standardized cosines of the ranks, those of one column next to each other."""
    from scipy.stats import rankdata

    ranks = (rankdata(columns, axis=0) - 0.5) / len(columns)
    waves = np.cos(math.pi * ranks[:, :, None] * np.arange(1, WAVES + 1)).reshape(len(columns), -1)
    waves = waves - waves.mean(0)
    deviation = waves.std(0)
    return waves / np.where(deviation > 1e-9, deviation, 1.0)  # a column of one value has no waves
