"""Every row of METHODS is the structure its paper draws: seen in gradients and updates, not in the source."""

import copy

import pytest
import torch

from vergence.encoders import build
from vergence.learners import LEARNERS, Problem
from vergence.methods import METHODS, customised

SHAPE = (3, 4, 4)
COMPARING = {name: row for name, row in METHODS.items() if row.learner == "two_view"}


def narrow(name: str, **objective):
    """A method's learner with small heads, so that the whole table takes seconds."""
    row = METHODS[name]
    heads = {"projector": (16, 8), "predictor": (8, 8) if row.predictor else (), "queue": 32 if row.queue else 0}
    row = customised(name, heads=heads if row.objective else {}, objective=objective)
    torch.manual_seed(0)
    problem = Problem(lambda view: build("mlp", SHAPE, hidden=(16,)), SHAPE, classes=3)
    return LEARNERS[row.learner](row, problem, **({} if row.objective else row.hyperparameters))


def views(n: int = 12, seed: int = 0) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, *SHAPE, generator=generator)
    noise = [0.1 * torch.rand(n, *SHAPE, generator=generator) for _ in range(2)]
    return [0.9 * x + part for part in noise], torch.arange(n) % 3


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.trains])
def test_every_method_gives_a_finite_loss_and_moves_its_encoder(name):
    learner = narrow(name)
    loss = learner(*views())
    loss.backward()
    assert torch.isfinite(loss)
    assert loss.ndim == 0
    gradients = [parameter.grad for parameter in learner.encoder.parameters()]
    assert all(gradient is not None and torch.isfinite(gradient).all() for gradient in gradients)
    assert any(gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize("name", list(METHODS))
def test_a_learner_round_trips_through_its_state(name):
    learner, copied = narrow(name), narrow(name)
    pair, labels = views()
    learner(pair, labels)
    learner.after_step(0.5)
    copied.load_state_dict(learner.state_dict())
    torch.testing.assert_close(learner(pair, labels), copied(pair, labels))


@pytest.mark.parametrize("name", [name for name, row in COMPARING.items() if row.target != "online"])
def test_no_gradient_reaches_the_key_branch(name):
    learner = narrow(name)
    outputs = learner.outputs(views()[0])
    queries, keys = outputs[:2], outputs[2:]
    assert all(query.requires_grad for query in queries)
    assert not any(key.requires_grad for key in keys)


@pytest.mark.parametrize("name", [name for name, row in COMPARING.items() if row.target == "online"])
def test_both_branches_of_a_symmetric_method_carry_gradient(name):
    assert all(output.requires_grad for output in narrow(name).outputs(views()[0]))


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.target == "momentum"])
def test_the_target_starts_as_a_copy_and_follows_after_a_step(name):
    learner = narrow(name)
    before = copy.deepcopy(learner.target.module.state_dict())
    with torch.no_grad():
        for parameter in learner.branch.parameters():
            parameter.add_(1.0)
    learner.after_step(0.0)
    momentum = learner.momentum(0.0)
    for key, parameter in learner.target.module.named_parameters():
        torch.testing.assert_close(parameter, before[key] + (1 - momentum))


def test_byols_momentum_rises_from_its_start_to_one():
    learner = narrow("byol")
    assert learner.momentum(0.0) == pytest.approx(0.99)
    assert learner.momentum(1.0) == pytest.approx(1.0)
    assert narrow("moco").momentum(1.0) == pytest.approx(0.99)


def test_the_queue_takes_one_key_a_sample_after_the_step_and_never_before():
    learner = narrow("moco")
    pair, _ = views()
    learner(pair)
    assert int(learner.queue.pushed) == 0
    learner.after_step(0.0)
    assert int(learner.queue.pushed) == len(pair[0])
    held = learner.queue.negatives()
    assert len(torch.unique(held, dim=0)) == len(pair[0])
    learner.after_step(0.0)
    assert int(learner.queue.pushed) == len(pair[0]), "a batch entered twice"


def test_mocos_loss_is_info_nce_against_the_queue_both_ways():
    from vergence.objectives import info_nce

    learner = narrow("moco").eval()
    learner(views(seed=1)[0])
    learner.after_step(0.0)
    pair, _ = views()
    query1, query2, key1, key2 = learner.outputs(pair)
    options = {"negatives": learner.queue.negatives(), "temperature": 0.1}
    expected = (info_nce(query1, key2, **options) + info_nce(query2, key1, **options)) / 2
    torch.testing.assert_close(learner(pair), expected)


def test_the_supervised_row_reads_its_labels():
    learner = narrow("supervised_contrastive").eval()
    pair, labels = views()
    assert not torch.isclose(learner(pair, labels), learner(pair, labels.sort().values))


def test_what_is_exported_is_the_encoder_not_the_projector():
    learner = narrow("simclr")
    assert learner.encoder(views()[0][0]).shape == (12, learner.encoder.width)
