"""A run directory loses nothing: whole files, verified checkpoints, one owner."""

import json
import os
import subprocess
import sys

import pytest
import torch

from vergence.config import Config
from vergence.runs.run import TENSORS, Checkpoint, Run, environment, write_bytes
from vergence.stages.train import train


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", Config())


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step, {"model.weight": torch.full((3, 2), float(step))}, {"method": "simclr"})


def test_a_run_that_is_there_is_refused_before_anything_is_built(run, monkeypatch):
    monkeypatch.setattr("vergence.runs.assembly.assemble", None)  # would fail if it were called
    with pytest.raises(FileExistsError, match="holds a run"):
        train(run=run.path, quiet=True)


def test_a_checkpoint_round_trips(run):
    run.save(checkpoint(7))
    loaded = run.load()
    assert loaded.step == 7
    assert loaded.facts["method"] == "simclr"
    torch.testing.assert_close(loaded.tensors["model.weight"], torch.full((3, 2), 7.0))


def test_only_the_newest_checkpoints_stay(run):
    for step in (1, 2, 3, 4):
        run.save(checkpoint(step), keep=2)
    assert [path.name for path in run.checkpoints()] == ["step-000000003", "step-000000004"]


@pytest.mark.parametrize("name", [TENSORS, "facts.json", "manifest.json"])
def test_a_flipped_bit_is_seen_and_the_checkpoint_before_is_used(run, name):
    run.save(checkpoint(1))
    path = run.save(checkpoint(2)) / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))
    with pytest.warns(UserWarning, match="damaged"):
        assert run.load().step == 1


def test_a_truncated_file_is_seen(run):
    run.save(checkpoint(1))
    path = run.save(checkpoint(2)) / TENSORS
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="checksum"):
        assert run.load().step == 1


def test_a_half_written_checkpoint_is_not_one(run):
    run.save(checkpoint(1))
    part = run.path / "checkpoints" / ".step-000000002.part"
    part.mkdir()
    (part / TENSORS).write_bytes(b"half")
    assert run.load().step == 1


def test_a_run_without_checkpoints_has_none(run):
    assert run.load() is None


def test_an_existing_run_is_not_overwritten_unless_asked(run):
    run.log({"step": 1, "loss": 2.0})
    run.save(checkpoint(1))
    with pytest.raises(FileExistsError, match="--overwrite"):
        Run.create(run.path, Config())
    assert run.load().step == 1
    again = Run.create(run.path, Config(), overwrite=True)
    assert again.load() is None
    assert again.rows() == []


def test_a_run_is_not_overwritten_by_another_way_to_it(run):
    """new/../run does not exist while new does not: with new it is the old run."""
    run.save(checkpoint(1))
    with pytest.raises(FileExistsError, match="--overwrite"):
        Run.create(run.path / "new" / ".." / ".." / run.path.name, Config())
    assert run.load().step == 1


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="is not empty and holds no run: name another"):
        Run.create(tmp_path, Config(), overwrite=True)
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no copies of a process here")
def test_a_worker_that_outlives_a_killed_run_does_not_hold_it(run):
    code = (
        "import os, sys, time\n"
        "from vergence.runs.run import Run\n"
        "with Run(sys.argv[1]).locked():\n"
        "    worker = os.fork()\n"
        "    if not worker:\n"
        "        os.close(1)\n"
        "        os.close(2)\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    print(worker, flush=True)\n"
        "    time.sleep(0.5)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    made = subprocess.run([sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE, text=True, check=False)
    try:
        os.kill(int(made.stdout), 0)  # it is still there
        with run.locked():
            pass
    finally:
        os.kill(int(made.stdout), 9)


def test_resuming_with_other_settings_says_which_differ(run):
    with pytest.raises(ValueError, match="batch: the run has 256, you gave 128"):
        Run.create(run.path, Config(batch=128), resume=True)


def test_workers_may_change_between_a_run_and_its_continuation(run):
    assert Run.create(run.path, Config(workers=3), resume=True).path == run.path


def test_a_torn_last_line_of_the_log_is_left_out(run):
    run.log({"step": 1, "loss": 2.0})
    with open(run.path / "log.jsonl", "a") as file:
        file.write('{"step": 2, "lo')
    assert run.rows() == [{"step": 1, "loss": 2.0}]


def test_rewinding_drops_the_rows_after_a_step(run):
    for step in (1, 2, 3):
        run.log({"step": step, "loss": 1.0})
    run.rewind(2, keep=2)
    assert [row["step"] for row in run.rows()] == [1, 2]


def test_two_processes_cannot_hold_one_run(run):
    program = f"from vergence.runs.run import Run\nwith Run({str(run.path)!r}).locked(): pass"
    with run.locked():
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Another process is using" in other.stderr
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write_bytes(tmp_path / "results.json", b"good")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vergence.runs.run.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"good"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_fills_up_leaves_the_last_good_checkpoint(run, monkeypatch):
    run.save(checkpoint(1))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vergence.runs.run.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run.save(checkpoint(2))
    monkeypatch.undo()
    assert run.load().step == 1
    assert len(list((run.path / "checkpoints").iterdir())) == 1


def test_the_environment_names_what_a_result_may_depend_on():
    assert {"python", "torch", "threads", "platform"} <= set(environment())
    json.dumps(environment())


def test_a_directory_that_cannot_be_written_is_said_to_be_so(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match=r"Cannot write to the run directory .*--run"):
        Run.create(tmp_path / "file" / "run", Config())


def test_leftovers_of_a_killed_save_go_with_the_next(run):
    part = run.path / "checkpoints" / ".step-000000001.part"
    part.mkdir(parents=True)
    run.save(checkpoint(2))
    assert [path.name for path in (run.path / "checkpoints").iterdir()] == ["step-000000002"]


def test_the_best_checkpoint_is_not_pruned_with_the_others(run):
    run.save(checkpoint(1), series="best", keep=1)
    for step in (2, 3, 4):
        run.save(checkpoint(step), keep=1)
    assert (run.load().step, run.load(best=True).step) == (4, 1)


def test_a_run_that_another_process_holds_is_not_overwritten(run):
    run.log({"step": 1, "loss": 2.0})
    run.save(checkpoint(1))
    with run.locked(), pytest.raises(RuntimeError, match="Another process is using"):
        Run.create(run.path, Config(), overwrite=True)
    assert run.load().step == 1
    assert run.rows() == [{"step": 1, "loss": 2.0}]


def test_overwriting_removes_a_link_and_not_what_it_points_to(run, tmp_path):
    run.save(checkpoint(1))
    (run.path / "checkpoints").rename(tmp_path / "elsewhere")
    (run.path / "checkpoints").symlink_to(tmp_path / "elsewhere")
    again = Run.create(run.path, Config(), overwrite=True)
    assert again.load() is None
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["step-000000001"]


def test_a_lock_that_is_a_link_is_refused_and_its_target_is_untouched(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "letter").write_text("dear")
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "letter")
    with pytest.raises(OSError, match="Cannot write to the run directory"):
        Run.create(tmp_path / "run", Config())
    assert (tmp_path / "letter").read_text() == "dear"


@pytest.mark.parametrize("line", [b"null", b"{}", b"[1]", b"\xff\xfe", b'{"step": "1"}', b'{"step": 1, "loss": null}'])
def test_a_damaged_line_of_a_log_is_left_out_and_named(run, line):
    run.log({"step": 1, "loss": 2.0})
    with open(run.path / "log.jsonl", "ab") as file:
        file.write(line + b"\n")
    run.log({"step": 2, "loss": 1.0})
    assert [row["step"] for row in run.rows()] == [1, 2]
    with pytest.warns(UserWarning, match="1 of 3 lines"):
        run.rewind(2, keep=2)
    assert len(run.rows()) == 2


def test_what_is_kept_is_said_truly(run, monkeypatch):
    assert "Nothing is saved" in run.kept()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("vergence.runs.run.os.fsync", full)
        with pytest.raises(OSError, match=r"No space left on device. Nothing is saved yet"):
            run.save(checkpoint(1))
    run.save(checkpoint(2))
    assert run.kept() == "Step 2 is saved; --resume continues."


def test_damaged_results_say_how_they_are_made_again(run):
    (run.path / "results.json").write_text("[1")
    with pytest.raises(ValueError, match="vergence doctor"):
        run.read_json("results.json")


def test_the_methods_own_objective_need_not_be_named(run):
    named = Config(objective={"name": "nt_xent"})
    assert Run.create(run.path, named, resume=True).path == run.path
    with pytest.raises(ValueError, match=r"objective.name: the run has None, you gave 'flat_nce'"):
        Run.create(run.path, Config(objective={"name": "flat_nce"}), resume=True)
