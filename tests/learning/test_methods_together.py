"""Every row of METHODS on two processes takes the step of one process that has the whole batch."""

import pytest
import torch
from torch import Tensor

from narrow import narrow, views
from parallel import together
from vergence.learning.collectives import rank
from vergence.learning.loop import gradient
from vergence.learning.norm import share_statistics
from vergence.methods import METHODS

TRAINED = [name for name, row in METHODS.items() if row.trains]


def after_a_step(name: str, part: slice) -> tuple[float, dict[str, Tensor]]:
    """The loss of a step, and all that the learner holds after it: weights, averages, queue and statistics."""
    learner = share_statistics(narrow(name)).double()
    pair, labels = views()
    loss = gradient(learner, [view[part].double() for view in pair], labels[part])
    torch.optim.SGD(learner.parameters(), lr=0.1).step()
    learner.after_step(0.5)
    return loss, dict(learner.state_dict())


def every_method() -> dict[str, tuple[float, dict[str, Tensor]]]:
    half = slice(6 * rank(), 6 * rank() + 6)
    return {name: after_a_step(name, half) for name in TRAINED}


@pytest.fixture(scope="module")
def both():
    return together(every_method, 2)


@pytest.mark.parametrize("name", TRAINED)
def test_two_processes_take_the_step_of_one(both, name):
    loss, held = after_a_step(name, slice(None))
    for answers in both:
        torch.testing.assert_close(answers[name][0], loss, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(answers[name][1], held, rtol=1e-7, atol=1e-9)
