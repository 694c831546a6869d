"""SigLIP's sum over all pairs in Triton, on the tiles of the pairwise kernel; ``sigmoid`` holds its reference in torch.

All pairs weigh the same, so the gradient is known, up to a factor, as the tiles pass. A program owns a block of rows:
nothing is added atomically, and the result is the same bits every time. Columns are the rows of a second pass.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from vergence.objectives.gram import refuse_second_derivative
from vergence.objectives.triton_pairwise import SIDE, options
from vergence.objectives.triton_tiles import dots


def sigmoids(u1: Tensor, u2: Tensor, temperature: Tensor, bias: Tensor) -> Tensor:
    """The mean over rows of the log-sigmoids of all pairs; ``temperature`` multiplies the inner products."""
    return _Sigmoids.apply(u1, u2, temperature, bias)


@triton.jit
def pairs_of_a_block(
    rows,
    columns,
    temperature_at,
    bias_at,
    grad,
    sums,
    n,
    d,
    SIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDEN: tl.constexpr,
    BACK: tl.constexpr,
):
    """Per row: the sums of losses, of slopes times products and of slopes, and the gradient; ``grad`` starts at 0.

    The loss of a pair is softplus(-y logit) with y = 1 for the own pair and -1 for others, its slope -y sigmoid(-y
    logit). ``softplus(x) = max(x, 0) + log(1 + exp(-|x|))``.
    """
    r = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    temperature, bias = tl.load(temperature_at), tl.load(bias_at)
    losses = tl.zeros([SIDE], dtype=ACC)
    by_scale = tl.zeros([SIDE], dtype=ACC)
    by_shift = tl.zeros([SIDE], dtype=ACC)
    for start in range(0, n, SIDE):
        c = start + tl.arange(0, SIDE)
        products = dots(rows, columns, r, c, n, n, d, WIDTH, ACC, PRECISION, WIDEN)
        sign = tl.where(r[:, None] == c[None, :], -1.0, 1.0)
        kept = (r[:, None] < n) & (c[None, :] < n)
        x = sign * (products * temperature + bias)
        small = tl.exp(-tl.abs(x))
        slope = tl.where(kept, sign * tl.where(x >= 0, 1.0, small) / (1.0 + small), 0.0)
        losses += tl.sum(tl.where(kept, tl.maximum(x, 0.0) + tl.log(1.0 + small), 0.0), 1)
        by_scale += tl.sum(slope * products, 1)
        by_shift += tl.sum(slope, 1)
        for first in range(0, d, WIDTH):
            k = first + tl.arange(0, WIDTH)
            at, inside = r[:, None].to(tl.int64) * d + k[None, :], (r[:, None] < n) & (k[None, :] < d)
            at_columns, known = c[:, None].to(tl.int64) * d + k[None, :], (c[:, None] < n) & (k[None, :] < d)
            right = tl.load(columns + at_columns, mask=known, other=0.0).to(ACC)
            moved = tl.dot(slope.to(ACC), right, input_precision=BACK, out_dtype=ACC)
            tl.store(grad + at, tl.load(grad + at, mask=inside, other=0.0) + moved, mask=inside)
        tl.debug_barrier()  # the next columns add to what these wrote
    tl.store(sums + r, losses, mask=r < n)
    tl.store(sums + n + r, by_scale, mask=r < n)
    tl.store(sums + 2 * n + r, by_shift, mask=r < n)


class _Sigmoids(torch.autograd.Function):
    """``sigmoids`` with its gradient, which the forward pass leaves behind."""

    @staticmethod
    def forward(ctx: Any, u1: Tensor, u2: Tensor, temperature: Tensor, bias: Tensor) -> Tensor:
        n = len(u1)
        grad1, sums = _passed(u1, u2, temperature, bias)
        grad2, _ = _passed(u2, u1, temperature, bias)
        total, by_scale, by_shift = (sums.double().sum(1) / n).to(temperature.dtype)
        ctx.save_for_backward(grad1 * temperature / n, grad2 * temperature / n, by_scale, by_shift)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        refuse_second_derivative()
        return tuple(part * grad for part in ctx.saved_tensors)


def _passed(rows: Tensor, columns: Tensor, temperature: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of the rows but for its factor, and the three sums of each row."""
    n, d = rows.shape
    rows, columns = rows.contiguous(), columns.contiguous()
    grad, sums = torch.zeros_like(rows), rows.new_empty(3, n)
    pairs_of_a_block[(triton.cdiv(n, SIDE),)](
        rows, columns, temperature, bias, grad, sums, n, d, **options(rows), BACK=options(rows)["PRECISION"]
    )
    return grad, sums
