"""The kernel equals the plain matrix of scores, however it is cut, and so does its gradient."""

import pytest
import torch
from torch.nn.functional import normalize

from vergence.objectives import pairwise
from vergence.objectives.gram import squared_scores
from vergence.objectives.pairwise import (
    contrast,
    cross_contrast,
    cross_log_sums,
    log_mean,
    log_sums,
    view_contrast,
    view_spread,
)


def directions(n, d=4, seed=0):
    z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return normalize(z, dim=1).requires_grad_()


def dense_contrast(u, temperature):
    n = len(u) // 2
    scores, same = u @ u.T / temperature, torch.eye(2 * n, dtype=torch.bool)
    partner = same.roll(n, 0)
    return scores.masked_fill(same | partner, -torch.inf).logsumexp(1) - scores[partner]


def dense_cross(query, key, temperature):
    scores, same = query @ key.T / temperature, torch.eye(len(query), dtype=torch.bool)
    return scores.masked_fill(same, -torch.inf).logsumexp(1) - scores.diagonal()


@pytest.fixture(params=["one tile", "tiles", "tiles, half of them kept", "steep"])
def cut(request, monkeypatch):
    """Every way through the kernel, on batches small enough for the plain matrix."""
    if request.param.startswith("tiles"):
        monkeypatch.setattr(pairwise, "CPU_TILE", 5)
        monkeypatch.setattr(pairwise, "MIRRORED", 2)
        monkeypatch.setattr(pairwise, "KEPT", 100 if "kept" in request.param else 0)
    if request.param == "steep":
        monkeypatch.setattr(pairwise, "CPU_TILE", 5)
        monkeypatch.setattr(pairwise, "STEEP", 0.0)


@pytest.mark.parametrize("n", [2, 3, 5, 7, 13])
def test_the_contrast_of_two_views_is_the_dense_one(cut, n):
    u, temperature = directions(2 * n), torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(2 * n, dtype=torch.float64)
    same_with_gradient(contrast(u, temperature=temperature), dense_contrast(u, temperature), weights, u, temperature)


@pytest.mark.parametrize("n", [2, 3, 5, 13])
def test_the_contrast_of_embeddings_is_that_of_their_directions(cut, n):
    z1, z2 = (3 * directions(n, seed=seed).detach() for seed in (0, 1))
    z1, z2, temperature = z1.requires_grad_(), z2.requires_grad_(), torch.tensor(0.3).double().requires_grad_()
    ours = view_contrast(z1, z2, temperature=temperature)
    dense = dense_contrast(normalize(torch.cat([z1, z2]), dim=1), temperature)
    same_with_gradient(ours, dense, torch.rand(2 * n, dtype=torch.float64), z1, z2, temperature)


@pytest.mark.parametrize("n", [2, 5, 11])
def test_the_contrast_of_queries_and_keys_is_the_dense_one_both_ways(cut, n):
    query, key = directions(n), directions(n, seed=1)
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    ours = torch.cat(cross_contrast(query, key, temperature=temperature))
    dense = torch.cat([dense_cross(query, key, temperature), dense_cross(key, query, temperature)])
    same_with_gradient(ours, dense, torch.rand(2 * n, dtype=torch.float64), query, key, temperature)


@pytest.mark.parametrize(("n", "k"), [(2, 3), (7, 12), (12, 7)])
def test_the_log_sums_are_the_dense_ones(cut, n, k):
    u, candidates = directions(n), directions(k, seed=1)
    scores = (u @ u.T / 0.3).masked_fill(torch.eye(n, dtype=torch.bool), -torch.inf)
    weights = torch.rand(n, dtype=torch.float64)
    same_with_gradient(log_sums(u, temperature=0.3), scores.logsumexp(1), weights, u)
    ours = cross_log_sums(u, candidates, temperature=0.3)
    same_with_gradient(ours, (u @ candidates.T / 0.3).logsumexp(1), weights, u, candidates)


@pytest.mark.parametrize("n", [2, 7, 13])
def test_the_log_mean_is_over_distinct_pairs(cut, n):
    u = directions(n)
    scores = (u @ u.T - 1)[~torch.eye(n, dtype=torch.bool)] / 0.3
    same_with_gradient(log_mean(u, temperature=0.3), scores.exp().mean().log(), torch.tensor(1.0).double(), u)


@pytest.mark.parametrize("mirrored", [1, 3, 64])
@pytest.mark.parametrize("n", [2, 3, 7, 13])
def test_the_spread_of_two_views_is_that_of_their_directions(cut, mirrored, n, monkeypatch):
    monkeypatch.setattr(pairwise, "MIRRORED", mirrored)
    z1, z2 = ((3 * directions(n, seed=seed)).detach().requires_grad_() for seed in (0, 1))
    u1, u2 = normalize(z1, dim=1), normalize(z2, dim=1)
    spread = sum(((u @ u.T - 1)[~torch.eye(n, dtype=torch.bool)] / 0.3).exp().mean().log() for u in (u1, u2)) / 2
    dense, weights = torch.stack([(u1 - u2).square().sum(1).mean(), spread]), torch.tensor([1.7, 0.4]).double()
    same_with_gradient(torch.stack(view_spread(z1, z2, temperature=0.3)), dense, weights, z1, z2)


@pytest.mark.parametrize(("m", "k", "d"), [(9, 7, 3), (3, 5, 8)])
def test_squared_scores_come_from_the_smaller_side(m, k, d):
    z1, z2 = directions(m, d), directions(k, d, seed=1)
    same_with_gradient(squared_scores(z1, z2), (z1 @ z2.T).square().sum(), torch.tensor(1.0).double(), z1, z2)


def test_gradients_agree_with_finite_differences():
    u, v, temperature = directions(6), directions(6, seed=1), torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u, t: contrast(u, temperature=t), (u, temperature))
    assert torch.autograd.gradcheck(lambda u, v, t: cross_contrast(u, v, temperature=t), (u, v, temperature))
    assert torch.autograd.gradcheck(lambda u, v, t: view_contrast(u, v, temperature=t), (u, v, temperature))
    assert torch.autograd.gradcheck(lambda u, v: view_spread(u, v, temperature=0.4), (u, v))
    assert torch.autograd.gradcheck(squared_scores, (u, v))


def test_a_second_backward_pass_through_a_kept_graph_gives_the_same():
    u = directions(8)
    values = contrast(u, temperature=0.2).sum()
    first, second = (torch.autograd.grad(values, u, retain_graph=True)[0] for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize(
    "kernel",
    [
        lambda u: contrast(u, temperature=0.2),
        lambda u: view_contrast(u, u, temperature=0.2),
        lambda u: log_mean(u, temperature=0.2),
        lambda u: sum(view_spread(u, u.flip(0), temperature=0.2)),
        lambda u: squared_scores(u, u),
    ],
)
def test_a_second_derivative_is_refused(kernel):
    u = directions(8)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(kernel(u).sum(), u, create_graph=True)


@pytest.mark.parametrize("temperature", [0.01, 0.1])
def test_autocast_does_not_lower_the_precision(temperature):
    u = directions(16).detach().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lowered = contrast(u, temperature=temperature)
    torch.testing.assert_close(lowered, contrast(u, temperature=temperature), rtol=0, atol=0)


@pytest.mark.parametrize("temperature", [1e-4, 0.01, 1 / 70])
def test_low_temperatures_do_not_overflow(temperature):
    u = directions(64, d=2).detach().float()
    values = contrast(torch.cat([u, -u]), temperature=temperature)
    torch.testing.assert_close(values, dense_contrast(torch.cat([u, -u]).double(), temperature).float())


def same_with_gradient(ours, dense, weights, *inputs):
    torch.testing.assert_close(ours, dense)
    gradients = (torch.autograd.grad((weights * value).sum(), inputs) for value in (ours, dense))
    torch.testing.assert_close(*gradients)
