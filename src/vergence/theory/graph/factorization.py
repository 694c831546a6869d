"""The spectral loss as a factorization of the normalized adjacency: its population value, minimum and minimizer."""

import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor

from vergence.theory.graph.augmentation import AugmentationGraph
from vergence.types import Scalar

# Rows of the normalized adjacency compared at once: 512 x 60,000 float64 entries are 245 MB.
TILE = 512


def spectral_population_loss(f: Float[Tensor, "nodes d"], graph: AugmentationGraph) -> Scalar:
    r"""The spectral loss over the whole graph: :math:`-2\,\mathbb{E} f(x)^\top f(x^+) + \mathbb{E}(f(x)^\top f(x'))^2`.

    The positive pair is an edge, the other pair is independent; what ``objectives.spectral`` estimates from a batch
    when nothing is clipped and mu is one. Differentiable in f; never below ``spectral_minimum``.

    References:
        HaoChen et al. (2021), Eq. 6.
    """
    second_moment = f.T @ (graph.degrees.to(f)[:, None] * f)
    return second_moment.square().sum() - 2 * _pull(f, graph)


def matrix_factorization_loss(f: Float[Tensor, "nodes d"], graph: AugmentationGraph) -> Scalar:
    r"""The error of factorizing the graph: :math:`\|\bar A - UU^\top\|_F^2`, with :math:`u_x = \sqrt{w_x}f(x)`.

    Equal to ``spectral_population_loss`` plus :math:`\|\bar A\|_F^2`, which does not depend on f. Time is quadratic in
    the nodes.

    References:
        HaoChen et al. (2021), Lemma 3.2.
    """
    _require_positive_semidefinite(graph)
    u = graph.degrees.to(f).sqrt()[:, None] * f
    rows = (slice(start, start + TILE) for start in range(0, graph.nodes, TILE))
    tiles = (torch.from_numpy(graph.normalized[part].toarray()).to(f) - u[part] @ u.T for part in rows)
    return torch.stack([tile.square().sum() for tile in tiles]).sum()


def spectral_minimum(graph: AugmentationGraph, k: int) -> float:
    r"""The least population loss that k features can reach: :math:`-\sum_{i\le k}\gamma_i^2`."""
    _require_positive_semidefinite(graph)
    return -graph.eigenvalues(k).square().sum().item()


def optimal_features(graph: AugmentationGraph, k: int) -> Float[Tensor, "nodes k"]:
    r"""A minimizer of the population loss: :math:`f_i(x) = \sqrt{\gamma_i}\,v_i(x) / \sqrt{w_x}`; the others rotate it.

    Then :math:`\mathbb{E} ff^\top` has the eigenvalues :math:`\gamma_1, \dots, \gamma_k`.
    """
    _require_positive_semidefinite(graph)
    return graph.eigenvectors(k) * graph.eigenvalues(k).sqrt() / graph.degrees.sqrt()[:, None]


def _pull(f: Tensor, graph: AugmentationGraph) -> Tensor:
    """The expected inner product of the two ends of an edge."""
    if graph.factor is not None:
        return (_tensor(graph.factor, f) @ f).square().sum()
    return (f * (_tensor(graph.adjacency, f) @ f)).sum()


def _tensor(matrix: sparse.csr_array, like: Tensor) -> Tensor:
    entries = matrix.tocoo()
    indices = torch.stack([torch.from_numpy(index).long() for index in entries.coords])
    values = torch.from_numpy(entries.data)
    return torch.sparse_coo_tensor(indices, values, entries.shape, check_invariants=True).to(like)


def _require_positive_semidefinite(graph: AugmentationGraph) -> None:
    if not graph.positive_semidefinite:
        raise ValueError(
            "The graph is not positive semi-definite: its normalized adjacency has a negative eigenvalue, which no "
            "product F F' can match, and no augmentation makes such a graph (W = E[a a'] never has one). Add "
            "self-loops, or build the graph from a kernel."
        )
