"""Sharded weights and recomputed activations: the loss and the gradient are those of one process."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from parallel import together
from vergence.config import Config
from vergence.data import from_arrays
from vergence.learning import loop, optimizers, sharding
from vergence.runs import assembly, sharded
from vergence.runs.run import Run

METHODS = {"simclr": 0.5, "moco": 0.2, "barlow_twins": 5e-3}


def parts_of(method, optimizer="sgd", **options):
    """A small run on vectors with batch norm in encoder and projector, and for MoCo a moving average and a queue."""
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    heads = {"projector": (12, 8)} | ({"queue": 64} if method == "moco" else {})
    config = Config(
        data="digits", method=method, encoder="mlp", batch=16, epochs=2, heads=heads, device="cpu", **options
    )
    config = replace(config, optim=replace(config.optim, name=optimizer, learning_rate=0.01, clip=1.0))
    return assembly.assemble(config, from_arrays(x, torch.arange(64) % 4))


def trained(method, steps, sharded_weights, recompute=False, folder=None, resume=False, precision="float32"):
    """Losses of some steps, and the weights and the first gradient after them."""
    torch.set_num_threads(1)
    named = "adamw" if folder else "sgd"  # Adam would enlarge rounding, but has more to save
    parts = parts_of(method, named, precision=precision)
    if recompute:
        sharding.recompute(parts.learner.encoder)
    if sharded_weights:
        sharding.shard(parts.learner, precision=loop.precision(precision, torch.device("cpu")))
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    for group in optimizer.param_groups:
        group["foreach"] = False
    start = 0
    if resume:
        start = sharded.restore(Run(folder), parts.learner, optimizer)["step"]
    losses = []
    for step in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config, start=start):
        losses.append(step.loss)
        if step.number == steps:
            break
    if folder is not None and not resume:
        sharded.save(Run(folder), parts.learner, optimizer, step=steps, method=method, keep=2)
    return {"losses": torch.tensor(losses), **sharding.gathered(parts.learner)}


def close(one, other):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(
            one[name], other[name], rtol=2e-4, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("method", METHODS)
def test_two_processes_with_sharded_weights_train_as_one_process(method):
    one = trained(method, 4, False)
    for found in together(trained, 2, method, 4, True):
        close(found, one)


def test_in_bfloat16_norms_keep_float32_and_the_losses_are_near_those_of_float32():
    one = trained("simclr", 4, False)
    for found in together(trained, 2, "simclr", 4, True, False, None, False, "bfloat16"):
        torch.testing.assert_close(found["losses"], one["losses"], rtol=2e-2, atol=0)
        assert not torch.equal(found["losses"], one["losses"])


def gradient_of(method, sharded_weights):
    parts = parts_of(method)
    parts.learner.double()
    if sharded_weights:
        sharding.shard(parts.learner)
    generator = torch.Generator().manual_seed(1)
    views = [torch.randn(16, 6, generator=generator, dtype=torch.float64) for _ in range(2)]
    from vergence.learning import collectives

    own = [view.chunk(collectives.world())[collectives.rank()] for view in views]
    parts.learner.train()
    loss = loop.gradient(parts.learner, own, None)
    found = {name: sharding.whole(p.grad) for name, p in parts.learner.named_parameters() if p.grad is not None}
    return {"loss": torch.tensor(loss), **found}


@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_of_sharded_weights_is_that_of_one_process(method):
    one = gradient_of(method, False)
    for found in together(gradient_of, 2, method, True):
        assert found.keys() == one.keys()
        for name in one:
            torch.testing.assert_close(found[name], one[name], rtol=1e-9, atol=1e-12)


def test_a_sharded_run_continues_as_if_it_had_not_stopped(tmp_path):
    whole = together(trained, 2, "moco", 6, True, False, str(tmp_path / "whole"))[0]
    together(trained, 2, "moco", 3, True, False, str(tmp_path / "run"))
    again = together(trained, 2, "moco", 6, True, False, str(tmp_path / "run"), True)[0]
    torch.testing.assert_close(again.pop("losses"), whole.pop("losses")[3:], rtol=0, atol=0)
    for name in whole:
        torch.testing.assert_close(again[name], whole[name], rtol=0, atol=0)


def test_a_sharded_checkpoint_holds_no_pickle_and_its_damage_is_noticed(tmp_path):
    together(trained, 2, "simclr", 2, True, False, str(tmp_path))
    (path,) = Run(tmp_path).checkpoints("sharded")
    assert {file.suffix for file in path.iterdir()} == {".safetensors", ".json"}
    assert len(list(path.glob("*.safetensors"))) == 2
    assert Run(tmp_path).saved
    assert "Step 2 is saved" in Run(tmp_path).kept()
    file = next(path.glob("*.safetensors"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.warns(UserWarning, match="does not match its checksum"):
        assert sharded.newest(Run(tmp_path)) is None


@pytest.mark.parametrize("method", METHODS)
def test_recomputing_activations_changes_nothing(method):
    one, other = trained(method, 4, False), trained(method, 4, False, recompute=True)
    for name in one:
        torch.testing.assert_close(other[name], one[name], rtol=1e-6, atol=1e-7)


def test_recomputing_forgets_what_lies_between_the_blocks():
    kept = {}
    for recompute in (False, True):
        encoder = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()) for _ in range(6)])
        if recompute:
            sharding.recompute(encoder)
        held = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, held=held: held.append(t.numel()) or t, lambda t: t):
            encoder(torch.randn(64, 32)).sum().backward()
        kept[recompute] = sum(number for number in held[: len(held)] if number == 64 * 32)
    assert kept[True] < kept[False]


def test_blocks_are_those_that_hold_many_weights():
    small, large = nn.Linear(4, 4), nn.Linear(256, 256)
    assert sharding.blocks(nn.Sequential(small, large)) == [large]
