"""Facts about the staircase of rising information."""

import math

import numpy as np
import pytest
import torch

from vergence.information import staircase
from vergence.information.entropies import Entropies
from vergence.information.samplers import correlated_gaussians
from vergence.information.staircase import CLIMBERS, Stair


def test_a_stair_is_judged_by_its_second_half():
    stair = Stair(2.0, np.array([9.0, 9.0, 1.0, 3.0]))
    assert (stair.mean, stair.deviation) == (2.0, 1.0)


def test_info_nce_stays_under_its_ceiling_on_every_stair_and_entropies_do_not():
    options = {"stairs": (2.0, 12.0), "steps": 50, "d": 2, "batch": 8}
    under = np.concatenate([stair.values for stair in staircase("info_nce", **options)])
    assert under.max() <= math.log(8) + 1e-5
    assert staircase("entropies", **options, learning_rate=1e-2)[-1].mean > math.log(8)


@pytest.mark.parametrize("bound", CLIMBERS)
def test_every_climber_learns(bound):
    stair = staircase(bound, stairs=(1.0,), steps=60, d=2, batch=32, learning_rate=5e-3)[0]
    assert stair.values[:10].mean() < stair.mean < 1.3


def test_the_seed_alone_decides():
    first = staircase(stairs=(1.0,), steps=3)[0].values
    torch.manual_seed(1)
    np.testing.assert_array_equal(staircase(stairs=(1.0,), steps=3)[0].values, first)
    assert (staircase(stairs=(1.0,), steps=3, seed=1)[0].values != first).all()


def test_options_reach_the_bound():
    narrow, wide = (staircase("smile", stairs=(4.0,), steps=3, clip=clip)[0].values for clip in (0.1, 1e3))
    assert (narrow != wide).any()
    plain = staircase("donsker_varadhan", stairs=(4.0,), steps=1)[0].values
    np.testing.assert_allclose(wide[:1], plain, rtol=1e-5)


def test_entropies_that_know_the_law_say_the_information():
    pairs = correlated_gaussians(20_000, d=3, nats=4.0)
    model = Entropies(3, 3, width=8).double()
    rho = math.sqrt(-math.expm1(-8 / 3))
    model.mean_given_x = torch.nn.Linear(3, 3, bias=False).double()
    model.mean_given_x.weight.data = rho * torch.eye(3, dtype=torch.float64)
    model.log_deviations.data[1] = 0.5 * math.log(1 - rho**2)
    assert model(pairs.x, pairs.y).item() == pytest.approx(4.0, abs=0.05)


def test_what_cannot_climb_is_refused():
    for bound in ("leave_one_out", "jensen_shannon", "auto"):
        with pytest.raises(ValueError, match=rf"Unknown bound '{bound}'. Known: donsker_varadhan, entropies"):
            staircase(bound)
