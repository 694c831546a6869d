"""t-SNE of up to a few thousand rows, exactly: all pairs of rows, a block at a time.

Trees take as long for so few, and the package that has them takes longer to import than this to run.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vergence.report.embedding import Points

Rows = Float[np.ndarray, "n d"]
Phase = tuple[int, float, float]  # steps, momentum, how much attraction is exaggerated

FROM_NOTHING: tuple[Phase, ...] = ((150, 0.5, 12.0), (350, 0.8, 1.0))
FROM_A_MAP: tuple[Phase, ...] = ((80, 0.8, 1.0),)
HALVINGS = 40  # of the interval in which a row's scale is sought
BLOCK = 128  # rows whose pairs with all others are in a core's own cache
LEAST_GAIN, LEAST_RATE = 0.01, 50.0


def tsne_map(x: Rows, start: Points, *, perplexity: float, phases: Sequence[Phase]) -> Points:
    r"""Points whose :math:`q \propto (1 + \|y_i - y_j\|^2)^{-1}` resemble Gaussian neighborhoods of the rows, by KL.

    Steps with momentum and a gain for every coordinate, as in the paper; the rate is n / 4 over the exaggeration.

    References:
        van der Maaten & Hinton (2008), JMLR 9; Belkina et al. (2019), for the rate. https://doi.org/10.1038/s41467-019-13055-y
    """
    shares, y = neighborhoods(x, perplexity), start.astype(np.float32)
    moved, gains = np.zeros_like(y), np.ones_like(y)
    for steps, momentum, exaggeration in phases:
        rate = max(len(x) / 4 / exaggeration, LEAST_RATE)
        for _ in range(steps):
            gradient = divergence_slope(shares, y, exaggeration=exaggeration)
            gains = np.where(moved * gradient < 0, gains + 0.2, gains * 0.8).clip(LEAST_GAIN)
            moved = (momentum * moved - rate * gains * gradient).astype(np.float32)
            y = y + moved
    return y - y.mean(axis=0)


def neighborhoods(x: Rows, perplexity: float) -> Float[np.ndarray, "n n"]:
    """Shares of pairs that sum to 1: Gaussians around each row, as wide as the perplexity asks, among its nearest."""
    n = len(x)
    count, squares = min(n - 1, int(3 * perplexity)), np.einsum("nd,nd->n", x, x)
    apart = np.maximum(squares[:, None] + squares - 2 * (x @ x.T), 0)
    np.fill_diagonal(apart, np.inf)
    nearest = np.argpartition(apart, count - 1, axis=1)[:, :count]
    distance = np.take_along_axis(apart, nearest, axis=1).astype(np.float64)
    distance -= distance.min(axis=1, keepdims=True)
    scale = distance.mean(axis=1, keepdims=True)
    distance /= np.where(scale > 0, scale, 1)
    low, high = np.full((n, 1), 1e-6), np.full((n, 1), 1e6)
    for _ in range(HALVINGS):
        middle = np.sqrt(low * high)
        own = _gaussian(distance, middle)
        wide = -(own * np.log(own.clip(1e-300))).sum(axis=1, keepdims=True) > np.log(min(perplexity, count))
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    shares = np.zeros((n, n), dtype=np.float32)
    np.put_along_axis(shares, nearest, _gaussian(distance, high).astype(np.float32), axis=1)
    return (shares + shares.T) / (2 * n)


def divergence_slope(shares: Float[np.ndarray, "n n"], y: Points, *, exaggeration: float = 1.0) -> Points:
    """The gradient of KL(p, q) by the points, with p exaggerated in the attraction alone."""
    squares, ones = np.square(y).sum(axis=1, keepdims=True), np.ones((len(y), 1), dtype=y.dtype)
    left, right = np.hstack([-2 * y, squares, ones]), np.hstack([y, ones, squares + 1])
    beside, total = np.hstack([y, ones]), 0.0
    pull, push = np.empty_like(beside), np.empty_like(beside)
    for begin in range(0, len(y), BLOCK):
        rows = slice(begin, begin + BLOCK)
        near = left[rows] @ right.T  # 1 + the squared distance
        np.reciprocal(near, out=near)
        near[np.arange(len(near)), np.arange(begin, begin + len(near))] = 0
        total += float(near.sum())
        pull[rows] = (shares[rows] * near) @ beside
        push[rows] = np.square(near, out=near) @ beside
    attraction, repulsion = (y * each[:, 2:] - each[:, :2] for each in (pull, push))
    return 4 * (exaggeration * attraction - repulsion / total)


def _gaussian(distance: np.ndarray, precision: np.ndarray) -> np.ndarray:
    weight = np.exp(-distance * precision)
    return weight / weight.sum(axis=1, keepdims=True)
