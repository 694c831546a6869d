"""Batch norm of several processes: one exchange forward, one backward, and sound where the mean is large."""

import pytest
import torch
from torch import distributed, nn

from parallel import together
from vergence.learning.collectives import rank, world
from vergence.learning.norm import SharedBatchNorm, share_statistics

SIZES = (5, 3)  # rows of each process: they need not be equal


def own(x: torch.Tensor) -> torch.Tensor:
    return x.split(SIZES)[rank()] if world() > 1 else x


def batch(dtype: torch.dtype, mean: float = 0.0) -> torch.Tensor:
    return mean + torch.randn(8, 3, 4, dtype=dtype, generator=torch.Generator().manual_seed(0))


def exchanges() -> int:
    """How many collectives a training step of one layer takes."""
    calls, reduce = [], distributed.all_reduce
    distributed.all_reduce = lambda *arguments, **options: (calls.append(1), reduce(*arguments, **options))[1]
    x = own(batch(torch.float64)).clone().requires_grad_()
    share_statistics(nn.Sequential(nn.BatchNorm1d(3).double()))(x).square().sum().backward()
    distributed.all_reduce = reduce
    return len(calls)


def statistics(mean: float) -> tuple[torch.Tensor, torch.Tensor]:
    """What is given for each row in float32, and the running variance."""
    norm = share_statistics(nn.Sequential(nn.BatchNorm1d(3, momentum=1.0)))
    return norm(own(batch(torch.float32, mean))).detach(), norm[0].running_var


def test_a_layer_takes_one_exchange_forward_and_one_backward():
    assert together(exchanges, 2) == [2, 2]


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_a_large_mean_costs_no_digits_of_the_variance(mean):
    x = batch(torch.float32, mean).double()
    expected = nn.BatchNorm1d(3).double()(x).detach()
    answers = together(statistics, 2, mean)
    # A float32 of size 10^4 has steps of 0.001, which the rows themselves were rounded to already.
    torch.testing.assert_close(torch.cat([rows for rows, _ in answers]).double(), expected, atol=2e-3, rtol=1e-3)
    torch.testing.assert_close(answers[0][1].double(), x.var((0, 2)), rtol=1e-3, atol=0.0)


def test_weights_statistics_and_mode_are_kept():
    norm = nn.BatchNorm1d(3, affine=False, track_running_stats=False).eval()
    assert not share_statistics(nn.Sequential(norm))[0].training
    frozen = nn.BatchNorm1d(3).requires_grad_(False)
    shared = share_statistics(nn.Sequential(frozen))[0]
    assert isinstance(shared, SharedBatchNorm)
    assert not any(parameter.requires_grad for parameter in shared.parameters())
