"""Pretext tasks and BiGAN learn what they are after, and each player of a game wants its own end."""

import math

import pytest
import torch
from torch import nn

from narrow import SHAPE, narrow, views
from vergence.config import Config
from vergence.data import from_arrays
from vergence.learning.loop import fit, restore, state
from vergence.learning.optimizers import optimizer
from vergence.learning.pretext import color_classes, lab
from vergence.views import VIEWS


def optimized(learner: nn.Module, batches, *, rate: float = 1e-2) -> float:
    """Train on batches of views one after the other; the last loss."""
    adam = torch.optim.Adam(learner.parameters(), lr=rate, betas=(0.5, 0.999))
    for batch in batches:
        loss = learner(batch)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return float(loss.detach())


def landscapes(n: int, seed: int) -> torch.Tensor:
    """Pictures that are bright and red above, or bright on the left and blue, with noise."""
    generator = torch.Generator().manual_seed(seed)
    ramp = torch.linspace(0.9, 0.3, SHAPE[1])[:, None].expand(SHAPE[1], SHAPE[2])
    above, left = (
        ramp * torch.tensor([1.0, 0.2, 0.2])[:, None, None],
        ramp.T * torch.tensor([0.2, 0.2, 1.0])[:, None, None],
    )
    kind = torch.rand(n, 1, 1, 1, generator=generator) < 0.5
    return (torch.where(kind, above, left) + 0.005 * torch.randn(n, *SHAPE, generator=generator)).clamp(0, 1)


def test_rotation_learns_which_way_is_up():
    learner = narrow("rotation")
    upright = [landscapes(64, seed)[:, :1].expand(-1, 3, -1, -1) for seed in range(60)]  # in red, kinds differ
    optimized(learner, [[x] for x in upright[1:]])
    assert learner.eval()([upright[0]]) < 0.5 * math.log(4)


def test_colorization_learns_colors_from_lightness_beyond_their_frequency():
    learner = narrow("colorization")
    optimized(learner, [[landscapes(64, seed)] for seed in range(1, 80)])
    held_out = landscapes(256, 0)
    classes = color_classes(nn.functional.adaptive_avg_pool2d(lab(held_out)[1], 4)).flatten(1)
    frequency = torch.stack([torch.bincount(cell, minlength=529) for cell in classes.T]) / len(held_out)
    assert learner.eval()([held_out]) < 0.5 * torch.special.entr(frequency).sum(1).mean()


@pytest.mark.parametrize("name", ["rotation", "colorization", "bigan"])
def test_a_resumed_training_repeats_an_undisturbed_one(name):
    samples, recipe = from_arrays(landscapes(24, 0).numpy()), VIEWS["identity"]()
    config = Config(data="memory", method=name, encoder="mlp", views="identity", epochs=3, batch=8)
    whole, halted, resumed = ((learner, optimizer(learner, config.optim)) for learner in (narrow(name) for _ in "abc"))
    losses = [step.loss for step in fit(*whole, samples, recipe, config)]
    for step in fit(*halted, samples, recipe, config):
        if step.number == 4:
            break
    restore(*resumed, state(*halted))
    assert [step.loss for step in fit(*resumed, samples, recipe, config, start=4)] == losses[4:]


def test_gray_has_no_color_and_white_has_lightness_one_hundred():
    lightness, colors = lab(torch.linspace(0, 1, 5)[:, None, None, None].expand(5, 3, 2, 2))
    torch.testing.assert_close(colors, torch.zeros_like(colors), atol=1e-4, rtol=0)
    torch.testing.assert_close(lightness[[0, -1], 0, 0, 0], torch.tensor([0.0, 100.0]), atol=1e-4, rtol=0)
    # Red is (53.24, 80.09, 67.20) in CIE Lab over D65.
    lightness, colors = lab(torch.tensor([1.0, 0.0, 0.0])[None, :, None, None])
    expected = torch.tensor([53.24, 80.09, 67.20])
    torch.testing.assert_close(torch.cat([lightness, colors], dim=1).flatten(), expected, atol=0.1, rtol=0)


def test_bigans_generator_moves_to_the_data():
    learner = narrow("bigan", latent=8, hidden=64)
    center = landscapes(512, 0).flatten(1).mean(0)
    z = 2 * torch.rand(256, 8) - 1
    before = (learner.generator(z).mean(0) - center).norm()
    optimized(learner, [[landscapes(64, seed)] for seed in range(1, 240)], rate=1e-3)
    assert (learner.generator(z).mean(0) - center).norm() < 0.75 * before


def test_bigans_players_want_opposite_answers():
    learner = narrow("bigan", latent=8, hidden=16)
    x, code, made, z = learner.outputs(views()[0])
    code.retain_grad()
    learner.loss([x, code, made, z]).backward()
    real = torch.cat([x, code.detach()], dim=1).requires_grad_()
    (towards_real,) = torch.autograd.grad(nn.functional.softplus(-learner.discriminator(real)).mean(), real)
    # The encoder descends the cross-entropy with "made", whose slope in the score is opposite in sign.
    assert (code.grad * towards_real[:, x.shape[1] :]).sum() < 0
    weights = [parameter.grad.clone() for parameter in learner.discriminator.parameters()]
    learner.zero_grad()
    judged = learner.discriminator(torch.cat([torch.cat([x, code], 1), torch.cat([made, z], 1)]).detach()).squeeze(1)
    n = len(x)
    (nn.functional.softplus(-judged[:n]).mean() + nn.functional.softplus(judged[n:]).mean()).backward()
    for parameter, weight in zip(learner.discriminator.parameters(), weights, strict=True):
        torch.testing.assert_close(parameter.grad, weight)


def test_bigans_noise_belongs_to_the_sample():
    learner = narrow("bigan", latent=8, hidden=16)
    (view, _), _ = views()
    whole = learner.outputs([view])[3]
    torch.testing.assert_close(torch.cat([learner.outputs([part])[3] for part in view.split(5)]), whole)
    assert len(torch.unique(whole, dim=0)) == len(whole)
