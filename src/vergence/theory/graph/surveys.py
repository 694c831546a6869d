"""A survey of the augmentation graph of some views: what ``vergence views --graph`` shows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vergence.theory.certificate import Certificate
from vergence.theory.graph.augmentation import AugmentationGraph
from vergence.theory.graph.certificates import (
    embedding_dimension,
    label_residual,
    probe_error,
    recovery_theorem,
    spectral_probe,
)
from vergence.theory.graph.checks import Array
from vergence.types import Labels


@dataclass(frozen=True, eq=False)
class GraphSurvey:
    """The spectrum of a graph with its gap and components and, where samples have labels, how the classes mix.

    ``gap_after`` counts the eigenvalues above the largest gap, of two or more: with fewer dimensions a probe
    cannot separate what the augmentations keep separate.
    """

    graph: AugmentationGraph
    eigenvalues: Float[Tensor, " k"]
    clusters: Int[Tensor, " nodes"]
    labels: Int[Tensor, " samples"] | None = None
    classes: tuple[str, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    seed: int = 0

    @cached_property
    def gap_after(self) -> int:
        drops = self.eigenvalues[1:-1] - self.eigenvalues[2:]
        return int(drops.argmax()) + 2

    @cached_property
    def component_weights(self) -> Float[Tensor, " c"]:
        return torch.bincount(self.graph.components(), weights=self.graph.degrees)

    @cached_property
    def alpha(self) -> float:
        """The least error of telling a sample's label from one view; only with labels."""
        return self.graph.label_error(self._known_labels)

    @cached_property
    def mixing(self) -> Float[Tensor, "clusters classes"]:
        """The probability of each spectral cluster and class, clusters in order of their commonest class."""
        joint = self.graph.label_probabilities(self._known_labels)
        table = torch.nn.functional.one_hot(self.clusters).double().T @ joint
        return table[table.argmax(dim=1).argsort(stable=True)]

    @cached_property
    def probe_curve(self) -> list[tuple[int, float]]:
        """Embedding dimensions, doubling, and the error of the probe on as many eigenvectors."""
        labels = self.graph.node_labels(self._known_labels)
        most = self.graph.rank_within(len(self.eigenvalues) - 1)
        dimensions = sorted({min(2**power, most) for power in range(most.bit_length() + 1)} | {self.gap_after})
        return [(k, spectral_probe(self.graph, labels, k=k).error) for k in dimensions if k <= most]

    def bridges(self, count: int = 10) -> list[tuple[int, float]]:
        """The samples whose augmentations are shared most with other classes, and by how much."""
        shares, samples = self.graph.bridging(self._known_labels).topk(min(count, len(self._known_labels)))
        return list(zip(samples.tolist(), shares.tolist(), strict=True))

    def summary(self) -> str:
        """The survey in a few lines."""
        return "\n".join(self._spectrum_lines() + (self._label_lines() if self.labels is not None else []))

    def to_dict(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "note": self.graph.note,
            "nodes": self.graph.nodes,
            "components": self.component_weights.tolist(),
            "eigenvalues": self.eigenvalues.tolist(),
            "gap_after": self.gap_after,
        }
        if self.labels is not None:
            described |= {
                "classes": list(self.classes),
                "alpha": self.alpha,
                "mixing": self.mixing.tolist(),
                "bridges": self.bridges(),
                "probe_curve": self.probe_curve,
                "certificates": [certificate.to_dict() for certificate in self.certificates],
            }
        return described

    @property
    def _known_labels(self) -> Labels:
        if self.labels is None:
            raise ValueError("The samples have no labels, so the graph cannot say how classes mix.")
        return self.labels

    def _spectrum_lines(self) -> list[str]:
        weights = ", ".join(f"{weight:.1%}" for weight in self.component_weights[:5].tolist())
        above, below = self.eigenvalues[self.gap_after - 1 : self.gap_after + 1].tolist()
        return [
            f"Augmentation graph: {self.graph.note}.",
            f"  connected components: {len(self.component_weights)} (heaviest {weights})",
            f"  eigenvalues: {' '.join(f'{value:.3f}' for value in self.eigenvalues[:10].tolist())} ...",
            f"  largest gap after {self.gap_after} eigenvalues: {above:.3f} -> {below:.3f}",
        ]

    def _label_lines(self) -> list[str]:
        errors = ", ".join(f"{error:.1%} at k = {k}" for k, error in self.probe_curve)
        bridges = ", ".join(f"{sample} ({share:.0%})" for sample, share in self.bridges(5))
        return [
            f"  alpha, the least error of telling the label from one view: {self.alpha:.1%}",
            f"  purity of {len(self.mixing)} spectral clusters: {self.mixing.amax(dim=1).sum():.1%}",
            f"  linear probe on k eigenvectors errs {errors}",
            f"  samples that bridge classes (share of their views' mass in other classes): {bridges}",
            *(f"  {c.statement}: {c.left:.3g} <= {c.right:.3g}, {c.verdict}" for c in self.certificates),
        ]


def survey(
    views: Float[Tensor, "n m ..."],
    labels: Array | None = None,
    *,
    classes: tuple[str, ...] = (),
    k: int = 32,
    neighbors: int = 10,
    bandwidth: float | None = None,
    components: int | None = 64,
    seed: int = 0,
) -> GraphSurvey:
    """Build the graph of m views of each of n samples, and decompose it; ``labels`` are those of the samples."""
    graph = AugmentationGraph.from_views(views, neighbors=neighbors, bandwidth=bandwidth, components=components)
    return survey_graph(graph, labels, classes=classes, k=k, seed=seed)


def survey_graph(
    graph: AugmentationGraph,
    labels: Array | None = None,
    *,
    classes: tuple[str, ...] = (),
    k: int = 32,
    seed: int = 0,
) -> GraphSurvey:
    """Decompose a graph; ``classes`` are the names of the labels 0, 1, ..."""
    if min(k + 1, graph.nodes) < 3:
        raise ValueError(
            f"Expected k >= 2 and three nodes or more, to look for a gap; got k = {k}, {graph.nodes} nodes."
        )
    eigenvalues = graph.eigenvalues(min(k + 1, graph.nodes))
    if labels is None:
        parts = GraphSurvey(graph, eigenvalues, graph.components()).gap_after
        return GraphSurvey(graph, eigenvalues, graph.cluster(graph.rank_within(parts), seed=seed), seed=seed)
    own = torch.as_tensor(labels)
    values = own.unique()
    names = tuple(classes[value] if 0 <= value < len(classes) else str(value) for value in values.tolist())
    found, dimensions = graph.node_labels(own), graph.rank_within(min(k, 2 * len(values)))
    certificates = (
        label_residual(graph, found, k=dimensions),
        probe_error(graph, found, k=dimensions),
        recovery_theorem(graph, own, k=dimensions, seed=seed),
        embedding_dimension(graph, found, k=dimensions),
    )
    clusters = graph.cluster(graph.rank_within(len(values)), seed=seed)
    return GraphSurvey(graph, eigenvalues, clusters, own, names, certificates, seed)
