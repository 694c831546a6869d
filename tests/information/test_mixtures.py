"""Facts about Gaussian mixtures and surfaces as log ratios."""

import math

import numpy as np
import torch

from vergence.information.mixtures import Mixture, MixtureScores, fitted, starts
from vergence.information.surfaces import Surfaces


def signed(n: int, rho: float, seed: int = 0) -> np.ndarray:
    """Pairs of correlation rho or -rho, by the toss of a coin."""
    random = np.random.default_rng(seed)
    x, noise = random.normal(size=(2, n))
    y = random.choice([-1, 1], size=n) * (rho * x + math.sqrt(1 - rho**2) * noise)
    return np.stack([x, y], axis=1)


def test_one_component_has_the_mean_and_nearly_the_covariance_of_the_rows():
    rows = np.random.default_rng(0).normal(size=(500, 3)) @ np.array([[1.0, 0.5, 0], [0, 1, 0.2], [0, 0, 1]])
    mixture, value = fitted(rows, np.ones((500, 1)))
    np.testing.assert_allclose(mixture.mean[0], rows.mean(0))
    np.testing.assert_allclose(mixture.covariance[0], np.cov(rows.T, bias=True), atol=2e-3)
    np.testing.assert_allclose(value, mixture.log_density(rows).mean(), atol=1e-9)


def test_the_density_of_a_mixture_integrates_to_one_and_to_its_marginal():
    mixture, _ = fitted(signed(400, 0.8), np.eye(2)[np.arange(400) % 2])
    grid = np.linspace(-8, 8, 801)
    x, y = np.meshgrid(grid, grid, indexing="ij")
    density = np.exp(mixture.log_density(np.stack([x.ravel(), y.ravel()], axis=1))).reshape(x.shape)
    step = grid[1] - grid[0]
    np.testing.assert_allclose(density.sum() * step**2, 1, atol=1e-3)
    np.testing.assert_allclose(
        density.sum(1) * step, np.exp(mixture.log_density(grid[:, None], slice(0, 1))), atol=1e-3
    )


def test_the_product_of_two_columns_finds_a_common_random_sign():
    random = np.random.default_rng(0)
    x, noise = random.normal(size=(2, 2000, 6))
    y = random.choice([-1, 1], size=(2000, 1)) * (0.9 * x + math.sqrt(1 - 0.81) * noise)
    rows = np.hstack([x, y])
    _, clusters, product = starts(rows, 2, pair=(0, 6))
    mixture, value = fitted(rows, product)
    assert value >= fitted(rows, clusters)[1] - 1e-3
    np.testing.assert_allclose(sorted(c[0, 6] for c in mixture.covariance), [-0.9, 0.9], atol=0.1)


def test_scores_of_one_component_are_the_log_ratio_of_the_gaussian():
    rho = 0.6
    mixture = Mixture(np.ones(1), np.zeros((1, 2)), np.array([[[1, rho], [rho, 1]]]))
    x, y = np.array([[0.3], [-1.0]]), np.array([[0.5], [2.0]])
    expected = rho * x * y.T - 0.5 * rho**2 * (x**2 + y.T**2)
    scores = MixtureScores(mixture, x, y)(torch.arange(2))
    np.testing.assert_allclose(scores, expected / (1 - rho**2) - 0.5 * math.log(1 - rho**2), rtol=1e-5)


def test_a_surface_holds_a_dependence_that_correlation_does_not():
    rows = signed(3000, 0.95)
    scores = Surfaces(rows[:, :1], rows[:, 1:], np.arange(2000))(torch.arange(2000, 3000))
    inner = 0.95 / (1 - 0.95**2) * rows[2000:, 0] * rows[2000:, 1]
    square = 0.5 * 0.95**2 / (1 - 0.95**2) * (rows[2000:] ** 2).sum(1)
    exact = np.logaddexp(inner, -inner) - math.log(2) - square - 0.5 * math.log(1 - 0.95**2)
    assert abs(scores.diagonal().mean().item() - exact.mean()) < 0.1
    assert abs(scores.exp().mean().item() - 1) < 0.1


def test_a_surface_in_steps_holds_a_density_that_jumps():
    random = np.random.default_rng(0)
    x, size = random.normal(size=(2, 4000))
    y = np.abs(size) * np.sign(x) * np.where(random.random(4000) < 0.1, -1, 1)
    scores = Surfaces(x[:, None], y[:, None], np.arange(3000))(torch.arange(3000, 4000))
    truth = math.log(2) + 0.1 * math.log(0.1) + 0.9 * math.log(0.9)
    assert abs(scores.diagonal().mean().item() - truth) < 0.05  # a mixture of Gaussians misses a fifth of it
    assert abs(scores.exp().mean().item() - 1) < 0.05
