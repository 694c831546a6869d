"""The one kernel: log-sum-exp of all pairs of scores, in tiles, with its gradient. Exact, and O(n) in memory.

Scores are inner products of directions (rows of length one) divided by the temperature. Each objective with n x n
interactions is a short formula over the *contrast* of an anchor, ``logsumexp(negatives) - positive``, or over the
log-sum-exp alone. No matrix of scores outlives its tile, but for a few megabytes kept for the backward pass.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from vergence.types import Embedding, Negatives, Scalar, Vector

# Scores up to 70 need no maximum subtracted: float32 holds exp(88), which leaves room to add exp(18) of them, and the
# smallest, exp(-70), is a normal number.
STEEP = 70.0
# A tile of 512 x 512 scores is 1 MiB in float32: it stays in the cache of a CPU core between its product, its
# exponential and its sums. An accelerator wants fewer and larger products.
CPU_TILE = 512
ACCELERATOR_TILE = 4096
# Exponentials kept for the backward pass: 16 MiB in float32 spare a batch of up to 1400 pairs its second product.
KEPT = 2**22


def contrast(u1: Embedding, u2: Embedding, *, temperature: float | Scalar) -> Float[Tensor, " 2*n"]:
    r"""The contrast of all 2n anchors of two views: logsumexp of the 2n - 2 negatives' scores, minus the positive's."""
    z = torch.cat([u1, u2]) * temperature**-0.5
    if _is_steep(temperature):
        n = u1.shape[0]
        return _steep(z, z, (0, n, -n)) - (z * z.roll(n, 0)).sum(1)
    return _Pairs.apply(z, None, u1.shape[0])[0]


def cross_contrast(query: Embedding, key: Embedding, *, temperature: float | Scalar) -> tuple[Vector, Vector]:
    """The contrast of every query against all keys, and of every key against all queries."""
    scaled = query / temperature
    if _is_steep(temperature):
        positive = (scaled * key).sum(1)
        return _steep(scaled, key, (0,)) - positive, _steep(key, scaled, (0,)) - positive
    return _Pairs.apply(scaled, key, 0)


def log_sums(u: Embedding, *, temperature: float | Scalar) -> Vector:
    """Per row, the log-sum-exp of its scores with all other rows."""
    z = u * temperature**-0.5
    return _steep(z, z, (0,)) if _is_steep(temperature) else _Pairs.apply(z, None, None)[0]


def cross_log_sums(query: Embedding, candidates: Negatives, *, temperature: float | Scalar) -> Vector:
    """Per query, the log-sum-exp of its scores with all candidates."""
    scaled = query / temperature
    steep = _is_steep(temperature)
    return _steep(scaled, candidates, ()) if steep else _Pairs.apply(scaled, candidates, None)[0]


def squared_scores(z1: Float[Tensor, "m d"], z2: Float[Tensor, "k d"]) -> Scalar:
    r"""The sum of all squared inner products, :math:`\sum_{ij} (z_{1i} \cdot z_{2j})^2`, through the smallest matrix.

    That is :math:`\|Z_1 Z_2^\top\|_F^2 = \langle Z_1^\top Z_1, Z_2^\top Z_2 \rangle`: rows by rows, or width by width.
    """
    return _SquaredScores.apply(z1, z2)


class _Pairs(torch.autograd.Function):
    """Logarithms of the sums of ``exp(rows @ columns.T)`` along its rows and along its columns.

    Without ``columns`` the rows meet themselves: the matrix is symmetric, its diagonal is left out, and a tile above it
    serves two blocks of anchors. With ``partner``, the score of row i and column i + partner is the positive: left out
    of the sums, and subtracted from their logarithms.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, columns: Tensor | None, partner: int | None) -> tuple[Tensor, Tensor | None]:
        symmetric, columns = columns is None, rows if columns is None else columns
        row_sums = rows.new_zeros(rows.shape[0])
        column_sums = row_sums if symmetric else rows.new_zeros(columns.shape[0])
        positive = rows.new_zeros(rows.shape[0])
        spare = KEPT if any(ctx.needs_input_grad) else 0
        ctx.kept = []
        for i, j, tile in _tiles(rows, columns, symmetric):
            spare -= tile.numel()
            if spare >= 0:
                tile = torch.empty_like(tile)
                ctx.kept.append(tile)
            torch.mm(rows[i], columns[j].T, out=tile)
            for scores, pairs in _positives(tile, i, j, partner, symmetric):
                positive[pairs] = scores
            _exponentiate(tile, i, j, partner, symmetric)
            row_sums[i] += tile.sum(1)
            if not (symmetric and i == j):
                column_sums[j] += tile.sum(0)
        ctx.save_for_backward(rows, columns, row_sums, column_sums)
        ctx.partner, ctx.symmetric = partner, symmetric
        ctx.set_materialize_grads(False)
        if partner:
            positive[partner:] = positive[:partner]
        return row_sums.log() - positive, None if symmetric or partner is None else column_sums.log() - positive

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, row_grad: Tensor | None, column_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        rows, columns, row_sums, column_sums = ctx.saved_tensors
        symmetric, partner = ctx.symmetric, ctx.partner
        row_grad = torch.zeros_like(row_sums) if row_grad is None else row_grad
        column_grad = torch.zeros_like(column_sums) if column_grad is None else column_grad
        pull = -row_grad - (row_grad.roll(partner) if partner else column_grad) if partner is not None else None
        row_weights = row_grad / row_sums
        column_weights = row_weights if symmetric else column_grad / column_sums
        rows_grad = torch.zeros_like(rows)
        columns_grad = rows_grad if symmetric else torch.zeros_like(columns)
        kept = iter(ctx.kept)
        for i, j, tile in _tiles(rows, columns, symmetric):
            exponentials = next(kept, None)
            weights = row_weights[i, None] + column_weights[j]
            if exponentials is None:
                exponentials = torch.mm(rows[i], columns[j].T, out=tile)
                _exponentiate(tile, i, j, partner, symmetric)
            weights.mul_(exponentials)
            for scores, pairs in _positives(weights, i, j, partner, symmetric):
                scores.copy_(pull[pairs])  # type: ignore[index]
            rows_grad[i].addmm_(weights, columns[j])
            if not (symmetric and i == j):
                columns_grad[j].addmm_(weights.T, rows[i])
        return rows_grad, None if symmetric else columns_grad, None


class _SquaredScores(torch.autograd.Function):
    """The squared norm of ``z1 @ z2.T`` from two Gram matrices, or from the product itself if that is smaller."""

    @staticmethod
    def forward(ctx: Any, z1: Tensor, z2: Tensor) -> Tensor:
        ctx.by_width = 2 * z1.shape[1] <= len(z1) + len(z2)
        if ctx.by_width:
            left, right = _product(z1.T, z1), _product(z2.T, z2)
        else:
            left = right = _product(z1, z2.T)
        ctx.save_for_backward(z1, z2, left, right)
        return torch.dot(left.flatten(), right.flatten())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        z1, z2, left, right = ctx.saved_tensors
        if ctx.by_width:
            return _product(z1, right).mul_(2 * grad), _product(z2, left).mul_(2 * grad)
        return _product(left, z2).mul_(2 * grad), _product(left.T, z1).mul_(2 * grad)


def _product(left: Tensor, right: Tensor) -> Tensor:
    # With out= given, autocast does not lower the precision.
    return torch.mm(left, right, out=left.new_empty(left.shape[0], right.shape[1]))


def _tiles(rows: Tensor, columns: Tensor, symmetric: bool) -> Iterator[tuple[slice, slice, Tensor]]:
    """Blocks of rows and of columns, with room for their scores that the next block takes again."""
    side = CPU_TILE if rows.device.type == "cpu" else ACCELERATOR_TILE
    room = rows.new_empty(min(side, len(rows)) * min(side, len(columns)))
    for top in range(0, len(rows), side):
        i = slice(top, min(top + side, len(rows)))
        for left in range(top if symmetric else 0, len(columns), side):
            j = slice(left, min(left + side, len(columns)))
            height, width = i.stop - i.start, j.stop - j.start
            yield i, j, room[: height * width].view(height, width)


def _exponentiate(tile: Tensor, i: slice, j: slice, partner: int | None, symmetric: bool) -> None:
    """Scores to exponentials in place, nought where the pair is not a negative."""
    tile.exp_()
    if symmetric and i == j:
        tile.fill_diagonal_(0.0)
    for scores, _ in _positives(tile, i, j, partner, symmetric):
        scores.zero_()


def _positives(
    tile: Tensor, i: slice, j: slice, partner: int | None, symmetric: bool
) -> Iterator[tuple[Tensor, slice]]:
    """The parts of a tile that hold positive pairs, each with which pairs they are."""
    if partner is None:
        return
    for offset in (partner, -partner) if symmetric else (partner,):
        shift = offset + i.start - j.start
        scores = tile.diagonal(shift)
        first = min(i.start + max(0, -shift), j.start + max(0, shift))
        if len(scores):
            yield scores, slice(first, first + len(scores))


def _is_steep(temperature: float | Tensor) -> bool:
    return 1 / float(temperature.detach() if isinstance(temperature, Tensor) else temperature) > STEEP


def _steep(rows: Tensor, columns: Tensor, excluded: tuple[int, ...]) -> Tensor:
    """Row-wise log-sum-exp with the maximum subtracted, in blocks of rows that the backward pass computes again.

    Row i leaves out the columns i + offset for the offsets ``excluded``.
    """

    def block(rows: Tensor, columns: Tensor, top: int) -> Tensor:
        scores = torch.addmm(rows.new_zeros(()), rows, columns.T)
        for offset in excluded:
            scores.diagonal(top + offset).fill_(-torch.inf)
        return scores.logsumexp(1)

    with torch.autocast(rows.device.type, enabled=False):
        tops = range(0, len(rows), CPU_TILE)
        return torch.cat(
            [checkpoint(block, rows[top : top + CPU_TILE], columns, top, use_reentrant=False) for top in tops]
        )
