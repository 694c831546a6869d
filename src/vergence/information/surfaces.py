"""Sums of smooth two-dimensional log ratios over matched columns: dependence of any shape, one pair at a time."""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtri
from torch import Tensor

from vergence.information.mixtures import Mixture, fitted, starts
from vergence.types import Square

Column = Float[np.ndarray, " n"]
Pairs = Float[np.ndarray, "n 2"]
Places = Float[np.ndarray, "n cells"]

# The grid on which a ratio is tabulated, in deviations of the Gaussianized column; between knots it is linear.
KNOTS = np.linspace(-3.6, 3.6, 49)
# A table is made of at most so many rows: more change it little.
MOST_ROWS = 8000
COMPONENTS = (1, 2, 6, 12, 24)
# Cells on each side of a density in steps; an even number has an edge at the median, where signs change.
STEPS = (2, 4, 8, 16)
ROWS_PER_COMPONENT = 50


class Surfaces:
    """The sum over pairs of columns of a log ratio read from a table, for all pairs of chosen rows."""

    def __init__(self, x: Float[np.ndarray, "n p"], y: Float[np.ndarray, "n p"], train: np.ndarray, *, seed: int = 0):
        left, right = [], []
        for u, v in zip(x.T, y.T, strict=True):
            table, place = _table(u[train], v[train], seed)
            left.append(place(u) @ table)
            right.append(place(v))
        self.left, self.right = (torch.from_numpy(np.hstack(side)).float() for side in (left, right))

    def __call__(self, rows: Tensor) -> Square:
        return self.left[rows] @ self.right[rows].T


def _table(u: Column, v: Column, seed: int) -> tuple[np.ndarray, Callable[[Column], Places]]:
    """The log ratio of a smooth or stepped density, and how a value finds its row.

    Each kind of density is fitted to the first half of the rows and judged by the second; the best is fitted to all.
    Gaussians are at a loss where a density jumps, as at the signs of a product; steps are at a loss where it bends.
    """
    rows = np.stack([u, v], axis=1)[:: math.ceil(len(u) / MOST_ROWS)]
    first, second = np.array_split(rows, 2)
    normal = float(-0.5 * (second**2).sum(1).mean()) - math.log(2 * math.pi)  # the columns are Gaussianized
    sizes = [k for k in COMPONENTS if len(rows) >= ROWS_PER_COMPONENT * k]
    told = {("smooth", k): float(_mixture(first, k, seed).log_density(second).mean()) for k in sizes}
    told |= {("stepped", bins): normal + _gain(*_stepped(first, bins), second) for bins in STEPS}
    kind, size = max(told, key=told.__getitem__)
    return (_tabulated(_mixture(rows, size, seed)), _hats) if kind == "smooth" else _stepped(rows, size)


def _mixture(rows: Pairs, k: int, seed: int) -> Mixture:
    return fitted(rows, starts(rows, k, pair=(0, 1), seed=seed)[-1])[0]


def _gain(table: np.ndarray, place: Callable[[Column], Places], rows: Pairs) -> float:
    """The mean log ratio of these rows."""
    return float(np.einsum("nk,kl,nl->n", place(rows[:, 0]), table, place(rows[:, 1])).mean())


def _stepped(rows: Pairs, bins: int) -> tuple[np.ndarray, Callable[[Column], Places]]:
    """The log ratio of counts between quantiles of a normal law, with half a pair more in every cell."""
    edges = ndtri(np.arange(1, bins) / bins)

    def place(column: Column) -> Places:
        return np.eye(bins)[np.searchsorted(edges, column)]

    counts = place(rows[:, 0]).T @ place(rows[:, 1]) + 0.5
    share = counts / counts.sum()
    return np.log(share / share.sum(1, keepdims=True) / share.sum(0)), place


def _tabulated(mixture: Mixture) -> np.ndarray:
    grid = np.stack(np.meshgrid(KNOTS, KNOTS, indexing="ij"), axis=2).reshape(-1, 2)
    joint = mixture.log_density(grid).reshape(len(KNOTS), -1)
    alone = [mixture.log_density(KNOTS[:, None], slice(i, i + 1)) for i in (0, 1)]
    return joint - alone[0][:, None] - alone[1]


def _hats(column: Column) -> Places:
    """The weights of the two knots around each value."""
    step = KNOTS[1] - KNOTS[0]
    place = ((column - KNOTS[0]) / step).clip(0, len(KNOTS) - 1 - 1e-9)
    below = place.astype(int)
    weights = np.zeros((len(column), len(KNOTS)))
    rows = np.arange(len(column))
    weights[rows, below] = 1 - (place - below)
    weights[rows, below + 1] = place - below
    return weights
