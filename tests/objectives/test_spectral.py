"""The spectral objective: the ball, the off-diagonal mean, the weight mu."""

import pytest
import torch
from torch.nn.functional import normalize

from vergence.objectives import spectral


def pair(n=7, d=4):
    z1, z2 = torch.randn(2, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return z1, z2


def by_loops(z1, z2):
    n = len(z1)
    negative = sum((z1[i] @ z2[j]) ** 2 for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    return negative - 2 * sum(z1[i] @ z2[i] for i in range(n)) / n


@pytest.mark.parametrize(("n", "d"), [(7, 4), (4, 9)])
def test_inside_the_ball_it_is_the_plain_formula(n, d):
    z1, z2 = (0.1 * z for z in pair(n, d))
    torch.testing.assert_close(spectral(z1, z2), by_loops(z1, z2))


def test_short_rows_are_not_lengthened():
    z1, z2 = (normalize(z) / 2 for z in pair())
    torch.testing.assert_close(spectral(z1, z2), by_loops(z1, z2))


def test_long_rows_are_shortened_to_the_ball():
    z1, z2 = (normalize(z) for z in pair())
    torch.testing.assert_close(spectral(30 * z1, 40 * z2), spectral(z1, z2))


@pytest.mark.parametrize("mu", [1.0, 10.0])
def test_on_the_surface_mu_weighs_the_repulsion(mu):
    u1, u2 = (normalize(z) for z in pair())
    attraction = (u1 * u2).sum(1).mean()
    expected = mu * (by_loops(u1, u2) + 2 * attraction) - 2 * attraction
    torch.testing.assert_close(spectral(100 * u1, 100 * u2, mu=mu), expected)


def test_orthonormal_pairs_reach_minus_two():
    z = torch.eye(5)
    torch.testing.assert_close(spectral(z, z).item(), -2.0)


def test_a_zero_row_is_allowed():
    z1, z2 = pair()
    z1[0] = 0
    assert torch.isfinite(spectral(z1.requires_grad_(), z2))
    assert torch.isfinite(torch.autograd.grad(spectral(z1, z2), z1)[0]).all()
