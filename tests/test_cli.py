"""The command line as a person uses it: a real process, its output, its exit code."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from vergence import cli
from vergence.cli import main
from vergence.runs.results import Answer

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


def test_an_existing_run_is_kept(run, capsys):
    assert main(["train", "--data", "digits", "--run", str(run), *QUICK]) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_resuming_a_finished_run_trains_nothing_more(run, capsys):
    before = (run / "log.jsonl").read_bytes()
    assert main(["train", "--run", str(run), "--resume", "--quiet"]) == 0
    assert (run / "log.jsonl").read_bytes() == before


def test_the_doctor_reads_a_run(run, capsys):
    assert main(["doctor", str(run), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["verdict"]["sentence"]
    assert {row["features"] for row in results["accuracy"]} == {"trained encoder", "untrained encoder", "raw pixels"}


@pytest.mark.parametrize(("method", "objective"), [("byol", "negative_cosine"), ("moco", "info_nce")])
def test_the_doctor_names_the_objective_of_a_method(capsys, method, objective):
    assert main(["doctor", "--loss", "1.3", "--objective", method, "--batch", "64"]) == 2
    assert f"its objective is {objective}" in capsys.readouterr().err


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


def test_several_targets_are_examined_and_unlike_ones_are_not_ranked_without_labels(tmp_path, capsys):
    generator = np.random.default_rng(0)
    files = [str(tmp_path / f"width{width}.npy") for width in (2, 4, 8)]
    for file, width in zip(files, (2, 4, 8), strict=True):
        np.save(file, generator.standard_normal((200, width)) @ generator.standard_normal((width, 8)))
    assert main(["doctor", *files, "--json", "--fail-on", "cannot tell"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["selection"] == []
    assert "they differ in data, augmentation and family of encoders" in found["not_ranked"]
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
        (["doctor", "nothing.npy", "--fail-on", "colapse"], "Did you mean 'collapse'"),
        (["doctor", "nothing.npy", "--width", "64"], "--width would not be used"),
        (["doctor", "nothing.npy", "--loss", "1"], "--objective NAME, which is missing"),
        (["doctor", "--objective", "nt_xent", "--batch", "8", "--loss", "1", "--temperature", "0"], "more than 0"),
        (["doctor", "--objective", "nt_xent", "--batch", "1000000000"], "--batch must be at most"),
        (["views", "--view-count", "100000000000000000000"], "--view-count must be at most"),
        (["train", "--devices", "0"], "at least 1"),
        (["train", "--objective.temperature", "inf"], "finite"),
        (["train", "--saving.every", "-1"], "saving.every must be at least 0"),
        (["train", "--watching.samples", "0"], "watching.samples must be at least 2"),
        (["report", "nowhere"], "No run directory at nowhere"),
        (["report", ""], "An argument is empty"),
        (["report"], "Missing from vergence report: RUN"),
        (["train", "--epochs", "many"], "--epochs must be a whole number, got 'many'"),
        (["train", "--optim.learning-rate", "fast"], "--optim.learning-rate must be a number, got 'fast'"),
        (["train", "--optim.nme", "sgd"], "Perhaps you meant --optim.name"),
        (["train", "--seed", "-1"], "seed must be at least 0"),
        (["train", "--device", "meta"], "The device 'meta' cannot be used"),
        (["train", "--device", "cpu:99"], "The device 'cpu:99' cannot be used (there is one cpu device"),
        (["train", "--encoder", "os:system"], "The encoder os:system cannot be called with the shape of a sample"),
        (["train", "--optim.learning-rate", "1e300"], "optim.learning_rate must be at most 1e+30, got 1e+300"),
        (["train", "--device", "cuda:99"], "The device 'cuda:99' cannot be used"),
        (["train", "--objective.temperature", "1e-300"], "at least 1e-06"),
        (["train", "--evaluate", "pairs:x.tsv"], "There is no file x.tsv"),
        (["train", "--encoder", "bag"], "does not read image samples; these do"),
        (["train", "--resume", "--overwrite"], "give one of them"),
        (["train", "--config", "nowhere.yaml"], "nowhere.yaml: No such file or directory."),
        (["doctor", "--loss", "5", "--objective", "nt_xent", "--batch", "0"], "--batch must be at least 2"),
        (["doctor", "nothing.npy", "--fail-on", ","], "it would never fail"),
        (["watch", ".", "--port", "99999"], "--port must be from 0 to 65535"),
        (["views", "--output", "."], ". is a folder; name a file to write to."),
        (["compare", "run", "--output", "."], ". is a folder; name a file to write to."),
        (["mine", "run", "pairs:p.tsv", "--output", "."], ". is a folder; name a file to write to."),
        (["list", "method"], "Did you mean 'methods'"),
    ],
)
def test_a_mistake_gets_a_sentence_and_status_two(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1 + said.err.startswith("Reading")
    assert not said.out


@pytest.mark.parametrize(
    ("options", "message"), [(["--folds", "61"], "folds from 2 to 6"), (["--batch", "0"], "batch")]
)
def test_folds_and_batches_that_cannot_be_are_refused(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).standard_normal((60, 2)))
    assert main(["information", "x.npy", "x.npy", *options]) == 2
    assert message in capsys.readouterr().err


def test_json_holds_neither_nan_nor_infinity(tmp_path, monkeypatch, capsys):
    """Of a variable with itself the information is infinite, even where its squares are lost in rounding."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", 1e-310 * np.random.default_rng(0).standard_normal(60))
    assert main(["information", "x.npy", "x.npy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["nats"] is None


def test_the_last_of_two_choices_counts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--encoder", "mlp", "--encoder", "convnet", "--data", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("start", [["--encoder", "bag"], ["--encoder", "auto"], ["--config", "once.yaml"]])
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--backbone.once"], True),
        (["--backbone.once", "true"], True),
        (["--backbone.no-once"], False),
        (["--backbone.once=False"], False),
    ],
)
def test_a_switch_is_understood_with_and_without_a_value(start, words, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "once.yaml").write_text("encoder: bag\nbackbone: {once: true}\n")
    given = cli._parsed("train", [*start, "--data", "text:a.txt", *words, "--quiet"])
    assert (given.backbone.once, given.quiet) == (wanted, True)


@pytest.mark.parametrize("place", ["| true", "> /dev/full", ">&-", "2>&-"])
def test_an_output_that_takes_nothing_ends_without_a_traceback(place, tmp_path):
    """A reader that has gone is no verdict; a full disk is a failure; closed outputs are as they were wanted."""
    script = f"{sys.executable} -m vergence list 2>{tmp_path}/errors {place}; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert int(done.stdout.split()[-1]) == {"| true": 141, "> /dev/full": 2}.get(place, 0)
    said = (tmp_path / "errors").read_text() + done.stderr
    assert said == ("vergence: No space left on device\n" if place == "> /dev/full" else "")


def test_options_that_a_run_would_ignore_are_refused_by_name(run, capsys):
    assert main(["doctor", str(run), "--labels", "y.npy", "--z1", "z.npy"]) == 2
    assert "--labels, --z1 would not be used: the target is a run" in capsys.readouterr().err


def test_a_mistake_of_ours_is_said_to_be_one_and_has_a_status_of_its_own(monkeypatch, capsys):
    monkeypatch.setattr("vergence.stages.list.list", lambda **options: {}["missing"])
    assert main(["list"]) == 70
    assert "This is a bug in Vergence: KeyError" in capsys.readouterr().err
    with pytest.raises(KeyError):
        main(["list", "--debug"])


def test_a_warning_is_one_plain_line(monkeypatch, capsys):
    monkeypatch.setattr("vergence.stages.list.list", lambda **options: warned())
    assert main(["list"]) == 0
    assert capsys.readouterr().err == "Note: Mind the gap.\n"


def warned() -> Answer:
    for _ in range(2):
        warnings.warn_explicit("Mind\n the gap.", UserWarning, cli.__file__, 1)
        warnings.warn_explicit("Written for programmers.", UserWarning, "/elsewhere/library.py", 1)
    return Answer((), {})


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    generator = np.random.default_rng(0)
    for number in range(24):
        path = folder / ["cats", "dogs"][number % 2] / f"{number:02}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(generator.integers(0, 255, (20, 24, 3), dtype=np.uint8)).save(path)
    (folder / "cats" / "broken.jpg").write_bytes(b"not an image")
    return folder


@pytest.fixture(scope="module")
def seen(photos, tmp_path_factory):
    """A run trained on photographs."""
    path = tmp_path_factory.mktemp("runs") / "photos"
    options = ["--epochs", "1", "--batch", "8", "--size", "16", "--encoder", "convnet", "--quiet"]
    assert main(["train", "--data", f"folder:{photos}", "--run", str(path), *options]) == 0
    return path


def test_every_row_of_named_data_is_embedded_with_its_name_and_label(seen, photos, capsys):
    assert main(["embed", str(seen), "--data", f"folder:{photos}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == 24
    assert found["skipped"][0][0] == "cats/broken.jpg"
    h, names, labels = found["files"]
    assert len(np.load(h)) == 24
    assert Path(names).read_text().split()[::12] == ["cats/00.png", "dogs/01.png"]
    assert Path(labels).read_text().split() == ["cats"] * 12 + ["dogs"] * 12


def test_one_file_is_embedded_as_it_is_among_many(seen, photos, tmp_path, capsys):
    everything, alone = tmp_path / "all.npz", tmp_path / "one.safetensors"
    assert main(["embed", str(seen), str(photos), "--output", str(everything)]) == 0
    assert main(["embed", str(seen), str(photos / "dogs" / "01.png"), "--output", str(alone)]) == 0
    with np.load(everything) as found:
        row = found["h"][list(found["names"]).index("dogs/01.png")]
    assert load_file(alone)["h"][0] == pytest.approx(row, abs=1e-5)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".part"]


def test_embedding_another_kind_of_data_is_refused(seen, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    assert main(["embed", str(seen), str(tmp_path / "x.npy")]) == 2
    assert "trained on image samples" in capsys.readouterr().err


@pytest.mark.parametrize("labels", [np.zeros(40, int), np.arange(40)], ids=["all equal", "one sample a class"])
def test_labels_that_say_nothing_leave_accuracies_out_and_the_page_in(tmp_path, labels, capsys):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((40, 5)))
    np.save(tmp_path / "y.npy", labels)
    source = f"array:{tmp_path / 'x.npy'},labels={tmp_path / 'y.npy'}"
    options = ["--epochs", "1", "--batch", "8", "--encoder", "mlp", "--quiet", "--run", str(tmp_path / "run")]
    assert main(["train", "--data", source, *options]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert not results["accuracy"]
    assert any("left out" in note for note in results["notes"])
    assert (tmp_path / "run" / "report.html").exists()


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


@pytest.mark.parametrize("verb", ["doctor", "embed", "compare", "information", "finetune", "list"])
def test_help_speaks_of_a_default_only_where_there_is_one(verb, capsys):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert not any(nothing in said for nothing in ("default: None", "default: )", "default: ''"))
    assert ("how many labels" in said) == (verb == "finetune")
