"""``vergence information``: files of numbers and of names, and sentences that are said once."""

import math

import numpy as np
import pytest

from vergence.stages.information import information

CLASSES = np.arange(200) % 2


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "h.npy", CLASSES + 0.1 * np.random.default_rng(0).normal(size=200))
    return tmp_path / "h.npy"


@pytest.mark.parametrize("kind", ["names.npy", "bytes.npy", "names.txt", "numbers.txt"])
def test_labels_as_embed_writes_them_are_a_variable(kind, rows, tmp_path):
    names = np.array(["cat", "dog"])[CLASSES]
    if kind.endswith(".npy"):
        np.save(tmp_path / kind, names.astype("S") if kind.startswith("bytes") else names)
    else:
        (tmp_path / kind).write_text("\n".join(names if kind.startswith("names") else map(str, CLASSES)) + "\n")
    found = information(str(rows), str(tmp_path / kind), drop_nan=True)
    assert found.to_dict()["nats"] == pytest.approx(math.log(2), abs=0.05)


def test_numbers_in_a_text_keep_their_order(rows, tmp_path):
    (tmp_path / "y.txt").write_text("\n".join(map(str, np.load(rows) ** 3)))
    assert information(str(rows), str(tmp_path / "y.txt")).to_dict()["nats"] > 2


def test_a_reason_is_said_once(rows, tmp_path):
    np.save(tmp_path / "constant.npy", np.zeros(200))
    assert str(information(str(rows), str(tmp_path / "constant.npy"))).count("constant") == 2  # in other words
    wide = np.random.default_rng(0).normal(size=(200, 40))
    np.save(tmp_path / "wide.npy", wide)
    text = str(information(str(tmp_path / "wide.npy"), str(tmp_path / "wide.npy")))
    assert text.count("x was reduced from") == 1
