"""Texts, time series, parquet tables and Hugging Face datasets."""

import gzip

import numpy as np
import pytest
import torch

from vergence.data import load
from vergence.tables import UnknownName


def write(path, content):
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return f"text:{path}"


# Texts


def test_a_text_a_line(tmp_path):
    samples = load(write(tmp_path / "a.txt", "One two.\n\nTwo, one!\r\n  \n"), split="all")
    assert (samples.kind, samples.names, samples.labels) == ("text", ["One two.", "Two, one!"], None)
    first, second = samples.x[torch.arange(2)].tolist()
    assert first[:2] == [second[2], second[0]]  # the same word is the same token, whatever its case
    assert [token > 0 for token in first] == [True] * 3 + [False]  # as long as the longest of the batch
    assert samples.shape == (64,)
    assert samples.skipped == (("lines 2, 4", "empty"),)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_a_label_before_each_text(tmp_path, name):
    samples = load(write(tmp_path / name, "good\tyes\nbad\tno\ngood\tfine\n"), split="all")
    assert (samples.classes, samples.labels.tolist(), samples.names) == (
        ("bad", "good"),
        [1, 0, 1],
        ["yes", "no", "fine"],
    )


def test_a_table_with_its_own_split_keeps_it(tmp_path):
    rows = ["split\tlabel\tsentence", "train\t1\ta b", "train\t0\tc", "dev\t1\td", "test\t1\te"]
    source = write(tmp_path / "a.tsv", "\n".join(rows))
    assert load(source).names == ["a b", "c"]
    assert load(source, split="test").names == ["e"]
    assert len(load(source, split="all")) == 4


def test_bytes_are_their_own_tokens(tmp_path):
    samples = load(write(tmp_path / "a.txt", "ab\nä\n") + ",tokens=byte,length=3", split="all")
    assert samples.x[torch.arange(2)].tolist() == [[98, 99], [0xC3 + 1, 0xA4 + 1]]


def test_tokens_stay_within_the_vocabulary_and_the_length(tmp_path):
    source = write(tmp_path / "a.txt", "\n".join(" ".join(f"w{i}" for i in range(50)) for _ in range(3)))
    x = load(source, split="all", length=20, vocabulary=7).x[torch.arange(3)]
    assert (x.shape, int(x.min()), int(x.max())) == ((3, 20), 1, 6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n \n", "no text"),
        ("a\tb\tc\n", "must name them"),
        ("label\ttext\na\tb\tc\n", "line 2: 3 columns, but the first line has 2"),
    ],
)
def test_texts_that_make_no_sense_are_explained(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path / "a.tsv", content))


def test_text_in_another_encoding_is_located(tmp_path):
    (tmp_path / "a.txt").write_bytes("eins\nzwölf\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8 text: line 2 holds the byte 0xf6"):
        load(f"text:{tmp_path}/a.txt")


# Series


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_several_sets_in_a_file_are_told_apart_by_name(tmp_path):
    tables = {}
    for name, channels in (("A", 1), ("B", 2)):
        tables |= {f"{name}_x_train": floats(4, channels, 9), f"{name}_y_train": np.array(list("xyxy"))}
        tables |= {f"{name}_x_test": floats(3, channels, 9), f"{name}_y_test": np.array(list("yzy"))}
    np.savez(tmp_path / "sets.npz", **tables)
    samples = load(f"series:{tmp_path}/sets.npz,name=B", split="test")
    assert (samples.shape, samples.classes, samples.labels.tolist()) == ((2, 9), ("x", "y", "z"), [1, 2, 1])
    torch.testing.assert_close(samples.x, torch.from_numpy(tables["B_x_test"]))
    with pytest.raises(ValueError, match=r"several sets: A, B.*name=A"):
        load(f"series:{tmp_path}/sets.npz")
    with pytest.raises(UnknownName, match="Known: A, B"):
        load(f"series:{tmp_path}/sets.npz,name=C")


def test_a_ucr_file_has_its_test_set_beside_it(tmp_path):
    for part, n in (("TRAIN", 3), ("TEST", 2)):
        np.savetxt(tmp_path / f"Toy_{part}.tsv", np.hstack([[[1]] * n, floats(n, 5)]), delimiter="\t")
    train, test = (load(f"series:{tmp_path}/Toy_TRAIN.tsv", split=split) for split in ("train", "test"))
    assert (len(train), len(test), train.shape, train.classes) == (3, 2, (1, 5), ("1",))


def recordings(tmp_path, **more):
    """Ten recordings of 12 steps, whose two channels are the time and minus the time."""
    time = np.arange(120, dtype=np.float32)
    np.savez(tmp_path / "long.npz", x=np.stack([time, -time], 1), offset=np.arange(0, 121, 12), **more)
    return f"series:{tmp_path}/long.npz,window=5,stride=3"


def test_windows_stay_inside_a_recording(tmp_path):
    samples = load(recordings(tmp_path, y=np.arange(10) % 2), split="all")
    assert samples.shape == (2, 5)
    begin = samples.x[:, 0, 0].int()
    assert sorted(begin.tolist()) == [12 * i + j for i in range(10) for j in (0, 3, 6)]
    torch.testing.assert_close(samples.x[:, 1], -samples.x[:, 0])
    assert samples.labels.tolist() == (begin // 12 % 2).tolist()


@pytest.mark.parametrize("subject", [None, np.arange(10) // 2])
def test_a_subject_or_recording_is_on_one_side_only(tmp_path, subject):
    source = recordings(tmp_path, **({} if subject is None else {"subject": subject}))
    groups = []
    for split in ("train", "test"):
        recording = load(source, split=split).x[:, 0, 0].int() // 12
        groups.append({int(r) if subject is None else int(subject[r]) for r in recording})
    assert not groups[0] & groups[1]
    assert len(groups[0]) == 4 * len(groups[1])


def test_a_single_recording_is_divided_in_time_without_overlap(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(100.0))
    train, test = (load(f"series:{tmp_path}/one.npy,window=10,stride=1", split=split).x for split in ("train", "test"))
    assert (train.max(), test.min()) == (79, 80)


def test_a_window_longer_than_every_recording_is_refused(tmp_path):
    with pytest.raises(ValueError, match="as long as a window of 13"):
        load(recordings(tmp_path).replace("window=5", "window=13"))


def test_labels_that_do_not_match_the_recordings_are_counted(tmp_path):
    with pytest.raises(ValueError, match="9 values in y for 10 recordings"):
        load(recordings(tmp_path, y=np.arange(9)))


# Tables of other libraries


def test_parquet_columns_become_vectors_with_labels(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"a": [1.0, 2.0], "label": ["x", "y"], "b": [3, 4]}), tmp_path / "a.parquet")
    parquet.write_table(arrow.table({"embedding": [[1.0, 3.0], [2.0, 4.0]]}), tmp_path / "b.parquet")
    columns, lists = (load(f"array:{tmp_path}/{name}.parquet", split="all") for name in "ab")
    assert columns.x.tolist() == lists.x.tolist() == [[1, 3], [2, 4]]
    assert (columns.classes, lists.labels) == (("x", "y"), None)


def test_a_hugging_face_dataset_gives_images_texts_and_vectors(tmp_path):
    datasets = pytest.importorskip("datasets")
    from PIL import Image

    label = datasets.ClassLabel(names=["dark", "light"])
    pictures = [Image.new("L", (9, 7), 255 * (i % 2)) for i in range(10)]
    features = datasets.Features({"image": datasets.Image(), "text": datasets.Value("string"), "label": label})
    rows = {"image": pictures, "text": [f"number {i}" for i in range(10)], "label": [i % 2 for i in range(10)]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "toy")
    images = load(f"hf:{tmp_path}/toy,size=4", split="all")
    assert images.x.flatten(1).float().mean(1).tolist() == [0, 255] * 5
    assert (images.classes, images.labels.tolist()) == (("dark", "light"), [0, 1] * 5)
    assert load(f"hf:{tmp_path}/toy,column=text", split="all").names == rows["text"]


def test_without_the_extra_the_message_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(ImportError, match=r"vergence\[hf\]"):
        load("hf:anything")
