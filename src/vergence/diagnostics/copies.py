"""Copies: rows that repeat others, exactly or more nearly than chance explains, and what they add to accuracy."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.arrays import Array, chunks, shape
from vergence.diagnostics.estimate import Estimate, share
from vergence.diagnostics.trials import Bench

CHANCE = 1e-3  # share of rows that may look like twins by chance
NEARER = 0.1  # a twin is at most a tenth as far as the fifth neighbor, however high the dimension
LUCK = 1e-3  # chance that a thinning cloud looks like twins
RANK = 5  # the neighbor that the nearest is compared with


@dataclass(frozen=True)
class Copies:
    """``exact`` rows of the whole file repeat an earlier one bit by bit; ``share`` of a sample has a twin.

    ``accuracy`` is that of neighbors as the rows are, ``inflation`` how much of it the twins give; None without labels.
    """

    exact: int
    share: Estimate
    n: int
    accuracy: Estimate | None = None
    inflation: Estimate | None = None
    later: float = 0.0  # share of the sample that has an earlier twin

    @property
    def superfluous(self) -> float:
        """The share of rows that could go: of two twins one."""
        return max(self.exact / self.n, self.later)

    def to_dict(self) -> dict[str, Any]:
        named = {name: found.to_dict() for name, found in vars(self).items() if isinstance(found, Estimate)}
        return {"value": max(self.exact / self.n, self.share.value), "exact": self.exact, "n": self.n, **named}


def duplicates(h: Array, labels: Array | None = None, *, seed: int = 0) -> Copies:
    """Exact copies among all rows, near ones in a sample; with labels, what they add to the accuracy of neighbors."""
    return copies(trials.bench(h, labels, seed), exact_copies(h), shape(h)[0])


def exact_copies(h: Array) -> int:
    """Rows that repeat an earlier row bit by bit, among all rows; rows of zeros are counted elsewhere."""
    shape(h)
    found = [(_digests(chunk), (chunk != 0).any(dim=1).cpu().numpy()) for chunk in chunks(h)]
    digests, filled = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return int(filled.sum()) - len(np.unique(digests[filled]))


def copies(body: Bench, exact: int, n: int) -> Copies:
    """Twins: rows whose nearest other is far nearer than the local density explains.

    In m dimensions of even density, r1 / r5 of the distances to the first and fifth neighbor is below q with chance
    1 - (1 - q^m)^4. m is estimated from the median of r1 / r5 of rows that are no twins; twins are those below the q
    that has chance 1e-3, and below a tenth. So a cloud of few dimensions, where rows are close by nature, has none.

    References:
        Facco et al. (2017), the dimension from two neighbors. https://doi.org/10.1038/s41598-017-11873-y
    """
    squared = (-trials.euclidean(body.rows)).clamp(min=0).double()
    squared.fill_diagonal_(torch.inf)
    k = min(RANK, body.n - 1)
    nearest = squared.topk(k, dim=1, largest=False)
    distances = nearest.values.sqrt()
    # Rounding: squared distances are differences of numbers of about 1.
    floor = 1e-6 * float(distances[:, -1].median())
    first = torch.where(distances[:, 0] < floor, torch.zeros_like(distances[:, 0]), distances[:, 0])
    ratio = first / distances[:, -1].clamp(min=floor)
    twin = _twins(ratio)
    found = share(float(twin.double().mean()), n=body.n)
    # Twins of twins too: all rows nearer than the threshold of the pair.
    limit = torch.where(twin, 1.5 * distances[:, 0].clamp(min=floor), torch.full_like(first, -1.0))
    close = squared.sqrt() <= limit[:, None]
    later = float(close.tril().any(dim=1).double().mean())
    if body.labels is None:
        return Copies(exact, found, n, later=later)
    scores = body.similarity.clone()
    scores[close] = -torch.inf
    # Of cosines that are equal to the digit others may be chosen: only rows with a twin are asked again.
    without = torch.where(twin, trials.correct(scores, body.labels), body.correct)
    return Copies(exact, found, n, trials.accuracy(body.correct), trials.difference(body.correct, without), later)


def _twins(ratio: Tensor) -> Tensor:
    """Ratios of distances below the threshold, where they are more than any even density explains.

    Of rows of m dimensions 2^-m of the ratios below twice the threshold are below it, half at most; where parts of a
    cloud have fewer dimensions than its median, more are below but they thin out all the same.
    """
    from scipy.special import bdtrc  # scipy.stats takes half a second to import

    limit = _threshold(ratio)
    twin = ratio < limit
    near = int((twin & (ratio > 0)).sum())
    beside = int(((ratio >= limit) & (ratio < 2 * limit)).sum())
    if near and bdtrc(near - 1, near + beside, 0.5) > LUCK:
        return ratio <= 0
    return twin


def _threshold(ratio: Tensor) -> float:
    """The ratio that chance undercuts in a thousandth of rows, given the dimension that rows without a twin show."""
    limit = 0.02  # twins that no density explains; what they leave is looked at again
    for _ in range(4):
        middle = float(ratio[ratio > limit].median()) if bool((ratio > limit).any()) else 1.0
        # (r1 / r5)^m has the law Beta(1, 4), whose median is 1 - 2^(-1/4).
        dimension = np.log(1 - 0.5**0.25) / np.log(min(max(middle, 1e-6), 0.999))
        limit = min(NEARER, float((1 - (1 - CHANCE) ** 0.25) ** (1 / dimension)))
    return limit


def _digests(chunk: Tensor) -> np.ndarray:
    """A 64-bit fingerprint of every row: equal for equal rows, and for unequal rows once in 2^64."""
    rows = np.ascontiguousarray(chunk.cpu().numpy() + 0.0)  # minus zero becomes zero
    words = rows.view(np.uint32).reshape(len(rows), -1).astype(np.uint64)
    keys = np.random.default_rng(0).integers(1, 2**63, size=words.shape[1], dtype=np.uint64) | np.uint64(1)
    mixed = (words + np.uint64(0x9E3779B97F4A7C15)) * keys
    mixed ^= mixed >> np.uint64(29)
    return (mixed * keys[::-1]).sum(axis=1, dtype=np.uint64)
