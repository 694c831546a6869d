"""SwAV and DINO: codes are even, and the two collapses have the two values that the thermometer knows."""

import math

import pytest
import torch

from vergence.diagnostics import thermometer
from vergence.objectives import dino, swav
from vergence.objectives.codes import entropies, sinkhorn

K = 6


def scores(n=12, k=K, seed=0):
    return 2 * torch.rand(2, n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) - 1


def test_codes_are_distributions_and_prototypes_share_the_batch_evenly():
    codes = sinkhorn(scores()[0], epsilon=0.5, iterations=500)
    torch.testing.assert_close(codes.sum(1), torch.ones(12, dtype=torch.float64))
    torch.testing.assert_close(codes.sum(0), torch.full((K,), 12 / K, dtype=torch.float64))


def test_three_iterations_are_those_of_the_authors_without_logarithms():
    s = scores()[0]
    q = torch.exp(s / 0.05).T
    q = q / q.sum()
    for _ in range(3):
        q = q / q.sum(1, keepdim=True) / K
        q = q / q.sum(0, keepdim=True) / 12
    torch.testing.assert_close(sinkhorn(s), (q * 12).T)


def test_codes_do_not_overflow_at_any_scale():
    assert torch.isfinite(sinkhorn(1e4 * scores()[0].float())).all()


@pytest.mark.parametrize("objective", [swav, dino])
def test_equal_scores_have_log_k_and_sure_ones_have_zero(objective):
    equal = torch.ones(12, K, dtype=torch.float64)
    torch.testing.assert_close(objective(equal, equal).item(), math.log(K))
    sure = 10 * torch.eye(K, dtype=torch.float64).repeat(2, 1)
    assert float(objective(sure, sure)) < 1e-9
    assert thermometer(objective.__name__, n=12, d=K).chance == pytest.approx(math.log(K))


def test_a_batch_sure_of_one_prototype_costs_swav_log_k_and_dino_without_centering_nothing():
    one = torch.zeros(12, K, dtype=torch.float64)
    one[:, 2] = 5.0
    assert float(swav(one, one)) > 2 * math.log(K), "codes spread evenly what the query is sure of"
    assert float(dino(one, one, center=torch.zeros(K, dtype=torch.float64))) < 1e-9
    assert float(dino(one, one)) > 2 * math.log(K), "the batch's own center removes what all rows share"


def test_dino_is_the_cross_entropy_of_its_docstring():
    query, key = scores()
    center = scores(seed=1)[0].mean(0)
    teacher = ((key - center) / 0.07).softmax(1)
    expected = torch.nn.functional.cross_entropy(query / 0.1, teacher)
    torch.testing.assert_close(dino(query, key, center=center, key_temperature=0.07), expected)


def test_entropies_tell_the_two_collapses_and_a_clustering_apart():
    uniform, one = torch.zeros(12, K), torch.zeros(12, K)
    one[:, 0] = 50.0
    clusters = 50 * torch.eye(K).repeat(2, 1)
    found = [[round(float(x), 4) for x in entropies(s, temperature=1.0)] for s in (uniform, one, clusters)]
    most = round(math.log(K), 4)
    assert found == [[most, most], [0.0, 0.0], [0.0, most]]
