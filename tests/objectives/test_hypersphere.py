"""Alignment and uniformity: closed forms and the authors' formulas."""

import math

import pytest
import torch
from scipy.special import hyp0f1
from torch.nn.functional import normalize

from vergence.objectives import align_uniform, alignment, uniformity, uniformity_floor
from vergence.objectives.hypersphere import log_mean_exponential


def pair(n=9, d=4):
    z1, z2 = torch.randn(2, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return z1.requires_grad_(), z2


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
def test_alignment_is_the_mean_power_of_the_distance(alpha):
    z1, z2 = pair()
    expected = (normalize(z1) - normalize(z2)).norm(dim=1).pow(alpha).mean()
    torch.testing.assert_close(alignment(z1, z2, alpha=alpha), expected)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_equal_views_are_aligned_and_stay(alpha):
    z1, _ = pair()
    loss = alignment(z1, z1.detach().clone(), alpha=alpha)
    assert loss == 0
    assert torch.autograd.grad(loss, z1)[0].abs().max() == 0


def test_opposite_views_have_the_largest_alignment():
    z1, _ = pair()
    torch.testing.assert_close(alignment(z1, -z1).item(), 4.0)


def test_uniformity_is_over_distinct_pairs():
    """The diagonal, which some code keeps, would add n ones."""
    z, _ = pair()
    expected = torch.pdist(normalize(z)).square().mul(-2).exp().mean().log()
    torch.testing.assert_close(uniformity(z), expected)


def test_uniformity_of_two_opposite_points_is_minus_four_t():
    z = torch.tensor([[1.0, 0.0], [-2.0, 0.0]])
    torch.testing.assert_close(uniformity(z, t=1.5).item(), -6.0)


def test_align_uniform_weighs_alignment_and_the_mean_uniformity():
    z1, z2 = pair()
    expected = 3 * alignment(z1, z2, alpha=1.0) + 0.5 * (uniformity(z1, t=3.0) + uniformity(z2, t=3.0)) / 2
    weights = {"align_weight": 3.0, "uniform_weight": 0.5}
    torch.testing.assert_close(align_uniform(z1, z2, alpha=1.0, t=3.0, **weights), expected)


@pytest.mark.parametrize("d", [2, 3, 16, 128, 4096])
@pytest.mark.parametrize("t", [0.1, 2.0, 30.0])
def test_the_floor_is_the_hypergeometric_function(d, t):
    torch.testing.assert_close(uniformity_floor(d, t=t), float(torch.tensor(hyp0f1(d / 2, t**2)).log()) - 2 * t)


def test_the_floor_of_sharp_potentials_does_not_overflow():
    """At t = 1000 the series is beyond float64; on the circle e^-2t I_0(2t) tends to 1 / sqrt(4 pi t)."""
    assert uniformity_floor(2, t=1000.0) == pytest.approx(
        -0.5 * torch.tensor(4 * torch.pi * 1000).log().item(), abs=1e-4
    )


@pytest.mark.parametrize(("n", "d"), [(3, 2), (5, 4), (4, 8)])
def test_a_simplex_reaches_the_floor_of_its_points(n, d):
    corners = torch.eye(n, max(n, d), dtype=torch.float64)
    corners[:, :n] -= 1 / n
    torch.testing.assert_close(uniformity(corners).item(), uniformity_floor(d, n=n))


def test_no_batch_is_below_the_floor_of_its_points():
    for seed in range(50):
        z = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        assert uniformity(z) > uniformity_floor(2, n=40)


def test_the_floor_of_many_points_is_nearly_reached_on_the_circle():
    angles = 2 * torch.pi * torch.arange(40, dtype=torch.float64) / 40
    polygon = torch.stack([angles.cos(), angles.sin()], 1)
    torch.testing.assert_close(uniformity(polygon).item(), uniformity_floor(2, n=40), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 16, 128, 5000])
def test_the_mean_exponential_is_a_hypergeometric_series(d):
    for concentration in (0.01, 1.0, 20.0):
        terms = [1.0]
        for k in range(1, 400):
            terms.append(terms[-1] * (concentration**2 / 4) / (k * (d / 2 + k - 1)))
        assert log_mean_exponential(d, concentration) == pytest.approx(math.log(math.fsum(terms)), rel=1e-9, abs=1e-12)
