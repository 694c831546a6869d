"""Threads are chosen by steps that leave no trace, and the choice is recorded and kept."""

import sys

import numpy as np
import pytest
import torch

from vergence import config as configs
from vergence.data import Samples
from vergence.runs import assembly, threads
from vergence.runs.results import Answer
from vergence.runs.run import Run
from vergence.stages.train import train

SMALL = {
    "method": "simclr",
    "encoder": "mlp",
    "backbone": {"hidden": (8,)},
    "heads": {"projector": (8, 4)},
    "views": "tabular",
    "batch": 16,
    "watching": {"every": 0},
    "track": (),
    "device": "cpu",
}


@pytest.fixture
def two_threads(monkeypatch):
    """A process that may use two threads."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threads.used(2):
        yield


@pytest.fixture
def array(tmp_path, monkeypatch):
    """Data for runs that end with training: what follows it has nothing to do with threads."""
    monkeypatch.setattr(sys.modules[train.__module__], "assess", lambda *a, **o: Answer((), {}))
    path = tmp_path / "rows.npy"
    np.save(path, np.random.default_rng(0).normal(size=(80, 6)).astype("float32"))
    return f"array:{path}"


def parts(**options):
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    return assembly.assemble(configs.given(data="digits", **{"epochs": 30, **SMALL, **options}), Samples(x, "vector"))


@pytest.mark.parametrize(
    ("took", "number"),
    [
        ({1: 1.0, 2: 0.6}, 2),
        ({1: 1.0, 2: 3.0}, 1),
        ({1: 1.0, 2: 0.95}, 1),  # not worth a core
        ({1: 1.0, 4: 0.3, 8: 0.29}, 4),
        ({1: 1.0, 4: 1.2, 8: 0.5}, 8),
    ],
)
def test_more_threads_must_be_faster_by_a_tenth(took, number):
    assert threads.chosen(took) == number


@pytest.mark.parametrize(("took", "words"), [({1: 1.0, 2: 1.2}, "be faster"), ({1: 1.0, 2: 0.95}, "hardly be slower")])
def test_fewer_threads_are_called_faster_only_where_they_are(took, words):
    assert f"--compute.threads 1 would {words}" in threads.advice(took, threads.chosen(took), now=2)


def test_one_half_and_all_are_tried():
    assert [threads.candidates(most) for most in (1, 2, 3, 8)] == [(1,), (1, 2), (1, 3), (1, 4, 8)]


def test_a_trial_changes_neither_weights_nor_random_numbers_nor_threads(two_threads):
    made = parts()
    before = {name: value.clone() for name, value in made.learner.state_dict().items()}
    state, training = torch.get_rng_state(), made.learner.training
    took = threads.tried(made, (1, 2))
    assert list(took) == [1, 2]
    assert all(torch.equal(value, before[name]) for name, value in made.learner.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert (torch.get_num_threads(), made.learner.training) == (2, training)


@pytest.mark.parametrize("options", [{"compute": {"threads": 1}}, {"epochs": 2}], ids=["named", "short"])
def test_nothing_is_tried_where_a_number_is_named_or_the_run_is_short(options, two_threads, monkeypatch):
    monkeypatch.setattr(threads, "tried", lambda *a: pytest.fail("tried"))
    made = parts(**options)
    assert threads.settled(made) == (made, "")


def test_nothing_is_tried_where_the_environment_names_a_number(two_threads, monkeypatch):
    monkeypatch.setattr(threads, "tried", lambda *a: pytest.fail("tried"))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    made = parts()
    assert threads.settled(made) == (made, "")


def test_a_trial_that_fails_ends_no_run(two_threads, monkeypatch):
    monkeypatch.setattr(threads, "tried", lambda *a: 1 / 0)
    made = parts()
    assert threads.settled(made) == (made, "")


def test_the_choice_is_said_recorded_and_kept_by_a_continued_run(
    two_threads, unassessed, array, tmp_path, monkeypatch, capsys
):
    used, plain = [], threads.used
    monkeypatch.setattr(threads, "used", lambda number: (used.append(number), plain(number))[1])
    monkeypatch.setattr(threads, "tried", lambda *a: {1: 0.002, 2: 0.008})
    train(data=array, run=tmp_path / "run", epochs=30, compute={"threads": -1}, **SMALL)
    assert "Threads: 1, since a step takes 2 ms on 1, 8 ms on 2" in capsys.readouterr().err
    assert Run(tmp_path / "run").config.compute.threads == 1
    monkeypatch.setattr(threads, "tried", lambda *a: pytest.fail("tried again"))
    train(data=array, run=tmp_path / "run", epochs=31, resume=True, **SMALL)
    assert used == [1, 1]
    assert torch.get_num_threads() == 2


def test_by_default_nothing_is_chosen_and_a_faster_number_is_said(two_threads, monkeypatch):
    monkeypatch.setattr(threads, "tried", lambda *a: {1: 0.002, 2: 0.008})
    made = parts()
    assert threads.settled(made) == (
        made,
        "A step takes 2 ms on 1, 8 ms on 2 threads: --compute.threads 1 would be faster.",
    )
    monkeypatch.setattr(threads, "tried", lambda *a: {1: 0.008, 2: 0.002})
    assert threads.settled(made) == (made, "")


def test_a_run_that_tried_ends_with_the_weights_of_one_that_was_told(
    two_threads, unassessed, array, tmp_path, monkeypatch
):
    monkeypatch.setattr(threads, "GAIN", 0.0)  # whatever the clock says: one thread
    train(data=array, run=tmp_path / "tried", epochs=30, quiet=True, compute={"threads": -1}, **SMALL)
    train(data=array, run=tmp_path / "told", epochs=30, quiet=True, compute={"threads": 1}, **SMALL)
    ours, theirs = (Run(tmp_path / name).load().tensors for name in ("tried", "told"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
