"""Every row of METHODS is the structure its paper draws: seen in gradients and updates, not in the source."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import vergence as vg
from narrow import narrow, views
from vergence.config import Config, Optim
from vergence.counters import normal
from vergence.data import Samples, from_arrays
from vergence.encoders import build
from vergence.evaluation import nearest_center
from vergence.features import extract
from vergence.information import BOUNDS
from vergence.learning import LEARNERS, Problem
from vergence.learning.loop import fit, gradient, restore, state
from vergence.learning.optimizers import optimizer
from vergence.methods import METHODS
from vergence.runs import assembly
from vergence.runs.run import Run
from vergence.views.recipe import Recipe, plain

COMPARING = {name: row for name, row in METHODS.items() if row.learner == "two_view"}


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


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.trains])
def test_a_batch_in_chunks_has_the_gradient_of_the_whole(name):
    gradients = []
    for chunk in (0, 5):
        learner = narrow(name).eval()  # in training, batch norm would see the chunk
        gradient(learner, *views(), chunk=chunk)
        gradients.append(
            {key: parameter.grad for key, parameter in learner.named_parameters() if parameter.requires_grad}
        )
    torch.testing.assert_close(*gradients)


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


@pytest.mark.parametrize("name", COMPARING)
def test_a_row_describes_the_structure_that_its_learner_has(name):
    learner, described = narrow(name), METHODS[name].describe()
    outputs = learner.outputs(views()[0])
    assert ("same branch" in described) == all(output.requires_grad for output in outputs)
    assert ("stop-gradient" in described) == (learner.target is None and not outputs[-1].requires_grad)
    assert ("moving average" in described) == (learner.target is not None)
    assert ("queue" in described) == (learner.queue is not None)
    assert ("predictor" in described) == (not isinstance(learner.predictor, nn.Identity))


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


SIGNAL, NUISANCE = 4, 64


def toy(n: int = 256) -> tuple[Samples, Recipe]:
    """Four classes in a few coordinates, under much larger ones that every view draws afresh."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % SIGNAL
    signal = torch.eye(SIGNAL)[labels] + 0.1 * torch.randn(n, SIGNAL, generator=generator)
    x = torch.cat([signal, 3 * torch.randn(n, NUISANCE, generator=generator)], dim=1)

    def redrawn(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :SIGNAL], 3 * normal(keys, NUISANCE).float()], dim=1)

    return from_arrays(x.numpy(), labels.numpy()), Recipe("vector", (redrawn, redrawn), plain, "redrawn nuisance")


def settings(name: str, *, epochs: int) -> Config:
    """A row with narrow heads and a quick moving average, for the toy."""
    row = METHODS[name]
    heads = {"projector": (32, 16), "predictor": (16, 16) if row.predictor else (), "momentum": 0.9}
    heads |= {"queue": 128 if row.queue else 0} | ({"prototypes": 32} if row.prototypes else {})
    return Config(
        data="memory", method=name, encoder="mlp", views="columns", epochs=epochs, batch=64,
        heads=heads if row.objective else {}, backbone={"hidden": (32,)}, optim=Optim(learning_rate=1e-2, warmup=0.0),
    )  # fmt: skip


def started(config: Config, samples: Samples, recipe: Recipe) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    learner = assembly.build_learner(assembly.settle(config, samples), samples, recipe)
    return learner, optimizer(learner, config.optim)


def accuracy(name: str, *, epochs: int) -> float:
    """The nearest-center accuracy of a row's encoder after training on the toy."""
    samples, recipe = toy()
    config = settings(name, epochs=epochs)
    learner, adam = started(config, samples, recipe)
    for _ in fit(learner, adam, samples, recipe, config):
        pass
    h = extract(learner.encoder, samples, recipe).h
    half = len(h) // 2
    return nearest_center(h[:half], samples.labels[:half], h[half:], samples.labels[half:]).accuracy


PRETEXT = ("rotation", "colorization", "bigan", "mae", "i_jepa")
VIEWED = [name for name, row in METHODS.items() if row.trains and name not in PRETEXT]


@pytest.mark.parametrize("name", VIEWED)
def test_every_method_of_two_views_learns_what_random_features_do_not_show(name):
    assert accuracy("random", epochs=0) < 0.65
    # The neighbors in a short queue are of the right class only once something is learned.
    assert accuracy(name, epochs=50 if METHODS[name].memory == "neighbors" else 25) > 0.85


@pytest.mark.parametrize("bound", ["info_nce", "nwj", "donsker_varadhan"])
@pytest.mark.parametrize("critic", ["bilinear", "separable", "concat"])
def test_infomax_raises_the_bound_or_brings_it_to_its_target(bound, critic):
    pair, _ = views()
    learner, aimed = (narrow("infomax", bound=bound, critic=critic, target=target) for target in (None, 0.7))
    first, second = learner.outputs(pair)
    information = BOUNDS[bound](learner.critic(first, second))
    torch.testing.assert_close(learner(pair), -information)
    torch.testing.assert_close(aimed(pair), (information - 0.7).abs())


def test_clip_learns_its_temperature_and_shares_nothing():
    learner = narrow("clip")
    learner(views()[0]).backward()
    assert learner.objective.logarithms["temperature"].grad != 0
    first, second = (list(branch.parameters()) for branch in learner.branches)
    assert not {id(parameter) for parameter in first} & {id(parameter) for parameter in second}


def test_clip_pairs_modalities_of_different_widths():
    generator = torch.Generator().manual_seed(0)
    shared = torch.randn(256, 2, generator=generator)
    mixing = torch.randn(2, 3, generator=generator), torch.randn(2, 7, generator=generator)
    x = torch.cat([shared @ part for part in mixing], dim=1)
    config = Config(
        data="memory", method="clip", encoder="mlp", views="columns", view={"first": 3}, epochs=10, batch=64,
        backbone={"hidden": (32,)},
    )  # fmt: skip
    parts = assembly.assemble(config, from_arrays(x.numpy()))
    for _ in fit(parts.learner, optimizer(parts.learner, config.optim), parts.samples, parts.recipe, parts.config):
        pass
    made = extract(parts.learner.encoder, parts.samples, parts.recipe, branches=parts.learner.branches)
    first, second = (nn.functional.normalize(z, dim=1) for z in (made.z1, made.z2))
    ranks = (first @ second.T > (first * second).sum(1, keepdim=True)).sum(1)
    assert ranks.float().mean() < 0.1 * len(x), "a sample's other modality should be among the nearest"


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("rotation", (10,), "square images"),
        ("rotation", (1, 4, 6), "square images"),
        ("colorization", (1, 4, 4), "color images"),
        ("supervised", (10,), "labels of at least 2 classes; the data has 0"),
    ],
)
def test_data_that_a_method_cannot_use_is_refused_when_its_learner_is_built(name, shape, message):
    row = METHODS[name]
    with pytest.raises(ValueError, match=message):
        LEARNERS[row.learner](row, Problem(lambda view: build("mlp", shape), shape))


def test_a_generator_of_numbers_refuses_texts():
    samples = Samples(torch.randint(1, 9, (32, 5)), "text", source="texts")
    with pytest.raises(ValueError, match="texts are tokens"):
        assembly.assemble(Config(data="memory", method="bigan", batch=16), samples)


@pytest.mark.parametrize("name", ["supervised", "supervised_contrastive"])
def test_a_method_that_learns_from_labels_refuses_data_without(name):
    with pytest.raises(ValueError, match=f"{name} learns from labels, and the data has none"):
        assembly.assemble(Config(data="memory", method=name, batch=64), from_arrays(toy()[0].x.numpy()))


def test_random_initialization_takes_no_step():
    samples, _ = toy()
    parts = assembly.assemble(Config(data="memory", method="random", epochs=5, batch=64), samples)
    assert parts.config.epochs == 0
    encoder = assembly.untrained(parts)
    torch.testing.assert_close(parts.learner.encoder.state_dict(), encoder.state_dict())


@pytest.mark.parametrize("name", VIEWED)
def test_a_resumed_training_repeats_an_undisturbed_one(name):
    samples, recipe = toy(192)
    config = settings(name, epochs=2)
    whole, halted, resumed = (started(config, samples, recipe) for _ in range(3))
    losses = [step.loss for step in fit(*whole, samples, recipe, config)]
    for step in fit(*halted, samples, recipe, config):
        if step.number == 4:
            break
    restore(*resumed, state(*halted))
    assert [step.loss for step in fit(*resumed, samples, recipe, config, start=4)] == losses[4:]


def test_views_of_different_shapes_need_two_encoders():
    samples, _ = toy()
    with pytest.raises(ValueError, match=r"simclr has one encoder, but its views would be of shapes \(3,\) and"):
        assembly.assemble(Config(data="memory", views="columns", view={"first": 3}, batch=64), samples)


@pytest.mark.parametrize(("name", "first"), [("clip", 3), ("infomax", 3), ("random", 4)])
def test_a_run_of_two_modalities_or_of_nothing_ends_in_a_report_and_a_checkpoint(tmp_path, name, first):
    x, labels = torch.randn(60, 8, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 2
    np.savez(tmp_path / "pairs.npz", x=x.numpy(), y=labels.numpy())
    config = Config(
        data=f"array:{tmp_path / 'pairs.npz'}", method=name, views="columns", view={"first": first}, epochs=1, batch=16,
        backbone={"hidden": (64,)}, encoder="mlp", track=(),
    )  # fmt: skip
    vg.train(config, run=tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "report.html").exists()
    assert assembly.trained(Run(tmp_path / "run")).learner.encoder.width == 64
