"""What people type for data, and objects that they have: understood, and said."""

import numpy as np
import pytest
import torch
from PIL import Image

from vergence import data, tables
from vergence.data import understood


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(6):
            Image.new("RGB", (9, 7), (number, 0, 0)).save(folder / "photos" / name / f"{number}.png")
    np.save(folder / "x.npy", np.random.default_rng(0).random((20, 5), dtype=np.float32))
    (folder / "t.txt").write_text("\n".join(f"line {n}" for n in range(20)))
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(
    ("typed", "row", "what"),
    [
        ("photos", "folder", "a folder of images"),
        ("photos,size=8", "folder", "a folder of images"),
        ("photos/*/*.png", "folder", "12 images"),
        ("x.npy", "array", "an array"),
        ("t.txt", "text", "texts, one a line"),
    ],
)
def test_a_path_alone_is_taken_for_what_it_holds_and_that_is_said(home, typed, row, what):
    with pytest.warns(UserWarning, match=f"was taken for {what}: --data {row}:"):
        assert understood(f"{home}/{typed}") == f"{row}:{home}/{typed}"
    with pytest.warns(UserWarning, match="was taken for"):
        assert len(data.load(f"{home}/{typed}", split="all")) in (12, 20)


def test_the_folders_of_a_pattern_are_classes(home):
    found = data.load(f"folder:{home}/photos/*/[0-3].png", split="all")
    assert (len(found), found.classes) == (8, ("cat", "dog"))


def test_names_of_rows_and_of_other_packages_stay_as_they_are():
    for source in ("digits", "folder:x", "hf:mnist", "package.module:row", "digits,limit=5", "nosuch"):
        assert understood(source) == source


@pytest.mark.parametrize(
    ("typed", "error", "message"),
    [
        ("nowhere/photos", FileNotFoundError, "no file or folder"),
        ("empty", ValueError, "holds nothing that is known"),
        ("photos/cat/1.png", ValueError, "is one image"),
        ("*.gif", FileNotFoundError, "No file matches"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(home, typed, error, message):
    with pytest.raises(error, match=message):
        understood(f"{home}/{typed}")


def test_a_run_is_not_data(tmp_path):
    (tmp_path / "config.yaml").touch()
    with pytest.raises(ValueError, match="is a run, not data"):
        understood(str(tmp_path))


LABELS = np.arange(30) % 3
PICTURES = [Image.new("RGB", (8, 8), (number, 0, 0)) for number in range(30)]


class Pairs(torch.utils.data.Dataset):
    classes = ("a", "b", "c")

    def __len__(self):
        return 30

    def __getitem__(self, place):
        return PICTURES[place], int(LABELS[place])


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter((torch.full((4,), float(n)), int(LABELS[n])) for n in range(30))


class Frame:
    """As pandas and polars have them: columns by name."""

    columns = ("first", "second", "label")

    def __getitem__(self, name):
        return LABELS if name == "label" else np.random.default_rng(0).random(30)


GIVEN = {
    "dataset": (Pairs(), "image", (3, 8, 8), ("a", "b", "c")),
    "loader": (torch.utils.data.DataLoader(Pairs(), batch_size=4), "image", (3, 8, 8), ("a", "b", "c")),
    "stream": (torch.utils.data.DataLoader(Stream(), batch_size=4), "vector", (4,), ("0", "1", "2")),
    "tensors": (torch.utils.data.TensorDataset(torch.rand(30, 3, 8, 8)), "image", (3, 8, 8), ()),
    "frame": (Frame(), "vector", (2,), ("0", "1", "2")),
    "mapping": ({"x": np.ones((30, 5)) * LABELS[:, None], "y": LABELS}, "vector", (5,), ("0", "1", "2")),
    "pictures": (PICTURES, "image", (3, 8, 8), ()),
    "texts": ([f"word {n}" for n in range(30)], "text", None, ()),
    "channels last": (np.zeros((30, 8, 8, 3), np.uint8), "image", (3, 8, 8), ()),
    "channels first": (np.zeros((30, 3, 8, 8), np.uint8), "image", (3, 8, 8), ()),
}


@pytest.mark.parametrize("name", GIVEN)
def test_objects_from_python_are_samples(name):
    value, kind, shape, classes = GIVEN[name]
    source = tables.name_of("data", value)
    train, test = (data.load(source, split=split) for split in ("train", "test"))
    assert (train.kind, train.classes, len(train) + len(test)) == (kind, classes, 30)
    assert shape is None or tuple(train.shape) == shape
    if classes:
        assert sorted(torch.cat([train.labels, test.labels]).tolist()) == sorted(LABELS.tolist())


TABLES = {
    "a.csv": ('text,label\n"one, two",a\n"three\nfour",b\n', "text", ["one, two", "three\nfour"]),
    "b.jsonl": ('{"label": "a", "text": "one, two"}\n\n{"text": "six", "label": "b"}\n', "text", ["one, two", "six"]),
    "c.csv": ("id,x,y,label\n0,1.5,2,a\n1,3,-4e-1,b\n", "vector", None),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_with_commas_and_objects_are_read_by_their_columns(tmp_path, name):
    content, kind, names = TABLES[name]
    (tmp_path / name).write_text(content)
    with pytest.warns(UserWarning, match="was taken for a table of"):
        found = data.load(str(tmp_path / name), split="all")
    assert (found.kind, found.classes, found.labels.tolist()) == (kind, ("a", "b"), [0, 1])
    assert names is None or list(found.names) == names


def test_a_table_that_names_no_texts_says_how_to_choose(tmp_path):
    (tmp_path / "r.csv").write_text("review,stars\nfine words,five\nbad words,one\n")
    with pytest.raises(ValueError, match=r"has review, stars. Say which it is: text:.*column=NAME"):
        data.load(f"text:{tmp_path}/r.csv", split="all")
    found = data.load(f"text:{tmp_path}/r.csv,column=review", split="all")
    assert list(found.names) == ["fine words", "bad words"]
    (tmp_path / "r.jsonl").write_text('{"text": "a"}\n[1]\n')
    with pytest.raises(ValueError, match="line 2: expected an object"):
        data.load(f"text:{tmp_path}/r.jsonl", split="all")


def test_a_column_of_paths_is_a_column_of_images(tmp_path):
    files = [str(tmp_path / f"{n}.JFIF") for n in range(6)]
    for file in files:
        Image.new("RGB", (8, 8)).save(file, format="JPEG")
    found = data.load(tables.name_of("data", {"file_name": files, "label": list("ababab")}), split="all")
    assert (found.kind, found.classes, len(found)) == ("image", ("a", "b"), 6)


def test_columns_without_samples_and_samples_of_several_shapes_are_refused():
    with pytest.raises(ValueError, match="hold no samples"):
        data.load(tables.name_of("data", {"names": ["a", "b"], "label": [0, 1]}))

    class Uneven(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, place):
            return torch.zeros(place + 1)

    with pytest.raises(ValueError, match="several shapes"):
        data.load(tables.name_of("data", Uneven()))
