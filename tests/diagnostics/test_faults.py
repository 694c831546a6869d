"""What a run survives; the short form of ``make faults``."""

import os
import random
import signal
import sys
from pathlib import Path

import pytest

from vergence.runs.run import Run

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import faults


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return faults.undisturbed(tmp_path_factory.mktemp("runs") / "whole")


def test_a_run_killed_at_random_moments_ends_like_one_that_was_not(whole, tmp_path):
    figure = faults.killed(whole, tmp_path, kills=6, dice=random.Random(0))
    assert figure.survived, figure.sentence


@pytest.mark.parametrize("moment", ["write_text", "prune"])
def test_a_kill_at_the_first_file_or_after_the_last_checkpoint_leaves_nothing_behind(
    whole, tmp_path, monkeypatch, moment
):
    last = whole.load().step

    def killed(self, name, *arguments, **options):
        if moment == "write_text":
            (self.path / f".{name}.part").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.checkpoints() and self.load().step == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(Run, moment, killed)
        assert faults.train_and_kill(tmp_path / "run", after=600) is not None
    assert faults.train_and_kill(tmp_path / "run", after=600) is None
    assert not faults.differences(Run(tmp_path / "run"), whole)


def test_flipped_bits_and_truncations_of_a_checkpoint_are_seen(whole, tmp_path):
    figure = faults.damaged(whole, tmp_path / "damaged", trials=60, dice=random.Random(0))
    assert figure.survived, figure.sentence


def test_a_signal_is_followed_by_a_checkpoint_within_a_step(whole, tmp_path):
    figure = faults.terminated(whole, tmp_path, signals=2, dice=random.Random(0))
    assert figure.survived, figure.sentence


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_leaves_a_run_that_can_be_continued(whole, tmp_path):
    figure = faults.full_disk(whole, tmp_path)
    assert figure.survived, figure.sentence


@pytest.mark.slow
def test_a_killed_process_of_two_is_restarted_with_the_same_result(tmp_path):
    figure = faults.killed_rank(tmp_path)
    assert figure.survived, figure.sentence
