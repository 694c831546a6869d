"""Shards: the order depends on the seed alone, damage is skipped and named, and memory does not grow with the set."""

import http.server
import io
import json
import tarfile
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vergence as vg
from vergence import data, features
from vergence.config import Config
from vergence.data.shards import places, tars
from vergence.data.shards.order import Order
from vergence.data.shards.records import Damaged
from vergence.learning import collectives, loop
from vergence.report import record
from vergence.stages.shard import shard

parquet = pytest.importorskip("pyarrow.parquet")


def vectors(n=600, d=6):
    return torch.arange(n * d, dtype=torch.float32).reshape(n, d).numpy()


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """600 vectors with labels in shards of 50, of both formats."""
    folder = tmp_path_factory.mktemp("shards")
    np.savez(folder / "x.npz", x=vectors(), y=np.arange(600) % 7)
    for form in ("wds", "parquet"):
        shard(f"array:{folder / 'x.npz'}", folder / form, format=form, records=50, quiet=True)
    return folder


def epoch(counts, shard, **options):
    order = Order(np.array(counts), np.array(shard), **{"seed": 0, "epoch": 0, "batch": 12, **options})
    return order, [order.indices(step) for step in range(order.steps)]


@pytest.mark.parametrize("lanes", [1, 4])
def test_an_epoch_gives_every_sample_at_most_once_and_all_but_a_rest(lanes):
    counts = [5, 0, 17, 30, 1, 9, 22]
    _, batches = epoch(counts, range(7), lanes=lanes, window=2)
    seen = torch.cat(batches)
    assert len(seen) == sum(counts) // 12 * 12
    assert len(seen.unique()) == len(seen)
    assert int(seen.min()) >= 0
    assert int(seen.max()) < sum(counts)


def test_the_parts_of_the_processes_are_the_batch_in_order():
    counts, files = [40] * 6, [0, 0, 1, 1, 2, 2]
    order, batches = epoch(counts, files, batch=24, lanes=8, window=2)
    for world in (2, 3, 4, 8):
        for step, batch in enumerate(batches):
            parts = [order.indices(step, rank=rank, world=world) for rank in range(world)]
            torch.testing.assert_close(torch.cat(parts), batch)


def test_processes_share_the_shards_between_them():
    counts = [50] * 16
    order, _ = epoch(counts, range(16), batch=16, lanes=8, window=2)
    read = [
        {int(index) // 50 for step in range(order.steps) for index in order.indices(step, rank=rank, world=4)}
        for rank in range(4)
    ]
    assert all(len(pieces) <= 5 for pieces in read)  # a quarter of the 16, and one that two lanes share
    assert set.union(*read) == set(range(16))


def test_a_batch_in_the_middle_needs_no_batch_before_it():
    counts = [33, 8, 60, 21]
    _, batches = epoch(counts, range(4), epoch=3, lanes=3, window=1)
    order, _ = epoch(counts, range(4), epoch=3, lanes=3, window=1)
    torch.testing.assert_close(order.indices(7), batches[7])


def test_epochs_and_seeds_have_orders_of_their_own():
    counts = [30] * 6
    first = torch.cat(epoch(counts, range(6))[1])
    assert not torch.equal(first, torch.cat(epoch(counts, range(6), epoch=1)[1]))
    assert not torch.equal(first, torch.cat(epoch(counts, range(6), seed=1)[1]))
    assert torch.equal(first, torch.cat(epoch(counts, range(6))[1]))


def test_samples_stay_in_the_window_of_their_pieces():
    order, batches = epoch([20] * 12, range(12), batch=10, lanes=1, window=3)
    place = {int(piece): number for number, piece in enumerate(order.pieces)}
    for step, batch in enumerate(batches):
        windows = {place[int(index) // 20] // 3 for index in batch}
        assert windows == {step * 10 // 60}


@pytest.mark.parametrize("form", ["wds", "parquet"])
def test_what_was_written_is_read(shards, form):
    samples = data.load(f"{form}:{shards / form}", split="all")
    assert len(samples) == 600
    assert samples.shape == (6,)
    rows = torch.arange(600)
    x = samples.x[rows]
    numbers = (x[:, 0] / 6).long()
    assert sorted(numbers.tolist()) == list(range(600))
    torch.testing.assert_close(x, torch.from_numpy(vectors())[numbers])
    torch.testing.assert_close(samples.labels[rows], numbers % 7)
    assert [int(name) for name in samples.names] == numbers.tolist()


def test_both_formats_give_the_same_samples_in_the_same_order(shards):
    first, second = (data.load(f"{form}:{shards / form}") for form in ("wds", "parquet"))
    config = Config(batch=60, epochs=2, seed=3)
    for one, other in zip(loop.batches(first, config), loop.batches(second, config), strict=True):
        torch.testing.assert_close(one, other)


def test_splits_are_apart_and_together_all(shards):
    source = f"parquet:{shards / 'parquet'}"
    parts = {name: data.load(source, split=name, validation=0.1) for name in ("train", "validation", "test")}
    seen = {name: set(each.names) for name, each in parts.items()}
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["validation"]
    assert not seen["validation"] & seen["test"]
    assert len(set.union(*seen.values())) == 600
    assert len(parts["test"]) == 120
    assert len(parts["validation"]) == 48
    assert len(data.load(source, limit=40)) == 40


@pytest.mark.parametrize("form", ["wds", "parquet"])
def test_workers_do_not_change_what_training_sees(shards, form):
    samples = data.load(f"{form}:{shards / form}")
    seen = {}
    for workers in (0, 2):
        config = Config(batch=60, epochs=1, workers=workers)
        seen[workers] = [(indices, x, samples.labels[indices]) for indices, x in loop.batches(samples, config)]
    for one, other in zip(seen[0], seen[2], strict=True):
        torch.testing.assert_close(one, other)


def test_training_resumes_in_the_middle_of_a_shard(shards):
    samples = data.load(f"wds:{shards / 'wds'}")
    config = Config(batch=60, epochs=2)
    whole = list(loop.batches(samples, config))
    for start in (1, 5, 11):
        for one, other in zip(whole[start:], loop.batches(samples, config, start=start), strict=True):
            torch.testing.assert_close(one, other)


def test_ranks_together_see_the_batch_of_one(shards, monkeypatch):
    samples = data.load(f"parquet:{shards / 'parquet'}")
    config = Config(batch=60, epochs=1)
    whole = list(loop.batches(samples, config))
    parts = []
    for rank in range(3):
        monkeypatch.setattr(collectives, "rank", lambda rank=rank: rank)
        monkeypatch.setattr(collectives, "world", lambda: 3)
        parts.append(list(loop.batches(samples, config)))
    for number, (indices, x) in enumerate(whole):
        torch.testing.assert_close(torch.cat([part[number][0] for part in parts]), indices)
        torch.testing.assert_close(torch.cat([part[number][1] for part in parts]), x)


def test_few_pieces_are_open_whatever_their_number(tmp_path):
    np.save(tmp_path / "x.npy", vectors(400))
    shard(f"array:{tmp_path / 'x.npy'}", tmp_path / "s", records=10, quiet=True)
    samples = data.load(f"wds:{tmp_path / 's'},lanes=2,window=2")
    for _ in loop.batches(samples, Config(batch=40, epochs=1)):
        assert len(samples.x.state["open"]) <= 2 * 3


def test_an_interrupted_shard_call_goes_on(tmp_path, monkeypatch):
    from vergence.data.shards import writing

    np.save(tmp_path / "x.npy", vectors(100))
    source = f"array:{tmp_path / 'x.npy'}"
    real, made = writing._written, []

    def killed(path, *arguments):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(path.name)
        return real(path, *arguments)

    monkeypatch.setattr(writing, "_written", killed)
    with pytest.raises(KeyboardInterrupt):
        shard(source, tmp_path / "s", records=20, quiet=True)
    made.clear()
    monkeypatch.setattr(writing, "_written", lambda path, *rest: made.append(path.name) or real(path, *rest))
    shard(source, tmp_path / "s", records=20, quiet=True)
    assert made == ["shard-00002.tar", "shard-00003.tar", "shard-00004.tar"]
    with pytest.raises(FileExistsError, match="complete: `--check` compares"):
        shard(source, tmp_path / "s", records=20, quiet=True)
    shard(source, tmp_path / "again", records=20, quiet=True)
    assert (tmp_path / "s/index.json").read_text() == (tmp_path / "again/index.json").read_text()
    assert shard(source, tmp_path / "s", check=True).failed is False


def test_a_changed_shard_does_not_match_its_checksum(tmp_path):
    np.save(tmp_path / "x.npy", vectors(40))
    shard(f"array:{tmp_path / 'x.npy'}", tmp_path / "s", records=20, quiet=True)
    file = tmp_path / "s/shard-00001.tar"
    content = bytearray(file.read_bytes())
    content[700] ^= 1
    file.write_bytes(content)
    answer = shard("", tmp_path / "s", check=True)
    assert answer.failed
    assert answer.values["faults"] == [[str(file), "does not match its checksum"]]


def photos(folder, n=24):
    for number in range(n):
        place = folder / f"{'ab'[number % 2]}/{number:03d}.{'png' if number % 3 else 'jpg'}"
        place.parent.mkdir(parents=True, exist_ok=True)
        color = (number * 10 % 256, 50, 200)
        Image.new("RGB", (20, 16), color).save(place)
    (folder / "captions.jsonl").write_text(
        "".join(
            json.dumps({"file": str(file.relative_to(folder)), "caption": f"number {file.stem}"}) + "\n"
            for file in sorted(folder.rglob("*.*g"))
        )
    )


@pytest.mark.parametrize("form", ["wds", "parquet"])
def test_a_folder_of_images_with_captions_survives(tmp_path, form):
    photos(tmp_path / "photos")
    (tmp_path / "photos/a/bad.png").write_bytes(b"no image")
    captions = (tmp_path / "photos/captions.jsonl").open("a")
    captions.write(json.dumps({"file": "a/bad.png", "caption": "bad"}) + "\n")
    captions.close()
    answer = shard(f"folder:{tmp_path / 'photos'}", tmp_path / "s", format=form, records=7, quiet=True)
    assert answer.values["skipped"] == [["a/bad.png", "not an image that Pillow can read"]]
    plain = data.load(f"folder:{tmp_path / 'photos'},size=8", split="all")
    samples = data.load(f"{form}:{tmp_path / 's'},size=8", split="all")
    assert samples.classes == plain.classes == ("a", "b")
    rows = torch.arange(len(samples))
    order = [
        next(n for n, full in enumerate(plain.names) if full.startswith(name.split(".")[0])) for name in samples.names
    ]
    torch.testing.assert_close(samples.x[rows], plain.x[order])
    torch.testing.assert_close(samples.labels[rows], plain.labels[order])
    width = plain.captions.shape[1]
    torch.testing.assert_close(samples.captions[rows][:, :width], plain.captions[order])


def test_texts_survive(tmp_path):
    (tmp_path / "t.txt").write_text("".join(f"{'xy'[n % 2]}\tsentence number {n}\n" for n in range(30)))
    shard(f"text:{tmp_path / 't.txt'}", tmp_path / "s", format="parquet", records=8, ordered=True, quiet=True)
    plain = data.load(f"text:{tmp_path / 't.txt'}", split="all")
    samples = data.load(f"parquet:{tmp_path / 's'}", split="all")
    rows = torch.arange(30)
    tokens = plain.x[rows]
    torch.testing.assert_close(samples.x[rows][:, : tokens.shape[1]], tokens)
    assert not samples.x[rows][:, tokens.shape[1] :].any()
    torch.testing.assert_close(samples.labels[rows], plain.labels)


# Bad input


def tar_of(path: Path, names, content=lambda name: np.zeros(3, np.float32)):
    with tarfile.open(path, "w") as file:
        for name in names:
            buffer = io.BytesIO()
            np.save(buffer, content(name))
            member = tarfile.TarInfo(f"{name}.npy")
            member.size = buffer.tell()
            buffer.seek(0)
            file.addfile(member, buffer)


def test_a_pattern_that_matches_nothing_says_what_was_expected(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No shard matches .*\.tar"):
        data.load(f"wds:{tmp_path}/*.tar")
    with pytest.raises(FileNotFoundError, match="No shard matches"):
        data.load(f"parquet:{tmp_path}")
    with pytest.raises(FileNotFoundError, match=r"There is no shard .*a-01\.tar"):
        data.load(f"wds:{tmp_path}/a-{{01..03}}.tar")


def test_a_tar_that_is_cut_off_gives_the_samples_before_the_cut(tmp_path):
    for name in ("a", "b"):
        tar_of(tmp_path / f"{name}.tar", [f"{name}{n}" for n in range(10)], lambda name: np.full(3, float(name[1:])))
    whole = (tmp_path / "b.tar").read_bytes()
    (tmp_path / "b.tar").write_bytes(whole[: 1024 * 6 + 600])  # in the middle of the seventh sample
    with pytest.warns(UserWarning, match=r"b\.tar: the tar file is cut off"):
        samples = data.load(f"wds:{tmp_path}", split="all")
    assert list(samples.names) == [f"a{n}" for n in range(10)] + [f"b{n}" for n in range(6)]
    assert samples.skipped[0][0].endswith("b.tar")


def test_a_run_on_shards_of_which_one_is_cut_off_ends_with_its_page(tmp_path):
    """The index still counts the lost samples, so places in the data and rows of features are not the same."""
    x = torch.cat([torch.randn(150, 4, generator=torch.Generator().manual_seed(0)), torch.full((150, 4), 9.0)])
    np.savez(tmp_path / "x.npz", x=x.numpy(), y=np.arange(300) // 150)
    shard(f"array:{tmp_path / 'x.npz'}", tmp_path / "s", records=50, quiet=True)
    for number in (0, 2):
        file = tmp_path / f"s/shard-0000{number}.tar"
        file.write_bytes(file.read_bytes()[:70_000])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"epochs": 1, "batch": 32, "quiet": True, "track": (), "watching": {"every": 0}}
        vg.train(data=f"wds:{tmp_path / 's'}", run=tmp_path / "run", **options)
        samples = data.load(f"wds:{tmp_path / 's'}", split="test")
    assert (tmp_path / "run/report.html").exists()
    stored = features.stored(tmp_path / "run/features.safetensors")
    rows = stored["test_rows"]
    assert len(rows) < len(samples)
    torch.testing.assert_close(stored["test_labels"], (samples.x[rows][:, 0] == 9).long())
    page = record._features(tmp_path / "run/features.safetensors")
    np.testing.assert_array_equal(page["test_labels"], (samples.x[torch.from_numpy(page["test_rows"])][:, 0] == 9))


def test_shards_that_the_index_names_and_that_are_gone_are_said(tmp_path):
    np.save(tmp_path / "x.npy", vectors(60))
    shard(f"array:{tmp_path / 'x.npy'}", tmp_path / "s", records=20, quiet=True)
    (tmp_path / "s/shard-00001.tar").unlink()
    with pytest.warns(UserWarning, match=r"1 of the 3 shards that .*index\.json names are missing: .*shard-00001\.tar"):
        samples = data.load(f"wds:{tmp_path / 's'}", split="all")
    assert len(samples) == 40
    assert samples.skipped == ((str(tmp_path / "s/shard-00001.tar"), "missing"),)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who names two of three shards wants two
        assert len(data.load(f"wds:{tmp_path}/s/shard-{{00000,00002}}.tar", split="all")) == 40


def test_a_damaged_record_is_skipped_and_named(tmp_path):
    photos(tmp_path / "photos", n=40)
    shard(f"folder:{tmp_path / 'photos'}", tmp_path / "s", records=10, quiet=True)
    records = tars.opened(tmp_path / "s/shard-00001.tar")
    member = records.members[3]
    place = next(each for ending, each in member.items() if ending in tars.IMAGES)
    content = bytearray((tmp_path / "s/shard-00001.tar").read_bytes())
    content[place.offset : place.offset + 16] = b"\0" * 16
    (tmp_path / "s/shard-00001.tar").write_bytes(content)
    samples = data.load(f"wds:{tmp_path / 's'},size=8", split="all")
    with pytest.warns(UserWarning, match=f"Skipped .*{records.keys[3]}"):
        seen = [indices for indices, _ in loop.batches(samples, Config(batch=20, epochs=1))]
    assert sorted(map(len, seen)) == [19, 20]
    assert [name.partition(": ")[2] for name, _ in samples.left_out] == [records.keys[3]]


def test_a_parquet_file_still_being_written_is_skipped_and_named(shards, tmp_path):
    for number in range(3):
        whole = (shards / f"parquet/shard-0000{number}.parquet").read_bytes()
        (tmp_path / f"{number}.parquet").write_bytes(whole[: len(whole) // 2] if number == 1 else whole)
    with pytest.warns(UserWarning, match=r"1\.parquet: not a whole Parquet file"):
        samples = data.load(f"parquet:{tmp_path}", split="all")
    assert len(samples) == 100
    (tmp_path / "0.parquet").write_bytes(b"PAR1")
    (tmp_path / "2.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match="None of the 3 shards"):
        data.load(f"parquet:{tmp_path}", split="all")


def table(path, **columns):
    import pyarrow

    parquet.write_table(pyarrow.table(columns), path)


def test_shards_of_different_columns_or_shapes_are_told_apart(tmp_path):
    table(tmp_path / "a.parquet", x=[[1.0, 2.0]] * 5)
    table(tmp_path / "b.parquet", z=[[1.0, 2.0]] * 5)
    with pytest.raises(ValueError, match=r"The shards differ: .*b\.parquet has its samples in 'z'"):
        data.load(f"parquet:{tmp_path}")
    table(tmp_path / "b.parquet", x=[[1.0, 2.0, 3.0]] * 5)
    samples = data.load(f"parquet:{tmp_path}", split="all")
    batch = samples.x.batch(torch.arange(10))
    assert len(batch.x) == 5
    assert "it has the shape [3], the others [2]" in batch.skipped[0][1]


def test_labels_in_some_shards_only_are_left_out_and_said(tmp_path):
    table(tmp_path / "a.parquet", x=[[1.0, 2.0]] * 5, label=[0, 1, 0, 1, 0])
    table(tmp_path / "b.parquet", x=[[1.0, 2.0]] * 5)
    with pytest.warns(UserWarning, match=r"1 of 2 shards have a label, .*b\.parquet has none"):
        assert data.load(f"parquet:{tmp_path}", split="all").labels is None


def test_names_of_classes_are_the_labels_of_all_shards(tmp_path):
    table(tmp_path / "a.parquet", x=[[1.0, 2.0]] * 2, label=["cat", "dog"])
    table(tmp_path / "b.parquet", x=[[1.0, 2.0]] * 2, label=["ant", "cat"])
    samples = data.load(f"parquet:{tmp_path}", split="all")
    assert samples.classes == ("ant", "cat", "dog")
    assert samples.labels[torch.arange(4)].tolist() == [1, 2, 0, 1]


def test_long_names_and_large_members_are_followed(tmp_path):
    names = ["folder/" + "long" * 40, "short", "ä" * 30]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        kept = names[1:2] if form == tarfile.USTAR_FORMAT else names
        with tarfile.open(tmp_path / "x.tar", "w", format=form) as file:
            for name in kept:
                member = tarfile.TarInfo(f"{name}.npy")
                buffer = io.BytesIO()
                np.save(buffer, np.zeros(2))
                member.size = buffer.tell()
                buffer.seek(0)
                file.addfile(member, buffer)
        assert tars.opened(tmp_path / "x.tar").keys == tuple(kept)


def test_what_is_no_tar_is_damaged(tmp_path):
    (tmp_path / "x.tar").write_bytes(b"something else" * 100)
    with pytest.raises(Damaged):
        tars.opened(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(b"")
    with pytest.raises(Damaged, match="empty"):
        tars.opened(tmp_path / "x.tar")


def test_the_classes_that_hugging_face_wrote_down_keep_their_names(tmp_path):
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"x": [[1.0, 2.0], [3.0, 4.0]] * 5, "label": [0, 1] * 5})
    facts = {"info": {"features": {"label": {"names": ["cat", "dog", "emu"], "_type": "ClassLabel"}}}}
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(facts)}), tmp_path / "a.parquet")
    assert data.load(f"parquet:{tmp_path}", split="all").classes == ("cat", "dog", "emu")


# Addresses


class Slow(http.server.SimpleHTTPRequestHandler):
    """A server that answers with errors or not at all, as its ``faults`` say: path -> list of what comes next."""

    faults: dict = {}  # noqa: RUF012 - one for the server
    failing = False
    asked: list = []  # noqa: RUF012

    def do_HEAD(self):
        if self.failing and self.path.endswith(".tar"):
            self.send_error(503)
        else:
            super().do_HEAD()

    def do_GET(self):
        name = self.path.rpartition("/")[2]
        self.asked.append(name)
        fault = self.faults.get(name, [])
        what = (fault.pop(0) if len(fault) > 1 else fault[0]) if fault else None
        if what == "error":
            self.send_error(503)
        elif what == "hang":
            time.sleep(3)
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def server(shards):
    pytest.importorskip("aiohttp")
    Slow.faults, Slow.asked, Slow.failing = {}, [], False
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Slow, directory=str(shards)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()


@pytest.mark.parametrize("form", ["wds", "parquet"])
def test_shards_behind_an_address_are_those_on_disk(shards, server, form):
    near = data.load(f"{form}:{shards / form}")
    far = data.load(f"{form}:{server}/{form}")
    config = Config(batch=60, epochs=1)
    for one, other in zip(loop.batches(near, config), loop.batches(far, config), strict=True):
        torch.testing.assert_close(one, other)


def test_a_server_that_fails_twice_is_asked_again(shards, server, monkeypatch):
    monkeypatch.setattr(places, "FIRST_WAIT", 0.01)
    Slow.faults = {"shard-00003.tar": ["error", "error", None]}
    far = data.load(f"wds:{server}/wds", split="all")
    near = data.load(f"wds:{shards / 'wds'}", split="all")
    rows = torch.arange(150, 200)
    torch.testing.assert_close(far.x[rows], near.x[rows])


def test_a_server_that_never_answers_ends_in_a_sentence_that_names_the_shard(server, monkeypatch):
    monkeypatch.setattr(places, "FIRST_WAIT", 0.01)
    Slow.faults = {"shard-00003.tar": ["hang"]}
    far = data.load(f"wds:{server}/wds,timeout=0.2,retries=2", split="all")
    with pytest.raises(
        places.Unreachable, match=r"shard-00003\.tar could not be read in 2 attempts.*no answer for 0\.2 s"
    ):
        far.x[torch.arange(150, 151)]
    Slow.faults = {"shard-00003.tar": ["error"]}
    with pytest.raises(places.Unreachable, match=r"shard-00003\.tar could not be read.*503"):
        far.x[torch.arange(150, 151)]


def test_a_fault_of_the_server_is_not_taken_for_a_file_that_is_gone(server, monkeypatch):
    """fsspec raises FileNotFoundError for both."""
    monkeypatch.setattr(places, "FIRST_WAIT", 0.01)
    Slow.failing, Slow.faults = True, {"shard-00003.tar": ["error"]}
    with pytest.raises(places.Unreachable, match=r"shard-00003\.tar could not be read in 2 attempts.*503"):
        data.load(f"wds:{server}/wds/shard-00003.tar,retries=2", split="all")
    with pytest.raises(places.Unreachable, match=r"There is no shard .*shard-77777\.tar \(any more\)"):
        data.load(f"wds:{server}/wds/shard-77777.tar,retries=2", split="all")


def test_the_next_shards_are_fetched_before_they_are_needed(server):
    far = data.load(f"wds:{server}/wds,lanes=1,window=2", split="all")
    order = far.x.order(seed=0, epoch=0, batch=50)
    far.x.ahead(order.upcoming(0))
    wanted = {Path(far.x.place(piece)).name for piece in order.pieces[2:4].tolist()}
    for _ in range(200):
        if wanted <= set(Slow.asked):
            break
        time.sleep(0.05)
    assert wanted <= set(Slow.asked)


def test_copies_of_remote_shards_leave_when_room_is_needed(server, tmp_path, monkeypatch):
    monkeypatch.setenv("VERGENCE_SPOOL", str(tmp_path))
    far = data.load(f"wds:{server}/wds,room=0.0004", split="all")  # 430 kB, a shard has 100
    rows = torch.arange(600)
    for part in rows.split(50):
        far.x.batch(part)
        held = sum(file.stat().st_size for file in tmp_path.rglob("*.tar"))
        assert held < 430_000


def test_a_streamed_dataset_of_the_hub_is_its_parquet_files(shards, tmp_path):
    for part, numbers in {"train": (0, 1, 2), "test": (3,)}.items():
        for number in numbers:
            target = tmp_path / f"data/{part}-0000{number}-of-00003.parquet"
            target.parent.mkdir(exist_ok=True)
            target.write_bytes((shards / f"parquet/shard-0000{number}.parquet").read_bytes())
    train, test = (data.load(f"hf:{tmp_path},streaming", split=split) for split in ("train", "test"))
    assert (len(train), len(test)) == (150, 50)
    plain = data.load(f"parquet:{shards / 'parquet'}", split="all")
    torch.testing.assert_close(test.x[torch.arange(50)], plain.x[torch.arange(150, 200)])


def test_shards_in_an_object_store_are_those_on_disk(shards, monkeypatch):
    """A local stand-in for S3, with real requests over HTTP."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    s3fs = pytest.importorskip("s3fs")
    server.start()
    port = server.get_host_and_port()[1]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    try:
        store = s3fs.S3FileSystem()
        store.mkdir("photos")
        for form in ("wds", "parquet"):
            store.put(f"{shards / form}/", f"photos/{form}/", recursive=True)
            near, far = data.load(f"{form}:{shards / form}"), data.load(f"{form}:s3://photos/{form}/*")
            config = Config(batch=60, epochs=1)
            for one, other in zip(loop.batches(near, config), loop.batches(far, config), strict=True):
                torch.testing.assert_close(one, other)
    finally:
        server.stop()


def test_no_warning_where_nothing_is_wrong(shards):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.load(f"wds:{shards / 'wds'}")
