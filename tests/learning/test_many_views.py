"""More than two views, of one kind or of several: identities with two views, chunks, processes, resuming."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from narrow import SHAPE
from parallel import together
from vergence.config import Config
from vergence.data import Samples, from_arrays
from vergence.encoders import build
from vergence.features import extract, of_views
from vergence.learning import LEARNERS, Problem
from vergence.learning.collectives import rank
from vergence.learning.loop import fit, gradient, restore, state
from vergence.learning.norm import share_statistics
from vergence.learning.optimizers import optimizer
from vergence.learning.pairs import compared, directed, encoded
from vergence.methods import METHODS, customized
from vergence.runs import assembly
from vergence.views import View, captions, multi_crop, sample_keys, simclr

COMPARING = [name for name, row in METHODS.items() if row.learner == "two_view"]
CROPS = (0, 0, 1, 1)  # two global views and two local ones


def learner(name: str, *, groups: tuple[int, ...], **fields) -> nn.Module:
    """A method's learner with narrow heads and an encoder that reads images of any size."""
    row = METHODS[name]
    heads = {"projector": (16, 8), "predictor": (8, 8) if row.predictor else (), "queue": 32 if row.queue else 0}
    heads |= {"prototypes": 8} if row.prototypes else {}
    row = replace(customized(name, heads=heads, objective={}), **fields)
    torch.manual_seed(0)
    problem = Problem(lambda view: build("convnet", SHAPE, channels=(8, 8)), SHAPE, classes=3, groups=groups)
    return LEARNERS[row.learner](row, problem)


def views(sides: tuple[int, ...] = (4, 4, 3, 3), n: int = 12) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(n, 3, side, side, generator=generator).double() for side in sides], torch.arange(n) % 3


def photos(n: int = 32, side: int = 16) -> Samples:
    x = np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)
    return from_arrays(x, np.arange(n) % 4)


def config(**settings) -> Config:
    return Config(data="memory", **{"encoder": "convnet", "views": "multi_crop", "batch": 8, "epochs": 2, **settings})


def test_the_pairs_that_a_row_names():
    assert compared("all", CROPS) == list(combinations(range(4), 2))
    assert compared("first", CROPS) == [(0, 1), (0, 2), (0, 3)]
    assert compared("global", CROPS) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    assert {key for _, key in directed("global", CROPS)} == {0, 1}
    assert len(directed("global", CROPS)) == 2 * 3  # each of two keys with each other view, as in SwAV and DINO
    for pairs in ("all", "first", "global"):
        assert compared(pairs, (0, 0)) == compared(pairs, (0, 1)) == [(0, 1)]
        assert directed(pairs, (0, 0)) == directed(pairs, (0, 1)) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("name", COMPARING)
def test_the_loss_of_three_views_is_the_mean_over_their_pairs(name):
    many, labels = views((4, 4, 4))
    model = learner(name, groups=(0, 0, 0), pairs="all").double().eval()
    of_pairs = [model([many[first], many[second]], labels) for first, second in combinations(range(3), 2)]
    torch.testing.assert_close(model(many, labels), sum(of_pairs) / 3)


@pytest.mark.parametrize("name", ["simclr", "byol", "moco", "simsiam"])
def test_views_of_several_sizes_are_compared_and_a_target_sees_the_global_ones_only(name):
    model = learner(name, groups=CROPS).double()
    many, labels = views()
    outputs = model.outputs(many)
    assert len(outputs) == (4 if METHODS[name].target == "online" else 4 + 2)
    model(many, labels).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.encoder.parameters())
    model.after_step(0.5)
    if model.queue is not None:
        assert int(model.queue.pushed) == len(many[0])


def test_more_than_two_views_of_a_shape_share_one_pass_and_its_statistics():
    norm, many = nn.BatchNorm2d(3).double(), views()[0]
    apart = nn.Sequential(norm, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    made = encoded(apart, nn.Identity(), many)
    assert int(norm.num_batches_tracked) == 2, "one pass for each size"
    torch.testing.assert_close(torch.cat(made[2:]), apart(torch.cat(many[2:])))
    encoded(apart, nn.Identity(), many[:2])
    assert int(norm.num_batches_tracked) == 2 + 1 + 2, "two views are two passes"


@pytest.mark.parametrize("name", ["simclr", "byol", "moco", "barlow_twins"])
def test_crops_in_chunks_have_the_gradient_of_the_whole(name):
    gradients = []
    for chunk in (0, 5):
        model = learner(name, groups=CROPS).double().eval()  # in training, batch norm would see the chunk
        gradient(model, *views(), chunk=chunk)
        gradients.append({key: each.grad for key, each in model.named_parameters() if each.requires_grad})
    torch.testing.assert_close(*gradients)


def after_a_step(name: str, part: slice) -> tuple[float, dict[str, torch.Tensor]]:
    model = share_statistics(learner(name, groups=CROPS).double())
    many, labels = views()
    loss = gradient(model, [view[part] for view in many], labels[part])
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.after_step(0.5)
    return loss, dict(model.state_dict())


def steps_together() -> dict[str, tuple[float, dict[str, torch.Tensor]]]:
    half = slice(6 * rank(), 6 * rank() + 6)
    return {name: after_a_step(name, half) for name in ("simclr", "moco")}


def test_two_processes_take_the_step_of_one_with_crops_of_two_sizes():
    for answers in together(steps_together, 2):
        for name, (loss, held) in answers.items():
            expected = after_a_step(name, slice(None))
            torch.testing.assert_close(loss, expected[0], rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(held, expected[1], rtol=1e-7, atol=1e-9)


def test_a_resumed_run_of_crops_repeats_an_undisturbed_one():
    started = []
    for _ in range(3):
        parts = assembly.assemble(config(method="moco", heads={"queue": 16}), photos())
        started.append((parts, optimizer(parts.learner, parts.config.optim)))
    run = [lambda start=0, p=p, o=o: fit(p.learner, o, p.samples, p.recipe, p.config, start=start) for p, o in started]
    losses = [step.loss for step in run[0]()]
    for step in run[1]():
        if step.number == 3:
            break
    restore(started[2][0].learner, started[2][1], state(started[1][0].learner, started[1][1]))
    assert [step.loss for step in run[2](3)] == losses[3:]


def test_features_hold_the_embedding_of_every_view_and_the_global_ones_are_first():
    parts = assembly.assemble(config(view={"local_count": 3}), photos())
    made = extract(parts.learner.encoder, parts.samples, parts.recipe, branches=parts.learner.branches)
    assert [z.shape for z in made.z] == [(32, 128)] * 5
    assert sorted(made.tensors("test")) == sorted(
        f"test_{n}" for n in ("h", "labels", "rows", "z1", "z2", "z3", "z4", "z5")
    )
    stacks, rows = of_views(parts.learner.encoder, parts.samples, parts.recipe, views=4, limit=8)
    assert stacks.shape[:2] == (8, 4)
    assert len(rows) == 8


def test_an_encoder_that_cannot_read_crops_of_two_sizes_says_so():
    with pytest.raises(
        ValueError, match=r"one encoder, but its views would be of shapes \(3, 16, 16\) and \(3, 7, 7\)"
    ):
        assembly.assemble(config(encoder="mlp"), photos())


def test_an_image_its_crop_and_its_caption_are_three_views_of_two_kinds():
    pair = captions()
    three = replace(pair, draws=(pair.draws[0], pair.draws[0], pair.draws[1]))
    samples = replace(photos(), captions=torch.randint(1, 50, (32, 6)))
    settled = assembly.settle(config(method="clip", views="captions"), samples)
    model = assembly.build_learner(settled, samples, three)
    for _ in fit(model, optimizer(model, settled.optim), samples, three, settled):
        pass
    made = extract(model.encoder, samples, three, branches=model.branches)
    crop, text, other = (nn.functional.normalize(z) for z in made.z)
    rows = torch.arange(32)
    views = three(samples.x, sample_keys(0, 2**31 - 1, rows), three.fields_of(samples, rows))
    with torch.no_grad():
        torch.testing.assert_close(text, nn.functional.normalize(model.eval().branches[2](views[2])))
    loss = model.objective(crop, text) + model.objective(other, text)
    torch.testing.assert_close(model.loss([crop, other, text]), loss / 2)


def test_a_view_may_be_drawn_from_any_field_of_the_samples():
    neighbors = View(lambda values, keys: values.float(), group="neighbor", field="neighbors", kind="vector")
    recipe = replace(simclr(), draws=(*simclr().draws, neighbors))
    x, keys, near = torch.zeros(4, 3, 8, 8), torch.arange(4), torch.randn(4, 5)
    assert torch.equal(recipe(x, keys, {"neighbors": near})[2], near)
    with pytest.raises(ValueError, match="drawn from the neighbors of the samples"):
        recipe(x, keys)


def test_multi_crop_keeps_its_shares_and_sizes():
    x = torch.arange(64 * 64.0).reshape(1, 1, 64, 64).expand(200, -1, -1, -1) / 64**2
    plain = {"flip": False, "color": False, "gray": False, "blur": False}
    crops = multi_crop(**plain, border=0.25, smallest=0.1, local_count=2)(x, torch.arange(200))
    assert [view.shape[-1] for view in crops] == [64, 64, 27, 27]
    # A crop of an area a spans sqrt(a) of each side: of the pixels' values, which rise along the rows, that share.
    spans = [view.amax((1, 2, 3)) - view.amin((1, 2, 3)) for view in crops]
    assert spans[0].min() > 0.38
    assert spans[0].max() > 0.9
    assert spans[2].max() < 0.62
    assert spans[2].min() < 0.36
