"""The augmentation graph: identities of the spectral loss, certificates, and what is refused."""

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from vergence.report.graph import graph_figures
from vergence.theory import graph as graphs
from vergence.theory.graph import AugmentationGraph


def random_kernel(seed: int, *, samples: int = 6, nodes: int = 8, density: float = 0.4) -> np.ndarray:
    """Probabilities with many zeros, every augmentation reached: several components are common."""
    rng = np.random.default_rng(seed)
    kernel = rng.random((samples, nodes)) * (rng.random((samples, nodes)) < density)
    kernel[rng.integers(samples, size=nodes), np.arange(nodes)] += 0.1
    kernel[np.arange(samples), rng.integers(nodes, size=samples)] += 0.1
    return kernel / kernel.sum(axis=1, keepdims=True)


def random_graph(seed: int, **shape) -> AugmentationGraph:
    kernel = random_kernel(seed, **shape)
    prior = np.random.default_rng(seed + 1).dirichlet(np.ones(len(kernel)))
    return AugmentationGraph.from_kernel(kernel, prior=prior)


random_graphs = st.builds(
    random_graph,
    st.integers(0, 2**32 - 2),
    samples=st.integers(2, 9),
    nodes=st.integers(2, 9),
    density=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
)


def features_of(graph: AugmentationGraph, d: int) -> torch.Tensor:
    return torch.randn(graph.nodes, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d))


def close(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), atol=tolerance, rtol=0)


# The graph


def test_edges_are_the_expected_product_of_the_kernel():
    kernel, prior = random_kernel(3), np.random.default_rng(0).dirichlet(np.ones(6))
    graph = AugmentationGraph.from_kernel(kernel, prior=prior)
    close(graph.adjacency.toarray(), np.einsum("s,sx,sy->xy", prior, kernel, kernel))
    close(graph.degrees, prior @ kernel)
    close(graph.kernel.toarray(), kernel)
    close(graph.prior, prior)


@settings(deadline=None, max_examples=25)
@given(random_graphs)
def test_eigenpairs_are_those_of_the_dense_normalized_adjacency(graph):
    k = graph.rank_within(graph.nodes)
    dense = graph.normalized.toarray()
    values, vectors = graph.eigenvalues(graph.nodes), graph.eigenvectors(k)
    close(values, np.linalg.eigvalsh(dense)[::-1])
    close(dense @ vectors.numpy(), (vectors * values[:k]).numpy())
    close(vectors.T @ vectors, np.eye(k))
    assert k == np.linalg.matrix_rank(dense, tol=1e-10)


@settings(deadline=None, max_examples=25)
@given(random_graphs)
def test_a_kernels_graph_equals_the_graph_of_its_adjacency(graph):
    again = AugmentationGraph.from_adjacency(graph.adjacency)
    assert again.positive_semidefinite
    close(again.eigenvalues(graph.nodes), graph.eigenvalues(graph.nodes))
    close(again.components(), graph.components())
    close(again.laplacian.toarray(), graph.laplacian.toarray())


@settings(deadline=None, max_examples=25)
@given(random_graphs)
def test_eigenvalue_one_is_repeated_once_per_component(graph):
    components = graph.components()
    count = int(components.max()) + 1
    values = graph.eigenvalues(graph.nodes)
    assert int((values > 1 - 1e-9).sum()) == count
    close(graph.conductance(components), np.zeros(count))


@pytest.fixture
def iterative(monkeypatch):
    """Small graphs through the solver of large ones."""
    monkeypatch.setattr(graphs.eigen, "DENSE", 0)
    monkeypatch.setattr(graphs.augmentation, "DENSE", 0)


@pytest.mark.parametrize(("samples", "nodes"), [(60, 200), (200, 60)])
@pytest.mark.usefixtures("iterative")
def test_iterative_eigenpairs_are_the_dense_ones_on_either_side_of_the_kernel(samples, nodes):
    by_kernel = random_graph(5, samples=samples, nodes=nodes, density=0.05)
    by_adjacency = AugmentationGraph.from_adjacency(by_kernel.adjacency)
    dense = by_kernel.normalized.toarray()
    for graph in (by_kernel, by_adjacency):
        values, vectors = graph.eigenvalues(8).numpy(), graph.eigenvectors(8).numpy()
        close(values, np.linalg.eigvalsh(dense)[:-9:-1])
        close(dense @ vectors, vectors * values, 1e-9)
        close(vectors.T @ vectors, np.eye(8), 1e-9)


@pytest.mark.usefixtures("iterative")
def test_a_repeated_top_eigenvalue_is_not_missed_by_the_iterative_solver():
    kernel = sparse.kron(sparse.eye_array(12), np.full((5, 5), 0.2)).tocsr()
    graph = AugmentationGraph.from_kernel(kernel)
    close(graph.eigenvalues(12), np.ones(12))
    close(graph.cluster(12)[::5].unique(), np.arange(12))


# Partitions and labels


def sparsest(graph: AugmentationGraph, m: int) -> float:
    parts = (p for p in itertools.product(range(m), repeat=graph.nodes) if len(set(p)) == m)
    return min(graph.conductance(p).max().item() for p in parts)


@settings(deadline=None, max_examples=12)
@given(random_graphs.filter(lambda graph: 3 <= graph.nodes <= 6), st.integers(1, 3))
def test_the_sparsest_partition_lies_between_its_bounds(graph, m):
    low, high = graph.sparsest_partition(m)
    assert low - 1e-9 <= sparsest(graph, m) <= high + 1e-9


@settings(deadline=None, max_examples=25)
@given(random_graphs, st.integers(2, 4))
def test_disagreement_is_the_laplacian_form_and_at_most_twice_alpha(graph, classes):
    labels = np.arange(graph.samples) % classes
    nodes = graph.node_labels(labels)
    y = torch.nn.functional.one_hot(nodes).double() * graph.degrees.sqrt()[:, None]
    close(graph.disagreement(nodes), torch.trace(y.T @ torch.from_numpy(graph.laplacian @ y.numpy())))
    close(graph.disagreement(nodes), graph.degrees @ graph.crossing(nodes))
    assert graph.disagreement(nodes) <= 2 * graph.label_error(labels) + 1e-12


def test_alpha_is_the_least_error_over_every_function_of_an_augmentation():
    graph, labels = random_graph(11, samples=5, nodes=6), np.array([0, 1, 0, 1, 2])
    kernel, prior = graph.kernel.toarray(), graph.prior.numpy()
    errors = [
        sum(prior[s] * kernel[s] @ (np.array(g) != labels[s]) for s in range(5))
        for g in itertools.product(range(3), repeat=6)
    ]
    close(graph.label_error(labels), min(errors))


def test_clustering_finds_planted_clusters():
    planted = np.repeat(np.arange(4), 6)
    kernel = np.where(planted[:, None] == planted, 1.0, 0.02)
    graph = AugmentationGraph.from_kernel(kernel / kernel.sum(axis=1, keepdims=True))
    found = graph.cluster(4).numpy()
    assert len({(a, b) for a, b in zip(planted, found, strict=True)}) == 4


# The spectral loss


@settings(deadline=None, max_examples=25)
@given(random_graphs, st.integers(1, 4))
def test_no_features_beat_the_spectral_minimum_and_the_optimal_ones_reach_it(graph, k):
    k = graph.rank_within(min(k, graph.nodes))
    optimal, least = graphs.optimal_features(graph, k), graphs.spectral_minimum(graph, k)
    close(graphs.spectral_population_loss(optimal, graph), least)
    assert graphs.spectral_population_loss(features_of(graph, k), graph) >= least
    moment = optimal.T @ (graph.degrees[:, None] * optimal)
    close(torch.linalg.eigvalsh(moment).flip(0), graph.eigenvalues(k))


def test_the_population_loss_is_the_same_from_a_kernel_and_from_an_adjacency():
    graph = random_graph(2)
    f = features_of(graph, 3)
    again = AugmentationGraph.from_adjacency(graph.adjacency)
    close(graphs.spectral_population_loss(f, again), graphs.spectral_population_loss(f, graph))


def test_float32_features_get_a_float32_loss_near_the_float64_one():
    graph = random_graph(4)
    f = features_of(graph, 3)
    loss = graphs.spectral_population_loss(f.float(), graph)
    assert loss.dtype == torch.float32
    close(loss, graphs.spectral_population_loss(f, graph), 1e-4)


# Alignment


@settings(deadline=None, max_examples=25)
@given(random_graphs, st.integers(1, 3))
def test_optimal_features_have_no_angle_under_any_mixing(graph, k):
    k = graph.rank_within(min(k, graph.nodes))
    mixing = features_of(graph, 9)[:1, :1] + 2 * torch.eye(k, dtype=torch.float64)
    found = graphs.subspace_alignment(graphs.optimal_features(graph, k) @ mixing, graph)
    close(found.angles, np.zeros(k), 1e-6)
    close(found.captured, np.ones(k))
    assert found.rank == k


def test_features_in_other_eigenvectors_capture_nothing():
    graph = random_graph(7, density=1.0)
    others = graph.eigenvectors(4)[:, 2:] / graph.degrees.sqrt()[:, None]
    found = graphs.subspace_alignment(others, graph)
    close(found.angles, [90.0, 90.0])
    close(found.captured, [0.0, 0.0])


def test_a_tilt_of_one_eigenvector_is_its_angle():
    graph = random_graph(7, density=1.0)
    first, second, third = graph.eigenvectors(3).T
    tilt = np.deg2rad(3)
    tilted = torch.stack([first, np.cos(tilt) * second + np.sin(tilt) * third], dim=1)
    found = graphs.subspace_alignment(tilted / graph.degrees.sqrt()[:, None], graph)
    close(found.angles, [0.0, 3.0], 1e-6)
    close(found.captured, [1.0, np.cos(tilt) ** 2])


def test_directions_that_collapsed_features_lack_are_at_ninety_degrees():
    graph = random_graph(7, density=1.0)
    found = graphs.subspace_alignment(torch.ones(graph.nodes, 3), graph)
    assert found.rank == 1
    close(found.angles, [0.0, 90.0, 90.0], 1e-5)


# Certificates


@settings(deadline=None, max_examples=25)
@given(random_graphs, st.integers(1, 6), st.integers(0, 1000))
def test_no_random_labels_violate_the_probe_bounds(graph, k, seed):
    k = graph.rank_within(min(k, graph.nodes))
    labels = np.random.default_rng(seed).integers(3, size=graph.nodes)
    for certificate in (graphs.label_residual(graph, labels, k=k), graphs.probe_error(graph, labels, k=k)):
        assert certificate.holds, certificate


@settings(deadline=None, max_examples=25)
@given(random_graphs, st.integers(0, 1000))
def test_majority_voting_at_most_doubles_the_error(graph, seed):
    rng = np.random.default_rng(seed)
    labels, predictions = rng.integers(3, size=graph.samples), rng.integers(3, size=graph.nodes)
    single = graph.prior.numpy() @ (graph.kernel.toarray() * (predictions != labels[:, None])).sum(axis=1)
    assert graphs.majority_error(graph, predictions, labels) <= 2 * single + 1e-12


def test_the_formal_theorem_states_what_it_hides():
    graph = random_graph(7, samples=8, nodes=8, density=1.0)
    found = graphs.recovery_theorem(graph, np.arange(8) % 2, k=4)
    assert found.assumptions["the constant and logarithm that O~ hides are one"] == "assumed"
    close(found.right, found.terms["alpha"] / found.terms["rho_low"] ** 2)
    assert found.terms["rho_low"] <= found.terms["rho_high"]


def test_too_few_dimensions_are_a_violated_condition_with_the_probe_error_beside_it():
    kernel = np.kron(np.eye(6), np.full((2, 2), 0.5))
    graph = AugmentationGraph.from_kernel(kernel)
    labels = np.repeat(np.arange(6), 2)
    found = [graphs.embedding_dimension(graph, labels, k=k) for k in (3, 6)]
    assert [c.holds for c in found] == [False, False]
    close([c.terms["probe_error"] for c in found], [0.5, 0.0])


# Empirical graphs


def clouds(n: int = 30, m: int = 4, *, apart: float = 50.0) -> torch.Tensor:
    """Two far clouds of samples, each with m noisy views."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(n, 1, 5, generator=generator)
    centers[n // 2 :] += apart
    return centers + 0.3 * torch.randn(n, m, 5, generator=generator)


def test_views_of_two_far_clouds_make_two_components():
    graph = AugmentationGraph.from_views(clouds(), neighbors=12)
    assert graph.nodes == 120
    assert graph.samples == 30
    close(graph.components(), np.repeat([0, 1], 60) if graph.components()[0] == 0 else np.repeat([1, 0], 60))
    close(graph.label_error(np.repeat([0, 1], 15)), 0.0)


def test_one_neighbor_leaves_only_the_views_of_a_sample_connected():
    graph = AugmentationGraph.from_views(clouds(10, 3), neighbors=1)
    close(graph.adjacency.toarray(), np.kron(np.eye(10), np.full((3, 3), 1 / 90)))


def test_the_smoothed_kernel_is_the_stated_gaussian():
    views = clouds(4, 2, apart=1.0)
    graph = AugmentationGraph.from_views(views, neighbors=8, bandwidth=0.7)
    points = views.reshape(8, 5).double().numpy()
    weights = np.exp(-np.square(points[:, None] - points[None]).sum(axis=2) / (2 * 0.7**2))
    expected = (weights / weights.sum(axis=1, keepdims=True)).reshape(4, 2, 8).mean(axis=1)
    close(graph.kernel.toarray(), expected, 1e-5)
    assert "bandwidth 0.7" in graph.note


def test_principal_components_keep_what_lies_in_a_subspace():
    plane = torch.linalg.qr(torch.randn(80, 5, generator=torch.Generator().manual_seed(1))).Q
    plain, lifted = (AugmentationGraph.from_views(views) for views in (clouds(), clouds() @ plane.T))
    assert "64 dimensions" in lifted.note
    close(lifted.kernel.toarray(), plain.kernel.toarray(), 1e-4)


def test_neighbors_are_the_nearest_in_order_across_tiles(monkeypatch):
    monkeypatch.setattr(graphs.smoothing, "TILE", 7)
    points = clouds(10, 3).reshape(30, 5)
    squares, indices = graphs.smoothing.nearest(points, 4)
    exact = torch.cdist(points.double(), points.double()).square().topk(4, largest=False)
    close(indices, exact.indices)
    close(squares, exact.values, 1e-2)


# The survey


def planted_survey(labels: bool = True) -> graphs.GraphSurvey:
    """Three classes of four samples; a little of the first sample's mass lies in the second class."""
    kernel = np.kron(np.eye(3), np.full((4, 4), 0.25)) * 0.94 + 0.02 * np.kron(np.ones((3, 3)), np.full((4, 4), 0.25))
    kernel[0, 4:8] += 0.05
    graph = AugmentationGraph.from_kernel(kernel / kernel.sum(axis=1, keepdims=True))
    return graphs.survey_graph(graph, np.repeat([0, 1, 2], 4) if labels else None, classes=("a", "b", "c"), k=3)


def test_the_survey_finds_the_gap_the_mixing_and_the_bridge():
    found = planted_survey()
    assert found.gap_after == 3
    assert found.bridges(1)[0][0] == 0
    close(found.mixing.sum(), 1.0)
    close(found.mixing.amax(dim=1).sum(), 1 - found.alpha, 1e-9)
    assert found.probe_curve[-1] == (3, 0.0)
    assert all(certificate.holds for certificate in found.certificates[:2])


def test_bridging_is_the_chance_of_meeting_another_class():
    found = planted_survey()
    graph, labels = found.graph, found.labels.numpy()
    kernel, prior, degrees = graph.kernel.toarray(), graph.prior.numpy(), graph.degrees.numpy()
    other = labels[:, None] != labels[None, :]
    close(graph.bridging(labels), np.einsum("sx,x,tx,t,st->s", kernel, 1 / degrees, kernel, prior, other))


def test_the_survey_is_told_drawn_and_dumped_with_and_without_labels():
    for labels, figures in ((True, {"spectrum", "layout", "mixing", "probe"}), (False, {"spectrum", "layout"})):
        found = planted_survey(labels)
        assert set(graph_figures(found)) == figures
        assert json.loads(json.dumps(found.to_dict()))["gap_after"] == 3
        assert "largest gap after 3 eigenvalues" in found.summary()
        assert ("alpha" in found.summary()) is labels


def test_a_class_that_no_node_belongs_to_keeps_its_name():
    graph = AugmentationGraph.from_kernel(np.kron(np.eye(3), np.full((3, 2), 0.5)))
    found = graphs.survey_graph(graph, [0, 0, 3, 0, 0, 0, 2, 2, 2], classes=("a", "b", "c"))
    assert found.classes == ("a", "c", "3")
    assert set(found.graph.node_labels(found.labels).tolist()) == {0, 2}
    drawn = graph_figures(found)["layout"].legends[0].get_texts()
    assert [text.get_text() for text in drawn] == ["a", "c", "3"]


def test_a_survey_of_two_nodes_is_refused():
    with pytest.raises(ValueError, match="three nodes or more"):
        graphs.survey_graph(AugmentationGraph.from_kernel(np.full((2, 2), 0.5)))


# Bad input


@pytest.mark.parametrize(
    ("adjacency", "reason"),
    [
        ([[1.0, 0.5], [0.2, 1.0]], r"symmetric.*entry \(0, 1\) is 0.5"),
        ([[1.0, -0.5], [-0.5, 1.0]], r"non-negative.*entry \(0, 1\) is -0.5"),
        ([[1.0, 0.0], [0.0, 0.0]], r"1 isolated nodes \(1\)"),
        ([[1.0, 0.5]], r"square.*\(1, 2\)"),
        ([[1.0, float("nan")], [float("nan"), 1.0]], "not finite"),
    ],
)
def test_an_adjacency_that_is_no_graph_is_refused_with_the_reason(adjacency, reason):
    with pytest.raises(ValueError, match=reason):
        AugmentationGraph.from_adjacency(adjacency)


@pytest.mark.parametrize(
    ("kernel", "prior", "reason"),
    [
        ([[0.5, 0.4]], None, "Row 0 sums to 0.9"),
        ([[1.5, -0.5]], None, r"non-negative kernel.*\(0, 1\) is -0.5"),
        ([[1.0, 0.0]], None, "isolated"),
        ([[1.0], [1.0]], [1.0], "prior of 2 positive probabilities"),
        ([[1.0], [1.0]], [1.0, 0.0], "prior of 2 positive probabilities"),
    ],
)
def test_a_kernel_that_is_not_one_is_refused_with_the_reason(kernel, prior, reason):
    with pytest.raises(ValueError, match=reason):
        AugmentationGraph.from_kernel(kernel, prior=prior)


def test_a_graph_that_is_not_positive_semidefinite_is_refused_by_the_factorization():
    triangle = AugmentationGraph.from_adjacency(np.ones((3, 3)) - np.eye(3))
    assert not triangle.positive_semidefinite
    for call in (
        lambda: graphs.matrix_factorization_loss(torch.ones(3, 1), triangle),
        lambda: graphs.spectral_minimum(triangle, 1),
        lambda: graphs.optimal_features(triangle, 1),
    ):
        with pytest.raises(ValueError, match="not positive semi-definite"):
            call()


def test_k_above_the_rank_or_the_nodes_is_refused():
    graph = AugmentationGraph.from_kernel(np.full((3, 4), 0.25))
    with pytest.raises(ValueError, match=r"rank 1 .*Use k <= 1"):
        graph.eigenvectors(2)
    with pytest.raises(ValueError, match="1 <= k <= 4, the number of nodes; got k = 5"):
        graph.eigenvalues(5)


def test_labels_and_features_of_the_wrong_length_are_refused():
    graph = random_graph(0)
    with pytest.raises(ValueError, match="each of the 8 nodes"):
        graph.conductance([0, 1])
    with pytest.raises(ValueError, match="each of the 6 natural samples"):
        graph.label_error([0, 1])
    with pytest.raises(ValueError, match="each of the 8 nodes"):
        graphs.subspace_alignment(torch.ones(3, 2), graph)
    with pytest.raises(ValueError, match="does not know its samples"):
        AugmentationGraph.from_adjacency(graph.adjacency).label_error([0, 1])


def test_options_of_the_empirical_graph_are_checked():
    views = clouds(3, 2)
    with pytest.raises(ValueError, match="1 <= neighbors <= 6, the number of views; got 7"):
        AugmentationGraph.from_views(views, neighbors=7)
    with pytest.raises(ValueError, match="positive bandwidth"):
        AugmentationGraph.from_views(views, neighbors=6, bandwidth=-1.0)
    with pytest.raises(ValueError, match="not finite"):
        AugmentationGraph.from_views(views * float("nan"), neighbors=6)
