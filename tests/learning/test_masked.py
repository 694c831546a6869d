"""Masked images: what is hidden is what is predicted, nothing else is seen, and a run resumes to the bit."""

import numpy as np
import pytest
import torch

from narrow import narrow, views
from vergence.config import Config, Optim
from vergence.counters import content_keys
from vergence.data import from_arrays
from vergence.encoders import build
from vergence.evaluation import knn
from vergence.features import extract
from vergence.learning import LEARNERS, Problem
from vergence.learning.loop import fit, restore, state
from vergence.learning.masked import _targets
from vergence.learning.optimizers import optimizer
from vergence.methods import METHODS
from vergence.runs import assembly

MASKED = ["mae", "i_jepa"]


def photos(n=32, side=16):
    x = np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)
    return from_arrays(x, np.arange(n) % 4)


def assembled(name, **settings):
    small = {"width": 16, "depth": 1, "attention_heads": 2, "patch": 2}
    return assembly.assemble(
        Config(data="memory", method=name, epochs=2, batch=8, backbone=small, **settings), photos()
    )


@pytest.mark.parametrize("name", MASKED)
def test_the_row_takes_a_vit_and_another_encoder_is_refused(name):
    assert assembled(name).config.encoder == "vit"
    with pytest.raises(ValueError, match="use --encoder vit"):
        assembly.assemble(Config(data="memory", method=name, encoder="convnet", batch=8), photos())


@pytest.mark.parametrize("name", MASKED)
def test_a_resumed_run_repeats_an_undisturbed_one(name):
    made = [assembled(name) for _ in range(3)]
    optimizers = [optimizer(parts.learner, parts.config.optim) for parts in made]
    runs = [
        lambda start=0, p=p, o=o: fit(p.learner, o, p.samples, p.recipe, p.config, start=start)
        for p, o in zip(made, optimizers, strict=True)
    ]
    losses = [step.loss for step in runs[0]()]
    for step in runs[1]():
        if step.number == 3:
            break
    restore(made[2].learner, optimizers[2], state(made[1].learner, optimizers[1]))
    assert [step.loss for step in runs[2](3)] == losses[3:]


def test_a_decoder_that_knows_nothing_has_a_loss_of_one():
    """The targets of a patch of p numbers have mean 0 and a sum of squares of p - 1."""
    targets = _targets(torch.rand(5, 3, 16, 16, generator=torch.Generator().manual_seed(0)), 4)
    assert targets.shape == (5, 16, 48)
    torch.testing.assert_close(targets.mean(2), torch.zeros(5, 16), atol=1e-5, rtol=0)
    torch.testing.assert_close(targets.square().mean(2), torch.full((5, 16), 47 / 48), atol=1e-3, rtol=0)


def test_a_patch_of_one_number_is_its_own_target():
    x = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(_targets(x, 1), x.flatten(2).mT)


def test_mae_sees_a_quarter_and_the_loss_depends_on_the_rest():
    learner = narrow("mae").eval()
    pair, _ = views()
    assert learner.seen == 4  # of 16 patches
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(learner.outputs([pair[0][order]])[0], learner.outputs(pair)[0][order])


def test_i_jepa_predicts_blocks_that_its_context_has_not():
    learner = narrow("i_jepa")
    keys = content_keys(views()[0][0])
    blocks, seen = learner._drawn(keys, (4, 4))
    assert len(blocks) == 4
    for sample in range(len(keys)):
        hidden = {int(patch) for block in blocks for patch in block[sample]}
        context = set(seen[sample].tolist())
        assert not hidden & context
        assert len(context) == learner.context


def test_i_jepas_target_has_no_gradient_and_follows():
    learner = narrow("i_jepa")
    learner(views()[0]).backward()
    assert all(parameter.grad is None for parameter in learner.target.parameters())
    before = [parameter.clone() for parameter in learner.target.parameters()]
    with torch.no_grad():
        for parameter in learner.encoder.parameters():
            parameter.add_(1.0)
    learner.after_step(0.0)
    for old, new in zip(before, learner.target.parameters(), strict=True):
        torch.testing.assert_close(new, old + (1 - 0.996), atol=1e-5, rtol=1e-3)


def test_an_image_of_one_patch_has_nothing_to_hide():
    problem = Problem(lambda view: build("vit", (3, 4, 4), patch=4, width=16, depth=1), (3, 4, 4))
    for name, message in (("mae", "none to leave out"), ("i_jepa", "no context left")):
        with pytest.raises(ValueError, match=message):
            LEARNERS[name](METHODS[name], problem)


UNTOUCHED = {"crop": False, "flip": False, "color": False, "gray": False, "blur": False}


def motifs(n=256, grid=4):
    """Four classes: a patch of 2 x 2 pixels, repeated with signs that alternate, so that patches cancel in the mean."""
    generator = torch.Generator().manual_seed(0)
    labels, place = torch.arange(n) % 4, torch.arange(grid)
    motif = torch.randn(4, 12, generator=generator)
    motif = ((motif - motif.mean(1, keepdim=True)) / motif.std(1, keepdim=True)).view(4, 3, 1, 2, 1, 2)
    signs = (1 - 2 * ((place[:, None] + place) % 2)).view(1, 1, grid, 1, grid, 1)
    x = (signs * motif)[labels].reshape(n, 3, 2 * grid, 2 * grid)
    x = 128 + 40 * (x + 0.5 * torch.randn(x.shape, generator=generator))
    return from_arrays(x.clamp(0, 255).byte().permute(0, 2, 3, 1).numpy(), labels.numpy())


def neighbors(name, *, epochs):
    """The kNN accuracy of a row's encoder after training on the motifs."""
    samples, small = motifs(), {"width": 32, "depth": 2, "attention_heads": 2, "patch": 2}
    config = Config(
        data="memory", method=name, encoder="vit", views="simclr", view=UNTOUCHED, epochs=epochs, batch=64,
        backbone=small, optim=Optim(learning_rate=3e-3),
        objective={"decoder_width": 16, "decoder_depth": 1} if epochs else {},
    )  # fmt: skip
    parts = assembly.assemble(config, samples)
    for _ in fit(parts.learner, optimizer(parts.learner, config.optim), samples, parts.recipe, parts.config):
        pass
    h = extract(parts.learner.encoder, samples, parts.recipe).h
    half = len(h) // 2
    return knn(h[:half], samples.labels[:half], h[half:], samples.labels[half:]).accuracy


@pytest.mark.parametrize(("name", "epochs"), [("mae", 20), ("i_jepa", 50)])
def test_masked_images_teach_what_random_features_do_not_show(name, epochs):
    assert neighbors("random", epochs=0) < 0.65
    assert neighbors(name, epochs=epochs) > 0.8
