"""Facts about exact information, and about the samplers that know their answer."""

import math

import pytest
import torch

from vergence.information.exact import (
    conditional_entropy,
    correlated_information,
    correlation_for,
    entropy,
    gaussian_information,
    gaussian_log_ratio,
    kl_divergence,
    mutual_information,
    processed,
    student_information,
    uniform_noise_information,
)
from vergence.information.samplers import (
    correlated_gaussians,
    cubed_gaussians,
    discrete_channel,
    labelled_mixture,
    shared_offset,
    spiral,
    student,
    uniform_noise,
)


def table(rows: int = 4, columns: int = 5, seed: int = 0) -> torch.Tensor:
    joint = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return joint / joint.sum()


def test_a_uniform_variable_has_the_entropy_log_of_its_values_and_a_certain_one_none():
    torch.testing.assert_close(entropy(torch.full((8,), 1 / 8, dtype=torch.float64)).item(), math.log(8))
    assert entropy(torch.tensor([0.0, 1.0, 0.0])) == 0


def test_information_is_entropy_less_conditional_entropy_either_way():
    joint = table()
    both = entropy(joint.sum(0)) - conditional_entropy(joint), entropy(joint.sum(1)) - conditional_entropy(joint.T)
    for nats in both:
        torch.testing.assert_close(nats, mutual_information(joint))


def test_information_is_the_divergence_from_independence():
    joint = table()
    independent = joint.sum(1)[:, None] * joint.sum(0)[None]
    torch.testing.assert_close(kl_divergence(joint, independent), mutual_information(joint))


def test_divergence_is_infinite_where_the_second_law_has_no_mass_and_finite_the_other_way():
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])
    assert kl_divergence(p, q) == math.inf
    torch.testing.assert_close(kl_divergence(q, p).item(), math.log(2))


def test_a_permuted_column_shares_what_the_column_did():
    joint = table()
    permutation = torch.eye(5, dtype=torch.float64)[torch.tensor([3, 1, 4, 0, 2])]
    torch.testing.assert_close(mutual_information(processed(joint, permutation)), mutual_information(joint))


def test_gaussian_information_of_equal_pairs_is_the_closed_form_and_survives_linear_maps():
    d, rho = 3, 0.6
    eye = torch.eye(d, dtype=torch.float64)
    covariance = torch.cat([torch.cat([eye, rho * eye], 1), torch.cat([rho * eye, eye], 1)])
    expected = torch.tensor(correlated_information(rho, d=d), dtype=torch.float64)
    torch.testing.assert_close(gaussian_information(covariance, split=d), expected)
    mix = torch.block_diag(*torch.randn(2, d, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    torch.testing.assert_close(gaussian_information(mix @ covariance @ mix.T, split=d), expected)


@pytest.mark.parametrize(("nats", "d"), [(0.1, 1), (2.0, 20), (10.0, 20), (106.29, 128)])
def test_correlation_for_inverts_the_information(nats, d):
    assert correlated_information(correlation_for(nats, d=d), d=d) == pytest.approx(nats)


def test_the_optimal_critic_averages_to_the_information_and_its_exponential_to_one():
    pairs = correlated_gaussians(2000, d=2, nats=0.4, seed=3)
    scores = gaussian_log_ratio(pairs.x, pairs.y, correlation=correlation_for(0.4, d=2))
    spread = scores.diagonal().std() / math.sqrt(2000)
    assert abs(scores.diagonal().mean() - 0.4) < 5 * spread
    assert scores.exp().mean() == pytest.approx(1, abs=0.05)


def test_uniform_noise_information_is_continuous_where_its_formula_changes():
    assert uniform_noise_information(0.5) == pytest.approx(uniform_noise_information(0.5 + 1e-12))


@pytest.mark.parametrize(("degrees", "d", "nats"), [(1, 1, 0.2242), (1, 2, 0.4319), (2, 5, 0.4482), (3, 3, 0.1787)])
def test_student_information_is_the_value_of_the_bmi_benchmark(degrees, d, nats):
    assert student_information(float(degrees), dx=d, dy=d) == pytest.approx(nats, abs=1e-4)


def test_a_students_parts_share_less_and_less_as_it_becomes_gaussian():
    assert student_information(1e6, dx=2, dy=2) == pytest.approx(0, abs=1e-6)


def test_a_label_far_from_the_other_is_worth_log_two_and_an_overlapping_one_nothing():
    assert labelled_mixture(10, separation=12.0).nats == pytest.approx(math.log(2), abs=1e-6)
    assert labelled_mixture(10, separation=0.0).nats == pytest.approx(0, abs=1e-9)


def test_the_offset_of_a_batch_leaves_a_marginal_correlation_of_one_fifth():
    pairs = shared_offset(200_000, batch=1, seed=2)
    correlation = torch.corrcoef(torch.cat([pairs.x, pairs.y], 1).T)[0, 1].item()
    assert correlation == pytest.approx(0.2, abs=0.01)
    assert pairs.nats == pytest.approx(0.02041, abs=1e-5)


def test_samplers_draw_from_the_law_they_claim():
    gaussians, cubed = correlated_gaussians(100, d=2, nats=1.5), cubed_gaussians(100, d=2, nats=1.5)
    torch.testing.assert_close(gaussians.y**3, cubed.y)
    noise = uniform_noise(1000, width=0.1)
    assert (noise.y - noise.x).abs().max() <= 0.1
    assert student(50, dx=2, dy=3).y.shape == (50, 3)


def test_a_channel_draws_each_cell_as_often_as_the_table_says():
    joint = table(2, 3)
    pairs = discrete_channel(100_000, joint, seed=1)
    seen = torch.bincount((pairs.x * 3 + pairs.y).flatten(), minlength=6).double() / 100_000
    torch.testing.assert_close(seen, joint.flatten(), atol=0.01, rtol=0)


def test_a_spiral_keeps_the_length_of_every_row_and_turns_back():
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(spiral(x).norm(dim=1), x.norm(dim=1))
    torch.testing.assert_close(spiral(spiral(x), speed=-1.0), x)
