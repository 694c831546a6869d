"""Results have a type: written and read in one place, of this form or an earlier one."""

import json
import shutil
from pathlib import Path

import pytest

from vergence import report
from vergence.runs import results
from vergence.runs.results import Number, Results, Score, Verdict
from vergence.runs.run import Run

FIRST_FORM = Path(__file__).parent / "first_form"


def sound() -> Results:
    return Results(
        verdict=Verdict("learning", "It learns.", ("The loss falls.",)),
        diagnostics={"alignment": Number(value=0.25, low=0.2, high=0.3, n=100, more={"floor": float("nan")})},
        accuracy=(Score(accuracy=0.9, features="trained encoder", classifier="kNN", low=0.85, high=0.95, n=200),),
    )


def test_what_is_written_is_read_again(tmp_path):
    sound().write(tmp_path)
    again = results.read(tmp_path)
    assert again.accuracy == sound().accuracy
    assert again.diagnostics["alignment"].more == {"floor": None}  # JSON has no NaN
    assert results.results_from(json.loads(json.dumps(again.to_dict()))) == again


def test_results_of_the_first_form_are_read_and_shown(tmp_path):
    """A run of version 0.1: British keys in its config, open mappings and words in its results."""
    found = results.read(FIRST_FORM)
    assert found.verdict.label == "learning"
    assert {row.per_class for row in found.accuracy} == {None, 5.0}
    assert found.number("effective_rank") > 1
    assert found.thermometer.objective == "nt_xent"
    assert len(found.certificates) == 2
    shutil.copytree(FIRST_FORM, tmp_path / "run")
    assert "What it is worth" in report.page(tmp_path / "run")
    assert Run(FIRST_FORM).config.view == {"color": True, "gray": False, "size": None}


def test_a_later_form_and_a_damaged_file_are_refused_with_a_way_out(tmp_path):
    for text in (json.dumps({"version": 99}), json.dumps({"version": 2}), "[]", "{", json.dumps({"accuracy": 3})):
        (tmp_path / "results.json").write_text(text)
        with pytest.raises(ValueError, match="vergence doctor"):
            results.read(tmp_path)


def test_labels_are_said_in_words_and_kept_as_numbers():
    assert Score(accuracy=1.0).labels == "all labels"
    assert Score(accuracy=1.0, per_class=5.0).labels == "5 labels per class"
    assert Score(accuracy=0.5).interval == (0.5, 0.5)
