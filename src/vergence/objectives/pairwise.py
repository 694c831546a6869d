"""The one kernel: log-sum-exp of all pairs of scores, in tiles, with its gradient. Exact, and O(n) in memory.

A score is the inner product of two directions (rows of length one) divided by the temperature. Each objective with
n x n interactions is a short formula over the *contrast* of its anchors, ``logsumexp(negatives) - positive``, or over
the log-sum-exp alone. No matrix of scores outlives its tile, but for a few megabytes kept for the backward pass.

On CUDA and ROCm the programs of ``triton_pairwise`` compute the same numbers, where the extra ``triton`` is installed.
The tiles of torch below are their reference, and serve everywhere else. Neither makes the processor wait for an
accelerator: a learned temperature is not read there.
"""

import math
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from vergence.objectives.gram import product, refuse_second_derivative
from vergence.objectives.inputs import finite, shaped, stacked_directions, through_unit_rows, unit_rows
from vergence.types import Embedding, Negatives, Scalar, Vector

# Scores up to 70 need no maximum subtracted: float32 holds exp(88), which leaves room to add exp(18) of them, and the
# smallest, exp(-70), is a normal number.
STEEP = 70.0
# A logarithm of sums of scores up to 10 has a rounding error below 5e-7; above, we add the rounding error back.
ROUNDS_UP_TO = 10.0
# A tile of 512 x 512 scores is 1 MiB in float32: it stays in the cache of a CPU core between its product, its
# exponential and its sums. An accelerator wants fewer and larger products.
CPU_TILE = 512
ACCELERATOR_TILE = 4096
# Of a square of scores that is its own transpose, blocks of so many rows are computed up to the diagonal only: two
# thirds of the time at 256 rows of 2,304 columns.
MIRRORED = 64
# Exponentials kept for the backward pass: the ten tiles, 10 MiB in float32, that a batch of 1024 pairs has.
KEPT = 10 * 512**2
# What computes: Triton on CUDA and ROCm where it is installed, torch elsewhere (auto); or one of them wherever it can.
KERNEL: Literal["auto", "torch", "triton"] = "auto"


def contrast(u: Embedding, *, temperature: float | Scalar) -> Vector:
    """The contrast of 2n rows, the last n being the partners of the first: one positive and 2n - 2 negatives each."""
    return _log_sums(u, None, temperature, partner=u.shape[0] // 2)[0]


def view_contrast(z1: Embedding, z2: Embedding, *, temperature: float | Scalar) -> Float[Tensor, "2*n"]:
    """The ``contrast`` of the directions of two views, which must be finite and not zero."""
    z1, z2 = shaped(z1=z1, z2=z2)
    if in_triton(z1) or 2 * z1.shape[0] > _side(z1) or _is_steep(temperature):
        return contrast(stacked_directions(z1=z1, z2=z2), temperature=temperature)
    values, norms = _OneTile.apply(z1, z2, temperature)
    finite(("z1", "z2"), norms, above=0.0)
    return values


def view_spread(z1: Embedding, z2: Embedding, *, temperature: float) -> tuple[Scalar, Scalar]:
    """The mean squared distance of the directions of two views, and the mean of the two views' ``log_mean``."""
    z1, z2 = shaped(z1=z1, z2=z2)
    if in_triton(z1) or z1.shape[0] > _side(z1) or _is_steep(temperature):
        u1, u2 = stacked_directions(z1=z1, z2=z2).chunk(2)
        spread = (log_mean(u1, temperature=temperature) + log_mean(u2, temperature=temperature)) / 2
        return (u1 - u2).square().sum(1).mean(), spread
    squared, spread, norms = _TwoTiles.apply(z1, z2, 1 / temperature)
    finite(("z1", "z2"), norms, above=0.0)
    return squared, spread


def cross_contrast(query: Embedding, key: Embedding, *, temperature: float | Scalar) -> tuple[Vector, Vector]:
    """The contrast of every query against all keys, and of every key against all queries."""
    return _log_sums(query, key, temperature, partner=0)


def log_sums(u: Embedding, *, temperature: float | Scalar) -> Vector:
    """Per row, the log-sum-exp of its scores with all other rows."""
    return _log_sums(u, None, temperature)[0]


def cross_log_sums(query: Embedding, candidates: Negatives, *, temperature: float | Scalar) -> Vector:
    """Per query, the log-sum-exp of its scores with all candidates."""
    return _log_sums(query, candidates, temperature)[0]


def log_mean(u: Embedding, *, temperature: float) -> Scalar:
    """The logarithm of the mean over distinct pairs of exp(score - 1/T); 0 if all rows are equal."""
    if not in_triton(u) and not _is_steep(temperature):
        return _LogMean.apply(u, 1 / temperature)
    n = len(u)
    return log_sums(u, temperature=temperature).logsumexp(0) - math.log(n * (n - 1)) - 1 / temperature


def _log_sums(
    rows: Tensor, columns: Tensor | None, temperature: float | Tensor, partner: int | None = None
) -> tuple[Tensor, Any]:
    """Log-sum-exps along the rows and, if they have positives to compare with, along the columns.

    Without ``columns`` the rows meet themselves and the diagonal is left out. With ``partner``, the score of row i and
    column i + partner is the positive: left out of the sums, and subtracted from their logarithms.
    """
    if module := in_triton(rows):
        return module.log_sums(rows, columns, temperature, partner)
    if not _is_steep(temperature):
        return _Pairs.apply(rows, columns, temperature, partner)
    along_columns = None
    if columns is not None and partner is not None:
        along_columns = _steep(columns, rows, temperature, partner)
    return _steep(rows, columns, temperature, partner), along_columns


def in_triton(rows: Tensor, module: str = "triton_pairwise") -> ModuleType | None:
    """The module of this folder that holds a kernel in Triton, if it is to serve these rows."""
    if KERNEL == "torch" or (KERNEL == "auto" and not (rows.is_cuda and _installed())):
        return None
    return _loaded(module)


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


@cache
def _loaded(module: str) -> ModuleType:
    try:
        return import_module(f"vergence.objectives.{module}")
    except ImportError as error:
        raise ImportError(f"The Triton kernel needs an extra ({error}). Try: pip install 'vergence[triton]'") from error


def _is_steep(temperature: float | Tensor) -> bool:
    """Whether scores need their maximum subtracted; always if an accelerator holds the temperature: it is not read."""
    if isinstance(temperature, Tensor):
        return temperature.device.type != "cpu" or 1 / float(temperature.detach()) > STEEP
    return 1 / temperature > STEEP


def _side(rows: Tensor) -> int:
    """The most rows of a tile."""
    return CPU_TILE if rows.device.type == "cpu" else ACCELERATOR_TILE


class _OneTile(torch.autograd.Function):
    """``view_contrast`` of a small batch, and its norms: in one node, since nodes cost there what arithmetic does."""

    @staticmethod
    def forward(ctx: Any, z1: Tensor, z2: Tensor, temperature: float | Tensor) -> tuple[Tensor, Tensor]:
        (u, norms), n, ctx.scale = unit_rows(z1, z2), z1.shape[0], 1 / float(temperature)
        tile = _own_scores(u, ctx.scale, u.new_empty(2 * n, 2 * n))
        excluded = tile.view(2, n, 2, n).diagonal(dim1=1, dim2=3)  # of every quarter: selves and partners
        positive = excluded[0, 1].clone()
        tile.exp_()
        excluded.zero_()
        sums = tile.sum(1)
        ctx.save_for_backward(u, norms, sums)
        ctx.tile = tile
        ctx.mark_non_differentiable(norms)
        return _contrasted(ctx.scale, sums.view(2, n), positive).view(-1), norms

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        u, norms, sums = ctx.saved_tensors
        n, weights = u.shape[0] // 2, grad / sums
        push = (weights.unsqueeze(1) + weights).mul_(ctx.tile)
        pull = (grad[:n] + grad[n:]).neg_()
        push.diagonal(n).copy_(pull)
        push.diagonal(-n).copy_(pull)
        along = product(push, u, scale=ctx.scale)
        temperature_grad = None
        if ctx.needs_input_grad[2]:
            temperature_grad = -0.5 * ctx.scale * torch.dot(u.view(-1), along.view(-1))
        return *through_unit_rows(along, u, norms).chunk(2), temperature_grad


class _Pairs(torch.autograd.Function):
    """``_log_sums`` in tiles without a maximum; a tile above the diagonal of a symmetric matrix serves two blocks."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, columns: Tensor | None, temperature: float | Tensor, partner: int | None
    ) -> tuple[Tensor, Tensor | None]:
        grid = _Grid(rows, columns, 1 / float(temperature), partner)
        row_sums, column_sums, positive, ctx.kept = _sums(grid, KEPT if any(ctx.needs_input_grad) else 0)
        ctx.save_for_backward(rows, columns, row_sums, column_sums)
        ctx.scale, ctx.partner = grid.scale, partner
        ctx.set_materialize_grads(False)
        both = columns is not None and partner is not None
        return _contrasted(grid.scale, row_sums, positive), _contrasted(
            grid.scale, column_sums, positive
        ) if both else None

    @staticmethod
    def backward(ctx: Any, row_grad: Tensor | None, column_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        rows, columns, row_sums, column_sums = ctx.saved_tensors
        grid = _Grid(rows, columns, ctx.scale, ctx.partner)
        grid.columns_are_fixed = not (grid.symmetric or ctx.needs_input_grad[1])
        row_grad = torch.zeros_like(row_sums) if row_grad is None else row_grad
        column_grad = torch.zeros_like(column_sums) if column_grad is None and columns is not None else column_grad
        row_weights = row_grad / row_sums
        column_weights = row_weights if grid.symmetric else column_grad / column_sums
        rows_grad, columns_grad = _gradients(
            grid, ctx.kept, row_weights, column_weights, _pull(grid, row_grad, column_grad)
        )
        temperature_grad = None
        if ctx.needs_input_grad[2]:
            # Every score is inverse to the temperature; in the symmetric matrix each one moved two rows.
            share = 0.5 if grid.symmetric else 1.0
            temperature_grad = -share * grid.scale * torch.dot(rows.flatten(), rows_grad.flatten())
        return rows_grad, None if grid.symmetric else columns_grad, temperature_grad, None


class _LogMean(torch.autograd.Function):
    """``log_mean`` in tiles. All pairs weigh the same, so their push is known up to a factor in the forward pass."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, scale: float) -> Tensor:
        grid = _Grid(u, None, scale, None)
        total, push = u.new_zeros(()), torch.zeros_like(u)
        pushes = grid.blocks(push)
        for i, j in grid.tiles():
            tile = grid.exponentials(i, j, grid.scores(i, j, grid.room(i, j)))
            total += tile.sum() * (1 if i == j else 2)
            if ctx.needs_input_grad[0]:
                pushes[i].addmm_(tile, grid.columns[j])
                if i != j:
                    pushes[j].addmm_(tile.T, grid.rows[i])
        ctx.save_for_backward(push.mul_(2 * scale / total))
        return (total / (len(u) * (len(u) - 1)) * math.exp(-scale)).log()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivative()
        (gradient,) = ctx.saved_tensors
        return gradient * grad, None


class _TwoTiles(torch.autograd.Function):
    """``view_spread`` of a small batch, and its norms: in one node, which passes over the rows less often."""

    @staticmethod
    def forward(ctx: Any, z1: Tensor, z2: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
        (u, norms), n = unit_rows(z1, z2), z1.shape[0]
        push, logarithms, tile = torch.empty_like(u), u.new_zeros(()), u.new_empty(n, n)
        for rows, out in zip(u.split(n), push.split(n), strict=True):
            _own_scores(rows, scale, tile).exp_().fill_diagonal_(0.0)
            total = tile.sum()
            logarithms += (total / (n * (n - 1)) * math.exp(-scale)).log()
            if any(ctx.needs_input_grad):
                torch.addmm(out, tile.mul_(scale / total), rows, beta=0, out=out)
        apart = u[:n] - u[n:]
        ctx.save_for_backward(u, norms, push, apart)
        ctx.mark_non_differentiable(norms)
        return torch.dot(apart.view(-1), apart.view(-1)) / n, logarithms / 2, norms

    @staticmethod
    def backward(ctx: Any, pull_grad: Tensor, push_grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        u, norms, push, apart = ctx.saved_tensors
        n = apart.shape[0]
        along, pull = push * push_grad, apart * (2 * pull_grad / n)
        along[:n].add_(pull)
        along[n:].sub_(pull)
        return *through_unit_rows(along, u, norms).chunk(2), None


def _own_scores(rows: Tensor, scale: float, out: Tensor) -> Tensor:
    """The products of rows with each other, times the scale; on a processor what is below the diagonal is copied."""
    if rows.device.type != "cpu" or rows.shape[0] <= MIRRORED:
        return torch.addmm(out, rows, rows.T, beta=0, alpha=scale, out=out)
    for first in range(0, rows.shape[0], MIRRORED):
        last, part = first + MIRRORED, out[first : first + MIRRORED, first:]
        torch.addmm(part, rows[first:last], rows[first:].T, beta=0, alpha=scale, out=part)
        out[last:, first:last] = part[:, MIRRORED:].T
    return out


class _Grid:
    """The matrix of scores of rows and columns, cut into tiles; symmetric when the rows meet themselves.

    Sizes are read as ``shape[0]``: ``len`` of a tensor takes microseconds, which count in a batch of 64.
    """

    def __init__(self, rows: Tensor, columns: Tensor | None, scale: float, partner: int | None):
        self.side = _side(rows)
        self.symmetric, self.scale, self.partner = columns is None, scale, partner
        self.rows = self.blocks(rows)
        self.columns = self.rows if columns is None else self.blocks(columns)
        self.scratch: Tensor | None = None
        self.columns_are_fixed = False

    def blocks(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return tensor.split(self.side) if tensor.shape[0] > self.side else (tensor,)

    def tiles(self) -> Iterator[tuple[int, int]]:
        """The numbers of all blocks of rows and of columns that meet; in a symmetric matrix, once."""
        for i in range(len(self.rows)):
            for j in range(i if self.symmetric else 0, len(self.columns)):
                yield i, j

    def room(self, i: int, j: int) -> Tensor:
        """Memory for the scores of a tile, reused by the next tile."""
        height, width = self.rows[i].shape[0], self.columns[j].shape[0]
        if self.scratch is None:
            self.scratch = self.rows[0].new_empty(self.rows[0].shape[0] * self.columns[0].shape[0])
        return self.scratch[: height * width].view(height, width)

    def scores(self, i: int, j: int, out: Tensor) -> Tensor:
        # With out= given, autocast does not lower the precision.
        if self.symmetric and i == j:
            return _own_scores(self.rows[i], self.scale, out)
        return torch.addmm(out, self.rows[i], self.columns[j].T, beta=0, alpha=self.scale, out=out)

    def exponentials(self, i: int, j: int, scores: Tensor) -> Tensor:
        """Exponentials in place of scores, 0 where the pair is not a negative."""
        scores.exp_()
        if self.symmetric and i == j:
            scores.fill_diagonal_(0.0)
        for positives, _ in self.positives(i, j, scores):
            positives.zero_()
        return scores

    def positives(self, i: int, j: int, tile: Tensor) -> Iterator[tuple[Tensor, slice]]:
        """The parts of a tile that hold positive pairs, each with which pairs they are."""
        if self.partner is None:
            return
        top, left = i * self.side, j * self.side
        for offset in (self.partner, -self.partner) if self.symmetric else (self.partner,):
            shift = offset + top - left
            if -tile.shape[0] < shift < tile.shape[1]:
                part = tile.diagonal(shift)
                first = min(top + max(0, -shift), left + max(0, shift))
                yield part, slice(first, first + part.shape[0])

    def serves_columns(self, i: int, j: int) -> bool:
        """Whether a tile's columns are anchors beside its rows: on the diagonal they are the same."""
        return not (self.symmetric and i == j)


def _sums(grid: _Grid, spare: int) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """Sums of exponentials by row and by column, positive scores, and as many exponentials as there is room to keep."""
    rows = grid.rows[0]
    row_sums = rows.new_zeros(sum(block.shape[0] for block in grid.rows))
    column_sums = row_sums if grid.symmetric else rows.new_zeros(sum(block.shape[0] for block in grid.columns))
    positive = torch.zeros_like(row_sums)
    by_row, by_column = grid.blocks(row_sums), grid.blocks(column_sums)
    kept: list[Tensor] = []
    for i, j in grid.tiles():
        height, width = by_row[i].shape[0], by_column[j].shape[0]
        spare -= height * width
        tile = grid.scores(i, j, rows.new_empty(height, width) if spare >= 0 else grid.room(i, j))
        for scores, pairs in grid.positives(i, j, tile):
            positive[pairs] = scores
        grid.exponentials(i, j, tile)
        by_row[i].add_(tile.sum(1))
        if grid.serves_columns(i, j):
            by_column[j].add_(tile.sum(0))
        if spare >= 0:
            kept.append(tile)
    if grid.symmetric and grid.partner:
        positive[grid.partner :] = positive[: grid.partner]
    return row_sums, column_sums, positive, kept


def _contrasted(scale: float, sums: Tensor, positive: Tensor) -> Tensor:
    """``sums.log() - positive``, without the rounding of two large and nearly equal numbers."""
    logarithms = sums.log()
    if scale <= ROUNDS_UP_TO:
        return logarithms - positive
    return logarithms - positive + (sums * torch.exp(-logarithms)).log()


def _gradients(
    grid: _Grid, kept: list[Tensor], row_weights: Tensor, column_weights: Tensor, pull: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of rows and columns: a negative pair pushes by its weighted exponential, a positive pair pulls."""
    by_row, by_column = grid.blocks(row_weights[:, None]), grid.blocks(column_weights)
    rows_grad = grid.rows[0].new_zeros(row_weights.shape[0], grid.rows[0].shape[1])
    columns_grad = rows_grad if grid.symmetric else rows_grad.new_zeros(column_weights.shape[0], rows_grad.shape[1])
    rows_grads, columns_grads = grid.blocks(rows_grad), grid.blocks(columns_grad)
    remaining = iter(kept)
    for i, j in grid.tiles():
        exponentials = next(remaining, None)
        if exponentials is None:
            exponentials = grid.exponentials(i, j, grid.scores(i, j, grid.room(i, j)))
        push = (by_row[i] + by_column[j]).mul_(exponentials)
        if pull is not None:
            for scores, pairs in grid.positives(i, j, push):
                scores.copy_(pull[pairs])
        rows_grads[i].addmm_(push, grid.columns[j], alpha=grid.scale)
        if grid.serves_columns(i, j) and not grid.columns_are_fixed:
            columns_grads[j].addmm_(push.T, grid.rows[i], alpha=grid.scale)
    return rows_grad, columns_grad


def _pull(grid: _Grid, row_grad: Tensor, column_grad: Tensor | None) -> Tensor | None:
    """The gradient on every positive score, which both of its ends subtract."""
    if grid.partner is None:
        return None
    return -(row_grad[: grid.partner] + row_grad[grid.partner :] if column_grad is None else row_grad + column_grad)


def _steep(rows: Tensor, columns: Tensor | None, temperature: float | Tensor, partner: int | None) -> Tensor:
    """``_log_sums`` along the rows with the maximum subtracted, in blocks that the backward pass computes again."""

    def block(rows: Tensor, columns: Tensor, top: int) -> Tensor:
        scores = rows @ columns.T / temperature
        own = torch.arange(top, top + len(rows), device=rows.device)[:, None]
        if partner is not None:
            positive = (own + partner) % len(columns)
            scores = (scores - scores.gather(1, positive)).scatter(1, positive, -torch.inf)
        return (scores.scatter(1, own, -torch.inf) if symmetric else scores).logsumexp(1)

    symmetric, columns = columns is None, rows if columns is None else columns
    with torch.autocast(rows.device.type, enabled=False):
        parts, side = enumerate(rows.split(_side(rows))), _side(rows)
        return torch.cat([checkpoint(block, part, columns, k * side, use_reentrant=False) for k, part in parts])
