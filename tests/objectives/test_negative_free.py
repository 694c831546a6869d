"""Objectives without negatives: which deviation, which mean, and what collapse costs."""

import pytest
import torch
from torch.nn.functional import normalize

from vergence.objectives import barlow_twins, negative_cosine, vicreg


def pair(n=9, d=4, dtype=torch.float64):
    z1, noise = torch.randn(2, n, d, dtype=dtype, generator=torch.Generator().manual_seed(0))
    return z1, z1 + noise


def dense_barlow(z1, z2, weight):
    a, b = ((z - z.mean(0)) / z.std(0, correction=0) for z in (z1, z2))
    correlation = a.T @ b / len(z1)
    diagonal = torch.eye(z1.shape[1], dtype=torch.bool)
    return (1 - correlation[diagonal]).square().sum() + weight * correlation[~diagonal].square().sum()


@pytest.mark.parametrize(("n", "d"), [(9, 4), (4, 9)])
def test_barlow_twins_is_the_same_from_either_side(n, d):
    z1, z2 = pair(n, d)
    torch.testing.assert_close(barlow_twins(z1, z2, off_diagonal=0.1), dense_barlow(z1, z2, 0.1))


def test_barlow_twins_divides_by_the_population_deviation():
    """With the sample deviation C of equal views is (n - 1) / n on the diagonal, and the loss is not zero."""
    z, _ = pair()
    torch.testing.assert_close(barlow_twins(z, z, off_diagonal=0.0).item(), 0.0)


def test_barlow_twins_ignores_the_scale_and_shift_of_columns():
    z1, z2 = pair()
    scale = torch.tensor([3.0, 0.1, 7.0, 1.0])
    torch.testing.assert_close(barlow_twins(z1 * scale + 5, z2), barlow_twins(z1, z2))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_constant_columns_correlate_with_nothing(value):
    z1, z2 = pair(dtype=torch.float32)
    z1 = torch.full_like(z1, value).requires_grad_()
    loss = barlow_twins(z1, z2)
    torch.testing.assert_close(loss.item(), 4.0)
    assert torch.isfinite(torch.autograd.grad(loss, z1)[0]).all()


def test_vicreg_is_the_authors_sum_of_three():
    z1, z2 = pair(n=9, d=4)
    expected = 25 * (z1 - z2).square().mean()
    for z in (z1, z2):
        covariance = torch.cov(z.T)
        expected = expected + 25 * torch.relu(1 - (z.var(0) + 1e-4).sqrt()).mean() / 2
        expected = expected + (covariance - covariance.diag().diag()).square().sum() / 4
    torch.testing.assert_close(vicreg(z1, z2), expected)


def test_a_collapsed_batch_costs_vicreg_its_variance():
    z = torch.ones(6, 3)
    torch.testing.assert_close(vicreg(z, z).item(), 25 * (1 - 0.01))


def test_negative_cosine_is_minus_one_for_equal_directions():
    z, other = pair()
    torch.testing.assert_close(negative_cosine(z, 3 * z).item(), -1.0)
    torch.testing.assert_close(negative_cosine(z, other), -(normalize(z) * normalize(other)).sum(1).mean())
