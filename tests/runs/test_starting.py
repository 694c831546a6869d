"""A run that starts from weights: what is taken, what may move, and what training changed."""

import copy
import json

import numpy as np
import pytest
import torch

import vergence as vg
from vergence import config as configs
from vergence.config import Config, Starting
from vergence.data.tokens import wordpiece
from vergence.learning import loop, optimizers
from vergence.learning.norm import keep_statistics, share_statistics
from vergence.runs import assembly, results
from vergence.runs.run import Run
from vergence.runs.starting import freeze

SMALL = {"data": "digits,limit=100", "batch": 20, "track": ()}
NETWORK = {"encoder": "convnet", "backbone": {"channels": (8, 16)}}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run with one checkpoint and nothing else."""
    from vergence.stages.train import _checkpoint

    run = tmp_path_factory.mktemp("runs") / "first"
    parts = assembly.assemble(Config(epochs=1, **NETWORK, **SMALL))
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    place = Run.create(run, parts.config)
    *_, last = loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)
    place.save(_checkpoint(parts, optimizer, last.number))
    return run


def tensors(run):
    return {name.removeprefix("model."): value for name, value in Run(run).load().tensors.items()}


def begun(first, **options):
    return assembly.assemble(Config(**{"start": str(first), **SMALL, **options}))


def test_encoder_and_heads_are_those_of_the_run(first):
    parts, then = begun(first, starting=Starting(heads=True), seed=5), tensors(first)
    for name, value in parts.learner.state_dict().items():
        torch.testing.assert_close(value, then[name], rtol=0, atol=0)
    assert parts.config.encoder == "convnet"
    assert parts.config.backbone["channels"] == (8, 16)
    assert parts.start.words == ()


def test_without_heads_the_projector_is_the_seeds(first):
    parts, then = begun(first, seed=5), tensors(first)
    torch.testing.assert_close(parts.learner.encoder[1][0].weight, then["encoder.1.0.weight"])
    assert not torch.equal(parts.learner.projector[0].weight, then["projector.0.weight"])


def test_heads_that_the_method_does_not_have_are_refused(first):
    with pytest.raises(ValueError, match="has no heads that this method has"):
        begun(first, method="rotation", starting=Starting(heads=True))


def test_a_file_before_and_after_a_resume_without_it(first, tmp_path):
    weights = {n.removeprefix("encoder.1."): v for n, v in tensors(first).items() if n.startswith("encoder.1.")}
    weights["head.weight"] = torch.zeros(3, 16)
    torch.save(weights, tmp_path / "w.pth")
    options = {"epochs": 0, "start": str(tmp_path / "w.pth"), "quiet": True, **NETWORK, **SMALL}
    with pytest.warns(UserWarning, match=r"10 of the encoder's 10.*by the data.*head.weight"):
        vg.train(run=tmp_path / "run", **options)
    word = "head.weight [3, 16] of the file has no place in the encoder: it is left out."
    assert json.loads((tmp_path / "run" / "start.json").read_text())["words"] == [word]
    found = results.read(tmp_path / "run").changes
    assert (found.label, found.misfits) == ("unchanged", (word,))
    rows = {row.name: row for row in found.rows}
    assert rows["neighbors kept"].after == 1.0
    for name in ("linear probe", "kNN", "alignment", "uniformity", "effective rank", "neighbors of one class"):
        assert rows[name].before == pytest.approx(rows[name].after, abs=1e-6)
    page = (tmp_path / "run" / "report.html").read_text()
    assert word in page
    assert "What training changed" in page
    (tmp_path / "w.pth").unlink()
    vg.train(run=tmp_path / "run", resume=True, quiet=True)
    assert results.read(tmp_path / "run").changes == found
    assert vg.load(tmp_path / "run").encode(np.zeros((8, 8), np.uint8)).shape == (1, 16)


@pytest.mark.parametrize("method", ["simclr", "byol"])
def test_frozen_layers_do_not_move_nor_do_their_statistics(first, method):
    starting = Starting(freeze=("0", "1.*"), layer_decay=0.5)
    parts = begun(first, method=method, epochs=1, starting=starting)
    before = {name: value.clone() for name, value in parts.learner.state_dict().items()}
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim, layer_decay=0.5)
    list(loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config))
    moved = {name for name, value in parts.learner.state_dict().items() if not torch.equal(value, before[name])}
    assert not {name for name in moved if name.startswith(("encoder.1.0.", "encoder.1.1.", "target.module.0.1.0."))}
    assert not {name for name in moved if name.startswith("target.module.0.1.1.")}
    assert {"encoder.1.3.weight", "encoder.1.4.running_mean", "projector.0.weight"} <= moved


@pytest.mark.parametrize("method", ["simclr", "byol"])
def test_the_norms_of_published_weights_keep_their_statistics_and_those_of_a_run_follow(first, tmp_path, method):
    weights = {n.removeprefix("encoder.1."): v for n, v in tensors(first).items() if n.startswith("encoder.1.")}
    torch.save(weights, tmp_path / "w.pth")
    for start, kept in ((tmp_path / "w.pth", True), (first, False)):
        parts = begun(start, method=method, epochs=1, **NETWORK)
        assert parts.config.starting.statistics == ("keep" if kept else "follow")
        before = {name: value.clone() for name, value in parts.learner.state_dict().items()}
        optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
        list(loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config))
        after = parts.learner.state_dict()
        moved = {name for name in before if "running" in name and not torch.equal(after[name], before[name])}
        assert {name for name in moved if name.startswith(("encoder.", "target.module.0."))} == set() or not kept
        assert "encoder.1.1.running_var" in moved or kept
        assert "projector.1.running_var" in moved  # the heads are new
        assert not torch.equal(after["encoder.1.0.weight"], before["encoder.1.0.weight"])


def test_a_norm_that_keeps_its_statistics_is_not_shared_with_other_processes():
    layers = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3))
    keep_statistics(layers[0])
    shared = share_statistics(copy.deepcopy(layers)).train()
    assert [type(layer).__name__ for layer in shared] == ["BatchNorm1d", "SharedBatchNorm"]
    assert [layer.training for layer in shared] == [False, True]


def test_the_rates_of_layers_are_what_the_optimizer_takes(first):
    parts = begun(first, epochs=1, starting=Starting(layer_decay=0.5))
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim, layer_decay=0.5)
    step = next(loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config))
    rates = {group["scale"]: group["lr"] for group in optimizer.param_groups}
    assert rates == {scale: pytest.approx(step.learning_rate * scale) for scale in (0.25, 0.5, 1.0)}


def test_the_moving_average_starts_at_the_weights_too(first):
    learner = begun(first, method="byol").learner
    for one, other in zip(learner.branch.parameters(), learner.target.module.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_pattern_that_matches_nothing_is_refused(first):
    with pytest.raises(ValueError, match="'stem' matches no parameter"):
        freeze(begun(first).learner, ("stem",))


def test_a_run_with_a_start_takes_a_hundredth_of_the_rate_unless_one_is_given():
    own = configs.with_own_rate(Config()).optim.rate
    assert configs.with_own_rate(Config(start="w.pth")).optim.rate == pytest.approx(own / 100)
    assert configs.with_own_rate(Config(start="random")).optim.rate == own


@pytest.mark.parametrize("decay", [0.0, -1.0, 1.5, float("nan")])
def test_a_decay_outside_of_its_range_is_refused(decay):
    with pytest.raises(ValueError, match="layer_decay must be above 0 and at most 1"):
        Config(starting=Starting(layer_decay=decay))


def test_pretrained_without_a_library_says_what_to_give():
    with pytest.raises(ValueError, match="--start pretrained is for timm:NAME and hf:NAME"):
        assembly.assemble(Config(start="pretrained", **SMALL))


def test_a_tokenizer_that_is_not_the_starts_own_is_refused(tmp_path):
    tokens = pytest.importorskip("tokenizers") and wordpiece(["the whale and the sea"] * 3, 60)
    (tmp_path / "config.yaml").write_text("data: text:x.txt\n")
    (tmp_path / "tokenizer.json").write_text(tokens.content)
    other = tmp_path / "other.json"
    other.write_text(wordpiece(["a ship, a storm and a captain"] * 3, 60).content)
    named = Config(data=f"text:x.txt,tokens={other}", start=str(tmp_path))
    with pytest.raises(ValueError, match=r"other\.json does not belong to the weights of"):
        assembly.tokenizer_of(named)
    same = Config(data=f"text:x.txt,tokens={tmp_path / 'tokenizer.json'}", start=str(tmp_path))
    assert assembly.tokenizer_of(same)[1].content == tokens.content
