"""Facts about what no estimator can do."""

import math

import pytest
import torch

from vergence.information.exact import correlation_for, gaussian_log_ratio
from vergence.information.limits import (
    donsker_varadhan_bias,
    entropy_ceiling,
    gaussian_ratio_variance,
    info_nce_ceiling,
    information_ceiling,
    kl_ceiling,
    nwj_variance_floor,
    samples_needed,
    smile_bias,
    smile_variance,
)


@pytest.mark.parametrize("n", [50, 10_000, 10**9])
def test_ceilings_stand_in_order(n):
    assert kl_ceiling(n) == info_nce_ceiling(n)
    assert kl_ceiling(n) < entropy_ceiling(n) <= information_ceiling(n)


def test_the_gaussian_ratio_varies_by_its_moment_in_any_dimension():
    for d in (1, 4, 20):
        rho = correlation_for(1.3, d=d)
        assert (1 - rho**2) ** -d - 1 == pytest.approx(gaussian_ratio_variance(1.3))


def test_gaussians_vary_more_than_the_floor_of_nwj_and_twice_the_bias_of_donsker_varadhan():
    for nats in (0.5, 2.0, 8.0):
        assert gaussian_ratio_variance(nats) / 100 > nwj_variance_floor(nats, 100)
        assert nwj_variance_floor(nats, 100) == pytest.approx(2 * donsker_varadhan_bias(nats, 100))


def test_clipped_ratios_vary_and_err_by_no_more_than_smile_allows():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 2000, 1, generator=generator, dtype=torch.float64)
    ratio = gaussian_log_ratio(x, y, correlation=0.6).diagonal().exp()
    for clip in (0.2, 1.0, 3.0):
        clipped = ratio.clamp(math.exp(-clip), math.exp(clip))
        assert clipped.var(correction=0) <= smile_variance(clip, 1)
        shift = (clipped.mean() - ratio.mean()).abs()
        assert shift <= smile_bias(clip, largest=ratio.max().log().item(), mean=ratio.mean().item())


def test_the_samples_needed_certify_the_information_with_a_nat_to_spare():
    assert kl_ceiling(samples_needed(7.0)) == pytest.approx(8.0, abs=1e-3)
    assert samples_needed(1e4) > 1e200
