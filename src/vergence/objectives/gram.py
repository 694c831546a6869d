"""Sums of squared inner products, through the smaller of the two matrices that have them."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.types import Scalar


def squared_scores(z1: Float[Tensor, "m d"], z2: Float[Tensor, "k d"]) -> Scalar:
    r"""The sum of all squared inner products, :math:`\sum_{ij} (z_{1i} \cdot z_{2j})^2`, through the smallest matrix.

    That is :math:`\|Z_1 Z_2^\top\|_F^2 = \langle Z_1^\top Z_1, Z_2^\top Z_2 \rangle`: rows by rows, or width by width.
    """
    return _SquaredScores.apply(z1, z2)


def refuse_second_derivative() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError("This objective has no second derivative: call backward without create_graph=True.")


def product(left: Tensor, right: Tensor, *, scale: float = 1.0) -> Tensor:
    """A matrix product outside the graph, times a number, in the precision of its factors also under autocast."""
    out = left.new_empty(left.shape[0], right.shape[1])
    return torch.addmm(out, left, right, beta=0, alpha=scale, out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor, scale: float) -> None:
    """Add the product of two matrices, times a number, to the total."""
    torch.addmm(total, left, right, alpha=scale, out=total)


class _SquaredScores(torch.autograd.Function):
    """The squared norm of ``z1 @ z2.T`` from two Gram matrices, or from the product itself if that is smaller."""

    @staticmethod
    def forward(ctx: Any, z1: Tensor, z2: Tensor) -> Tensor:
        # Two Gram matrices and two gradients of that width, against three products of rows by rows.
        ctx.by_width = 2 * z1.shape[1] * (len(z1) + len(z2)) <= 3 * len(z1) * len(z2)
        left, right = (product(z1.T, z1), product(z2.T, z2)) if ctx.by_width else (product(z1, z2.T), None)
        ctx.save_for_backward(z1, z2, left, right)
        return torch.dot(left.flatten(), (left if right is None else right).flatten())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        refuse_second_derivative()
        z1, z2, left, right = ctx.saved_tensors
        factors = ((z1, right), (z2, left)) if ctx.by_width else ((left, z2), (left.T, z1))
        # Gradients of transposed embeddings are laid out as these are.
        first, second = (product(a, b) if z1.is_contiguous() else product(b.T, a.T).T for a, b in factors)
        return first.mul_(2 * grad), second.mul_(2 * grad)
