"""The limit of the contrastive loss, its rate and its entropy: facts beside claims 8-14."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from vergence.theory import (
    contrastive_limit,
    hypersphere,
    limit_deviation,
    limit_of_contrastive,
    limit_rate,
    resubstitution_entropy,
    von_mises_fisher_log_normalizer,
)


def pair(n=20, d=4, noise=0.3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    z1, other = torch.randn(2, n, d, dtype=dtype, generator=generator)
    return z1, z1 + noise * other


def test_a_collapsed_encoder_has_limit_nought_and_rate_one():
    z = torch.ones(6, 3, dtype=torch.float64)
    torch.testing.assert_close(contrastive_limit(z, z, temperature=0.1), torch.tensor(0.0, dtype=torch.float64))
    torch.testing.assert_close(limit_rate(z, z, temperature=0.1), torch.tensor(1.0, dtype=torch.float64))
    deviation = limit_deviation(z, z, negatives=10, draws=3)
    torch.testing.assert_close(deviation, torch.full((3,), math.log1p(1 / 10), dtype=torch.float64))


def test_the_limit_does_not_depend_on_which_view_comes_first_nor_on_rotations():
    z1, z2 = pair()
    turn = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[0]
    for function in (contrastive_limit, limit_rate):
        torch.testing.assert_close(function(z1, z2), function(z2, z1))
        torch.testing.assert_close(function(z1, z2), function(z1 @ turn, 3 * z2 @ turn))


def test_blocks_of_anchors_change_nothing(monkeypatch):
    whole = contrastive_limit(*pair())
    monkeypatch.setattr(hypersphere, "ROWS", 7)
    torch.testing.assert_close(contrastive_limit(*pair()), whole)


def test_two_opposite_points_by_hand():
    z1 = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    expected = math.log(math.cosh(2.0)) - 2.0
    torch.testing.assert_close(contrastive_limit(z1, z1, temperature=0.5).item(), expected)


def test_the_normalizer_without_concentration_is_the_area():
    assert von_mises_fisher_log_normalizer(2, 1e-9) == pytest.approx(math.log(2 * math.pi))
    assert von_mises_fisher_log_normalizer(3, 1e-9) == pytest.approx(math.log(4 * math.pi))


def test_the_normalizer_on_the_sphere_is_elementary_and_survives_high_dimensions():
    kappa = 20.0
    expected = math.log(4 * math.pi / kappa) + kappa + math.log1p(-math.exp(-2 * kappa)) - math.log(2)
    assert von_mises_fisher_log_normalizer(3, kappa) == pytest.approx(expected, rel=1e-12)
    assert math.isfinite(von_mises_fisher_log_normalizer(2048, 1000.0))


def test_no_sample_has_more_entropy_than_the_sphere():
    area = von_mises_fisher_log_normalizer(3, 1e-9)
    spread = normalize(torch.randn(500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)), dim=1)
    squeezed = normalize(spread + torch.tensor([5.0, 0, 0]), dim=1)
    assert resubstitution_entropy(squeezed) < resubstitution_entropy(spread) < area


def test_the_certificate_holds_and_says_when_it_is_empty():
    few = limit_of_contrastive(*pair(), negatives=4, temperature=0.1, draws=8)
    many = limit_of_contrastive(*pair(), negatives=4096, temperature=0.5, draws=8)
    assert few.verdict == "vacuous"
    assert many.verdict == "informative"
    assert many.left == pytest.approx(many.terms["rate / M"], rel=0.1)


def test_single_precision_agrees():
    single = contrastive_limit(*pair(dtype=torch.float32))
    assert single.dtype == torch.float32
    z1, z2 = pair(dtype=torch.float32)
    torch.testing.assert_close(single.double(), contrastive_limit(z1.double(), z2.double()), atol=1e-6, rtol=1e-6)
