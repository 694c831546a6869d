"""Class directions: whether classes lie in the same directions in two groups of rows, and rows scatter alike there.

One model puts a class where it belongs, whichever source a row is from: in two groups of its rows the class means, each
less the mean of its group, point the same way. Two models have no directions in common.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LEAST = 2  # rows of a class in each group, below which its mean has no known error
SIGNAL = 3.0  # standard errors of nothing by which each group must tell its classes apart


@dataclass(frozen=True)
class ClassDirections:
    r"""Correlations of two groups, each without the bias that noise gives: 1 for one model, 0 for two.

    ``classes`` is :math:`\sum_c w_c \langle a_c, b_c \rangle / \sqrt{\sum_c w_c |a_c|^2 \sum_c w_c |b_c|^2}` of the
    class means a and b, nan where one group does not tell its classes apart; ``error`` is its standard error where it
    is near 0, ``scatter`` the correlation of the covariances within classes, less what two balls would have.
    ``signal`` says whether both groups tell their classes apart for certain. Of two classes, or three, the first is
    that of a direction or two, and clusters of one model may differ in these.
    """

    classes: float
    error: float
    scatter: float
    signal: bool
    classes_in_both: int = 0


@dataclass(frozen=True)
class _Part:
    """A group: its class means less their weighted mean, its rows less their class mean, their labels and counts."""

    means: Tensor
    rest: Tensor
    labels: Tensor
    counts: Tensor

    @property
    def covariance(self) -> Tensor:
        return self.rest.T @ self.rest / len(self.rest)


def class_directions(rows: Tensor, labels: Tensor, member: Tensor) -> ClassDirections | None:
    """How far two groups agree about their classes; None where fewer than two classes have two rows in both."""
    sides = (member, ~member)
    counts = torch.stack([torch.bincount(labels[side], minlength=int(labels.max()) + 1) for side in sides]).double()
    kept = (counts >= LEAST).all(dim=0)
    if int(kept.sum()) < 2:
        return None
    weights = torch.where(kept, counts.prod(dim=0) / counts.sum(dim=0).clamp(min=1), 0.0)
    weights = weights / weights.sum()
    a, b = (_part(rows[side], labels[side], count, weights) for side, count in zip(sides, counts, strict=True))
    squares = [_square(part, weights) for part in (a, b)]
    signal = all(square > SIGNAL * luck for square, luck in squares)
    scale = math.sqrt(squares[0][0] * squares[1][0]) if min(squares)[0] > 0 else math.nan
    together = float((weights * (a.means * b.means).sum(dim=1)).sum())
    error = math.sqrt(_variance(a, b, weights))
    return ClassDirections(together / scale, error / scale, _scatter(a, b), signal, int(kept.sum()))


def _part(rows: Tensor, labels: Tensor, counts: Tensor, weights: Tensor) -> _Part:
    means = torch.zeros(len(counts), rows.shape[1], dtype=rows.dtype).index_add_(0, labels, rows)
    means = means / counts.clamp(min=1)[:, None]
    counted = weights[labels] > 0
    return _Part(means - weights @ means, (rows - means[labels])[counted], labels[counted], counts.clamp(min=1))


def _square(part: _Part, weights: Tensor) -> tuple[float, float]:
    """The weighted mean square of class means less what noise adds, and what luck would make of no classes."""
    spread = _summed(part, part.rest.square().sum(dim=1)) / (part.counts - 1).clamp(min=1)
    noise = weights * (1 - weights) * spread / part.counts
    luck = 2 * float(part.covariance.square().sum()) * float((weights / part.counts).square().sum())
    return float((weights * part.means.square().sum(dim=1) - noise).sum()), math.sqrt(luck)


def _variance(a: _Part, b: _Part, weights: Tensor) -> float:
    """That of the products of class means: each group's noise along the other's means, and noise along noise."""
    both = float((a.covariance * b.covariance).sum()) * float((weights.square() / (a.counts * b.counts)).sum())
    for part, other in ((a, b), (b, a)):
        along = (part.rest * other.means[part.labels]).sum(dim=1).square()
        both += float((weights.square() * _summed(part, along) / part.counts.square()).sum())
    return both


def _summed(part: _Part, values: Tensor) -> Tensor:
    return torch.zeros_like(part.counts).index_add_(0, part.labels, values)


def _scatter(a: _Part, b: _Part) -> float:
    """The correlation of two covariances less their balls; the square of each is that of two halves of its rows."""
    squares = []
    for rest in (a.rest, b.rest):
        order = torch.randperm(len(rest), generator=torch.Generator().manual_seed(0))
        first, second = (rest[half].T @ rest[half] / len(half) for half in order.chunk(2))
        squares.append(_beyond_balls(first, second))
    if min(squares) <= 0:
        return math.nan  # no direction in which rows scatter more than in others
    return _beyond_balls(a.covariance, b.covariance) / math.sqrt(squares[0] * squares[1])


def _beyond_balls(first: Tensor, second: Tensor) -> float:
    return float((first * second).sum() - first.trace() * second.trace() / len(first))
