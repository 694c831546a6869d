"""Bounds on the error of a linear probe: some that can be computed, and the formal theorem up to its constants."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.theory.certificate import Certificate
from vergence.theory.graph.augmentation import AugmentationGraph
from vergence.theory.graph.checks import Array, indicators, label_indices
from vergence.theory.graph.subspaces import feature_basis
from vergence.types import Labels

PAPER = "HaoChen et al. (2021). https://arxiv.org/abs/2106.04156"
# Two labels fitted this closely are a tie, which goes to the smaller one: rounding must not choose.
TIE = 1e-9


class Probe(NamedTuple):
    """A least-squares probe on the whole population: its predictions, how often it errs, what it leaves unexplained."""

    predictions: Labels
    error: float
    residual: float


def population_probe(features: Float[Tensor, "nodes d"], graph: AugmentationGraph, labels: Array) -> Probe:
    r"""The linear probe without sampling error: one-hot labels of nodes regressed on features, weighed by the degrees.

    Its residual is :math:`\sum_c \|P_\perp y_c\|^2` with :math:`y_c(x) = \sqrt{w_x} 1[\text{label} = c]`, at most one.
    An invertible matrix that mixes the features changes nothing.
    """
    return _probe(feature_basis(features, graph), graph, labels)


def spectral_probe(graph: AugmentationGraph, labels: Array, *, k: int) -> Probe:
    """The probe on the top k eigenvectors: what perfect spectral features would give."""
    return _probe(graph.eigenvectors(k), graph, labels)


def majority_error(graph: AugmentationGraph, predictions: Array, labels: Array) -> float:
    """The error on natural samples when each takes the majority of the predictions on its augmentations.

    References:
        HaoChen et al. (2021), Sec. 3.2.
    """
    values, indices = label_indices(predictions, graph.nodes, "nodes")
    votes = (graph.kernel @ indicators(indices)).toarray()
    known, own = label_indices(labels, graph.kernel.shape[0], "natural samples")
    wrong = values[votes.argmax(axis=1)] != known[own]
    return graph.prior[torch.from_numpy(wrong)].sum().item()


def label_residual(graph: AugmentationGraph, labels: Array, *, k: int) -> Certificate:
    r"""What k eigenvectors leave of the nodes' labels: :math:`\sum_c\|P_\perp y_c\|^2 \le y^\top L y/(1-\gamma_{k+1})`.

    The quadratic form, summed over classes, is the probability that the two ends of an edge disagree. Vacuous from what
    a constant leaves, one minus the sum of the squared class shares.
    """
    probe, bound, terms = _measured(graph, labels, k)
    constant = 1 - _shares(graph, labels).square().sum().item()
    return Certificate(
        "label residual <= y'Ly / (1 - gamma_{k+1})",
        PAPER,
        probe.residual,
        bound,
        vacuous=bound >= constant,
        assumptions={"top eigenvectors of this graph": "measured"},
        terms={**terms, "residual_of_a_constant": constant},
    )


def probe_error(graph: AugmentationGraph, labels: Array, *, k: int) -> Certificate:
    r"""The error of the linear probe on k spectral features: at most twice the bound of ``label_residual``.

    A least-squares fit p that puts a wrong label first has :math:`\|p - e_y\|^2 \ge 1/2`. The bound is at most
    :math:`4\alpha/(1-\gamma_{k+1})`, with no hidden constant, and vacuous from the error of always saying the commonest
    label.
    """
    probe, bound, terms = _measured(graph, labels, k)
    chance = 1 - _shares(graph, labels).max().item()
    return Certificate(
        "probe error <= 2 y'Ly / (1 - gamma_{k+1})",
        PAPER,
        probe.error,
        2 * bound,
        vacuous=2 * bound >= chance,
        assumptions={"top eigenvectors of this graph": "measured"},
        terms={**terms, "chance_error": chance},
    )


def recovery_theorem(graph: AugmentationGraph, labels: Array, *, k: int, seed: int = 0) -> Certificate:
    r"""The formal theorem: natural samples have error :math:`\tilde O(\alpha/\rho^2_{\lfloor k/2\rfloor})` if k >= 2r.

    The statement hides its constant and a logarithm: the right side has one in their place, and the lower bound on
    :math:`\rho`, so a violation would refute nothing.

    References:
        HaoChen et al. (2021), Thm 3.7.
    """
    alpha, classes = graph.label_error(labels), graph.label_probabilities(labels).shape[1]
    probe = spectral_probe(graph, graph.node_labels(labels), k=k)
    lower, upper = graph.sparsest_partition(max(1, k // 2), seed=seed)
    right = alpha / lower**2 if lower > 0 else math.inf
    return Certificate(
        "error <= O~(alpha / rho^2) with rho of floor(k/2) parts",
        PAPER,
        majority_error(graph, probe.predictions, labels),
        right,
        vacuous=right >= 1 or k < 2 * classes,
        assumptions={
            "the constant and logarithm that O~ hides are one": "assumed",
            "rho": "estimated from below",
            "alpha": "measured",
            "k >= 2r": "measured" if k >= 2 * classes else "assumed",
        },
        terms={
            "alpha": alpha,
            "rho_low": lower,
            "rho_high": upper,
            "k": k,
            "classes": classes,
            "probe_error": probe.error,
        },
    )


def embedding_dimension(graph: AugmentationGraph, labels: Array, *, k: int) -> Certificate:
    """The theorem's condition on the embedding dimension: at least twice the number of classes, 2r <= k.

    With fewer dimensions than sub-graphs the task tells apart, no probe can tell them apart: the terms hold the
    measured error, which falls to its floor once every such sub-graph has its own direction.
    """
    classes, probe = len(_shares(graph, labels)), spectral_probe(graph, labels, k=k)
    return Certificate(
        "2 x classes <= embedding dimension",
        PAPER,
        2.0 * classes,
        float(k),
        assumptions={"labels of nodes": "measured"},
        terms={"probe_error": probe.error, "residual": probe.residual},
    )


def _shares(graph: AugmentationGraph, labels: Array) -> Tensor:
    """The probability of each label of the nodes."""
    return torch.bincount(torch.from_numpy(label_indices(labels, graph.nodes, "nodes")[1]), graph.degrees)


def _probe(basis: Tensor, graph: AugmentationGraph, labels: Array) -> Probe:
    values, indices = map(torch.from_numpy, label_indices(labels, graph.nodes, "nodes"))
    wanted = torch.nn.functional.one_hot(indices).double() * graph.degrees.sqrt()[:, None]
    fitted = basis @ (basis.T @ wanted)
    scores = fitted / graph.degrees.sqrt()[:, None]
    chosen = (scores > scores.amax(dim=1, keepdim=True) - TIE).int().argmax(dim=1)
    error = graph.degrees[chosen != indices].sum().item()
    return Probe(values[chosen], error, (wanted - fitted).square().sum().item())


def _measured(graph: AugmentationGraph, labels: Array, k: int) -> tuple[Probe, float, dict[str, float]]:
    following = graph.eigenvalues(k + 1)[-1].item() if k < graph.nodes else 0.0
    probe = spectral_probe(graph, labels, k=k)
    disagreement = graph.disagreement(labels)
    # Within rounding of one the graph has more than k components, and the bound is vacuous.
    bound = disagreement / (1 - following) if 1 - following > TIE else math.inf
    terms = {
        "disagreement": disagreement,
        "gamma": following,
        "k": k,
        "probe_error": probe.error,
        "residual": probe.residual,
    }
    return probe, bound, terms
