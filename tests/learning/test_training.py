"""The loop: every step a function of config, weights and its own number."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import vergence as vg
from vergence.config import Config, Optim, Watching
from vergence.data import from_arrays, load
from vergence.learning import loop, optimizers
from vergence.runs import assembly
from vergence.runs.run import Run
from vergence.stages.train import watch

TINY = Config(
    data="memory", encoder="mlp", views="tabular", epochs=3, batch=8, backbone={"hidden": (16,)},
    heads={"projector": (8, 4)}, optim=Optim(learning_rate=1e-2),
)  # fmt: skip


def blobs(n: int = 40) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = 4 * torch.randn(4, 6, generator=generator)
    return centers[torch.arange(n) % 4] + 0.3 * torch.randn(n, 6, generator=generator)


def started(config: Config = TINY):
    samples = from_arrays(blobs().numpy())
    parts = assembly.assemble(config, samples)
    return parts, optimizers.optimizer(parts.learner, parts.config.optim)


def weights(learner: nn.Module) -> torch.Tensor:
    return torch.cat([tensor.flatten().double() for tensor in learner.state_dict().values()])


def run(parts, optimizer, *, start: int = 0, stop: int | None = None) -> list[loop.Step]:
    steps = []
    for step in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config, start=start):
        steps.append(step)
        if step.number == stop:
            break
    return steps


def test_two_runs_of_one_config_are_equal_to_the_bit():
    first, second = started(), started()
    assert run(*first) == run(*second)
    assert torch.equal(weights(first[0].learner), weights(second[0].learner))


def test_another_seed_is_another_run():
    first, second = started(), started(replace(TINY, seed=1))
    run(*first), run(*second)
    assert not torch.equal(weights(first[0].learner), weights(second[0].learner))


@pytest.mark.parametrize("name", ["adamw", "sgd", "adam", "lars"])
@pytest.mark.parametrize("method", ["simclr", "moco", "byol"])
def test_a_run_stopped_and_restored_ends_where_an_undisturbed_one_does(method, name):
    config = replace(TINY, method=method, optim=Optim(name=name), heads={"queue": 16} if method == "moco" else {})
    whole, half, rest = started(config), started(config), started(config)
    steps = run(*whole)
    run(*half, stop=7)
    loop.restore(rest[0].learner, rest[1], loop.state(half[0].learner, half[1]))
    assert run(*rest, start=7) == steps[7:]
    assert torch.equal(weights(rest[0].learner), weights(whole[0].learner))


def test_an_epoch_sees_every_sample_once_up_to_the_remainder():
    parts, _ = started(replace(TINY, epochs=1))
    seen = torch.cat([indices for indices, _ in loop.batches(parts.samples, parts.config)])
    assert len(seen) == len(torch.unique(seen)) == 40


def test_orders_of_different_epochs_and_seeds_differ():
    orders = [tuple(loop.epoch_order(50, seed, epoch).tolist()) for seed in range(3) for epoch in range(3)]
    assert len(set(orders)) == 9


@pytest.mark.parametrize("method", ["simclr", "byol", "moco", "barlow_twins"])
def test_encoding_in_chunks_gives_the_gradient_of_the_whole_batch(method):
    config = replace(
        TINY,
        method=method,
        backbone={"hidden": (16,), "norm": False},
        heads={"projector": (8, 4), "projector_norm": False},
    )
    parts, _ = started(config)
    parts.learner.predictor = nn.Identity() if method == "byol" else parts.learner.predictor
    learner = parts.learner.double()
    x = parts.samples.x[torch.arange(12)].double()
    views = (x + 0.1, x * 0.9)
    losses, gradients = [], []
    for chunk in (0, 5):
        learner.zero_grad()
        losses.append(loop.gradient(learner, views, None, chunk=chunk))
        gradients.append(torch.cat([p.grad.flatten() for p in learner.parameters() if p.grad is not None]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-12)


def test_a_loss_that_is_not_finite_stops_before_the_weights_change():
    parts, optimizer = started()
    with torch.no_grad():
        next(parts.learner.projector.parameters()).fill_(float("nan"))
    before = weights(parts.learner.encoder[1])
    with pytest.raises((loop.LossNotFinite, ValueError), match=r"step 1|finite|NaN"):
        run(parts, optimizer)
    torch.testing.assert_close(weights(parts.learner.encoder[1])[:96], before[:96])


def test_a_batch_larger_than_the_data_says_what_would_fit():
    with pytest.raises(ValueError, match="use --batch 20 or less"):
        loop.steps_per_epoch(40, 64)


def test_the_loss_falls_on_blobs():
    steps = run(*started(replace(TINY, epochs=30)))
    assert sum(step.loss for step in steps[-5:]) < sum(step.loss for step in steps[:5])


def test_automatic_precision_is_float32_on_a_processor():
    assert loop.precision("auto", torch.device("cpu")) is None
    assert loop.precision("bfloat16", torch.device("cpu")) is torch.bfloat16


def test_a_checkpoint_of_another_architecture_is_refused():
    parts, optimizer = started()
    other, _ = started(replace(TINY, backbone={"hidden": (32,)}))
    with pytest.raises(ValueError, match="does not fit this method and encoder"):
        loop.restore(other.learner, None, loop.state(parts.learner, optimizer))


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory")])
def test_out_of_memory_names_a_chunk_that_fits(error, monkeypatch):
    parts, optimizer = started()
    outputs = parts.learner.outputs

    def limited(views):
        if len(views[0]) > 3:
            raise error
        return outputs(views)

    monkeypatch.setattr(parts.learner, "outputs", limited)
    with pytest.raises(loop.OutOfMemory, match=r"encoding 8 samples at once: --chunk 2 fits"):
        run(parts, optimizer)


def test_an_error_that_is_not_about_memory_stays_itself(monkeypatch):
    parts, optimizer = started()

    def broken(views):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(parts.learner, "outputs", broken)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run(parts, optimizer)


def test_batch_norm_over_a_single_sample_is_refused():
    with pytest.raises(ValueError, match="--chunk 1 gives it one"):
        run(*started(replace(TINY, chunk=1)))


def test_batch_norm_over_chunks_is_told():
    with pytest.warns(UserWarning, match="chunks of 4 samples, not the batch of 8"):
        run(*started(replace(TINY, chunk=4)))


def test_chunks_without_batch_norm_need_no_warning(recwarn):
    plain = replace(TINY, backbone={"hidden": (16,), "norm": False}, heads={"projector_norm": False})
    run(*started(replace(plain, chunk=4)))
    run(*started(replace(TINY, chunk=8)))  # the whole batch
    assert not [warning for warning in recwarn if "Batch norm" in str(warning.message)]


@pytest.mark.filterwarnings("ignore:Batch norm will see chunks")
def test_no_chunk_is_left_with_a_single_sample():
    steps = run(*started(replace(TINY, chunk=7)))  # 8 = 7 + 1, so 4 + 4
    assert len(steps) == 15


def trained_for(folder, epochs: int, *, resume: bool = False, method: str = "simclr", schedule: str = "constant"):
    np.savez(folder.parent / "blobs.npz", x=blobs().numpy(), y=np.arange(40) % 4)
    config = replace(
        TINY, data=f"array:{folder.parent / 'blobs.npz'}", epochs=epochs, method=method, track=(),
        heads={"projector": (8, 4), "predictor": (8, 4) if method == "byol" else ()},
        optim=Optim(learning_rate=1e-2, schedule=schedule),
    )  # fmt: skip
    vg.train(config, run=folder, resume=resume, quiet=True)
    return Run(folder)


def test_a_run_resumed_for_more_epochs_is_the_longer_run_to_the_bit(tmp_path, unassessed, recwarn):
    whole = trained_for(tmp_path / "whole", 4)
    trained_for(tmp_path / "parts", 2)
    parts = trained_for(tmp_path / "parts", 4, resume=True)
    assert parts.config == whole.config
    assert parts.load().step == whole.load().step
    assert all(torch.equal(parts.load().tensors[name], value) for name, value in whole.load().tensors.items())
    assert [row["loss"] for row in parts.rows()] == [row["loss"] for row in whole.rows()]
    assert not [warning for warning in recwarn if "epochs instead of" in str(warning.message)]


def test_what_depends_on_the_number_of_epochs_is_said_when_it_grows(tmp_path, unassessed):
    trained_for(tmp_path / "run", 1, method="byol", schedule="cosine")
    with pytest.warns(UserWarning, match="the cosine schedule and the momentum that rises to 1 go by 2 epochs"):
        run = trained_for(tmp_path / "run", 2, resume=True, method="byol", schedule="cosine")
    assert run.config.epochs == 2
    with pytest.raises(ValueError, match="epochs: the run has 2, you gave 1"):
        trained_for(tmp_path / "run", 1, resume=True, method="byol", schedule="cosine")


def test_what_is_watched_does_not_depend_on_the_order_of_the_data(tmp_path):
    digits = load("digits")
    order = digits.labels.argsort(stable=True)
    found = []
    for name, rows in {"given": torch.arange(len(digits)), "sorted": order}.items():
        path = tmp_path / f"{name}.npz"
        np.savez(path, x=digits.x[rows].numpy().squeeze(1), y=digits.labels[rows].numpy())
        config = Config(data=f"array:{path}", epochs=1, watching=Watching(samples=64))
        found.append(watch(assembly.assemble(config)))
    # An untrained encoder has about .8 here: of 64 digits, by luck within three deviations. A bank of the first rows
    # of sorted digits would know two of the classes, and reach .2.
    assert all(values["knn"] > 0.8 - 3 * (0.8 * 0.2 / 64) ** 0.5 for values in found)
