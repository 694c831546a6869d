"""torch's optimizers without its compiler."""

import subprocess
import sys

import pytest
import torch

from vergence.learning.eager import eager

KINDS = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.SparseAdam)


@pytest.mark.parametrize("kind", KINDS)
def test_its_steps_are_those_of_torch(kind):
    weights = []
    for each in (kind, eager(kind)):
        torch.manual_seed(0)
        table = torch.nn.Embedding(7, 3, sparse=kind is torch.optim.SparseAdam)
        optimizer = each(table.parameters(), lr=0.1)
        for rows in (torch.arange(3), torch.arange(2, 6)):
            optimizer.zero_grad()
            table(rows).square().sum().backward()
            optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
        weights.append(table.weight.detach())
    assert torch.equal(*weights)


def test_a_step_of_training_does_not_import_the_compiler():
    program = """
import sys, torch
from vergence.config import Optim
from vergence.learning.optimizers import OPTIMIZERS, optimizer
for name in OPTIMIZERS:
    module = torch.nn.Linear(2, 2)
    made = optimizer(module, Optim(name=name, learning_rate=0.1))
    module(torch.ones(1, 2)).sum().backward()
    made.step(), made.zero_grad(), made.load_state_dict(made.state_dict())
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_compiled_step_is_that_of_torch():
    module = torch.nn.Linear(2, 2)
    made = eager(torch.optim.SGD)(module.parameters(), lr=0.5)
    module(torch.ones(1, 2)).sum().backward()
    expected = module.weight.detach() - 0.5 * module.weight.grad
    torch.compile(made.step, backend="eager")()
    torch.testing.assert_close(module.weight.detach(), expected)
