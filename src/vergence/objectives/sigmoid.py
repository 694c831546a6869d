"""SigLIP: every pair of a batch is a yes-or-no question; no sum over the batch ties the pairs together."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from vergence.objectives.gram import product, refuse_second_derivative
from vergence.objectives.inputs import directions, positive
from vergence.objectives.pairwise import ACCELERATOR_TILE, CPU_TILE
from vergence.types import Embedding, Scalar


def siglip(z1: Embedding, z2: Embedding, *, temperature: float | Scalar = 10.0, bias: float | Scalar = -10.0) -> Scalar:
    r"""Log-sigmoids of all pairs: own pairs should score above, others below.

    .. math:: -\frac1n \sum_{ij} \log \sigma\left(y_{ij} (t\, u_{1i} \cdot u_{2j} + b)\right),
        \qquad y_{ii} = 1,\ y_{ij} = -1

    on directions. A warning: this ``temperature`` is the paper's t, which **multiplies** the similarity, where that of
    every other objective divides it. Both are learned from 10 and -10, so that a batch starts near
    :math:`t - b = 20`, not at chance. The value when all embeddings coincide is :math:`\log(1 + e^{-t-b}) + (n - 1)
    \log(1 + e^{t+b})`, which is n log 2 for the start. Scores are computed in tiles: O(n) memory.

    References:
        Zhai et al. (2023), Eq. 1 and Alg. 1. https://arxiv.org/abs/2303.15343
    """
    positive(temperature=temperature)
    u1, u2 = directions(z1=z1, z2=z2)
    return _Sigmoids.apply(
        u1, u2, *(torch.as_tensor(value, dtype=u1.dtype, device=u1.device) for value in (temperature, bias))
    )


class _Sigmoids(torch.autograd.Function):
    """``siglip`` of directions. All pairs weigh the same: the gradient is known, up to a factor, as the tiles pass."""

    @staticmethod
    def forward(ctx: Any, u1: Tensor, u2: Tensor, temperature: Tensor, bias: Tensor) -> Tensor:
        n, side = u1.shape[0], CPU_TILE if u1.device.type == "cpu" else ACCELERATOR_TILE
        scale, shift = float(temperature), float(bias)
        grad1, grad2 = torch.zeros_like(u1), torch.zeros_like(u2)
        total, by_scale, by_shift = torch.zeros(3, dtype=torch.float64)
        for top in range(0, n, side):
            for left in range(0, n, side):
                rows, columns = u1[top : top + side], u2[left : left + side]
                scores = product(rows, columns.T)
                logits = scores * scale + shift
                losses, slopes = softplus(logits), torch.sigmoid(logits)
                if top == left:
                    losses.diagonal().copy_(softplus(-logits.diagonal()))
                    slopes.diagonal().copy_(-torch.sigmoid(-logits.diagonal()))
                total += losses.sum().double().cpu()
                by_scale += torch.dot(slopes.flatten(), scores.flatten()).double().cpu()
                by_shift += slopes.sum().double().cpu()
                grad1[top : top + side] += product(slopes, columns, scale=scale / n)
                grad2[left : left + side] += product(slopes.T, rows, scale=scale / n)
        ctx.save_for_backward(grad1, grad2, (by_scale / n).to(u1), (by_shift / n).to(u1))
        return (total / n).to(u1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        refuse_second_derivative()
        return tuple(part * grad for part in ctx.saved_tensors)
