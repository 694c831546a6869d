"""Facts about bounds of a score matrix. What the sources say of them is in ``vergence.claims.information``."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vergence.information import BOUNDS
from vergence.information.bounds import (
    SIDES,
    donsker_varadhan,
    info_nce,
    interpolated,
    jensen_shannon,
    leave_one_out,
    mine,
    moving_average,
    nwj,
    smile,
)
from vergence.information.limits import interpolated_ceiling


def scores(n: int = 6, scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    return scale * torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_every_bound_says_on_which_side_it_stands():
    assert set(SIDES) == set(BOUNDS)


@pytest.mark.parametrize("name", BOUNDS)
def test_equal_scores_find_no_information(name):
    expected = -2 * math.log(2) if name == "jensen_shannon" else 0.0
    level = 1.0 if name in ("nwj", "interpolated") else 0.0  # these are tight for one plus the log ratio
    value = BOUNDS[name](torch.full((5, 5), level, dtype=torch.float64))
    torch.testing.assert_close(value.item(), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bounds_are_finite_with_finite_gradients_in_low_precision(name, dtype):
    s = scores(8, scale=3.0).to(dtype).requires_grad_()
    BOUNDS[name](s).backward()
    assert s.grad is not None
    assert torch.isfinite(s.grad).all()


@pytest.mark.parametrize("name", ["info_nce", "donsker_varadhan", "leave_one_out"])
def test_these_bounds_ignore_a_constant(name):
    torch.testing.assert_close(BOUNDS[name](scores() + 7), BOUNDS[name](scores()))


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_ignore_the_order_of_the_pairs(name):
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    torch.testing.assert_close(BOUNDS[name](scores()[order][:, order]), BOUNDS[name](scores()))


def test_info_nce_ignores_terms_of_x_and_leave_one_out_terms_of_y():
    offset = scores(6, seed=1)[:, :1]
    torch.testing.assert_close(info_nce(scores() + offset), info_nce(scores()))
    torch.testing.assert_close(leave_one_out(scores() + offset.T), leave_one_out(scores()))


@given(seed=st.integers(0, 10_000), scale=st.floats(0.1, 50))
@settings(max_examples=50, deadline=None)
def test_leave_one_out_is_above_info_nce_of_the_columns(seed, scale):
    s = scores(5, scale, seed)
    assert leave_one_out(s) >= info_nce(s.T) - math.log(5 / 4) - 1e-9


def test_mine_with_the_batch_itself_as_average_has_the_gradient_of_donsker_varadhan():
    s = scores().requires_grad_()
    average = s.detach().masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf).logsumexp((0, 1)) - math.log(30)
    torch.testing.assert_close(mine(s), donsker_varadhan(s))
    gradients = [torch.autograd.grad(f, s)[0] for f in (mine(s, log_average=average), donsker_varadhan(s))]
    torch.testing.assert_close(*gradients)


def test_the_moving_average_of_equal_batches_stays():
    average = scores().masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf).logsumexp((0, 1)) - math.log(30)
    torch.testing.assert_close(moving_average(scores(), average, decay=0.9), average)


def test_a_wide_clip_makes_smile_donsker_varadhan_and_a_narrow_one_the_mean_of_the_diagonal():
    torch.testing.assert_close(smile(scores(), clip=100.0), donsker_varadhan(scores()))
    torch.testing.assert_close(smile(scores(), clip=0.0), scores().diagonal().mean())


def test_jensen_shannon_of_a_perfect_critic_is_zero():
    s = 200 * torch.eye(4, dtype=torch.float64) - 100
    torch.testing.assert_close(jensen_shannon(s).item(), 0.0, atol=1e-12, rtol=0)


def test_nwj_is_largest_for_the_constant_that_makes_the_mean_ratio_one():
    s = scores()
    shifts = torch.linspace(-2, 2, 81, dtype=torch.float64)
    best = max(nwj(s + shift).item() for shift in shifts)
    assert best == pytest.approx(donsker_varadhan(s).item(), abs=1e-3)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 0.99, 1.0])
def test_the_interpolated_bound_of_certain_scores_is_its_ceiling(alpha):
    certain = 2000 * torch.eye(6, dtype=torch.float64) - 1000
    assert interpolated(certain, alpha=alpha).item() == pytest.approx(interpolated_ceiling(6, alpha=alpha))


@given(seed=st.integers(0, 10_000), scale=st.floats(0.1, 50), alpha=st.floats(0.01, 1.0))
@settings(max_examples=50, deadline=None)
def test_no_scores_exceed_the_ceiling_of_the_interpolated_bound(seed, scale, alpha):
    assert interpolated(scores(5, scale, seed), alpha=alpha) <= interpolated_ceiling(5, alpha=alpha) + 1e-9
