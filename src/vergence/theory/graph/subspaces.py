"""How close an encoder's features are to the top of the graph's spectrum."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.theory.graph.augmentation import AugmentationGraph


@dataclass(frozen=True, eq=False)
class SubspaceAlignment:
    """Principal angles between the span of the features and the top k eigenvectors, and what each eigenvector loses.

    ``angles`` in degrees, increasing, 90 for directions that features of lower rank lack; ``captured`` is the share of
    each eigenvector's squared length inside the span, ``chance`` that of a random span of the same rank. A small
    ``gap`` below the k-th eigenvalue means that the top k directions themselves are hardly defined.
    """

    angles: Float[Tensor, " k"]
    captured: Float[Tensor, " k"]
    rank: int
    chance: float
    gap: float

    @property
    def largest_angle(self) -> float:
        return self.angles[-1].item()

    @property
    def mean_captured(self) -> float:
        return self.captured.mean().item()

    def to_dict(self) -> dict[str, Any]:
        vectors = {"angles": self.angles.tolist(), "captured": self.captured.tolist()}
        return {**vectors, "rank": self.rank, "chance": self.chance, "gap": self.gap}


def subspace_alignment(
    features: Float[Tensor, "nodes d"], graph: AugmentationGraph, *, k: int | None = None
) -> SubspaceAlignment:
    r"""Compare features with the top k eigenvectors (as many as the features have columns, unless given).

    Row x of the features is weighed by :math:`\sqrt{w_x}`, as in the matrix factorization. A linear probe adds a
    constant, the first eigenvector of a connected graph: append a column of ones to see what the probe sees.
    """
    if len(features) != graph.nodes:
        raise ValueError(f"Expected one row of features for each of the {graph.nodes} nodes; got {len(features)}.")
    k = graph.rank_within(min(features.shape[1], graph.nodes)) if k is None else k
    basis, values = feature_basis(features, graph), graph.eigenvalues(min(k + 1, graph.nodes))
    vectors = graph.eigenvectors(k)
    captured = (basis.T @ vectors).square().sum(dim=0).clamp(max=1.0)
    gap = (values[k - 1] - values[k]).item() if k < graph.nodes else values[k - 1].item()
    rank = basis.shape[1]
    return SubspaceAlignment(_angles(basis, vectors), captured, rank, rank / graph.nodes, gap)


def feature_basis(features: Float[Tensor, "nodes d"], graph: AugmentationGraph) -> Float[Tensor, "nodes rank"]:
    """An orthonormal basis of the span of the weighted features, without what their precision cannot tell from zero."""
    weighted = features.detach().cpu().double() * graph.degrees.sqrt()[:, None]
    left, lengths, _ = torch.linalg.svd(weighted, full_matrices=False)
    rounding = torch.finfo(features.dtype).eps * max(features.shape)
    return left[:, lengths > rounding * lengths[0]]


def _angles(basis: Tensor, vectors: Tensor) -> Tensor:
    """Principal angles in degrees, from sines and cosines: near zero the arc cosine alone loses half the digits."""
    left, cosines, right = torch.linalg.svd(basis.T @ vectors, full_matrices=False)
    sines = torch.linalg.vector_norm(vectors @ right.T - basis @ (left * cosines), dim=0)
    angles = torch.atan2(sines, cosines).rad2deg()
    return torch.cat([angles, torch.full((vectors.shape[1] - len(angles),), 90.0, dtype=angles.dtype)])
