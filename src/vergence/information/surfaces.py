"""Sums of smooth two-dimensional log ratios over matched columns: dependence of any shape, one pair at a time."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vergence.information.mixtures import Mixture, fitted, starts
from vergence.types import Square

Column = Float[np.ndarray, " n"]

# The grid on which a ratio is tabulated, in deviations of the Gaussianized column; between knots it is linear.
KNOTS = np.linspace(-3.6, 3.6, 49)
# A mixture of two columns is fitted to at most so many rows: more change it little.
MOST_ROWS = 2000
COMPONENTS = (1, 2, 6, 12)


class Surfaces:
    """The sum over pairs of columns of a log ratio read from a table, for all pairs of chosen rows."""

    def __init__(self, x: Float[np.ndarray, "n p"], y: Float[np.ndarray, "n p"], train: np.ndarray, *, seed: int = 0):
        left, right = [], []
        for u, v in zip(x.T, y.T, strict=True):
            table = _table(u[train], v[train], seed)
            left.append(_hats(u) @ table)
            right.append(_hats(v))
        self.left, self.right = (torch.from_numpy(np.hstack(side)).float() for side in (left, right))

    def __call__(self, rows: Tensor) -> Square:
        return self.left[rows] @ self.right[rows].T


def _table(u: Column, v: Column, seed: int) -> np.ndarray:
    """The log ratio of the mixture of two columns that Schwarz's criterion prefers, at every pair of knots."""
    rows = np.stack([u, v], axis=1)[:: math.ceil(len(u) / MOST_ROWS)]
    best, chosen = -math.inf, None
    for k in [k for k in COMPONENTS if len(rows) >= 50 * k]:
        mixture, value = fitted(rows, starts(rows, k, pair=(0, 1), seed=seed)[-1])
        score = value - 0.5 * (6 * k - 1) * math.log(len(rows)) / len(rows)
        if score > best:
            best, chosen = score, mixture
    assert isinstance(chosen, Mixture)
    grid = np.stack(np.meshgrid(KNOTS, KNOTS, indexing="ij"), axis=2).reshape(-1, 2)
    joint = chosen.log_density(grid).reshape(len(KNOTS), -1)
    alone = [chosen.log_density(KNOTS[:, None], slice(i, i + 1)) for i in (0, 1)]
    return joint - alone[0][:, None] - alone[1]


def _hats(column: Column) -> Float[np.ndarray, "n knots"]:
    """The weights of the two knots around each value."""
    step = KNOTS[1] - KNOTS[0]
    place = ((column - KNOTS[0]) / step).clip(0, len(KNOTS) - 1 - 1e-9)
    below = place.astype(int)
    weights = np.zeros((len(column), len(KNOTS)))
    rows = np.arange(len(column))
    weights[rows, below] = 1 - (place - below)
    weights[rows, below + 1] = place - below
    return weights
