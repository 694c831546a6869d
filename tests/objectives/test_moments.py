"""TiCo, W-MSE, MMCR, FroSSL, SigLIP and KoLeo: closed forms, identities, and the same value from either side."""

import math

import pytest
import torch
from torch.nn.functional import logsigmoid, normalize

from vergence.objectives import Objective, frossl, koleo, mmcr, siglip, spectral, tico, w_mse
from vergence.objectives.moments import nuclear_norm


def pair(n=12, d=5, seed=0):
    z, noise = torch.randn(2, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return z, z + 0.5 * noise


def test_tico_without_memory_is_half_the_spectral_loss_on_the_sphere():
    z1 = normalize(pair()[0])
    n = len(z1)
    # Against itself: TiCo's repulsion compares a view with itself, the pairs of a row with itself among them.
    squares = (z1 @ z1.T).square()
    ours = tico(z1, z1, memory=0.0, weight=0.5)
    off = (squares.sum() - n) / (n * (n - 1))
    torch.testing.assert_close(spectral(z1, z1), off - 2)
    torch.testing.assert_close(ours, 0.5 * ((n - 1) / n * off + 1 / n))


def test_ticos_memory_weighs_past_batches_by_powers():
    batches = [normalize(pair(seed=seed)[0]) for seed in range(3)]
    past, memory, weight = torch.zeros(5, 5, dtype=torch.float64), 0.8, 3.0
    for z in batches[:2]:
        past = memory * past + (1 - memory) * z.T @ z / len(z)
    z = batches[2]
    repulsion = sum(
        (1 - memory) * memory**age * (z @ old.T).square().mean() for age, old in enumerate(reversed(batches))
    )
    torch.testing.assert_close(tico(z, z, past=past, memory=memory, weight=weight), weight * repulsion)


@pytest.mark.parametrize(("n", "d"), [(12, 5), (4, 11)])
def test_w_mse_is_the_cosine_of_whitened_views_from_either_side(n, d):
    z1, z2 = pair(n, d)
    v = torch.cat([z1, z2])
    v = v - v.mean(0)
    inverse = torch.linalg.inv(v.T @ v / len(v) + 1e-2 * torch.eye(d, dtype=torch.float64))
    values, vectors = torch.linalg.eigh(inverse)
    first, second = (v @ (vectors * values.sqrt())).split(n)
    expected = 2 - 2 * torch.cosine_similarity(first, second).mean()
    torch.testing.assert_close(w_mse(z1, z2, epsilon=1e-2), expected)


def test_w_mse_does_not_feel_a_linear_map_and_collapse_does_not_lower_it():
    z1, z2 = pair()
    mix = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(w_mse(z1 @ mix, z2 @ mix, epsilon=1e-12), w_mse(z1, z2, epsilon=1e-12))
    torch.testing.assert_close(w_mse(z1, z1).item(), 0.0, atol=1e-9, rtol=0)
    torch.testing.assert_close(w_mse(z1[:1].repeat(12, 1), z1[:1].repeat(12, 1)).item(), 2.0)


@pytest.mark.parametrize(("n", "d"), [(12, 5), (4, 11)])
def test_the_nuclear_norm_and_its_gradient_are_those_of_the_singular_values(n, d):
    a = pair(n, d)[0][None].requires_grad_()
    ours, theirs = nuclear_norm(a)[0], torch.linalg.svdvals(a).sum()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(value, a)[0] for value in (ours, theirs)))


def test_mmcr_has_its_closed_forms():
    same = torch.ones(9, 4, dtype=torch.float64)
    torch.testing.assert_close(mmcr(same, same).item(), -3.0)
    orthogonal = torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(mmcr(orthogonal, orthogonal).item(), -4.0)
    torch.testing.assert_close(mmcr(orthogonal, orthogonal, weight=2.0).item(), -4.0 + 2 * math.sqrt(2))
    third = mmcr(orthogonal, orthogonal, -orthogonal)
    torch.testing.assert_close(third.item(), -4.0 / 3)  # centers a third as long


def test_frossl_has_its_closed_forms():
    orthogonal, same = torch.eye(4, dtype=torch.float64), torch.ones(6, 3, dtype=torch.float64)
    torch.testing.assert_close(frossl(orthogonal, 3 * orthogonal).item(), -2 * math.log(4))
    torch.testing.assert_close(frossl(same, same).item(), 0.0, atol=1e-12, rtol=0)
    z1, z2 = pair()
    columns = [z / z.norm(dim=0) for z in (z1, z2)]
    grams = [c.T @ c / (c.T @ c).trace() for c in columns]
    spread = sum(2 * gram.norm().log() for gram in grams)
    torch.testing.assert_close(frossl(z1, z2), spread + (columns[0] - columns[1]).square().sum() / 12)


@pytest.mark.parametrize(("n", "d"), [(12, 5), (4, 11)])
def test_frossl_is_the_same_from_either_side(n, d):
    z1, z2 = pair(n, d)
    columns = [z / z.norm(dim=0) for z in (z1, z2)]
    spread = sum(2 * (c @ c.T).norm().log() - 2 * c.square().sum().log() for c in columns)
    torch.testing.assert_close(frossl(z1, z2, invariance=0.0), spread)


@pytest.mark.parametrize(("temperature", "bias"), [(10.0, -10.0), (2.0, 0.5)])
def test_siglip_is_the_sum_of_log_sigmoids_in_tiles_of_any_size(temperature, bias, monkeypatch):
    z1, z2 = pair()
    logits = temperature * normalize(z1) @ normalize(z2).T + bias
    signs = 2 * torch.eye(12, dtype=torch.float64) - 1
    expected = -logsigmoid(signs * logits).sum() / 12
    for side in (512, 5):
        monkeypatch.setattr("vergence.objectives.sigmoid.CPU_TILE", side)
        torch.testing.assert_close(siglip(z1, z2, temperature=temperature, bias=bias), expected)


def test_siglip_of_equal_rows_at_its_start_is_n_log_two():
    z = torch.ones(7, 3, dtype=torch.float64)
    torch.testing.assert_close(siglip(z, z).item(), 7 * math.log(2))


def test_siglips_temperature_and_bias_are_learned_and_the_bias_keeps_its_sign():
    z1, z2 = pair()
    loss = Objective("siglip", learnable=("temperature", "bias"))
    value = loss(z1, z2)
    torch.testing.assert_close(value, siglip(z1, z2))
    value.backward()
    slope = float(siglip(z1, z2, bias=-10 + 1e-4) - siglip(z1, z2, bias=-10 - 1e-4)) / 2e-4
    assert float(loss.plain["bias"].grad) == pytest.approx(slope, rel=1e-4)
    assert float(loss.learned()["bias"]) == -10.0


def test_koleo_is_minus_the_mean_log_of_the_nearest_distance(monkeypatch):
    z, _ = pair()
    u = normalize(z)
    distances = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(9).min(1).values
    for side in (512, 5):
        monkeypatch.setattr("vergence.objectives.nearest.CPU_TILE", side)
        torch.testing.assert_close(koleo(z), -distances.log().mean())


def test_koleo_of_a_simplex_and_of_rows_that_coincide():
    corners = torch.eye(5, dtype=torch.float64) - 0.2
    torch.testing.assert_close(koleo(corners).item(), -0.5 * math.log(2 * 5 / 4))
    torch.testing.assert_close(koleo(torch.ones(5, 3, dtype=torch.float64)).item(), -math.log(1e-8))
