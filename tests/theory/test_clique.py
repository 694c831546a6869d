"""Maximum cliques: exact against another solver, bounded when stopped."""

import networkx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vergence.theory import Clique, cover_clique, maximum_clique


def graph(n, density, seed):
    edges = torch.rand(n, n, generator=torch.Generator().manual_seed(seed)).triu(1) > 1 - density
    return edges | edges.T


def is_clique(adjacency, members):
    inside = adjacency[list(members)][:, list(members)] | torch.eye(len(members), dtype=torch.bool)
    return bool(inside.all())


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 25), density=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_the_largest_clique_is_the_one_networkx_finds(n, density, seed):
    adjacency = graph(n, density, seed)
    found = maximum_clique(adjacency)
    expected, _ = networkx.max_weight_clique(networkx.from_numpy_array(adjacency.numpy()), weight=None)
    assert found.exact
    assert len(found.members) == len(expected)
    assert is_clique(adjacency, found.members)


def test_a_search_that_is_stopped_brackets_the_answer():
    adjacency = graph(120, 0.7, 0)
    answer = len(maximum_clique(adjacency, seconds=60.0).members)
    stopped = maximum_clique(adjacency, seconds=0.0)
    assert not stopped.exact
    assert len(stopped.members) <= answer <= stopped.upper
    assert is_clique(adjacency, stopped.members)


def test_a_known_clique_is_never_lost():
    adjacency = graph(60, 0.3, 1)
    planted = list(range(0, 60, 4))
    adjacency[torch.tensor(planted)[:, None], torch.tensor(planted)] = True
    assert set(planted) <= set(maximum_clique(adjacency, seconds=0.0, known=planted).members)


def test_cliques_larger_than_the_call_stack():
    adjacency = torch.ones(1500, 1500, dtype=torch.bool)
    adjacency[0, 1:] = adjacency[1:, 0] = False
    assert maximum_clique(adjacency).members == tuple(range(1, 1500))


def test_the_diagonal_does_not_matter():
    adjacency = graph(30, 0.5, 2)
    assert maximum_clique(adjacency) == maximum_clique(adjacency | torch.eye(30, dtype=torch.bool))


@pytest.mark.parametrize("solver", [maximum_clique, cover_clique])
def test_the_smallest_graphs(solver):
    assert solver(torch.zeros(0, 0, dtype=torch.bool)) == Clique((), 0)
    assert solver(torch.zeros(1, 1, dtype=torch.bool)) == Clique((0,), 1)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 25), density=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_the_cover_brackets_the_answer(n, density, seed):
    adjacency = graph(n, density, seed)
    found = cover_clique(adjacency)
    assert is_clique(adjacency, found.members)
    assert len(found.members) <= len(maximum_clique(adjacency).members) <= found.upper
