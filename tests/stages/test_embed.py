"""embed: every row with its name, batch by batch; a file for every shard, none of them twice."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vergence as vg
from vergence.data.shards.writing import write_shards
from vergence.data.writing import Rows, write_rows
from vergence.runs.run import Run
from vergence.stages.embed import embed
from vergence.stages.shard import shard

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on vectors, and the same vectors in shards of 40."""
    folder = tmp_path_factory.mktemp("embed")
    x = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    np.savez(folder / "x.npz", x=x, y=np.array(["ab"[n % 2] for n in range(200)]))
    vg.train(data=f"array:{folder / 'x.npz'}", epochs=1, batch=32, run=folder / "run", quiet=True, track=())
    shard(f"array:{folder / 'x.npz'}", folder / "shards", records=40, quiet=True)
    return folder


def rows_in(folder):
    found = {}
    for file in sorted(folder.glob("*.parquet")):
        table = parquet.read_table(file)
        for name, label, row in zip(
            *(table.column(key).to_pylist() for key in ("name", "label", "embedding")), strict=True
        ):
            found[name] = (label, row)
    return found


def test_a_folder_has_a_file_for_every_shard_with_the_rows_of_one_array(trained):
    answer = embed(trained / "run", data=f"wds:{trained / 'shards'}", output=trained / "out", quiet=True)
    assert answer.values["made"] == 5
    embed(trained / "run", output=trained / "h.npy", quiet=True)
    h = np.load(trained / "h.npy")
    found = rows_in(trained / "out")
    assert len(found) == 200
    for name, (label, row) in found.items():
        np.testing.assert_allclose(row, h[int(name)], rtol=1e-5, atol=1e-6)
        assert label == "ab"[int(name) % 2]


def test_shards_that_are_there_are_not_done_again(trained):
    out = trained / "again"
    source = f"wds:{trained / 'shards'}"
    embed(trained / "run", data=source, output=out, quiet=True)
    before = {file.name: file.stat().st_mtime_ns for file in out.iterdir()}
    (out / "shard-00002.parquet").unlink()
    (out / "shard-00003.parquet").write_bytes(b"PAR1 torn")
    answer = embed(trained / "run", data=source, output=out, quiet=True)
    assert (answer.values["made"], answer.values["already"]) == (2, 3)
    after = {file.name: file.stat().st_mtime_ns for file in out.iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"shard-00002.parquet", "shard-00003.parquet"}
    assert len(rows_in(out)) == 200


def test_embeddings_of_other_weights_are_not_taken_for_these(trained, tmp_path):
    embed(trained / "run", data=f"wds:{trained / 'shards'}", output=tmp_path / "out", quiet=True)
    vg.train(data=f"array:{trained / 'x.npz'}", epochs=1, batch=32, seed=1, run=tmp_path / "run", quiet=True, track=())
    with pytest.raises(FileExistsError, match="other weights"):
        embed(tmp_path / "run", data=f"wds:{trained / 'shards'}", output=tmp_path / "out", quiet=True)


def test_processes_share_the_shards_and_more_of_them_than_shards_do_no_harm(trained, tmp_path, monkeypatch):
    made = []
    for rank in range(7):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "7")
        answer = embed(trained / "run", data=f"wds:{trained / 'shards'}", output=tmp_path / "out", quiet=True)
        made.append(answer.values["made"])
    assert made == [1, 1, 1, 1, 1, 0, 0]
    assert "nothing to do" in answer.lines[-1]
    assert len(rows_in(tmp_path / "out")) == 200


def torchrun(run, source, output):
    """A command of two processes that embed together."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "vergence"]
    command += ["embed", str(run), "--data", source, "--output", str(output), "--quiet"]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    return subprocess.Popen(command, start_new_session=True, text=True, **quiet)


@pytest.mark.slow
def test_two_processes_of_torchrun_write_what_one_writes(trained, tmp_path):
    source = f"wds:{trained / 'shards'}"
    assert torchrun(trained / "run", source, tmp_path / "two").wait() == 0
    embed(trained / "run", data=source, output=tmp_path / "one", quiet=True)
    assert rows_in(tmp_path / "two") == rows_in(tmp_path / "one")


@pytest.mark.slow
def test_two_killed_processes_do_no_shard_twice(trained, tmp_path):
    x = np.random.default_rng(2).normal(size=(4000, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(4000) % 2)
    shard(f"array:{tmp_path / 'x.npz'}", tmp_path / "s", records=10, quiet=True)
    source, out = f"wds:{tmp_path / 's'}", tmp_path / "two"
    first = torchrun(trained / "run", source, out)
    while len(list(out.glob("*.parquet"))) < 8:
        assert first.poll() is None
        time.sleep(0.005)
    workers = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    assert len(workers) == 2
    for process in (first.pid, *map(int, workers)):  # the processes of torchrun have sessions of their own
        os.kill(process, signal.SIGKILL)
    first.wait()
    before = {file.name: file.stat().st_mtime_ns for file in out.glob("*.parquet")}
    assert len(before) < 400
    again = torchrun(trained / "run", source, out)
    said = again.communicate()[0]
    assert again.returncode == 0
    assert sum(int(found) for found in re.findall(r"in (\d+) files", said)) == 400 - len(before)
    after = {file.name: file.stat().st_mtime_ns for file in out.glob("*.parquet")}
    assert len(after) == 400
    assert all(after[name] == before[name] for name in before)
    embed(trained / "run", data=source, output=tmp_path / "one", quiet=True)
    assert rows_in(out) == rows_in(tmp_path / "one")


def test_a_damaged_image_is_left_out_with_its_name_and_the_others_keep_theirs(tmp_path):
    for number in range(30):
        Image.new("RGB", (8, 8), (8 * number, 0, 0)).save(tmp_path / f"{number:02d}.png")
    vg.train(data=f"folder:{tmp_path}", size=8, epochs=1, batch=8, run=tmp_path / "run", quiet=True, track=())
    embed(tmp_path / "run", data=f"folder:{tmp_path}", output=tmp_path / "whole.npy", quiet=True)
    (tmp_path / "07.png").write_bytes(b"no image")
    answer = embed(tmp_path / "run", data=f"folder:{tmp_path}", output=tmp_path / "h.npy", quiet=True)
    assert answer.values["skipped"] == [["07.png", "not an image that Pillow can read"]]
    names = (tmp_path / "h.names.txt").read_text().splitlines()
    assert names == [f"{n:02d}.png" for n in range(30) if n != 7]
    np.testing.assert_allclose(
        np.load(tmp_path / "h.npy"), np.delete(np.load(tmp_path / "whole.npy"), 7, 0), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors", "parquet"])
def test_rows_that_come_in_uneven_batches_are_one_array(tmp_path, ending):
    from vergence.data.embeddings import read_embeddings

    h = np.random.default_rng(1).normal(size=(700, 5)).astype(np.float32)
    batches = (Rows(part, [str(n) for n in range(len(part))]) for part in np.split(h, [1, 100, 699]))
    files, n = write_rows(tmp_path / f"h.{ending}", batches)
    assert n == 700
    read = read_embeddings(files[0])
    np.testing.assert_array_equal(np.asarray(read), h)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "facts", ['{"kind": "imige", "shape": [8]}', '{"kind": "vector", "shape": 8}', '{"shape": [0]}']
)
def test_damaged_facts_of_samples_are_said_to_be_damaged(trained, tmp_path, facts):
    run = shutil.copytree(trained / "run", tmp_path / "run")
    (run / "samples.json").write_text(facts)
    with pytest.raises(ValueError, match=r"samples\.json is damaged.*--resume` makes it again"):
        embed(run, quiet=True)


def test_what_is_read_is_not_written_over(trained, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 8), np.float32))
    for options in ({"files": (str(tmp_path / "x.npy"),)}, {"data": f"array:{tmp_path / 'x.npy'}"}):
        with pytest.raises(FileExistsError, match="is what is read"):
            embed(trained / "run", output=tmp_path / "." / "x.npy", **options)
    with pytest.raises(FileExistsError, match="holds a run"):
        vg.doctor(tmp_path / "x.npy", output=trained / "run")


def test_an_error_on_the_way_leaves_no_file(tmp_path):
    def torn():
        yield Rows(np.ones((3, 2), np.float32), ["a", "b", "c"])
        raise RuntimeError("out of luck")

    for ending in ("npy", "parquet", "npz"):
        with pytest.raises(RuntimeError, match="luck"):
            write_rows(tmp_path / f"h.{ending}", torn())
    assert not list(tmp_path.iterdir())


def test_nothing_is_read_in_advance(trained, monkeypatch):
    """The largest block that is encoded at once does not depend on the number of rows."""
    seen = []
    encoder, recipe, facts = vg.runs.assembly.trained_encoder(Run(trained / "run"))
    monkeypatch.setattr(vg.runs.assembly, "trained_encoder", lambda run: (encoder, recipe, facts))
    encoder.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    monkeypatch.setattr(vg.features, "CHUNK", 64)
    embed(trained / "run", data=f"array:{trained / 'x.npz'}", output=trained / "c.npy", quiet=True)
    assert seen == [64, 64, 64, 8]


def test_a_shard_of_damaged_rows_alone_is_named_and_makes_no_file(tmp_path, trained):
    samples = vg.data.from_arrays(torch.randn(20, 8))
    list(write_shards(samples, tmp_path / "s", format="wds", records=10, seed=None, source="x"))
    (tmp_path / "s/shard-00001.tar").write_bytes(b"")
    answer = embed(trained / "run", data=f"wds:{tmp_path / 's'}", output=tmp_path / "out", quiet=True)
    assert answer.values["n"] == 10
    assert [name for name, _ in answer.values["skipped"]] == [str(tmp_path / "s/shard-00001.tar")]
