"""The kernel of a real dataset, estimated from sampled views: no two samples share a view, so neighbors are used."""

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor

# Rows of the distance matrix held at once: 1024 x 60,000 float32 scores are 240 MB.
TILE = 1024


def smoothed_kernel(
    views: Float[Tensor, "n m ..."],
    *,
    neighbors: int = 10,
    bandwidth: float | None = None,
    components: int | None = 64,
) -> tuple[sparse.csr_array, str]:
    r"""A(x | sample) over the n x m views, and a sentence that says how it was estimated.

    Row :math:`i` is :math:`\frac1m \sum_j K(\cdot, v_{ij})`, with :math:`K(x, v) \propto e^{-\|x - v\|^2 / 2h^2}` over
    the nearest ``neighbors`` of v (itself first), summing to one. Distances are between the leading principal
    ``components`` of the flattened views, or between the views themselves when None or when they have no more columns
    than that. The bandwidth h is the median distance to the last neighbor unless given.
    """
    n, m = views.shape[:2]
    _check(views, neighbors, bandwidth)
    points = _projected(views.reshape(n * m, -1).float(), components)
    squares, indices = nearest(points, neighbors)
    # Views that all coincide have no scale; any bandwidth then gives equal weights.
    h = bandwidth or float(squares[:, -1].sqrt().median()) or 1.0
    weights = torch.softmax(-squares.double() / (2 * h**2), dim=1) / m
    rows = np.repeat(np.arange(n), m * neighbors)
    columns = indices.flatten().cpu().numpy()
    kernel = sparse.csr_array((weights.flatten().cpu().numpy(), (rows, columns)), shape=(n, n * m))
    note = (
        f"{n} samples x {m} views; Gaussian kernel of bandwidth {h:.4g} over {neighbors} nearest views, "
        f"distances in {points.shape[1]} dimensions"
    )
    return kernel, note


def nearest(points: Float[Tensor, "n d"], k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
    """Squared distances to the k nearest points, in increasing order, and which they are; a point is its own first."""
    squares = points.square().sum(dim=1)
    found = [_tile(points, squares, slice(start, start + TILE), k) for start in range(0, len(points), TILE)]
    distances, indices = (torch.cat(parts) for parts in zip(*found, strict=True))
    return distances, indices


def _tile(points: Tensor, squares: Tensor, rows: slice, k: int) -> tuple[Tensor, Tensor]:
    scores = torch.addmm(squares[None, :], points[rows], points.T, alpha=-2.0)
    own = torch.arange(len(points), device=points.device)[rows]
    # A copy of a point may tie with it; minus infinity keeps the point itself first.
    scores[own - own[0], own] = -torch.inf
    lowest, indices = scores.topk(k, dim=1, largest=False)
    distances = (lowest + squares[rows, None]).clamp(min=0)
    return distances, indices


def _projected(points: Tensor, components: int | None) -> Tensor:
    from sklearn.decomposition import PCA

    if components is None or components >= min(points.shape):
        return points - points.mean(dim=0)
    projected = PCA(components, random_state=0).fit_transform(points.cpu().numpy())
    return torch.from_numpy(projected).to(points)


def _check(views: Tensor, neighbors: int, bandwidth: float | None) -> None:
    n, m = views.shape[:2]
    if not 1 <= neighbors <= n * m:
        raise ValueError(f"Expected 1 <= neighbors <= {n * m}, the number of views; got {neighbors}.")
    if bandwidth is not None and not bandwidth > 0:
        raise ValueError(f"Expected a positive bandwidth, or None to choose it from the views; got {bandwidth}.")
    if not views.isfinite().all():
        raise ValueError("The views have entries that are not finite.")
