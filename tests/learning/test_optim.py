"""Optimizers and schedules: the number in the config is the number used."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from vergence.config import Optim
from vergence.learning.optimizers import OPTIMIZERS, SCHEDULES, learning_rate, optimizer, parameter_groups


def quadratic(name: str) -> float:
    """The squared norm of a weight after 200 steps down ``||w - 1||^2``, started at 2."""
    module = nn.Linear(4, 4, bias=True)
    nn.init.constant_(module.weight, 2.0)
    nn.init.constant_(module.bias, 2.0)
    # LARS moves a layer by a thousandth of its norm at rate 1.
    rate = 3.0 if name == "lars" else 0.05
    stepper = optimizer(module, Optim(name=name, learning_rate=rate, weight_decay=0.0, momentum=0.5))
    for _ in range(300):
        stepper.zero_grad()
        ((module.weight - 1) ** 2).sum().add(
            ((module.bias - 1) ** 2).sum() * (0.01 if name == "lars" else 1)
        ).backward()
        stepper.step()
    return float(((module.weight.detach() - 1) ** 2).mean())


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_every_optimizer_goes_down_a_quadratic(name):
    assert quadratic(name) < 1e-2


def test_matrices_decay_and_biases_and_norms_do_not():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    decayed, kept = parameter_groups(module, 0.1)
    assert [tuple(parameter.shape) for parameter in decayed["params"]] == [(3, 3)]
    assert len(kept["params"]) == 3
    assert kept["weight_decay"] == 0.0


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_a_schedule_starts_at_one_and_never_rises(name):
    values = [SCHEDULES[name](step / 50) for step in range(51)]
    assert values[0] == 1.0
    assert all(later <= earlier for earlier, later in pairwise(values))


def test_warm_up_reaches_the_configured_rate_and_cosine_ends_at_zero():
    optim = Optim(learning_rate=0.3, warmup=2.0)
    rates = [learning_rate(optim, step, 100, 10) for step in range(101)]
    assert max(rates) == pytest.approx(0.3)
    assert rates[19] == pytest.approx(0.3)
    assert rates[100] == pytest.approx(0.0)


def test_lars_moves_a_matrix_by_its_own_norm_times_the_trust():
    weight = nn.Parameter(torch.full((2, 2), 3.0))
    stepper = OPTIMIZERS["lars"]([{"params": [weight], "weight_decay": 0.0}], Optim(learning_rate=1.0))
    (weight * 1e6).sum().backward()
    stepper.step()
    # ||w|| = 6, so the step has length 1e-3 x 6 whatever the size of the gradient.
    torch.testing.assert_close((torch.full((2, 2), 3.0) - weight.detach()).norm(), torch.tensor(6e-3))
