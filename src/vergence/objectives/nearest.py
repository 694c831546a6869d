"""KoLeo: keep every embedding away from its nearest neighbor."""

import torch
from torch import Tensor

from vergence.objectives.gram import product
from vergence.objectives.inputs import directions
from vergence.objectives.pairwise import CPU_TILE
from vergence.types import Embedding, Keys, Scalar

# DINOv2's own epsilon: rows that coincide have distance 0, whose logarithm is not finite.
SMALLEST = 1e-8


def koleo(z: Embedding) -> Scalar:
    r"""Minus the mean logarithm of the distance to the nearest other row: :math:`-\frac1n \sum_i \log \min_{j \ne i}
    \|u_i - u_j\|` on directions. Lower is better.

    Up to constants it is the Kozachenko-Leonenko estimate of minus the entropy, and is least where rows are spread
    evenly. Distances below 1e-8 count as 1e-8, so that n rows that coincide have 18.42. It says nothing of views: use
    it beside an objective (``--heads.koleo 0.1``), as DINOv2 does.

    References:
        Sablayrolles et al. (2019), Eq. 2. https://arxiv.org/abs/1806.03198
        Oquab et al. (2023), DINOv2, Sec. 4. https://arxiv.org/abs/2304.07193
    """
    (u,) = directions(z=z)
    # From the difference itself: 2 - 2 u.v would lose the distances that matter most.
    squared = (u - u[nearest(u.detach())]).square().sum(1)
    return -squared.clamp(min=SMALLEST**2).log().mean() / 2


def nearest(u: Tensor, candidates: Tensor | None = None) -> Keys:
    """The number of the candidate nearest to each unit row; without candidates, of the nearest other row."""
    found = []
    for top, rows in zip(range(0, len(u), CPU_TILE), u.split(CPU_TILE), strict=True):
        scores = product(rows, (u if candidates is None else candidates).T)
        if candidates is None:
            scores.diagonal(top).fill_(-torch.inf)
        found.append(scores.argmax(1))
    return torch.cat(found)
