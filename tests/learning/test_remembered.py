"""Centers, prototypes, neighbors, past moments and seeds: what each new row remembers, and when."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from narrow import SHAPE, narrow, views
from vergence.config import Config
from vergence.data import from_arrays
from vergence.encoders import build
from vergence.learning import LEARNERS, Problem
from vergence.methods import METHODS, Method, customized
from vergence.objectives import dino, info_nce, koleo, lejepa, mmcr, nt_xent, swav, tico
from vergence.runs import assembly
from vergence.views import captions


def test_dinos_center_follows_the_mean_key_after_the_step_and_never_before():
    learner = narrow("dino")
    pair, _ = views()
    keys = torch.cat(learner.outputs(pair)[2:])
    learner(pair)
    assert not learner.center.value.any()
    learner.after_step(0.1)
    torch.testing.assert_close(learner.center.value, 0.1 * keys.mean(0), rtol=1e-4, atol=1e-6)


def test_dinos_loss_is_the_objective_with_its_center_and_its_temperature():
    learner = narrow("dino").eval()
    pair, _ = views()
    learner(pair)
    learner.after_step(0.15)
    query1, query2, key1, key2 = learner.outputs(pair)
    options = {"center": learner.center.value, "key_temperature": 0.055}  # half of the way from .04 to .07
    expected = (dino(query1, key2, **options) + dino(query2, key1, **options)) / 2
    torch.testing.assert_close(learner(pair), expected)


def test_scores_are_cosines_with_prototypes():
    learner = narrow("swav").eval()
    z = learner.branch(views()[0][0])
    assert z.shape == (12, 8)
    assert z.abs().max() <= 1 + 1e-6
    learner.projector[-1].weight.data *= 7.0
    torch.testing.assert_close(learner.branch(views()[0][0]), z)


def test_swavs_loss_is_both_directions_and_codes_carry_no_gradient():
    learner = narrow("swav").eval()
    pair, _ = views()
    query1, query2, key1, key2 = learner.outputs(pair)
    assert not key1.requires_grad
    torch.testing.assert_close(query1, key1)
    own = METHODS["swav"].hyperparameters
    torch.testing.assert_close(learner(pair), (swav(query1, key2, **own) + swav(query2, key1, **own)) / 2)


def test_nnclr_compares_predictions_with_the_nearest_of_the_queue():
    learner = narrow("nnclr").eval()
    learner(views(seed=1)[0])
    learner.after_step(0.0)
    pair, _ = views()
    query1, query2, key1, key2 = learner.outputs(pair)
    held = learner.queue.negatives()
    near1, near2 = (held[(normalize(key) @ held.T).argmax(1)] for key in (key1, key2))
    expected = (info_nce(near2, query1) + info_nce(near1, query2)) / 2
    torch.testing.assert_close(learner(pair), expected)


def test_ticos_past_is_the_moving_average_of_second_moments():
    learner = narrow("tico").eval()
    pair, _ = views()
    query1, query2, key1, key2 = learner.outputs(pair)
    learner(pair)
    learner.after_step(0.0)
    u = normalize(torch.cat([query1, query2]))
    torch.testing.assert_close(learner.past.value, 0.1 * u.T @ u / 24)
    options = {"past": learner.past.value}
    query1, query2, key1, key2 = learner.outputs(pair)
    expected = (tico(query1, key2, **options) + tico(query2, key1, **options)) / 2
    torch.testing.assert_close(learner(pair), expected)


def test_lejepas_directions_change_with_every_step_and_with_nothing_else():
    learner = narrow("lejepa").eval()
    pair, _ = views()
    first = learner(pair)
    assert learner(pair) == first
    learner.after_step(0.1)
    assert learner(pair) != first


def test_objectives_of_many_views_take_them_together_and_the_global_ones_are_the_center():
    def built(name):
        row = customized(name, heads={"projector": (16, 8)}, objective={})
        torch.manual_seed(0)
        problem = Problem(lambda view: build("convnet", SHAPE, channels=(8,)), SHAPE, groups=(0, 0, 1))
        return LEARNERS["two_view"](row, problem).eval()

    generator = torch.Generator().manual_seed(0)
    many = [torch.rand(12, 3, side, side, generator=generator) for side in (4, 4, 3)]
    for name, function, options in (("mmcr", mmcr, {}), ("lejepa", lejepa, {"global_views": 2})):
        learner = built(name)
        outputs = learner.outputs(many)
        given = {**options, **learner._given()}
        torch.testing.assert_close(learner(many), function(*outputs, **given))


def test_koleo_stands_beside_any_objective():
    pair, _ = views()
    for name in ("simclr", "byol", "clip"):
        plain = narrow(name).eval()
        row = replace(plain.method, koleo=0.5)
        beside = narrow(name).eval()
        beside.method = row
        made = plain.outputs(pair)[:2]
        torch.testing.assert_close(beside(pair), plain(pair) + 0.25 * (koleo(made[0]) + koleo(made[1])))
    assert customized("simclr", heads={"koleo": 0.1}, objective={}).koleo == 0.1


def test_siglip_reads_images_and_captions_with_two_encoders_and_two_views_with_one():
    x = np.random.default_rng(0).integers(0, 256, (32, 8, 8, 3), dtype=np.uint8)
    samples = replace(from_arrays(x), captions=torch.randint(1, 50, (32, 6)))
    two = assembly.assemble(Config(data="memory", method="siglip", views="captions", batch=8), samples).learner
    assert type(two).__name__ == "TwoModal"
    one = assembly.assemble(Config(data="memory", method="siglip", batch=8), samples).learner
    assert type(one).__name__ == "Learner"
    for learner in (one, two):
        assert float(learner.objective.learned()["temperature"]) == pytest.approx(10)
        assert float(learner.objective.learned()["bias"]) == -10
    with pytest.raises(ValueError, match="byol compares views of one kind"):
        assembly.assemble(Config(data="memory", method="byol", views="captions", batch=8), samples)
    assert captions().views[1].kind == "text"


def test_swav_and_dino_take_several_crops_of_images():
    x = np.random.default_rng(0).integers(0, 256, (16, 16, 16, 3), dtype=np.uint8)
    for name in ("swav", "dino"):
        parts = assembly.assemble(Config(data="memory", method=name, encoder="convnet", batch=8), from_arrays(x))
        assert parts.config.views == "multi_crop"
        assert parts.learner.groups == (0, 0, *[1] * 6)


@pytest.mark.parametrize(("channels", "recipe"), [(1, "glyph"), (3, "simclr")])
def test_images_too_small_for_local_crops_have_the_views_of_other_methods(channels, recipe):
    x = np.random.default_rng(0).integers(0, 256, (16, 8, 8, channels), dtype=np.uint8)
    for name in ("swav", "dino"):
        assert assembly.settle(Config(data="memory", method=name), from_arrays(x)).views == recipe


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"objective": "nt_xent", "memory": "center"}, "nt_xent takes no center"),
        ({"objective": "info_nce", "memory": "neighbors", "target": "momentum"}, "give its length"),
        ({"objective": "nt_xent", "memory": "everything"}, "memory must be one of"),
        ({"objective": "dino", "prototypes": -1}, "prototypes must not be negative"),
    ],
)
def test_an_impossible_memory_is_refused_when_the_row_is_built(unchecked, fields, message):
    with pytest.raises(ValueError, match=message):
        Method(paper="nobody2026", **fields)


def test_a_symmetric_row_is_what_its_objective_says():
    learner = narrow("siglip").eval()
    assert METHODS["siglip"].learnable == ("temperature", "bias")
    z1, z2 = learner.outputs(views()[0])
    assert not torch.isclose(learner(views()[0]), nt_xent(z1, z2))
