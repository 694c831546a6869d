"""A recorded run: what is measured sees no test data, the best is kept, and nothing foreign is continued."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vergence.config import Config, Saving, Watching
from vergence.runs import assembly
from vergence.runs.run import Run
from vergence.stages.train import is_best, record, train, watch

TINY = Config(
    data="digits", encoder="mlp", backbone={"hidden": (8,)}, heads={"projector": (8, 4)}, epochs=3, batch=64, limit=128,
    track=(), watching=Watching(every=1, samples=64), saving=Saving(every=1),
)  # fmt: skip


def recorded(path, config: Config = TINY, **options: bool) -> tuple[Run, assembly.Assembled]:
    parts = assembly.assemble(config)
    run = Run.create(path, parts.config, **options)
    record(parts, run, leads=True, quiet=True)
    return run, parts


def test_nothing_along_training_asks_for_the_test_data(tmp_path, monkeypatch):
    splits = []
    load = assembly.load
    monkeypatch.setattr(
        assembly, "load", lambda config, split, **given: splits.append(split) or load(config, split, **given)
    )
    recorded(tmp_path / "run")
    assert set(splits) == {"train", "validation"}


def test_training_and_validation_share_no_sample():
    config = replace(TINY, limit=0)
    train, held_out = (assembly.load(config, split).x.flatten(1) for split in ("train", "validation"))
    everything = assembly.load(replace(config, watching=Watching(every=0)), "train")
    assert len(train) + len(held_out) == len(everything)
    assert len(held_out) == pytest.approx(0.1 * len(everything), rel=0.05)
    unique = len(torch.unique(everything.x.flatten(1), dim=0))
    assert len(torch.unique(torch.cat([train, held_out]), dim=0)) == unique


def test_all_that_is_measured_is_logged(tmp_path):
    run, _ = recorded(tmp_path / "run")
    measured = {"alignment", "uniformity", "effective_rank", "knn", "probe"}
    assert [measured <= set(row) for row in run.rows()] == [row["epoch"].is_integer() for row in run.rows()]
    assert run.rows()[-1]["probe"] > 0.2  # ten digits: chance is 0.1


def test_a_single_class_has_no_accuracy():
    parts = assembly.assemble(TINY)
    parts = replace(parts, samples=replace(parts.samples, labels=torch.zeros_like(parts.samples.labels)))
    assert set(watch(parts)) == {"alignment", "uniformity", "effective_rank"}


@pytest.mark.parametrize(("criterion", "choose"), [("effective_rank", max), ("uniformity", min), ("knn", max)])
def test_the_best_checkpoint_is_that_of_the_best_row(tmp_path, criterion, choose):
    run, parts = recorded(tmp_path / "run", replace(TINY, saving=Saving(best=criterion)))
    rows = [row for row in run.rows() if criterion in row]
    best = choose(row[criterion] for row in rows)
    chosen = run.load(best=True)
    assert chosen.step == next(row["step"] for row in rows if row[criterion] == best)
    for name, tensor in parts.learner.state_dict().items():
        assert torch.equal(tensor, chosen.tensors[f"model.{name}"])
    assert run.load().step == rows[-1]["step"]


def test_a_damaged_best_checkpoint_is_passed_over_for_the_newest(tmp_path):
    run, _ = recorded(tmp_path / "run", replace(TINY, saving=Saving(best="uniformity")))
    (path,) = run.checkpoints("best")
    (path / "tensors.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged"):
        assert run.load(best=True).step == run.load().step


def test_the_first_of_equals_is_the_best():
    rows = [{"step": 1, "knn": 0.5}, {"step": 2}]
    assert not is_best({"step": 3, "knn": 0.5}, lambda: rows, "knn")
    assert is_best({"step": 3, "knn": 0.6}, lambda: rows, "knn")
    assert not is_best({"step": 3, "knn": 0.6}, lambda: rows, "none")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"saving": Saving(best="knn")}, "saving.best knn needs labels"),
        ({"batch": 500}, "larger than the data"),
        ({"track": ("wandb",)}, "--track wandb needs wandb"),
        ({"data": "digits", "limit": 3}, "too few to hold two of them out"),
        ({"data": "digits", "evaluate": ("pairs:two.tsv",)}, "--evaluate is for runs on texts"),
    ],
)
def test_what_cannot_end_well_is_refused_before_an_older_run_is_cleared(tmp_path, monkeypatch, settings, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)
    Path("words.txt").write_text("\n".join(f"a line of number {n}" for n in range(100)))
    Path("two.tsv").write_text("\n".join(f"one {n}\tother {n}" for n in range(9)))
    older = Run.create("run", TINY)
    older.log({"step": 1, "loss": 2.0})
    config = replace(TINY, data="text:words.txt", encoder="auto", backbone={}, limit=0, batch=16)
    with pytest.raises((ValueError, ImportError), match=message):
        train(replace(config, **settings), run="run", overwrite=True, quiet=True)
    assert older.rows() == [{"step": 1, "loss": 2.0}]


def test_the_best_needs_measurements():
    with pytest.raises(ValueError, match=r"saving.best knn needs measurements"):
        replace(TINY, saving=Saving(best="knn"), watching=Watching(every=0))


def test_a_checkpoint_of_another_method_is_not_continued(tmp_path):
    run, _ = recorded(tmp_path / "run")
    run.write_text("config.yaml", run.config.to_yaml().replace("method: simclr", "method: dcl"))
    with pytest.raises(ValueError, match="The checkpoint is of simclr, this run of dcl"):
        recorded(run.path, run.config, resume=True)


def test_a_checkpoint_of_another_release_is_not_continued(tmp_path, monkeypatch):
    run, _ = recorded(tmp_path / "run")
    monkeypatch.setattr("vergence.stages.train.metadata.version", lambda _: "7.0.0")
    with pytest.raises(ValueError, match=r"pip install vergence==0\.2"):
        recorded(run.path, run.config, resume=True)


def test_a_run_stopped_between_checkpoints_ends_with_the_log_of_an_undisturbed_one(tmp_path, monkeypatch):
    whole, _ = recorded(tmp_path / "whole", replace(TINY, saving=Saving(every=2, best="knn")))
    parts = assembly.assemble(whole.config)
    run = Run.create(tmp_path / "half", parts.config)
    monkeypatch.setattr("vergence.stages.train.Progress.advance", _killed_at(5))
    with pytest.raises(KeyboardInterrupt):
        record(parts, run, leads=True, quiet=True)
    monkeypatch.undo()
    recorded(run.path, whole.config, resume=True)
    for name in ("log.jsonl", "checkpoints/step-000000006/tensors.safetensors"):
        assert (run.path / name).read_bytes() == (whole.path / name).read_bytes()
    assert [path.name for path in run.checkpoints("best")] == [path.name for path in whole.checkpoints("best")]


def _killed_at(step: int):
    def advance(self, *_, **__):
        self.done += 1
        if self.done == step:
            raise KeyboardInterrupt

    return advance


@pytest.mark.parametrize(("given", "n", "batch"), [(256, 256, 256), (256, 255, 64), (256, 9, 4), (64, 50, 64)])
def test_the_usual_batch_gives_way_to_small_data_and_a_chosen_one_does_not(given, n, batch):
    samples = assembly.load(Config(data="digits"), "train").take(torch.arange(n))
    assert assembly.settle(Config(data="digits", batch=given), samples).batch == batch
