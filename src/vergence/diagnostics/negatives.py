"""Negatives: how many are false, how many count, and whether their gradient has vanished."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import estimate
from vergence.diagnostics.arrays import Array, labels_for, sampled, shape, unit
from vergence.diagnostics.estimate import Estimate

BATCHES = 16


@dataclass(frozen=True)
class Negatives:
    """What the negatives of a batch of ``batch`` pairs are like.

    ``false_share`` of the negatives are positives in truth, judged ``by`` labels or neighbors; a class that is one
    point would give nt_xent at least ``floor``. ``effective`` is the effective sample size over the number of
    negatives, in (0, 1]. ``vanished_*`` is the share of anchors whose positive has gradient exactly zero.
    """

    false_share: Estimate
    by: str
    floor: float
    effective: Estimate
    vanished_float32: float
    vanished_float16: float
    batch: int
    temperature: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def negatives(
    z1: Array,
    z2: Array,
    *,
    labels: Array | None = None,
    batch: int = 256,
    temperature: float = 0.5,
    seed: int = 0,
) -> Negatives:
    """False negatives and the floor they imply, effective sample size, vanished gradients.

    References:
        Chen et al. (2021), FlatNCE: effective sample size and vanishing. https://arxiv.org/abs/2107.01152
    """
    if shape(z1, "z1") != shape(z2, "z2"):
        raise ValueError(f"The views must have one shape; z1 has {list(z1.shape)}, z2 has {list(z2.shape)}")
    batch = min(batch, len(z1))
    # Both views of one sample of rows: the seed is the same.
    first, second = (unit(sampled(z, BATCHES * batch, seed=seed)) for z in (z1, z2))
    false_share = same_class(labels, len(z1)) if labels is not None else closer_than_positive(first, second)
    measured = [_batch(part1, part2, temperature) for part1, part2 in _batches(first, second, batch, seed)]
    effective, vanished32, vanished16 = (torch.cat(column) for column in zip(*measured, strict=True))
    return Negatives(
        false_share,
        "labels" if labels is not None else "neighbors closer than the positive, both ways",
        false_negative_floor(false_share.value, n=batch, temperature=temperature),
        estimate.mean(effective.double().cpu().numpy()),
        float(vanished32.double().mean()),
        float(vanished16.double().mean()),
        batch,
        temperature,
    )


def same_class(labels: Array, n: int) -> Estimate:
    """The chance that a negative has the class of its anchor: sum over classes of n_k (n_k - 1) / (n (n - 1))."""
    targets = labels_for(labels, n)
    counts = torch.bincount(targets).double()
    mates = (counts[targets] - 1) / (n - 1)
    return estimate.normal(float(mates.mean()), 2 * float(mates.std()) / math.sqrt(n), n=n, method="U-statistic")


def closer_than_positive(first: Tensor, second: Tensor) -> Estimate:
    """The share of negatives closer to an anchor than its positive, and the other way round: a guess without labels."""
    scores = first @ second.T
    own = scores.diagonal()
    closer = scores > torch.maximum(own[:, None], own[None, :])
    closer = closer & closer.T
    return estimate.mean((closer.sum(dim=1) / (len(first) - 1)).double().cpu().numpy())


def false_negative_floor(share: float, *, n: int, temperature: float) -> float:
    """Mean nt_xent when false negatives coincide with their anchor and all others are opposite to it.

    E log(1 + M + (2n - 2 - M) exp(-2 / T)) with M / 2 binomial: of n - 1 samples, each is false with chance ``share``.
    """
    from scipy.special import gammaln, xlog1py, xlogy  # scipy.stats takes half a second to import

    false = 2 * np.arange(n)
    values = np.log1p(false + (2 * n - 2 - false) * math.exp(-2 / temperature))
    count, rest = np.arange(n), np.arange(n)[::-1]
    ways = gammaln(n) - gammaln(count + 1) - gammaln(rest + 1)
    return float(values @ np.exp(ways + xlogy(count, share) + xlog1py(rest, -share)))


def _batches(first: Tensor, second: Tensor, batch: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(seed)).to(first.device)
    return [(first[part], second[part]) for part in order.split(batch) if len(part) == batch]


def _batch(first: Tensor, second: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Per anchor of one batch: effective share of its negatives, and whether its positive's gradient is zero."""
    z = torch.cat([first, second])
    anchors = torch.arange(len(z), device=z.device)
    partner = anchors.roll(len(first))
    scores = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
    gap = scores - scores[anchors, partner][:, None]
    weight = scores.index_put((anchors, partner), scores.new_tensor(-torch.inf)).softmax(dim=1)
    effective = 1 / weight.square().sum(dim=1) / (len(z) - 2)
    return effective, _vanished(gap, torch.float32), _vanished(gap, torch.float16)


def _vanished(gap: Tensor, dtype: torch.dtype) -> Tensor:
    """Where 1 - p, the gradient of the positive in units of 1 / T, is exactly zero: p = 1 / sum exp(gap)."""
    total = gap.to(dtype).exp().sum(dim=1)
    return 1 - 1 / total <= 0
