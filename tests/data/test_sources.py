"""Facts about sources, splits and arrays; images, downloads, texts and series have files of their own."""

from inspect import signature

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vergence.config import Config
from vergence.data import SOURCES, from_arrays, load, settled
from vergence.data.splits import _hashed, fewer, held_out
from vergence.runs import assembly
from vergence.tables import UnknownName, keywords, summary

LOCAL = ("digits", "iris", "wine", "breast_cancer")


@pytest.fixture
def saved(tmp_path):
    """Saves an array as ``NAME.npy`` and gives its source."""

    def save(array, name="x"):
        np.save(tmp_path / f"{name}.npy", array)
        return f"array:{tmp_path / name}.npy"

    return save


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def bytes_of(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


# The contract of the table


@pytest.mark.parametrize("name", LOCAL)
def test_train_and_test_are_disjoint_cover_all_and_keep_the_classes_in_proportion(name):
    parts = {split: load(name, split=split) for split in ("train", "test", "all")}
    assert len(parts["train"]) + len(parts["test"]) == len(parts["all"])
    rows = {split: {row.numpy().tobytes() for row in samples.x} for split, samples in parts.items()}
    assert rows["train"] | rows["test"] == rows["all"]
    total, test = parts["all"].labels.bincount(), parts["test"].labels.bincount()
    assert ((test - 0.2 * total).abs() <= 0.5).all()


@pytest.mark.parametrize("name", LOCAL)
def test_loading_twice_gives_the_same(name):
    torch.testing.assert_close(load(name).x, load(name).x, rtol=0, atol=0)


@pytest.mark.parametrize("name", SOURCES)
def test_every_row_explains_itself_without_importing_torch(name):
    defaults = {key: p.default for key, p in signature(SOURCES[name]).parameters.items() if p.default is not p.empty}
    assert {key: parameter.default for key, parameter in keywords("data", name).items()} == defaults
    assert summary("data", name).endswith(".")


def test_the_split_never_changes():
    assert np.flatnonzero(held_out(np.zeros(30, np.int64), 0.2, salt=1)).tolist() == [1, 2, 11, 12, 22, 26]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=50), st.floats(0.01, 0.99))
def test_every_class_of_two_or_more_is_on_both_sides(labels, share):
    groups = np.array(labels)
    held = held_out(groups, share, salt=1)
    for group, count in zip(*np.unique(groups, return_counts=True), strict=True):
        chosen = int(held[groups == group].sum())
        assert chosen == 0 if count == 1 else 0 < chosen < count
        assert abs(chosen - share * count) < 1


def test_the_hash_is_splitmix64():
    assert int(_hashed(2, 0)[1]) == 0xE220A8397B1DCDAF  # the first number of the reference generator with seed 0


def test_digits_keep_their_seventeen_levels():
    levels = load("digits", split="all").x.unique().tolist()
    assert levels == [round(level * 255 / 16) for level in range(17)]


# Splits and limits


def test_validation_is_carved_from_train_and_leaves_test_alone():
    whole, train, validation = (
        load("digits"), load("digits", validation=0.1), load("digits", split="validation", validation=0.1),
    )  # fmt: skip
    assert len(train) + len(validation) == len(whole)
    assert abs(len(validation) - 0.1 * len(whole)) <= 5
    assert len(load("digits", split="test", validation=0.1)) == len(load("digits", split="test"))


def test_a_validation_split_of_nothing_says_what_to_pass():
    with pytest.raises(ValueError, match=r"validation=0\.1"):
        load("digits", split="validation")


def test_a_limit_draws_equally_from_each_class_in_original_order_and_not_from_the_front():
    labels = np.repeat([0, 1, 2], 100)  # sorted by class
    samples = fewer(from_arrays(np.arange(600).reshape(300, 2), labels), 30)
    assert np.bincount(samples.labels).tolist() == [10, 10, 10]
    rows = samples.x[:, 0] // 2
    assert rows.tolist() == sorted(rows.tolist())
    assert (rows % 100).float().mean() > 25  # the front of each class would have a mean of 4.5


def test_without_labels_a_limit_is_drawn_from_the_whole():
    samples = fewer(from_arrays(np.arange(2000).reshape(1000, 2)), 100)
    assert 350 < (samples.x[:, 0] / 2).mean() < 650


def test_a_limit_is_reached_when_a_class_runs_out():
    samples = fewer(from_arrays(np.arange(12).reshape(6, 2), [0, 1, 1, 1, 1, 1]), 4)
    assert samples.labels.tolist() == [0, 1, 1, 1]


def test_a_limit_leaves_a_fifth_as_many_to_test_on():
    assert load("digits", limit=500).labels.bincount().tolist() == [50] * 10
    assert load("digits,limit=500", split="test").labels.bincount().tolist() == [10] * 10


# Arrays: what they hold is decided by shape and type


@pytest.mark.parametrize(
    ("array", "kind", "shape", "dtype"),
    [
        (floats(10, 5), "vector", (5,), torch.float32),
        (floats(10, 5).astype(np.float64), "vector", (5,), torch.float32),
        (bytes_of(10, 5), "vector", (5,), torch.float32),
        (floats(10, 2, 7), "series", (2, 7), torch.float32),
        (bytes_of(10, 6, 7), "image", (1, 6, 7), torch.uint8),
        (bytes_of(10, 6, 7).astype(np.int64), "image", (1, 6, 7), torch.uint8),
        (bytes_of(10, 6, 7, 3), "image", (3, 6, 7), torch.uint8),
        (bytes_of(10, 3, 6, 7), "image", (3, 6, 7), torch.uint8),
        (bytes_of(10, 6, 7, 1) > 127, "image", (1, 6, 7), torch.uint8),
    ],
)
def test_an_array_is_read_by_its_shape_and_type(saved, array, kind, shape, dtype):
    samples = load(saved(array), split="all")
    assert (samples.kind, samples.shape, samples.x.dtype, len(samples)) == (kind, shape, dtype, 10)


def test_channels_last_and_channels_first_are_the_same_images(saved):
    images = bytes_of(8, 5, 6, 3)
    last, other = load(saved(images), split="all"), load(saved(images.transpose(0, 3, 1, 2)), split="all")
    torch.testing.assert_close(last.x, other.x)
    assert last.x[2, 1, 3, 4] == images[2, 3, 4, 1]


def test_fractions_become_the_nearest_of_256_levels():
    images = np.array([0.0, 0.25, 0.5, 1.0]).reshape(2, 1, 2, 1)
    assert from_arrays(images).x.flatten().tolist() == [0, 64, 128, 255]


def test_kind_overrules_the_guess():
    assert from_arrays(floats(4, 9), kind="series").shape == (1, 9)
    assert from_arrays(bytes_of(4, 9).astype(np.int64), kind="text").x.dtype == torch.int64
    assert from_arrays(bytes_of(4, 2, 9), kind="series").x.dtype == torch.float32


def test_an_array_larger_than_the_budget_stays_on_disk_and_gives_the_same_batches(saved):
    source = saved(bytes_of(40, 6, 6, 3))
    stored, held = load(source, memory=0.0), load(source)
    assert isinstance(held.x, torch.Tensor)
    assert not isinstance(stored.x, torch.Tensor)
    indices = torch.tensor([5, 0, 5, 31])
    torch.testing.assert_close(stored.x[indices], held.x[indices])
    assert stored.shape == held.shape


def test_npz_with_its_own_split_keeps_it(tmp_path):
    x, y = floats(7, 3), np.array(["b", "a", "b", "a", "b", "c", "a"])
    np.savez(tmp_path / "set.npz", x_train=x[:5], y_train=y[:5], x_test=x[5:], y_test=y[5:])
    train, test = (load(f"array:{tmp_path}/set.npz", split=split) for split in ("train", "test"))
    assert train.classes == test.classes == ("a", "b", "c")
    assert (train.labels.tolist(), test.labels.tolist()) == ([1, 0, 1, 0, 1], [2, 0])
    torch.testing.assert_close(load(f"array:{tmp_path}/set.npz", split="all").x, torch.from_numpy(x))


def test_labels_come_from_an_array_or_a_text_file(saved, tmp_path):
    source = saved(floats(10, 4))
    np.save(tmp_path / "y.npy", np.arange(10) % 2 + 5)
    (tmp_path / "y.txt").write_text("cat\ndog\n" * 5)
    numbers = load(f"{source},labels={tmp_path}/y.npy", split="all")
    names = load(source, split="all", labels=f"{tmp_path}/y.txt")
    assert (numbers.classes, names.classes) == (("5", "6"), ("cat", "dog"))
    assert numbers.labels.tolist() == names.labels.tolist() == [0, 1] * 5


def test_tensors_of_any_precision_are_accepted():
    x = torch.arange(6.0).reshape(3, 2)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        torch.testing.assert_close(from_arrays(x.to(dtype)).x, x)


def test_samples_say_what_they_are():
    assert str(load("digits")) == "1438 images of 1 x 8 x 8 from digits, 10 classes"


# Bad input


def with_nan(*rows):
    x = floats(20, 3)
    for row in rows:
        x[row, 1] = np.nan
    x[19, 0] = np.inf
    return x


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (with_nan(7, 11), "3 NaN or infinite values, in 3 of 20 rows; the first is row 7"),
        (np.full((3, 2), 1e300), r"holds numbers up to 1e\+300 \(row 0\), and float32 ends at"),
        (np.full((3, 4, 4, 1), np.nan), "48 NaN or infinite values, in 3 of 3 rows"),
        (floats(10), r"shape \[10\]; expected one row a sample"),
        (floats(0, 4), "nothing in it"),
        (floats(4, 5, 6, 7), "1 or 3 channels"),
        (bytes_of(4, 5, 6, 4), r"fourth \(transparency\)"),
        (floats(4, 5, 6, 3), "whole numbers from 0 to 255 or fractions from 0 to 1"),
        (floats(2, 3, 4, 5, 6), r"shape \[2, 3, 4, 5, 6\].*Expected vectors"),
        (np.array([["a", "b"], ["c", "d"]]), "expected real numbers"),
        (floats(4, 2).astype(np.complex64), "expected real numbers"),
        (floats(1, 4), "contrast needs at least 2"),
    ],
)
def test_an_array_that_cannot_be_used_is_explained(saved, array, message):
    with pytest.raises(ValueError, match=message):
        load(saved(array))


def test_pickles_are_refused_with_a_way_out(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, 2], [3]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=np.array([{}, 1], dtype=object))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ValueError, match=r"(?s)can run any code.*astype"):
            load(f"array:{tmp_path / name}")


def test_a_damaged_file_is_named(tmp_path):
    for name in ("x.npy", "x.npz"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(ValueError, match=f"{name} is no {name[1:]} file"):
            load(f"array:{tmp_path / name}")


def test_labels_that_do_not_match_are_counted(saved, tmp_path):
    np.save(tmp_path / "y.npy", np.zeros(9))
    with pytest.raises(ValueError, match="9 labels for 10 samples"):
        load(saved(floats(10, 4)), labels=f"{tmp_path}/y.npy")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0.5, 1, 2]), "fractions or NaN"),
        (np.array([np.nan, 1, 2]), "fractions or NaN"),
        (floats(3, 2), "one a"),
    ],
)
def test_labels_must_be_names_or_whole_numbers(labels, message):
    with pytest.raises(ValueError, match=message):
        from_arrays(floats(3, 2), labels)


def test_rows_of_different_length_are_explained():
    with pytest.raises(ValueError, match="differ in length"):
        from_arrays([[1.0, 2.0], [3.0]])


def test_a_missing_file_names_the_nearest(saved):
    source = saved(floats(4, 2), name="features")
    with pytest.raises(FileNotFoundError, match=r"Did you mean .*features\.npy"):
        load(source.replace("features", "feature"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("cifar11", "Unknown dataset 'cifar11'.*Did you mean 'cifar10'"),
        ("digits,siz=3", "Unknown option of digits 'siz'"),
        ("digits:100", "nothing after a colon.*digits,limit="),
        ("array", "array needs a place"),
        ("digits,limit=-1", "limit must be at least 1"),
        ("digits,limit=many", "limit is of type int"),
        ("stl10,unlabeled=3", "unlabeled is of type bool"),
    ],
)
def test_a_source_that_makes_no_sense_is_explained(source, message):
    with pytest.raises((UnknownName, ValueError), match=message):
        load(source)


def test_a_comma_may_be_part_of_a_path():
    assert settled("folder:my, photos,size=96", {}) == ("folder", "my, photos", {"size": 96})


def test_an_unknown_split_lists_the_known_ones():
    with pytest.raises(UnknownName, match="Known: all, test, train, validation"):
        load("digits", split="tset")


def test_a_size_or_limit_is_given_in_one_place_only():
    with pytest.raises(ValueError, match="limit is given twice: limit 50, and in the data 'digits,limit=60'"):
        assembly.load(Config(data="digits,limit=60", limit=50), "train")
    assert len(assembly.load(Config(data="digits,limit=60"), "all")) == 60
