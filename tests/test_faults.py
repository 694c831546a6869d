"""What a run survives; the short form of ``make faults``."""

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import faults


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return faults.undisturbed(tmp_path_factory.mktemp("runs") / "whole")


def test_a_run_killed_at_random_moments_ends_like_one_that_was_not(whole, tmp_path):
    figure = faults.killed(whole, tmp_path, kills=6, dice=random.Random(0))
    assert figure.survived, figure.sentence


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
