"""Claims about the spectral contrastive loss and the augmentation graph."""

import itertools

import numpy as np
import torch
from torch import Tensor

from vergence.claims.claim import Outcome, claim, within
from vergence.claims.draws import gaussian
from vergence.objectives import spectral
from vergence.theory.graph import (
    AugmentationGraph,
    label_residual,
    matrix_factorization_loss,
    optimal_features,
    spectral_minimum,
    spectral_population_loss,
    spectral_probe,
    subspace_alignment,
)


def _world(seed: int, samples: int = 8, nodes: int = 12) -> AugmentationGraph:
    """A random kernel over few augmentations, with a random prior: every augmentation has a positive probability."""
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.full(nodes, 0.3), size=samples)
    return AugmentationGraph.from_kernel(kernel, prior=rng.dirichlet(np.ones(samples)))


def _minimized(graph: AugmentationGraph, k: int) -> Tensor:
    """Features that L-BFGS finds from a random start."""
    f = (0.5 * gaussian(graph.nodes, k)).requires_grad_()
    solver = torch.optim.LBFGS(
        [f], max_iter=300, tolerance_grad=1e-13, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        solver.zero_grad()
        loss = spectral_population_loss(f, graph)
        loss.backward()
        return loss

    solver.step(closure)
    return f.detach()


def _sub_graphs() -> AugmentationGraph:
    """Three classes apart, each two sub-graphs of four nodes with weaker edges between them."""
    inside, across = np.full((4, 4), 0.9 / 4), np.full((4, 4), 0.1 / 4)
    return AugmentationGraph.from_kernel(np.kron(np.eye(3), np.block([[inside, across], [across, inside]])))


@claim(
    71,
    "The matrix factorization loss is the spectral loss plus a constant, the squared norm of the normalized adjacency.",
    tolerance="1e-9",
)
def factorization_is_the_spectral_loss() -> Outcome:
    errors = []
    for seed in range(20):
        graph, f = _world(seed), gaussian(12, 3, seed=seed)
        constant = graph.normalized.power(2).sum()
        difference = matrix_factorization_loss(f, graph) - spectral_population_loss(f, graph)
        errors.append(abs(difference.item() - constant))
    return within(max(errors), 1e-9)


@claim(
    72,
    "The least population loss of k features is minus the sum of the top k squared eigenvalues; the features then span "
    "the top k eigenvectors, and E[f f'] has those eigenvalues.",
    tolerance="1e-6; angle 0.01 degrees",
)
def minimum_is_the_top_eigenspace() -> Outcome:
    graph, k = _world(0), 3
    f = _minimized(graph, k)
    excess = abs(spectral_population_loss(f, graph).item() - spectral_minimum(graph, k))
    moments = torch.linalg.eigvalsh(f.T @ (graph.degrees[:, None] * f)).flip(0)
    error = max(excess, (moments - graph.eigenvalues(k)).abs().max().item())
    angle = subspace_alignment(f, graph).largest_angle
    return Outcome(
        error <= 1e-6 and angle <= 0.01, f"largest error {error:.2g}, largest principal angle {angle:.2g} degrees"
    )


@claim(
    73,
    "The normalized adjacency is positive semi-definite with largest eigenvalue one, and the degree of an augmentation "
    "is its probability.",
    tolerance="1e-10",
)
def kernels_make_positive_graphs() -> Outcome:
    errors = []
    for seed in range(20):
        graph = _world(seed)
        values = np.linalg.eigvalsh(graph.normalized.toarray())
        marginal = graph.prior.numpy() @ graph.kernel.toarray()
        errors += [max(0.0, -values[0]), abs(values[-1] - 1), np.abs(graph.degrees.numpy() - marginal).max()]
    return within(max(errors), 1e-10)


@claim(
    74,
    "The eigenvalue one is repeated once per connected component, and the components are linearly separable.",
    tolerance="exact",
)
def components_are_separable() -> Outcome:
    kernel = np.zeros((6, 9))
    for component in range(3):
        rng = np.random.default_rng(component)
        kernel[2 * component : 2 * component + 2, 3 * component : 3 * component + 3] = rng.dirichlet(np.ones(3), size=2)
    graph = AugmentationGraph.from_kernel(kernel)
    ones = int((graph.eigenvalues(6) > 1 - 1e-9).sum())
    error = spectral_probe(graph, graph.components(), k=3).error
    figures = {"eigenvalues": graph.eigenvalues(6).tolist(), "features": optimal_features(graph, 3).tolist()}
    return Outcome(
        ones == 3 and error == 0, f"three components: eigenvalue one {ones} times, probe error {error}", figures
    )


@claim(
    75,
    "Scaling each feature row by a positive number and mixing the columns by an invertible matrix leaves the error of "
    "the best linear probe alone.",
    tolerance="equal predictions",
)
def probe_ignores_scaling_and_mixing() -> Outcome:
    changed = 0
    for seed in range(20):
        features, head = gaussian(50, 6, seed=seed), gaussian(6, 4, seed=seed + 100)
        scales, mixing = gaussian(50, 1, seed=seed + 200).exp(), gaussian(6, 6, seed=seed + 300)
        moved = (scales * features @ mixing) @ torch.linalg.solve(mixing, head)
        changed += int((moved.argmax(1) != (features @ head).argmax(1)).sum())
    return Outcome(changed == 0, f"{changed} of 1000 predictions changed")


@claim(
    76, "What the top k eigenvectors leave of the labels is at most y'Ly / (1 - gamma_{k+1}).", tolerance="no violation"
)
def label_residual_is_bounded() -> Outcome:
    slacks = []
    for seed in range(100):
        graph, labels = _world(seed), np.random.default_rng(seed).integers(3, size=12)
        slacks.append(min(label_residual(graph, labels, k=k).slack for k in (1, 3, 5)))
    return Outcome(min(slacks) >= -1e-9, f"300 random cases, smallest slack {min(slacks):.2g}")


@claim(
    77,
    "The batch estimate of the spectral loss is unbiased, and equals the authors' code for every mu.",
    tolerance="1e-12",
)
def batch_estimate_is_unbiased() -> Outcome:
    graph = _world(0, samples=3, nodes=3)
    f = 0.4 * torch.nn.functional.normalize(gaussian(3, 2))
    edges = torch.from_numpy(graph.adjacency.toarray())
    pairs = list(itertools.product(range(3), repeat=2))
    batches = itertools.product(pairs, repeat=2)
    mean = sum((edges[a] * edges[b] * spectral(f[[a[0], b[0]]], f[[a[1], b[1]]])).item() for a, b in batches)
    z1, z2 = gaussian(7, 4, seed=1), gaussian(7, 4, seed=2)
    gaps = [abs(spectral(z1, z2, mu=mu).item() - _authors(z1, z2, mu)) for mu in (0.5, 1.0, 3.0, 10.0)]
    return within(max(abs(mean - spectral_population_loss(f, graph).item()), *gaps), 1e-12)


def _authors(z1: Tensor, z2: Tensor, mu: float) -> float:
    """The released code's formula, pair by pair."""
    z1, z2 = (torch.stack([row * min(1.0, (mu**0.5 / row.norm()).item()) for row in z]) for z in (z1, z2))
    n = len(z1)
    attraction = sum((z1[i] @ z2[i]).item() for i in range(n)) / n
    repulsion = sum((z1[i] @ z2[j]).item() ** 2 for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    return (repulsion - 2 * attraction) / mu


@claim(
    78,
    "mu clips rows to the ball of radius sqrt(mu) and never lengthens short ones; on rows that long the loss is "
    "-2 u.u+ + mu (u.u')^2.",
    tolerance="1e-12",
)
def mu_clips_to_the_ball() -> Outcome:
    u1, u2 = (torch.nn.functional.normalize(gaussian(6, 4, seed=seed)) for seed in (1, 2))
    scores = u1 @ u2.T
    attraction, repulsion = scores.diagonal().mean(), (scores**2).fill_diagonal_(0).sum() / 30
    errors = []
    for mu in (0.5, 1.0, 4.0):
        errors.append(spectral(9 * u1, 9 * u2, mu=mu) - (mu * repulsion - 2 * attraction))
        errors.append(spectral(0.1 * u1, 0.1 * u2, mu=mu) - (1e-4 * repulsion - 2e-2 * attraction) / mu)
    return within(torch.stack(errors).abs().max().item(), 1e-12)


@claim(79, "The conductance of a single augmentation is one minus the share of its self-loop.", tolerance="1e-12")
def conductance_counts_self_loops() -> Outcome:
    graph = _world(0)
    loops = graph.adjacency.diagonal() / graph.degrees.numpy()
    return within(np.abs(graph.conductance(range(12)).numpy() - (1 - loops)).max(), 1e-12)


@claim(179, "A set of one augmentation has conductance one.", false=True, tolerance="strict")
def singletons_do_not_leak_everything() -> Outcome:
    singles = _world(0).conductance(range(12))
    return Outcome(bool((singles > 1 - 1e-9).all()), f"conductances from {singles.min():.3f} to {singles.max():.3f}")


@claim(80, "The embedding must have as many dimensions as the sub-graphs that the task tells apart.", tolerance="1e-12")
def dimensions_must_reach_the_sub_graphs() -> Outcome:
    graph, nodes = _sub_graphs(), np.arange(24)
    tasks = {"class": nodes // 8, "parity of the sub-graph": nodes // 4 % 2}
    seen = {name: [1 - spectral_probe(graph, task, k=k).error for k in (2, 3, 6)] for name, task in tasks.items()}
    error = np.abs(np.array(list(seen.values())) - [[2 / 3, 1, 1], [1 / 2, 1 / 2, 1]]).max()
    words = "; ".join(f"{name} {' / '.join(f'{a:.2f}' for a in row)}" for name, row in seen.items())
    return Outcome(bool(error <= 1e-12), f"accuracy at k = 2 / 3 / 6: {words}", {"accuracy": seen, "k": [2, 3, 6]})


@claim(
    171,
    "An edge is the probability that its two images are augmentations of the same image.",
    false=True,
    tolerance="strict",
)
def edges_are_joint_probabilities() -> Outcome:
    graph = AugmentationGraph.from_kernel(np.eye(4))
    loop = graph.adjacency[0, 0]
    words = f"images that share their source with certainty have an edge of {loop:.2f}; all edges together sum to one"
    return Outcome(bool(abs(loop - 1) < 1e-9), words)


@claim(172, "The learned features are the eigenvectors of the graph, row for row.", false=True, tolerance="1e-6")
def features_are_rescaled_eigenvectors() -> Outcome:
    graph = _world(0)
    raw = subspace_alignment(graph.eigenvectors(3), graph).largest_angle
    scaled = subspace_alignment(optimal_features(graph, 3), graph).largest_angle
    words = f"raw eigenvectors are {raw:.1f} degrees from the minimizer's span, those divided by sqrt(w) {scaled:.2g}"
    return Outcome(raw <= 1e-6, words)


@claim(
    173, "Any weighted graph is factorized exactly by as many features as it has nodes.", false=True, tolerance="1e-6"
)
def only_positive_graphs_factorize() -> Outcome:
    triangle = AugmentationGraph.from_adjacency(np.ones((3, 3)) - np.eye(3))
    left = spectral_population_loss(_minimized(triangle, 3), triangle).item() + triangle.normalized.power(2).sum()
    return Outcome(
        bool(left <= 1e-6),
        f"a triangle without self-loops (eigenvalues 1, -1/2, -1/2) keeps {left:.4f} of its norm 1.5",
    )
