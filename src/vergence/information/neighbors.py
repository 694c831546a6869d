"""Mutual information from nearest neighbors: nothing is trained, one number of neighbors is chosen."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import digamma
from torch import Tensor

RowsX = Float[np.ndarray, "n dx"]
RowsY = Float[np.ndarray, "n dy"]

# Rows of distances held at once: two tiles of 256 x 10,000 float64 stay near the cache.
TILE = 256
# Squared distances below this share of the largest squared norm are rounding, so the rows are the same.
ROUNDING = 1e-14
MOST_GROWN = 2000  # pairs by which growth is told at first: about .1 s


def ksg(x: RowsX, y: RowsY, *, k: int = 5) -> float:
    r"""The first estimator of Kraskov, Stögbauer and Grassberger; with tied rows, that of Gao et al.

    .. math:: \psi(n) + \langle \psi(k) - \psi(n_x + 1) - \psi(n_y + 1) \rangle

    with n_x the number of points nearer in x than the k-th neighbor is in (x, y), where a pair is as far as the
    larger of its Euclidean distances in x and in y. It may be negative: then there is nothing to find. In more than
    about four dimensions in all it is too small.

    References:
        Kraskov et al. (2004), eq. 8. https://arxiv.org/abs/cond-mat/0305641
        Gao et al. (2017), Algorithm 1. https://arxiv.org/abs/1709.06212
    """
    return float(ksg_terms(x, y, k=k).mean())


def ksg_terms(x: RowsX, y: RowsY, *, k: int = 5) -> Float[np.ndarray, " n"]:
    """Each point's part in ``ksg``: their mean is the estimate, their spread its sampling error."""
    if not 0 < k < len(x):
        raise ValueError(f"k must be between 1 and the number of pairs less one, {len(x) - 1}; got {k}.")
    on_lines = x.shape[1] == y.shape[1] == 1
    joint, in_x, in_y = _tree_counts(x, y, k) if on_lines else _tiled_counts(x, y, k)
    return digamma(len(x)) + digamma(joint) - digamma(in_x) - digamma(in_y)


def duplicates(rows: RowsX) -> float:
    """The share of rows that repeat an earlier one: zero for a continuous variable, nearly one for a category."""
    return 1 - len(np.unique(rows, axis=0)) / len(rows)


def growth(x: RowsX, y: RowsY, *, k: int = 3, most: int = MOST_GROWN, seed: int = 0) -> float:
    """How many nats ``ksg`` gains for each e-fold of samples, between a quarter of them, or of ``most``, and all.

    Zero once the estimate has settled; one if y is a function of x and x of y, when the truth is infinite and every
    sample adds to the answer.
    """
    order = np.random.default_rng(seed).permutation(len(x))[:most]
    part = order[: len(order) // 4]
    gain = ksg(x[order], y[order], k=k) - ksg(x[part], y[part], k=k)
    return gain / float(np.log(len(order) / len(part)))


def _tree_counts(x: RowsX, y: RowsY, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbors in (x, y), x and y, each with the point itself, on two lines, where a tree is fastest."""
    from scipy.spatial import KDTree

    pairs = np.concatenate([x, y], axis=1)
    radius = KDTree(pairs).query(pairs, k + 1, p=np.inf)[0][:, -1]
    tied = radius == 0
    # Only nearer points count, except that among ties "nearer than zero" means "at zero".
    inside = np.where(tied, 0, np.nextafter(radius, 0))
    joint = np.where(tied, _within(pairs, inside) - 1, k)
    return joint, _within(x, inside), _within(y, inside)


def _within(rows: np.ndarray, radius: np.ndarray) -> np.ndarray:
    from scipy.spatial import KDTree

    return KDTree(rows).query_ball_point(rows, radius, p=np.inf, return_length=True)


def _tiled_counts(x: RowsX, y: RowsY, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same in any dimension: all distances, some rows at a time, from matrix products."""
    counts = [_tile_counts(*tile, k) for tile in zip(_distances(x), _distances(y), strict=True)]
    joint, in_x, in_y = (torch.cat(column).numpy() for column in zip(*counts, strict=True))
    return joint, in_x, in_y


def _tile_counts(from_x: Tensor, from_y: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    pairs = torch.maximum(from_x, from_y)
    radius = pairs.topk(k + 1, largest=False).values[:, -1:]
    tied = radius[:, 0] == 0
    radius = torch.where(radius > 0, radius, torch.finfo(radius.dtype).tiny)
    joint = torch.where(tied, (pairs < radius).sum(1) - 1, k)
    return joint, (from_x < radius).sum(1), (from_y < radius).sum(1)


def _distances(rows: np.ndarray) -> Iterator[Tensor]:
    """Squared distances of all rows to all rows, a tile at a time."""
    points = torch.from_numpy(rows).double()
    points = points - points.mean(0)
    squares = (points**2).sum(1)
    smallest = ROUNDING * squares.max()
    for tile, of_tile in zip(points.split(TILE), squares.split(TILE), strict=True):
        squared = torch.addmm(squares, tile, points.T, alpha=-2).add_(of_tile[:, None])
        yield torch.where(squared > smallest, squared, 0.0)
