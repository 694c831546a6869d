"""Several processes train as one; a signal stops them without loss."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

from parallel import together
from vergence.config import Config, Optim
from vergence.data import Samples, from_arrays
from vergence.learning import loop, optimizers
from vergence.learning.norm import SharedBatchNorm, share_statistics
from vergence.methods import METHODS
from vergence.runs import assembly, launch

TINY = Config(
    data="memory", encoder="mlp", views="tabular", epochs=2, batch=16, backbone={"hidden": (16,)},
    optim=Optim(learning_rate=1e-2, name="sgd"),
)  # fmt: skip


def heads(name: str) -> dict:
    row = METHODS[name]
    if row.objective is None:
        return {}
    return {"projector": (16, 8), "predictor": (8, 8) if row.predictor else (), "queue": 32 if row.queue else 0}


def problem(name: str) -> tuple[Samples, dict]:
    """Samples that a method can learn from, and the settings that go with them."""
    generator = torch.Generator().manual_seed(0)
    if name == "quick_thought":
        texts, following = torch.randint(1, 20, (2, 48, 7), generator=generator)
        settings = {"views": "pairs", "encoder": "bag", "backbone": {"width": 8, "vocabulary": 20}}
        return Samples(texts, "text", beside={"positive": following}), settings
    masked = name in ("mae", "i_jepa")
    pictures = masked or name in ("rotation", "colorization")
    x = torch.rand(48, 8, 8, 3, generator=generator) if pictures else torch.randn(48, 6, generator=generator)
    samples = from_arrays(x.numpy(), (torch.arange(48) % 3).numpy())
    if masked:
        vit = {"width": 16, "depth": 1, "attention_heads": 2, "patch": 2}
        return samples, {"views": "simclr", "encoder": "vit", "backbone": vit}
    return samples, {"views": "simclr" if pictures else "columns" if name == "clip" else "tabular"}


def begun(name: str, **more: float) -> tuple[assembly.Assembled, torch.optim.Optimizer]:
    """A method and its optimizer before the first step; ``more`` are further settings of its heads."""
    samples, settings = problem(name)
    parts = assembly.assemble(replace(TINY, method=name, heads={**heads(name), **more}, **settings), samples)
    return parts, optimizers.optimizer(parts.learner, parts.config.optim)


def trained(name: str, **more: float) -> tuple[list[float], torch.Tensor]:
    """The losses and the weights of a short training, by however many processes there are, in float64."""
    parts, optimizer = begun(name, **more)
    losses = [step.loss for step in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)]
    return losses, torch.cat([parameter.detach().flatten() for parameter in parts.learner.encoder.parameters()])


def with_koleo() -> tuple[list[float], torch.Tensor]:
    return trained("simclr", koleo=0.5)


@pytest.mark.parametrize("name", list(METHODS))
def test_two_processes_train_every_method_as_one_does(name):
    losses, weights = trained(name)
    for other_losses, other_weights in together(trained, 2, name):
        assert other_losses == pytest.approx(losses, rel=1e-4, abs=1e-5)
        torch.testing.assert_close(other_weights, weights, rtol=1e-3, atol=1e-4)


def test_two_processes_look_for_nearest_neighbors_among_the_rows_of_both():
    losses, weights = with_koleo()
    assert losses != trained("simclr")[0]
    for other_losses, other_weights in together(with_koleo, 2):
        assert other_losses == pytest.approx(losses, rel=1e-4, abs=1e-5)
        torch.testing.assert_close(other_weights, weights, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.trains])
def test_every_method_stopped_and_restored_ends_where_an_undisturbed_one_does(name):
    (whole, first), (half, second), (rest, third) = (begun(name) for _ in range(3))
    losses = [step.loss for step in loop.fit(whole.learner, first, whole.samples, whole.recipe, whole.config)]
    for step in loop.fit(half.learner, second, half.samples, half.recipe, half.config):
        if step.number == 3:  # within the second of the six steps' two epochs
            break
    loop.restore(rest.learner, third, loop.state(half.learner, second))
    resumed = loop.fit(rest.learner, third, rest.samples, rest.recipe, rest.config, start=3)
    assert [step.loss for step in resumed] == losses[3:]
    expected, found = whole.learner.state_dict(), rest.learner.state_dict()
    assert all(torch.equal(found[key], value) for key, value in expected.items())


def normalized(x: torch.Tensor, share: bool) -> tuple[torch.Tensor, torch.Tensor]:
    from vergence.learning.collectives import gather, rank, world

    norm = nn.BatchNorm2d(3).double()
    norm = share_statistics(nn.Sequential(norm)) if share else norm
    part = x.chunk(world())[rank()].clone().requires_grad_()
    (gather(norm(part)) ** 3).sum().backward()
    state = {key.removeprefix("0."): value for key, value in norm.state_dict().items()}
    return part.grad / world(), torch.cat([state["running_mean"], state["running_var"]])


def test_shared_batch_norm_is_batch_norm_of_the_whole_batch():
    x = torch.randn(8, 3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    gradient, statistics = normalized(x, False)
    results = together(normalized, 2, x, True)
    torch.testing.assert_close(torch.cat([part for part, _ in results]), gradient)
    torch.testing.assert_close(results[1][1], statistics)


def test_shared_batch_norm_alone_is_batch_norm():
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    x = torch.randn(6, 4)
    expected = module(x)
    module[1].reset_running_stats()
    shared = share_statistics(module)
    assert isinstance(shared[1], SharedBatchNorm)
    torch.testing.assert_close(shared(x), expected)


def started(run, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "vergence", "train", "--data", "digits", "--run", str(run), "--epochs", "400"]
    command += ["--batch", "128", "--limit", "256", "--watching.every", "0", "--saving.every", "1000", *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_within_one_step_and_asks_to_be_requeued(tmp_path, number):
    run = tmp_path / "run"
    process = started(run)
    log = run / "log.jsonl"
    while process.poll() is None and (not log.exists() or log.read_text().count("\n") < 3):
        time.sleep(0.05)
    before = log.read_text().count("\n")
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 75, error
    assert "--resume continues" in error
    saved = max(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*"))
    assert saved == len(log.read_text().splitlines())
    assert saved - before <= 3  # steps that were under way while we looked and while the signal travelled


def test_more_devices_than_there_are_is_refused():
    with pytest.raises(ValueError, match=r"--devices 4096 is more than the \d+"):
        launch.available(4096)


@pytest.mark.slow
def test_two_devices_on_the_command_line_give_the_log_of_one(tmp_path):
    logs = []
    for devices in ("1", "2"):
        run = tmp_path / devices
        options = ["--epochs", "2", "--batch", "128", "--limit", "512", "--devices", devices, "--quiet"]
        command = [sys.executable, "-m", "vergence", "train", "--data", "digits", "--run", str(run), *options]
        subprocess.run(command, check=True, env=environment(), capture_output=True)
        logs.append([json.loads(line)["loss"] for line in (run / "log.jsonl").read_text().splitlines()])
    assert logs[0] == pytest.approx(logs[1], rel=1e-4)
