"""Facts about the estimator of nearest neighbors."""

import math

import numpy as np
import pytest
import torch
from scipy.special import digamma

from vergence.information.exact import mutual_information
from vergence.information.neighbors import duplicates, growth, ksg, ksg_terms
from vergence.information.samplers import (
    correlated_gaussians,
    discrete_channel,
    labelled_mixture,
    uniform_noise,
)


def arrays(pairs):
    return pairs.x.double().numpy(), pairs.y.double().numpy()


def by_definition(x, y, k):
    """The formula of Kraskov et al. with every distance written out."""
    from_x = np.linalg.norm(x[:, None] - x[None], axis=2)
    from_y = np.linalg.norm(y[:, None] - y[None], axis=2)
    radius = np.sort(np.maximum(from_x, from_y), axis=1)[:, k : k + 1]
    counts = digamma((from_x < radius).sum(1)) + digamma((from_y < radius).sum(1))
    return digamma(k) + digamma(len(x)) - counts.mean()


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("k", [1, 5])
def test_trees_and_tiles_give_the_formula(d, k):
    x, y = arrays(correlated_gaussians(700, d=d, nats=0.7))
    assert ksg(x, y, k=k) == pytest.approx(by_definition(x, y, k), abs=1e-10)


def test_a_constant_coordinate_changes_nothing():
    x, y = arrays(correlated_gaussians(400, nats=0.7))
    assert ksg(np.hstack([x, np.ones_like(x)]), y) == pytest.approx(ksg(x, y), abs=1e-10)


@pytest.mark.parametrize("nats", [0.0, 0.4, 2.0, 4.0])
def test_gaussians_are_found_within_five_standard_errors(nats):
    terms = ksg_terms(*arrays(correlated_gaussians(4000, nats=nats, seed=5)))
    assert abs(terms.mean() - nats) < 5 * terms.std() / math.sqrt(4000) + 0.01


@pytest.mark.parametrize("width", [0.1, 0.75])
def test_hard_edges_are_found(width):
    pairs = uniform_noise(6000, width=width)
    assert ksg(*arrays(pairs)) == pytest.approx(pairs.nats, abs=0.04)


def test_categories_give_the_information_of_their_table():
    joint = np.array([[0.3, 0.1, 0.05], [0.05, 0.2, 0.3]])

    pairs = discrete_channel(5000, torch.from_numpy(joint), seed=1)
    assert ksg(*arrays(pairs)) == pytest.approx(float(mutual_information(torch.from_numpy(joint))), abs=0.03)


def test_a_category_and_a_number_are_a_mixture():
    pairs = labelled_mixture(5000, separation=2.0, seed=1)
    assert ksg(*arrays(pairs)) == pytest.approx(pairs.nats, abs=0.04)


def test_growth_is_one_for_a_function_and_none_for_a_noisy_one():
    x, y = arrays(correlated_gaussians(2000, nats=0.7))
    assert growth(x, x**3) == pytest.approx(1, abs=0.1)
    assert growth(x, y) == pytest.approx(0, abs=0.05)


def test_duplicates_counts_repeated_rows():
    assert duplicates(np.array([[1.0], [2.0], [1.0], [1.0]])) == 0.5


def test_more_neighbors_than_points_is_an_error():
    with pytest.raises(ValueError, match="between 1 and the number of pairs less one, 9; got 10"):
        ksg(np.zeros((10, 1)), np.zeros((10, 1)), k=10)
