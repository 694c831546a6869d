"""Trials: what a defect costs and what a remedy gives, measured on these rows by leave-one-out nearest neighbors.

Everything is paired: the same rows are classified before and after, and the interval is that of the difference.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics.arrays import Array, drawn_rows, labels_for, lengths, rows_at, shape, unit
from vergence.diagnostics.estimate import Estimate, share

SAMPLE = 1500  # rows that trials run on: a difference of .02 is then about 2.5 standard errors
K = 10  # neighbors that vote
CERTAIN = 3.0  # standard errors: a dozen trials a set must not raise a false alarm in a hundred sets
SURE = 4.0  # standard errors of votes: several remedies are tried, and what is natural moves votes a little too
PLAIN = 3.0  # the same where the signature is plain: one chance in a hundred, shared by seven remedies
MATTERS = 0.02  # accuracy below which a cost is not called a fault


class Votes(NamedTuple):
    """Whether the ten nearest give a row its label, and which share of the twenty nearest has it."""

    right: Tensor
    own: Tensor


@dataclass(frozen=True)
class Tried:
    """What a change of the rows gives: ``gain`` in accuracy, and by how many standard errors the own votes rise.

    The share of votes is far less noisy than whether most are right: a change that needs 2,000 rows to show in the
    accuracy shows in the votes of 300.
    """

    gain: Estimate
    errors: float

    def pays(self, *, errors: float, certain: float = 0.0, least: float = MATTERS) -> bool:
        """Whether the gain matters, beyond luck by ``errors`` of the votes and by ``certain`` of the accuracy."""
        return self.errors > errors and costly(self.gain, least=least, certain=certain)


@dataclass(frozen=True, eq=False)
class Bench:
    """A sample of the rows, in file order, rescaled so that their median length is 1; with labels where there are."""

    rows: Tensor  # float64
    labels: Any  # a tensor 0 ... K - 1, or None
    index: np.ndarray  # where the rows stand in the file
    scale: float  # the median length that was divided by

    @property
    def n(self) -> int:
        return len(self.rows)

    @cached_property
    def lengths(self) -> Tensor:
        return lengths(self.rows)

    @cached_property
    def unit(self) -> Tensor:
        return unit(self.rows).float()

    @cached_property
    def similarity(self) -> Tensor:
        """Cosines, with -inf on the diagonal."""
        return without_self(self.unit @ self.unit.T)

    @cached_property
    def nearest(self) -> tuple[Tensor, Tensor]:
        """Cosines and indices of the 20 nearest others."""
        return tuple(self.similarity.topk(min(2 * K, self.n - 1), dim=1))  # type: ignore[return-value]

    @cached_property
    def votes(self) -> Votes:
        """What neighbors by cosine say of the labels, as the rows are."""
        return counted(self.nearest[1], self.labels)

    @property
    def correct(self) -> Any:
        """Which rows their neighbors classify correctly, as the rows are."""
        return None if self.labels is None else self.votes.right

    def of(self, kept: Tensor) -> "Bench":
        """Some of the rows."""
        labels = None if self.labels is None else self.labels[kept]
        return Bench(self.rows[kept], labels, self.index[kept.cpu().numpy()], self.scale)


def bench(h: Array, labels: Array | None = None, seed: int = 0) -> Bench:
    """At most 1500 rows drawn at random, stratified by label, in float64."""
    n, _ = shape(h)
    targets = None if labels is None else labels_for(labels, n)
    index = drawn_rows(n, SAMPLE, labels=targets, seed=seed)
    rows = rows_at(h, index).double().cpu()
    typical = lengths(rows)
    scale = float(typical[typical > 0].median()) if bool((typical > 0).any()) else 1.0
    return Bench(rows / scale, None if targets is None else targets[torch.from_numpy(index)], index, scale)


def without_self(scores: Tensor) -> Tensor:
    return scores.fill_diagonal_(-torch.inf)


def euclidean(rows: Tensor) -> Tensor:
    """Minus squared distances, with -inf on the diagonal."""
    centered = rows - rows.median(dim=0).values
    squares = centered.square().sum(dim=1)
    return without_self(2 * centered @ centered.T - squares[:, None] - squares[None, :])


def cosine(rows: Tensor) -> Tensor:
    directions = unit(rows).float()
    return without_self(directions @ directions.T)


def voted(nearest: Tensor, labels: Tensor, k: int = K) -> Tensor:
    """The label of most of the k nearest; among equals that of the nearer ones, so that names of classes do not matter.

    The nearest has a thousandth of a vote more, the next half of that, and so on: no two sets of ranks weigh the same.
    """
    nearest = nearest[:, :k]
    weights = 1 + 1e-3 * 0.5 ** torch.arange(nearest.shape[1], dtype=torch.float64)
    votes = torch.zeros(len(nearest), int(labels.max()) + 1, dtype=torch.float64)
    votes.scatter_add_(1, labels[nearest], weights.expand(nearest.shape).contiguous())
    return votes.argmax(dim=1)


def correct(scores: Tensor, labels: Tensor, k: int = K) -> Tensor:
    """Which rows are classified correctly by the k others with the highest scores."""
    nearest = scores.topk(min(k, len(scores) - 1), dim=1).indices
    return voted(nearest, labels, k) == labels


def accuracy(found: Tensor) -> Estimate:
    return share(float(found.double().mean()), n=len(found))


def difference(after: Tensor, before: Tensor) -> Estimate:
    """The mean of paired differences, with its interval; (+1) / (n + 2) discordant pairs keep it from being empty."""
    change = after.double() - before.double()
    n = len(change)
    value = float(change.mean())
    discordant = (float((change != 0).sum()) + 1) / (n + 2)
    error = math.sqrt(max(discordant - value**2, discordant / n) / n)
    return Estimate(value, value - 1.96 * error, value + 1.96 * error, n, "paired difference, leave-one-out neighbors")


def costly(cost: Estimate, *, least: float = MATTERS, certain: float = CERTAIN) -> bool:
    """Whether a cost matters and is beyond luck by three standard errors; fewer will do where a signature is plain."""
    error = (cost.high - cost.low) / (2 * 1.96)
    return cost.value >= least and cost.value > certain * error


def votes(scores: Tensor, labels: Tensor) -> Votes:
    """What the others with the highest scores say of each row's label."""
    return counted(scores.topk(min(2 * K, len(scores) - 1), dim=1).indices, labels)


def counted(nearest: Tensor, labels: Tensor) -> Votes:
    return Votes(voted(nearest, labels) == labels, (labels[nearest] == labels[:, None]).double().mean(dim=1))


def tried(after: Votes, before: Votes) -> Tried:
    return Tried(difference(after.right, before.right), standard_score(after.own - before.own))


def cross_fitted(changes: Sequence[tuple[Votes, Votes]]) -> tuple[int, Tried]:
    """The surest of several changes, after and before, and what it gives to rows that did not choose it.

    Each half of the rows is judged by the change whose votes rise most surely in the other half, so that the best of
    many has no luck in its favor.
    """
    scores = [_by_half(after.own - before.own) for after, before in changes]
    for_even, for_odd = (max(range(len(changes)), key=lambda i: scores[i][half]) for half in (1, 0))
    even = torch.arange(len(changes[0][0].own)) % 2 == 0
    after, before = (
        Votes(*(torch.where(even, x, y) for x, y in zip(changes[for_even][side], changes[for_odd][side], strict=True)))
        for side in (0, 1)
    )
    chosen = max(range(len(changes)), key=lambda i: standard_score(changes[i][0].own - changes[i][1].own))
    return chosen, tried(after, before)


def _by_half(change: Tensor) -> tuple[float, float]:
    return standard_score(change[::2]), standard_score(change[1::2])


def standard_score(change: Tensor) -> float:
    """The mean of paired changes over its standard error."""
    return float(change.mean() / (change.std() / len(change) ** 0.5).clamp(min=1e-12))


def mean_difference(after: list[Tensor], before: Tensor) -> Estimate:
    """The difference averaged over several draws of a trial, with the error of the rows."""
    mean = torch.stack([found.double() for found in after]).mean(dim=0)
    change = mean - before.double()
    n, value = len(change), float(change.mean())
    error = math.sqrt((float(change.var()) + 1 / n) / n)
    return Estimate(value, value - 1.96 * error, value + 1.96 * error, n, "paired difference, leave-one-out neighbors")


# What may be done to rows before they are compared. Each takes rows and gives rows.
def centered(rows: Tensor) -> Tensor:
    """Rows minus their mean."""
    return rows - rows.mean(dim=0)


def without_top(rows: Tensor, count: int = 1) -> Tensor:
    """Centered rows without their strongest directions.

    References:
        Mu & Viswanath (2018), all but the top. https://arxiv.org/abs/1702.01417
    """
    middle = centered(rows)
    directions = top_directions(middle, count)
    return middle - (middle @ directions) @ directions.T


def top_directions(middle: Tensor, count: int) -> Tensor:
    """The strongest directions of centered rows, as columns."""
    return strongest(middle, count)[2]


def strongest(middle: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The leading singular vectors and values, U, S and V, by subspace iteration from fixed random numbers.

    References:
        Halko, Martinsson & Tropp (2011), Algorithm 4.4. https://arxiv.org/abs/0909.4061
    """
    n, d = middle.shape
    if min(n, d) <= 2 * count + 16:
        u, values, v = torch.linalg.svd(middle, full_matrices=False)
        return u[:, :count], values[:count], v[:count].T
    generator = torch.Generator().manual_seed(0)
    basis = middle @ torch.randn(d, count + 12, generator=generator, dtype=middle.dtype)
    for _ in range(5):
        basis = middle @ (middle.T @ torch.linalg.qr(basis).Q)
    basis = torch.linalg.qr(basis).Q
    u, values, v = torch.linalg.svd(basis.T @ middle, full_matrices=False)
    return basis @ u[:, :count], values[:count], v[:count].T


def standardized(rows: Tensor) -> Tensor:
    """Columns with mean 0 and standard deviation 1; constant columns are 0."""
    spread = rows.std(dim=0)
    live = spread > 1e-9 * spread.max()
    return torch.where(live, centered(rows) / spread.clamp(min=1e-300), torch.zeros_like(rows))


def whitened(rows: Tensor) -> Tensor:
    """Centered rows with unit variance in every direction that has a thousandth of the strongest one's deviation."""
    u, values, _ = torch.linalg.svd(centered(rows), full_matrices=False)
    kept = values > 1e-3 * values[0]
    return u[:, kept] * math.sqrt(len(rows))


def clipped(rows: Tensor) -> Tensor:
    """Rows longer than three times the median length are shortened to it; where most rows are 0, none is."""
    length = lengths(rows)
    limit = 3 * float(length.median())
    if limit == 0:
        return rows
    return rows * (limit / length.clamp(min=limit))[:, None]


REMEDIES: dict[str, Callable[[Tensor], Tensor]] = {
    "center": centered,
    "remove the top direction": without_top,
    "remove the top three directions": lambda rows: without_top(rows, 3),
    "standardize the columns": standardized,
    "whiten": whitened,
    "clip the lengths": clipped,
    "divide by the lengths": unit,
}
