"""The verb finetune: three ways on the same labels, a model to use, and figures in every place."""

import json
import shutil

import numpy as np
import pytest

import vergence as vg
from vergence.runs import finetuned, results
from vergence.runs.run import Checkpoint, Run


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "digits"
    options = {"backbone": {"channels": (8, 16)}, "encoder": "convnet", "track": (), "quiet": True}
    vg.train(data="digits,limit=200", epochs=1, batch=50, run=run, **options)
    return run, vg.finetune(run, labels=("5-per-class",), draws=2, steps=3, quiet=True)


def test_the_same_figures_are_in_the_answer_the_results_the_page_and_the_comparison(tuned):
    run, answer = tuned
    (row,) = answer.to_dict()["finetuning"]
    assert (row["count"], [score["features"] for score in row["scores"]]) == (
        50, ["fine-tuned", "linear probe", "from scratch"],
    )  # fmt: skip
    (stored,) = results.read(run).finetuning
    assert stored.scores[0].accuracy == row["scores"][0]["accuracy"]
    difference = row["scores"][0]["accuracy"] - row["scores"][2]["accuracy"]
    assert stored.over_scratch.value == pytest.approx(difference)
    assert stored.over_scratch.low <= difference <= stored.over_scratch.high
    assert "Fine-tuned" in (run / "report.html").read_text()
    line = vg.compare((run,)).to_dict()["runs"][str(run)]
    assert line["fine-tuned, 5-per-class"] == f"{stored.scores[0].accuracy:.3f}"
    vg.doctor(run)
    assert results.read(run).finetuning == (stored,)


def test_the_model_predicts_classes_by_name(tuned):
    run, answer = tuned
    model = vg.load(answer.to_dict()["finetuning"][0]["path"])
    x = np.random.default_rng(0).integers(0, 256, (7, 8, 8), dtype=np.uint8)
    chances = model.probabilities(x)
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
    assert model.predict(x) == [model.classes[place] for place in chances.argmax(1)]
    assert set(model.classes) == {str(digit) for digit in range(10)}
    with pytest.raises(ValueError, match="has no classifier: `vergence finetune RUN` makes one"):
        vg.load(run).predict(x)


def test_a_damaged_folder_is_said_to_be_one(tuned, tmp_path):
    (tmp_path / "finetuned.json").write_text(json.dumps({"classes": []}))
    with pytest.raises(ValueError, match="is damaged"):
        vg.load(tmp_path)


def test_data_without_labels_and_labels_that_are_too_few_are_refused(tuned, tmp_path):
    with pytest.raises(ValueError, match="fewer than the 10 classes"):
        vg.finetune(tuned[0], labels=("1%",), quiet=True)
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    vg.train(data=f"array:{tmp_path}/x.npy", epochs=1, batch=16, run=tmp_path / "run", quiet=True, track=())
    with pytest.raises(ValueError, match="needs labels"):
        vg.finetune(tmp_path / "run", quiet=True)


def test_what_an_earlier_encoder_gave_is_not_said_of_a_later_one(tuned, tmp_path):
    """Trained on, the run has other weights; overwritten, nothing of it is left; a damaged model is only left out."""
    run = Run(shutil.copytree(tuned[0], tmp_path / "run"))
    assert len(finetuned.read_all(run)) == 1
    shutil.copytree(run.path / "finetuned/5_per_class", run.path / "finetuned/damaged")
    (run.path / "finetuned/damaged/finetuned.json").write_text("{}")
    with pytest.warns(UserWarning, match="is left out"):
        assert len(finetuned.read_all(run)) == 1
    before = run.load()
    run.save(Checkpoint(before.step + 1, before.tensors, {}))
    with pytest.warns(UserWarning, match="is left out"):
        assert finetuned.read_all(run) == ()
    Run.create(run.path, run.config, overwrite=True)
    assert {path.name for path in run.path.iterdir()} == {"config.yaml", ".lock"}
