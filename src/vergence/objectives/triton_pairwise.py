"""The pairwise kernel for CUDA and ROCm: launches ``triton_tiles``. The torch tiles of ``pairwise`` are its reference.

The backward pass computes the scores again, so that nothing of size n x n outlives a tile. Import this file only where
the extra ``triton`` is installed.
"""

import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from vergence.objectives import triton_tiles
from vergence.objectives.gram import refuse_second_derivative

SIDE = 64  # rows and columns of a tile
# Patches along a side: 64 x 65 / 2 programs are more than any GPU runs at once, and the partial sums stay O(64 n).
PATCHES = 64
# Dimensions that a program multiplies at once, and its warps of 32 threads: the most for which the compiler spills no
# registers (benchmarks/kernel_compile.py). Float32 in full is multiplied without tensor cores, and takes more of them.
BY_CORES = {"WIDTH": 16, "num_warps": 8}
BY_TENSOR_CORES = {"WIDTH": 32, "num_warps": 4}
ACCUMULATED = {torch.float64: tl.float64}  # in float32 but for float64 itself

HALF = (torch.float16, torch.bfloat16)

# What the backward pass knows of the anchors on one side: gradients, products of positives, values.
Anchors = tuple[Tensor, Tensor, Tensor]


def log_sums(
    rows: Tensor,
    columns: Tensor | None,
    temperature: float | Tensor,
    partner: int | None = None,
    *,
    deterministic: bool | None = None,
) -> tuple[Tensor, Tensor | None]:
    """What ``pairwise._log_sums`` computes: log-sum-exps along the rows and, with positives, along the columns.

    Half precision comes in as it is and is accumulated in float32. The forward pass is always deterministic. The
    backward pass adds up by atomic operations, whose order changes, unless ``deterministic`` (by default what
    ``torch.use_deterministic_algorithms`` says): then every row has one owner, and symmetric tiles are computed twice.
    """
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    return _Pairs.apply(rows, columns, temperature, partner, deterministic)


def options(rows: Tensor) -> dict[str, Any]:
    """How tiles of these rows are multiplied: in which type and precision, how wide, by how many warps."""
    half = rows.dtype in HALF
    precision = "ieee" if half else _precision(rows.device)
    return {
        "SIDE": SIDE,
        "ACC": ACCUMULATED.get(rows.dtype, tl.float32),
        "PRECISION": precision,
        "WIDEN": half and interpreted(),
        **(BY_TENSOR_CORES if half or precision != "ieee" else BY_CORES),
    }


def interpreted() -> bool:
    """Whether Triton runs its programs on the processor, one after the other, as tests do."""
    return os.environ.get("TRITON_INTERPRET") == "1"


class _Pairs(torch.autograd.Function):
    """``log_sums`` with its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        columns: Tensor | None,
        temperature: float | Tensor,
        partner: int | None,
        deterministic: bool,
    ) -> tuple[Tensor, Tensor | None]:
        pairs = _Launch(rows, columns, _scale(temperature, rows), partner)
        row_sums, column_sums, positive = pairs.sums()
        row_values = _joined(row_sums, positive, pairs.scale)
        column_values = None
        if not pairs.symmetric and pairs.both:
            column_values = _joined(column_sums, positive, pairs.scale)
        ctx.save_for_backward(rows, columns, pairs.scale, positive, row_values, column_values)
        ctx.partner, ctx.deterministic = partner, deterministic
        ctx.temperature = temperature.dtype if isinstance(temperature, Tensor) else None
        ctx.set_materialize_grads(False)
        return row_values, column_values

    @staticmethod
    def backward(ctx: Any, row_grad: Tensor | None, column_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        rows, columns, scale, positive, row_values, column_values = ctx.saved_tensors
        pairs = _Launch(rows, columns, scale, ctx.partner)
        by_row = by_column = (_given(row_grad, row_values), positive, row_values)
        if column_values is not None:
            by_column = (_given(column_grad, column_values), positive, column_values)
        moves = columns is not None and ctx.needs_input_grad[1]
        rows_grad, columns_grad = (pairs.owned if ctx.deterministic else pairs.added)(by_row, by_column, moves=moves)
        temperature_grad = None
        if ctx.needs_input_grad[2]:
            # Every score is inverse to the temperature; in the symmetric matrix each one moved two rows.
            share = 0.5 if pairs.symmetric else 1.0
            temperature_grad = -share * scale * (pairs.rows.to(rows_grad.dtype) * rows_grad).sum()
            temperature_grad = temperature_grad.to(ctx.temperature)
        moved = None if columns_grad is None else columns_grad.to(rows.dtype)
        return rows_grad.to(rows.dtype), moved, temperature_grad, None, None


class _Launch:
    """The matrix of scores of some rows and columns, and the programs that visit it."""

    def __init__(self, rows: Tensor, columns: Tensor | None, scale: Tensor, partner: int | None):
        self.symmetric, self.partner, self.scale = columns is None, partner, scale
        self.rows = rows.contiguous()
        self.columns = self.rows if columns is None else columns.contiguous()
        self.n, self.m, self.d = self.rows.shape[0], self.columns.shape[0], self.rows.shape[1]
        self.both = self.symmetric or partner is not None
        self.sizes = (self.n, self.m, self.d, partner or 0)
        self.kinds = {"SYMMETRIC": self.symmetric, "PARTNER": partner is not None, "COLUMNS": self.both}
        self.options = options(rows)
        # A float32 share of the sum times a row in half precision: the row is exact in tf32, and nothing underflows.
        self.back = (
            "tf32" if rows.dtype in HALF and rows.is_cuda and torch.version.hip is None else self.options["PRECISION"]
        )

    def sums(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], Tensor]:
        """Partial sums by row and by column, each with its largest products; and the products of positive pairs."""
        tall, wide = triton.cdiv(self.n, SIDE), triton.cdiv(self.m, SIDE)
        blocks = triton.cdiv(max(tall, wide), PATCHES)
        down, along = triton.cdiv(tall, blocks), triton.cdiv(wide, blocks)
        by_row = _empty_sums(along, self.n, self.scale)
        by_column = by_row if self.symmetric else _empty_sums(down if self.both else 0, self.m, self.scale)
        positive = self.scale.new_zeros(self.n)
        triton_tiles.sums_of_a_patch[(down, along)](
            self.rows, self.columns, self.scale, *by_row, *by_column, positive, *self.sizes, blocks,
            **self.kinds, **self.options,
        )  # fmt: skip
        if self.symmetric and self.partner:
            positive[self.partner :] = positive[: self.partner]
        return by_row, by_column, positive

    def added(self, by_row: Anchors, by_column: Anchors, *, moves: bool) -> tuple[Tensor, Tensor | None]:
        """Gradients of rows and columns from every tile once, by atomic additions."""
        rows_grad = self.scale.new_zeros(self.n, self.d)
        columns_grad = self.scale.new_zeros(self.m, self.d) if moves else rows_grad
        triton_tiles.gradient_of_a_tile[(triton.cdiv(self.n, SIDE), triton.cdiv(self.m, SIDE))](
            self.rows, self.columns, self.scale, *by_row, *by_column, rows_grad, columns_grad,
            *self.sizes, MOVES=moves or self.symmetric, BACK=self.back, **self.kinds, **self.options,
        )  # fmt: skip
        return rows_grad, columns_grad if moves else None

    def owned(self, by_row: Anchors, by_column: Anchors, *, moves: bool) -> tuple[Tensor, Tensor | None]:
        """The same gradients, each added up in order by one program: equal bits every time."""
        rows_grad = self._owned(by_row, by_column)
        if not moves:
            return rows_grad, None
        turned = _Launch(self.columns, self.rows, self.scale, self.partner)
        turned.kinds = {**self.kinds, "COLUMNS": True}  # the anchors that were rows
        return rows_grad, turned._owned(by_column, by_row, rows_are_anchors=self.both)

    def _owned(self, by_row: Anchors, by_column: Anchors, *, rows_are_anchors: bool = True) -> Tensor:
        gradient = self.scale.new_zeros(self.n, self.d)
        triton_tiles.gradient_of_a_block[(triton.cdiv(self.n, SIDE),)](
            self.rows, self.columns, self.scale, *by_row, *by_column, gradient, *self.sizes,
            ROWS=rows_are_anchors, BACK=self.back, **self.kinds, **self.options,
        )  # fmt: skip
        return gradient


def _scale(temperature: float | Tensor, rows: Tensor) -> Tensor:
    """1 / T as a tensor beside the rows: a learned temperature is never read by the processor."""
    dtype = torch.float64 if rows.dtype == torch.float64 else torch.float32
    if isinstance(temperature, Tensor):
        return temperature.detach().to(rows.device, dtype).reciprocal()
    return torch.full((), 1 / temperature, device=rows.device, dtype=dtype)


def _precision(device: torch.device) -> str:
    """How float32 is multiplied, as ``torch.set_float32_matmul_precision`` says: highest, high or medium."""
    asked = torch.get_float32_matmul_precision()
    if asked == "highest" or device.type != "cuda" or torch.version.hip is not None:
        return "ieee"
    return "tf32x3" if asked == "high" else "tf32"


def _empty_sums(parts: int, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
    return like.new_full((parts, length), -torch.inf), like.new_zeros(parts, length)


def _joined(sums: tuple[Tensor, Tensor], positive: Tensor, scale: Tensor) -> Tensor:
    """The logarithm of all partial sums less the positive score; differences before the temperature divides them."""
    largest, total = sums
    return ((largest - positive) * scale + total.log()).logsumexp(0)


def _given(grad: Tensor | None, values: Tensor) -> Tensor:
    """The gradient on some values, which may be missing."""
    return torch.zeros_like(values) if grad is None else grad.to(values.dtype).contiguous()
