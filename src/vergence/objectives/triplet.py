"""The triplet objective: one mined negative per anchor instead of a sum over all."""

from collections.abc import Callable

import torch
from torch import Tensor

from vergence.objectives.gram import product
from vergence.objectives.inputs import not_negative, stacked_directions
from vergence.tables import Table
from vergence.types import Embedding, Scalar

# Rows of scores mined together: a few megabytes for the largest batches.
BLOCK = 512


def triplet(z1: Embedding, z2: Embedding, *, margin: float = 0.5, mining: str = "semi_hard") -> Scalar:
    r"""The positive must be closer than a mined negative by a margin.

    .. math:: \mathbb{E} \max(0, \|u - u^+\|^2 - \|u - u^-\|^2 + m)

    Both views are anchors; the negative is one of the other 2n - 2 embeddings. ``hard``: the nearest. ``semi_hard``:
    the nearest of those farther than the positive, or the farthest of all if none is. Distances are squared, as in the
    paper (pytorch-metric-learning takes the root), and the mean is over all anchors, satisfied ones too.

    References:
        Schroff et al. (2015), eqs. 2-4. https://arxiv.org/abs/1503.03832
    """
    not_negative(margin=margin)
    mine = MINING[mining]
    u = stacked_directions(z1=z1, z2=z2)
    partner = u.roll(u.shape[0] // 2, 0)
    negative = u[_mined(u.detach(), mine)]
    # On the sphere the difference of squared distances is twice the difference of cosines.
    return torch.relu(2 * (u * (negative - partner)).sum(1) + margin).mean()


def _mined(u: Tensor, mine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """For each row the index of the negative that ``mine`` picks from its scores."""
    n = u.shape[0] // 2
    chosen = []
    for top in range(0, 2 * n, BLOCK):
        scores = product(u[top : top + BLOCK], u.T)
        rows = torch.arange(top, top + scores.shape[0], device=u.device)
        positive = scores.gather(1, ((rows + n) % (2 * n))[:, None])
        for offset in (0, n, -n):
            scores.diagonal(top + offset).fill_(torch.nan)
        chosen.append(mine(scores, positive))
    return torch.cat(chosen)


def _hard(scores: Tensor, positive: Tensor) -> Tensor:
    return scores.nan_to_num(nan=-torch.inf).argmax(1)


def _semi_hard(scores: Tensor, positive: Tensor) -> Tensor:
    nearest = torch.where(scores < positive, scores, -torch.inf)
    farthest = scores.nan_to_num(nan=torch.inf).argmin(1)
    return torch.where(nearest.amax(1) > -torch.inf, nearest.argmax(1), farthest)


MINING = Table("mining", {"hard": _hard, "semi_hard": _semi_hard})
