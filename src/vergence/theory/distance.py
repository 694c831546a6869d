"""The augmented distance: how close two samples come under their views."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.types import Labels, Square

ROWS, COLUMNS = 256, 2048  # views to a tile: 2 MiB of float32, wide enough for full speed, little of the diagonal twice
FEW_ROWS = 96  # views to a tile when pruning: more would share fewer far samples, fewer would slow the product
SAFE = 1e-3  # below this share of the two squared norms, a + b - 2ab has lost digits and the pair is measured directly
GATHERED = 2**22  # numbers gathered for direct measurement at a time
DIRECT = "donot_use_mm_for_euclid_dist"


def augmented_distance(views: Float[Tensor, "n m *shape"], *, limit: float = math.inf) -> Square:
    r"""Smallest distance between any view of one sample and any view of another, for all pairs of samples.

    :math:`d_A(x_1, x_2) = \min_{x_1' \in A(x_1), x_2' \in A(x_2)} \|x_1' - x_2'\|`. Zero on the diagonal, symmetric,
    but not a metric: the triangle inequality fails. With views that are samples of A it can only be too large, so the
    share of a class within a distance is a lower bound. Beyond ``limit`` entries are infinite; with a limit, pairs
    that a projection proves to be farther are never compared in full.

    References:
        Huang et al. (2023), Sec. 3. https://arxiv.org/abs/2111.00743
    """
    flat, squares = _centered(views)
    if math.isfinite(limit):
        distance = _pruned(flat, squares, limit)
        return distance.masked_fill(distance > limit, math.inf)
    n, m, _ = flat.shape
    distance = flat.new_zeros(n, n)
    for rows in _steps(0, n, ROWS // m):
        for columns in _steps(rows.start, n, COLUMNS // m):
            tile = _tile(flat, squares, rows, columns)
            distance[rows, columns], distance[columns, rows] = tile, tile.T
    return torch.minimum(distance, distance.T).fill_diagonal_(0)


def within_classes(labels: Labels, distance: Callable[[Tensor], Tensor]) -> Square:
    """A distance matrix made of ``distance(indices)`` for the samples of each class; infinite between classes."""
    classes = [(labels == label).nonzero()[:, 0] for label in labels.unique()]
    blocks = [distance(own) for own in classes]
    whole = blocks[0].new_full((len(labels), len(labels)), math.inf)
    for own, block in zip(classes, blocks, strict=True):
        whole[own[:, None], own] = block
    return whole


def closest_views(one: Float[Tensor, "m *shape"], other: Float[Tensor, "k *shape"]) -> tuple[int, int]:
    """Which view of each of two samples comes closest to the other's: the pair that attains the augmented distance."""
    gaps = torch.cdist(one.flatten(1), other.flatten(1), compute_mode=DIRECT)
    first, second = divmod(int(gaps.argmin()), len(other))
    return first, second


def _centered(views: Tensor) -> tuple[Tensor, Tensor]:
    """Views as rows around their mean, which keeps norms and so rounding small, and their squared norms."""
    if views.ndim < 3 or views.shape[0] == 0 or views.shape[1] == 0:
        raise ValueError(
            f"Expected views of shape [samples, views, ...] with at least one view each, got {list(views.shape)}."
        )
    flat = views.flatten(2)
    flat = flat - flat.mean((0, 1))
    squares = torch.linalg.vector_norm(flat, dim=2).square()  # without a second copy of the views
    if not squares.isfinite().all():  # the squares of finite views are: asking the views themselves takes far longer
        raise ValueError("Views hold NaN or infinite values; remove those samples before measuring distances.")
    return flat, squares


def _steps(start: int, stop: int, step: int) -> list[slice]:
    return [slice(first, min(first + max(1, step), stop)) for first in range(start, stop, max(1, step))]


def _tile(flat: Tensor, squares: Tensor, rows: slice, columns: slice | Tensor) -> Tensor:
    """Augmented distances between two blocks of samples, from one matrix product."""
    left, right, left_squares, right_squares = flat[rows], flat[columns], squares[rows], squares[columns]
    products = torch.addmm(right_squares.reshape(1, -1), left.flatten(0, 1), right.flatten(0, 1).T, alpha=-2)
    gaps = products.add_(left_squares.reshape(-1, 1)).view(*left_squares.shape, *right_squares.shape)
    smallest = gaps.amin(1).amin(2)  # this order reads rows in memory order: nine times faster than amin((1, 3))
    place = torch.arange(len(flat), device=flat.device)
    lost = smallest < SAFE * (left_squares.amax(1)[:, None] + right_squares.amax(1))
    for pairs in (lost & (place[rows][:, None] != place[columns])).nonzero().split(max(1, GATHERED // left[0].numel())):
        i, j = pairs.T
        smallest[i, j] = torch.cdist(left[i], right[j], compute_mode=DIRECT).amin((1, 2)).square()
    return smallest.clamp_min(0).sqrt()


def _pruned(flat: Tensor, squares: Tensor, limit: float) -> Tensor:
    """Distances up to the limit. An orthogonal projection never lengthens, so the augmented distance of the projected
    views is a lower bound, at the cost of their few dimensions."""
    n, m, width = flat.shape
    bound = augmented_distance(flat @ _directions(flat, min(64, width)))
    slack = 1e-4 * squares.amax().sqrt()  # rounding of the bound must not exclude a pair at the limit
    distance = flat.new_full((n, n), math.inf)
    for rows in _steps(0, n, FEW_ROWS // m):
        near = (bound[rows, rows.start :] <= limit + slack).any(0).nonzero()[:, 0] + rows.start
        for columns in near.split(max(1, COLUMNS // m)):
            distance[rows, columns] = _tile(flat, squares, rows, columns)
    return torch.minimum(distance, distance.T).fill_diagonal_(0)


def _directions(flat: Tensor, count: int) -> Tensor:
    """Orthonormal directions in which the views vary most, nearly; any would be valid. Two power iterations."""
    rows = flat[:: max(1, len(flat) // 128)].flatten(0, 1)
    generator = torch.Generator(rows.device).manual_seed(0)
    basis = torch.randn(rows.shape[1], count, generator=generator, device=rows.device, dtype=rows.dtype)
    for _ in range(2):
        basis = torch.linalg.qr(rows.T @ (rows @ basis))[0]
    return basis
