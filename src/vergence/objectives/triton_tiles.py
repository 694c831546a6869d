"""Tiles of inner products in Triton: what a program on the GPU does. ``triton_pairwise`` launches them.

A *tile* is SIDE x SIDE inner products of rows and columns. No matrix of scores reaches memory: each program visits a
square of tiles (a *patch*) and leaves, per row and per column of it, the largest inner product and the sum of the
exponentials below it (the online maximum of Milakov & Gimelshein 2018, https://arxiv.org/abs/1805.02867), so that any
temperature is safe. Where the rows meet themselves, a tile above the diagonal serves two blocks and those below it are
not computed. No value is read back to the processor: the temperature is read where it lies.

Differences of inner products are taken before they are divided by the temperature: at temperature 0.01 a score of 100
is rounded by 4e-6 in float32, a difference of two inner products by 6e-8 before it is multiplied by 100.
"""

import triton
import triton.language as tl


@triton.jit
def dots(
    rows, columns, r, c, n, m, d, WIDTH: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr, WIDEN: tl.constexpr
):
    """The inner products of a tile, in pieces of WIDTH dimensions; what lies past an end is 0.

    WIDEN is for Triton's interpreter, which cannot multiply bfloat16; such a product is exact in float32.
    """
    total = tl.zeros([r.shape[0], c.shape[0]], dtype=ACC)
    for start in range(0, d, WIDTH):
        k = start + tl.arange(0, WIDTH)
        at_rows, at_columns = r[:, None].to(tl.int64) * d + k[None, :], c[None, :].to(tl.int64) * d + k[:, None]
        left = tl.load(rows + at_rows, mask=(r[:, None] < n) & (k[None, :] < d), other=0.0)
        right = tl.load(columns + at_columns, mask=(c[None, :] < m) & (k[:, None] < d), other=0.0)
        if WIDEN:
            left, right = left.to(ACC), right.to(ACC)
        total += tl.dot(left, right, input_precision=PRECISION, out_dtype=ACC)
    return total


@triton.jit
def _negative(r, c, n, m, partner, SYMMETRIC: tl.constexpr, PARTNER: tl.constexpr):
    """Which pairs of a tile are negatives: both ends exist, not the same row, not partners."""
    kept = (r[:, None] < n) & (c[None, :] < m)
    if SYMMETRIC:
        kept = kept & (r[:, None] != c[None, :])
    if PARTNER:
        kept = kept & (c[None, :] != r[:, None] + partner)
        if SYMMETRIC:
            kept = kept & (r[:, None] != c[None, :] + partner)
    return kept


@triton.jit
def _add_sums(largest_at, sum_at, where, inside, largest, total, scale):
    """Join the largest product and the sum of some pairs to what memory holds for them."""
    before = tl.load(largest_at + where, mask=inside, other=float("-inf"))
    held = tl.load(sum_at + where, mask=inside, other=0.0)
    top = tl.maximum(before, largest)
    # Without any pair so far both are -inf, and their difference would be NaN.
    top = tl.where(top == float("-inf"), 0.0, top)
    joined = held * tl.exp((before - top) * scale) + total * tl.exp((largest - top) * scale)
    tl.store(largest_at + where, tl.maximum(before, largest), mask=inside)
    tl.store(sum_at + where, joined, mask=inside)


@triton.jit
def _below(products, largest, scale, AXIS: tl.constexpr):
    """The sum along an axis of the exponentials of scores less the largest."""
    top = tl.where(largest == float("-inf"), 0.0, largest)
    top = top[:, None] if AXIS == 1 else top[None, :]
    return tl.sum(tl.exp((products - top) * scale), AXIS)


@triton.jit
def sums_of_a_patch(
    rows,
    columns,
    scale_at,
    row_largest,
    row_sum,
    column_largest,
    column_sum,
    positive,
    n,
    m,
    d,
    partner,
    blocks,
    SYMMETRIC: tl.constexpr,
    PARTNER: tl.constexpr,
    COLUMNS: tl.constexpr,
    SIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDEN: tl.constexpr,
):
    """Largest products and sums by row and by column of one patch of ``blocks`` x ``blocks`` tiles.

    Rows of patch i that meet columns of patch j write place j of their partial sums, columns place i: one writer each.
    """
    i, j = tl.program_id(0), tl.program_id(1)
    if SYMMETRIC and j < i:
        return
    scale = tl.load(scale_at)
    for a in range(i * blocks, tl.minimum((i + 1) * blocks, tl.cdiv(n, SIDE))):
        r = a * SIDE + tl.arange(0, SIDE)
        largest = tl.full([SIDE], float("-inf"), dtype=ACC)
        total = tl.zeros([SIDE], dtype=ACC)
        first = j * blocks
        if SYMMETRIC and i == j:
            first = a
        for b in range(first, tl.minimum((j + 1) * blocks, tl.cdiv(m, SIDE))):
            c = b * SIDE + tl.arange(0, SIDE)
            products = dots(rows, columns, r, c, n, m, d, WIDTH, ACC, PRECISION, WIDEN)
            if PARTNER:
                paired = (c[None, :] == r[:, None] + partner) & (r[:, None] < n) & (c[None, :] < m)
                found = tl.max(paired.to(tl.int32), 1) > 0
                tl.store(positive + r, tl.sum(tl.where(paired, products, 0.0), 1), mask=found)
            kept = _negative(r, c, n, m, partner, SYMMETRIC, PARTNER)
            products = tl.where(kept, products, float("-inf"))
            above = tl.maximum(largest, tl.max(products, 1))
            top = tl.where(above == float("-inf"), 0.0, above)
            total = total * tl.exp((largest - top) * scale) + _below(products, above, scale, 1)
            largest = above
            if COLUMNS and (not SYMMETRIC or a != b):
                highest = tl.max(products, 0)
                below = _below(products, highest, scale, 0)
                _add_sums(column_largest, column_sum, i * m + c, c < m, highest, below, scale)
        tl.debug_barrier()  # the next row of tiles reads what this one wrote
        _add_sums(row_largest, row_sum, j * n + r, r < n, largest, total, scale)
        tl.debug_barrier()


@triton.jit
def _push(
    products,
    r,
    c,
    row_weight,
    row_shift,
    row_log,
    column_weight,
    column_shift,
    column_log,
    n,
    m,
    partner,
    scale,
    SYMMETRIC: tl.constexpr,
    PARTNER: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The gradient on the scores of a tile: a negative pair pushes by its share of the sums, a positive pair pulls.

    ROWS and COLUMNS say which of them are anchors.
    """
    kept = _negative(r, c, n, m, partner, SYMMETRIC, PARTNER)
    push = tl.zeros_like(products)
    pull = tl.zeros_like(products)
    if ROWS:
        weight = tl.load(row_weight + r, mask=r < n, other=0.0)
        shift = tl.load(row_shift + r, mask=r < n, other=0.0)
        log = tl.load(row_log + r, mask=r < n, other=0.0)
        exponent = (products - shift[:, None]) * scale - log[:, None]
        push += weight[:, None] * tl.exp(tl.where(kept, exponent, float("-inf")))
        pull -= weight[:, None]
    if COLUMNS:
        weight = tl.load(column_weight + c, mask=c < m, other=0.0)
        shift = tl.load(column_shift + c, mask=c < m, other=0.0)
        log = tl.load(column_log + c, mask=c < m, other=0.0)
        exponent = (products - shift[None, :]) * scale - log[None, :]
        push += weight[None, :] * tl.exp(tl.where(kept, exponent, float("-inf")))
        pull -= weight[None, :]
    if PARTNER:
        paired = c[None, :] == r[:, None] + partner
        if SYMMETRIC:
            paired = paired | (r[:, None] == c[None, :] + partner)
        push = tl.where(paired & (r[:, None] < n) & (c[None, :] < m), pull, push)
    return push * scale


@triton.jit
def gradient_of_a_tile(
    rows,
    columns,
    scale_at,
    row_weight,
    row_shift,
    row_log,
    column_weight,
    column_shift,
    column_log,
    row_grad,
    column_grad,
    n,
    m,
    d,
    partner,
    SYMMETRIC: tl.constexpr,
    PARTNER: tl.constexpr,
    COLUMNS: tl.constexpr,
    MOVES: tl.constexpr,
    SIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDEN: tl.constexpr,
    BACK: tl.constexpr,
):
    """What one tile adds to the gradients of its rows and, where columns MOVE, of its columns; by atomic additions."""
    a, b = tl.program_id(0), tl.program_id(1)
    if SYMMETRIC and b < a:
        return
    scale = tl.load(scale_at)
    r, c = a * SIDE + tl.arange(0, SIDE), b * SIDE + tl.arange(0, SIDE)
    products = dots(rows, columns, r, c, n, m, d, WIDTH, ACC, PRECISION, WIDEN)
    push = _push(
        products, r, c, row_weight, row_shift, row_log, column_weight, column_shift, column_log,
        n, m, partner, scale, SYMMETRIC, PARTNER, True, COLUMNS,
    )  # fmt: skip
    for start in range(0, d, WIDTH):
        k = start + tl.arange(0, WIDTH)
        at_rows = r[:, None].to(tl.int64) * d + k[None, :]
        at_columns = c[:, None].to(tl.int64) * d + k[None, :]
        inside_rows = (r[:, None] < n) & (k[None, :] < d)
        inside_columns = (c[:, None] < m) & (k[None, :] < d)
        right = tl.load(columns + at_columns, mask=inside_columns, other=0.0).to(ACC)
        moved = tl.dot(push, right, input_precision=BACK, out_dtype=ACC)
        tl.atomic_add(row_grad + at_rows, moved, mask=inside_rows, sem="relaxed")
        if MOVES and (not SYMMETRIC or a != b):
            left = tl.load(rows + at_rows, mask=inside_rows, other=0.0).to(ACC)
            moved = tl.dot(tl.trans(push), left, input_precision=BACK, out_dtype=ACC)
            tl.atomic_add(column_grad + at_columns, moved, mask=inside_columns, sem="relaxed")


@triton.jit
def gradient_of_a_block(
    rows,
    columns,
    scale_at,
    row_weight,
    row_shift,
    row_log,
    column_weight,
    column_shift,
    column_log,
    row_grad,
    n,
    m,
    d,
    partner,
    SYMMETRIC: tl.constexpr,
    PARTNER: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    ACC: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDEN: tl.constexpr,
    BACK: tl.constexpr,
):
    """The gradient of a block of rows: one owner adds over all columns, in order. ``row_grad`` starts at 0."""
    r = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    scale = tl.load(scale_at)
    for start in range(0, m, SIDE):
        c = start + tl.arange(0, SIDE)
        products = dots(rows, columns, r, c, n, m, d, WIDTH, ACC, PRECISION, WIDEN)
        push = _push(
            products, r, c, row_weight, row_shift, row_log, column_weight, column_shift, column_log,
            n, m, partner, scale, SYMMETRIC, PARTNER, ROWS, COLUMNS,
        )  # fmt: skip
        for first in range(0, d, WIDTH):
            k = first + tl.arange(0, WIDTH)
            at, inside = r[:, None].to(tl.int64) * d + k[None, :], (r[:, None] < n) & (k[None, :] < d)
            at_columns, known = c[:, None].to(tl.int64) * d + k[None, :], (c[:, None] < m) & (k[None, :] < d)
            right = tl.load(columns + at_columns, mask=known, other=0.0).to(ACC)
            moved = tl.dot(push, right, input_precision=BACK, out_dtype=ACC)
            tl.store(row_grad + at, tl.load(row_grad + at, mask=inside, other=0.0) + moved, mask=inside)
        tl.debug_barrier()  # the next columns add to what these wrote
