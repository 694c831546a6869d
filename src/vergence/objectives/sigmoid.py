"""SigLIP: every pair of a batch is a yes-or-no question; no sum over the batch ties the pairs together."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from vergence.objectives.gram import product, refuse_second_derivative
from vergence.objectives.inputs import directions, positive
from vergence.objectives.pairwise import ACCELERATOR_TILE, CPU_TILE, in_triton
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
    scale, shift = (_beside(u1, value) for value in (temperature, bias))
    if kernel := in_triton(u1, "triton_sigmoid"):
        return kernel.sigmoids(u1, u2, scale, shift)
    return _Sigmoids.apply(u1, u2, scale, shift)


def _beside(u: Tensor, value: float | Tensor) -> Tensor:
    """A number as a tensor where the rows are; an accelerator is not waited for."""
    return value.to(u) if isinstance(value, Tensor) else torch.full((), value, dtype=u.dtype, device=u.device)


class _Sigmoids(torch.autograd.Function):
    """``siglip`` of directions. All pairs weigh the same: the gradient is known, up to a factor, as the tiles pass."""

    @staticmethod
    def forward(ctx: Any, u1: Tensor, u2: Tensor, temperature: Tensor, bias: Tensor) -> Tensor:
        n, side = u1.shape[0], CPU_TILE if u1.device.type == "cpu" else ACCELERATOR_TILE
        grad1, grad2 = torch.zeros_like(u1), torch.zeros_like(u2)
        # Sums of n x n numbers: in float64 but on Apple's GPUs, which have none.
        wide = torch.float32 if u1.device.type == "mps" else torch.float64
        total, by_scale, by_shift = torch.zeros(3, dtype=wide, device=u1.device).unbind()
        for top in range(0, n, side):
            for left in range(0, n, side):
                rows, columns = u1[top : top + side], u2[left : left + side]
                scores = product(rows, columns.T)
                logits = scores * temperature + bias
                losses, slopes = softplus(logits), torch.sigmoid(logits)
                if top == left:
                    losses.diagonal().copy_(softplus(-logits.diagonal()))
                    slopes.diagonal().copy_(-torch.sigmoid(-logits.diagonal()))
                total += losses.sum()
                by_scale += torch.dot(slopes.flatten(), scores.flatten())
                by_shift += slopes.sum()
                grad1[top : top + side] += product(slopes, columns, scale=1 / n)
                grad2[left : left + side] += product(slopes.T, rows, scale=1 / n)
        grads = grad1.mul_(temperature), grad2.mul_(temperature)
        ctx.save_for_backward(*grads, (by_scale / n).to(u1), (by_shift / n).to(u1))
        return (total / n).to(u1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        refuse_second_derivative()
        return tuple(part * grad for part in ctx.saved_tensors)
