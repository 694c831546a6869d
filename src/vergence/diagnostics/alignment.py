"""Alignment: whether classes lie in the same directions in two groups of rows, and whether rows scatter alike there.

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
class Alignment:
    r"""Correlations of two groups, each without the bias that noise gives: 1 for one model, 0 for two.

    ``classes`` is :math:`\sum_c w_c \langle a_c, b_c \rangle / \sqrt{\sum_c w_c |a_c|^2 \sum_c w_c |b_c|^2}` of the class
    means a and b, ``error`` its standard error where it is near 0, ``scatter`` the correlation of the covariances within classes, less
    what two balls would have. ``signal`` says whether both groups tell their classes apart at all (``classes`` may be nan else); of two classes, or
    three, the alignment is that of a direction or two, and clusters of one model may differ in these.
    """

    classes: float
    error: float
    scatter: float
    signal: bool
    classes_in_both: int = 0


def alignment(rows: Tensor, labels: Tensor, member: Tensor) -> Alignment | None:
    """How far two groups agree about their classes; None where fewer than two classes have two rows in both."""
    sides = (member, ~member)
    counts = torch.stack([torch.bincount(labels[side], minlength=int(labels.max()) + 1) for side in sides]).double()
    kept = (counts >= LEAST).all(dim=0)
    if int(kept.sum()) < 2:
        return None
    weights = torch.where(kept, counts.prod(dim=0) / counts.sum(dim=0).clamp(min=1), 0.0)
    weights = weights / weights.sum()
    parts = [_part(rows[side], labels[side], count, weights) for side, count in zip(sides, counts, strict=True)]
    (a, rest_a, labels_a), (b, rest_b, labels_b) = parts
    covariances = [rest.T @ rest / len(rest) for rest in (rest_a, rest_b)]
    squares, luck = zip(*(_square(*part, weights, cov) for part, cov in zip(parts, covariances, strict=True)), strict=True)
    scale = math.sqrt(squares[0] * squares[1]) if min(squares) > 0 else math.nan
    noise = float((covariances[0] * covariances[1]).sum()) * float((weights[kept] ** 2 / counts[:, kept].prod(dim=0)).sum())
    noise += _along(rest_a, labels_a, b, weights, counts[0]) + _along(rest_b, labels_b, a, weights, counts[1])
    signal = all(square > SIGNAL * error for square, error in zip(squares, luck, strict=True))
    together = float((weights * (a * b).sum(dim=1)).sum())
    scatter = _scatter((rest_a, rest_b), covariances)
    return Alignment(together / scale, math.sqrt(noise) / scale, scatter, signal, int(kept.sum()))


def _part(rows: Tensor, labels: Tensor, counts: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Class means less their weighted mean, and the rows of the classes that count less those, with their labels."""
    means = torch.zeros(len(counts), rows.shape[1], dtype=rows.dtype).index_add_(0, labels, rows)
    means = means / counts.clamp(min=1)[:, None]
    counted = weights[labels] > 0
    return means - weights @ means, (rows - means[labels])[counted], labels[counted]


def _square(means: Tensor, rest: Tensor, labels: Tensor, weights: Tensor, covariance: Tensor) -> tuple[float, float]:
    """The weighted mean square of class means less what noise adds, and what luck would make of no classes."""
    counts = torch.bincount(labels, minlength=len(weights)).double()
    spread = torch.zeros_like(counts).index_add_(0, labels, rest.square().sum(dim=1)) / (counts - 1).clamp(min=1)
    noise = weights * (1 - weights) * spread / counts.clamp(min=1)
    square = float((weights * means.square().sum(dim=1) - noise).sum())
    luck = 2 * float(covariance.square().sum()) * float((weights / counts.clamp(min=1)).square().sum())
    return square, math.sqrt(luck)


def _along(rest: Tensor, labels: Tensor, means: Tensor, weights: Tensor, counts: Tensor) -> float:
    """The variance that the rows of one group give to the products of its class means with those of the other."""
    along = (rest * means[labels]).sum(dim=1).square()
    sums = torch.zeros_like(counts).index_add_(0, labels, along)
    return float((weights.square() * sums / counts.clamp(min=1).square()).sum())


def _scatter(rests: tuple[Tensor, Tensor], covariances: list[Tensor]) -> float:
    """The correlation of two covariances less their balls; the square of each is that of two halves of its rows."""
    squares = []
    for rest in rests:
        order = torch.randperm(len(rest), generator=torch.Generator().manual_seed(0))
        first, second = (rest[half].T @ rest[half] / len(half) for half in order.chunk(2))
        squares.append(_beyond_balls(first, second))
    if min(squares) <= 0:
        return math.nan  # no direction in which rows scatter more than in others
    return _beyond_balls(*covariances) / math.sqrt(squares[0] * squares[1])


def _beyond_balls(first: Tensor, second: Tensor) -> float:
    return float((first * second).sum() - first.trace() * second.trace() / len(first))
