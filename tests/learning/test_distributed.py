"""Processes together give the loss and the gradient of one process that had the whole batch."""

import pytest
import torch
from torch import nn

from parallel import together
from vergence.learning.collectives import average_gradients, gather, rank, world
from vergence.objectives import OBJECTIVES

SIZES = (5, 3)  # Rows of each process: they need not be equal.
LABELS = torch.tensor([0, 1, 0, 2, 1, 1, 2, 0])


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(sum(SIZES), 6, dtype=torch.float64, generator=generator)
    return x, x + 0.5 * torch.randn(x.shape, dtype=torch.float64, generator=generator)


def encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(6, 4).double()


def objective(name, z1, z2, labels):
    alone = dict.fromkeys(("uniformity", "sigreg", "koleo"), ())
    extra = {**alone, "supervised": (z2, labels)}.get(name, (z2,))
    return OBJECTIVES[name](z1, *extra)


def loss_and_gradient(name, *, part=slice(None)):
    """The loss of the whole batch, of which this process encodes a part, and the averaged gradient of the weights."""
    model, (x1, x2) = encoder(), batch()
    loss = objective(name, gather(model(x1[part])), gather(model(x2[part])), gather(LABELS[part]))
    loss.backward()
    average_gradients(model)
    return float(loss.detach()), model.weight.grad


def own(sizes):
    """The rows of this process, when each has so many."""
    first = sum(sizes[: rank()])
    return slice(first, first + sizes[rank()])


def every_objective(sizes):
    return {name: loss_and_gradient(name, part=own(sizes)) for name in OBJECTIVES}


def own_anchors(sizes):
    """Each process takes the mean over its own rows only: DDP's average is the mean over all, for equal parts."""
    part = own(sizes)
    model, (x, _) = encoder(), batch()
    z = gather(model(x[:8][part]))
    (z[part] @ z.T).exp().sum(1).log().mean().backward()
    average_gradients(model)
    return model.weight.grad


def facts(sizes):
    return rank(), world(), gather(LABELS[own(sizes)]), gather(torch.ones(2, 3, dtype=torch.bfloat16)).dtype


@pytest.fixture(scope="module")
def both():
    return together(every_objective, 2, SIZES)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_processes_give_the_loss_and_gradient_of_one(both, name):
    loss, gradient = loss_and_gradient(name)
    for answers in both:
        torch.testing.assert_close(answers[name][0], loss, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(answers[name][1], gradient, rtol=1e-10, atol=1e-12)


def test_a_loss_over_own_anchors_averages_to_the_loss_over_all():
    expected = own_anchors((8,))
    for gradient in together(own_anchors, 2, (4, 4)):
        torch.testing.assert_close(gradient, expected)


def test_ranks_keep_their_order_and_half_precision_is_gathered_in_float32():
    for number, answer in enumerate(together(facts, 2, SIZES)):
        assert answer[:2] == (number, 2)
        assert answer[2].tolist() == LABELS.tolist()
        assert answer[3] == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("processes", [3, 4, 8])
def test_more_processes_give_the_same(processes):
    sizes = tuple(map(len, torch.arange(8).tensor_split(processes)))
    for answers in together(every_objective, processes, sizes):
        for name, (loss, gradient) in answers.items():
            alone = loss_and_gradient(name)
            torch.testing.assert_close(loss, alone[0], rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(gradient, alone[1], rtol=1e-10, atol=1e-12)


def averaged_convolution():
    torch.manual_seed(0)
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    ((rank() + 1) * model(torch.randn(2, 3, 5, 5))).square().sum().backward()
    own = model.weight.grad.clone()
    average_gradients(model)
    return own, model.weight.grad


def test_gradients_that_lie_with_their_channels_last_are_averaged():
    (first, average), (second, same) = together(averaged_convolution, 2)
    torch.testing.assert_close(average, (first + second) / 2)
    torch.testing.assert_close(same, average)


def test_one_process_gathers_nothing():
    z = torch.randn(3, 2)
    assert gather(z) is z
    assert (rank(), world()) == (0, 1)
