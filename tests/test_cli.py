"""The command line as a person uses it: a real process, its output, its exit code."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from vergence.cli import main

QUICK = ["--epochs", "2", "--batch", "64", "--limit", "200", "--quiet"]


def vergence(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "vergence", *arguments], capture_output=True, text=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "digits"
    result = vergence("train", "--data", "digits", "--run", str(path), *QUICK)
    assert result.returncode == 0, result.stderr
    return path


def test_training_leaves_every_file_of_the_flow(run):
    expected = {
        "config.yaml",
        "env.json",
        "log.jsonl",
        "checkpoints",
        "features.safetensors",
        "results.json",
        "report.html",
    }
    assert expected <= {path.name for path in run.iterdir()}


def test_an_existing_run_is_kept(run):
    result = vergence("train", "--data", "digits", "--run", str(run), *QUICK)
    assert result.returncode == 2
    assert "--overwrite" in result.stderr


def test_resuming_a_finished_run_trains_nothing_more(run, capsys):
    before = (run / "log.jsonl").read_bytes()
    assert main(["train", "--run", str(run), "--resume", "--quiet"]) == 0
    assert (run / "log.jsonl").read_bytes() == before


def test_the_doctor_reads_a_run(run, capsys):
    assert main(["doctor", str(run), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["verdict"]["sentence"]
    assert {row["features"] for row in results["accuracy"]} == {"trained encoder", "untrained encoder", "raw pixels"}


def test_the_doctor_reads_a_loss_alone(capsys):
    assert main(["doctor", "--loss", "5.545", "--objective", "info_nce", "--batch", "256", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["thermometer"]["chance"] == pytest.approx(np.log(256))
    assert abs(results["thermometer"]["position"]) < 0.01


def test_the_doctor_fails_a_pipeline_on_what_it_is_told_to(tmp_path, capsys):
    np.save(tmp_path / "collapsed.npy", np.ones((200, 16), dtype=np.float32) + 1e-9)
    assert main(["doctor", str(tmp_path / "collapsed.npy"), "--fail-on", "collapse"]) == 1
    healthy = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    np.save(tmp_path / "healthy.npy", healthy)
    assert main(["doctor", str(tmp_path / "healthy.npy"), "--fail-on", "collapse"]) == 0


def test_embeddings_of_other_data_are_written(run, tmp_path, capsys):
    output = tmp_path / "h.npy"
    assert main(["embed", str(run), "--split", "test", "--output", str(output)]) == 0
    h = np.load(output)
    assert h.ndim == 2
    assert np.isfinite(h).all()


def test_runs_are_compared(run, capsys):
    assert main(["compare", str(run), str(run), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert next(iter(rows.values()))["method"] == "simclr"


def test_several_targets_are_examined_and_ranked_without_labels(tmp_path, capsys):
    generator = np.random.default_rng(0)
    files = [str(tmp_path / f"width{width}.npy") for width in (2, 4, 8)]
    for file, width in zip(files, (2, 4, 8), strict=True):
        np.save(file, generator.standard_normal((200, width)) @ generator.standard_normal((width, 8)))
    assert main(["doctor", *files, "--json", "--fail-on", "cannot tell"]) == 1
    found = json.loads(capsys.readouterr().out)
    by_rank = next(ranking for ranking in found["selection"] if ranking["score"] == "effective_rank")
    assert by_rank["runs"] == files[::-1]
    assert found["targets"][files[1]]["verdict"]["label"] == "cannot tell"


def test_a_gate_that_can_never_fire_is_refused(tmp_path, capsys):
    np.save(tmp_path / "h.npy", np.eye(20))
    assert main(["doctor", str(tmp_path / "h.npy"), "--fail-on", "colapse"]) == 2
    assert "Did you mean 'collapse'?" in capsys.readouterr().err


def test_a_probe_after_every_layer_by_the_saga_protocol(run, capsys):
    assert main(["doctor", str(run), "--layers", "--protocol", "saga", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    layers = [row["layer"] for row in found["layers"]]
    assert layers[0] == "encoder 1"
    assert layers[-1].startswith("projector")
    assert {row["classifier"] for row in found["layers"]} == {"linear probe, SAGA protocol"}


def test_a_report_is_written_again(run, capsys):
    (run / "report.html").unlink()
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").stat().st_size > 10_000


def test_a_folder_of_photographs_with_one_broken_file_trains(tmp_path, capsys):
    generator = np.random.default_rng(0)
    for number in range(24):
        pixels = generator.integers(0, 255, (40 + number, 50, 3), dtype=np.uint8)
        image = Image.fromarray(pixels).convert(["RGB", "L", "RGBA"][number % 3])
        path = tmp_path / "photos" / ["cats", "dogs"][number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    (tmp_path / "photos" / "cats" / "broken.jpg").write_bytes(b"not an image")
    options = ["--epochs", "1", "--batch", "8", "--size", "32", "--encoder", "convnet", "--run", str(tmp_path / "run")]
    assert main(["train", "--data", f"folder:{tmp_path / 'photos'}", *options, "--quiet"]) == 0
    assert "broken.jpg" in json.dumps(json.loads((tmp_path / "run" / "results.json").read_text())["skipped"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "Did you mean 'train'"),
        (["train", "--method", "simclrv2"], "Did you mean 'simclr'"),
        (["train", "--data", "digit"], "Did you mean 'digits'"),
        (["train", "--data", "folder:nowhere"], "nowhere"),
        (["train", "--batch", "1"], "at least 2"),
        (["train", "--batch", "5000"], "larger than the data"),
        (["doctor", "nothing.npy"], "nothing.npy"),
        (["doctor", "--loss", "5.5"], "--objective"),
        (["report", "nowhere"], "No run directory at nowhere"),
        (["list", "method"], "Did you mean 'methods'"),
    ],
)
def test_a_mistake_gets_a_sentence_and_status_two(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_config_file_and_an_option_after_it(run, tmp_path, capsys):
    main(["train", "--config", str(run / "config.yaml"), "--epochs", "0", "--run", str(tmp_path / "again"), "--quiet"])
    text = (tmp_path / "again" / "config.yaml").read_text()
    assert "epochs: 0" in text
    assert "limit: 200" in text


def test_every_verb_explains_itself(capsys):
    for verb in ("train", "embed", "doctor", "compare", "report"):
        with pytest.raises(SystemExit) as ended:
            main([verb, "--help"])
        assert ended.value.code == 0
        assert len(capsys.readouterr().out) > 200


def test_the_tables_are_listed_as_json(capsys):
    main(["list", "methods", "--json"])
    assert "simclr" in json.loads(capsys.readouterr().out)["methods"]
