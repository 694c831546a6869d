"""The trials that docs/claims.md rests on can be taken up again: a laboratory finds them and trains nothing."""

import importlib.util
import json
from pathlib import Path

import pytest

from vergence.claims import Laboratory, laboratory

PATH = Path(__file__).parents[2] / "docs" / "trials.py"


@pytest.fixture
def trials():
    spec = importlib.util.spec_from_file_location("trials", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_kept_is_found_again(trials, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "KEPT", tmp_path / "trials.jsonl")
    row = Laboratory(tmp_path / "first", "smallest").trial(method="random", epochs=1)
    assert trials.keep(tmp_path / "first") == 1
    assert trials.keep(tmp_path / "first") == 1  # the same trial again
    assert trials.give(tmp_path / "second") == 1
    monkeypatch.setattr(laboratory, "_trained", lambda *_: pytest.fail("trained again"))
    assert Laboratory(tmp_path / "second", "smallest").trial(method="random", epochs=1) == row


def test_the_kept_trials_are_of_a_training_and_were_measured(trials):
    for row in trials.kept():
        assert row["row"]["minutes"] > 0
        assert json.dumps(row["row"], allow_nan=False)
