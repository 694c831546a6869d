"""Files that are damaged, hold other things than numbers, or numbers that would be lost: refused in a sentence."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vergence import data
from vergence.data.embeddings import read_embeddings
from vergence.data.files import label_file

ROWS = np.random.default_rng(0).standard_normal((20, 3))


def stored(path, array):
    np.save(path, array)
    return path


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (ROWS + 1j, "complex numbers"),
        (np.zeros((20, 3), dtype=[("a", "f4")]), "expected real numbers"),
        (np.zeros((20, 3), dtype="M8[s]"), "expected real numbers"),
        (2**62 + np.arange(60).reshape(20, 3) % 2, r"beyond 2\^53"),
        (ROWS * 1e200, "Rescale"),
    ],
)
def test_what_is_not_a_real_number_that_can_be_kept_is_refused(tmp_path, array, message):
    with pytest.raises(ValueError, match=message):
        read_embeddings(stored(tmp_path / "x.npy", array))


def test_a_complex_tensor_keeps_no_half(tmp_path):
    torch.save(torch.randn(5, 2, dtype=torch.complex64), tmp_path / "x.pt")
    with pytest.raises(ValueError, match="complex"):
        read_embeddings(tmp_path / "x.pt")


def test_whole_numbers_that_float32_would_merge_are_read_as_float64(tmp_path):
    found = read_embeddings(stored(tmp_path / "x.npy", (2**30 + np.arange(60).reshape(20, 3) % 2).astype(np.int32)))
    assert found.dtype == np.float64
    assert found.std() > 0


def test_a_column_whose_differences_float32_would_round_away_is_refused_as_data(tmp_path):
    rows = ROWS.copy()
    rows[:, 1] += 1e10
    with pytest.raises(ValueError, match="column 1 differ by less"):
        data.load(f"array:{stored(tmp_path / 'x.npy', rows)}")
    data.load(f"array:{stored(tmp_path / 'constant.npy', np.where(np.arange(3) == 1, 1e10, ROWS))}")


def test_a_damaged_header_is_said_to_be_one(tmp_path):
    raw = bytearray(stored(tmp_path / "x.npy", ROWS).read_bytes())
    raw[20:30] = b"(((((((((("
    (tmp_path / "x.npy").write_bytes(bytes(raw))
    with pytest.raises(ValueError, match=r"cannot be read as .npy"):
        read_embeddings(tmp_path / "x.npy")
    save_file({"h": torch.tensor(ROWS)}, tmp_path / "x.safetensors")
    raw = bytearray((tmp_path / "x.safetensors").read_bytes())
    raw[12:14] = b"}}"
    (tmp_path / "x.safetensors").write_bytes(bytes(raw))
    with pytest.raises(ValueError, match=r"not a sound \.safetensors file"):
        read_embeddings(tmp_path / "x.safetensors")


def test_labels_of_bytes_are_names_and_structures_are_refused(tmp_path):
    assert label_file(str(stored(tmp_path / "y.npy", np.array([b"a", b"b"])))).tolist() == ["a", "b"]
    assert len(set(label_file(str(stored(tmp_path / "y.npy", np.array([b"\xff", b"\xfe"])))))) == 2  # not UTF-8
    (tmp_path / "garbage.npy").write_bytes(b"12345678" * 50)
    np.savez(tmp_path / "y.npz", y=np.arange(3))
    (tmp_path / "archive.npy").write_bytes((tmp_path / "y.npz").read_bytes())
    for name, words in {
        "archive.npy": "it is an archive of arrays",
        "garbage.npy": r"is no \.npy file",
        "y.npz": "labels are read from a .npy array or a text",
    }.items():
        with pytest.raises(ValueError, match=words):
            label_file(str(tmp_path / name))
    assert label_file(str(stored(tmp_path / "y.npy", np.array([1.0, 2.0])))).tolist() == [1, 2]
    for bad in (np.zeros(2, dtype=[("a", "i4")]), np.array([0.5, 1]), np.array([1j, 2])):
        with pytest.raises(ValueError, match="expected names or whole numbers"):
            label_file(str(stored(tmp_path / "y.npy", bad)))


def test_where_every_sample_is_a_class_of_its_own_a_fifth_is_held_out_all_the_same(tmp_path):
    stored(tmp_path / "y.npy", np.arange(20))
    source = f"array:{stored(tmp_path / 'x.npy', ROWS)},labels={tmp_path / 'y.npy'}"
    assert (len(data.load(source, split="train")), len(data.load(source, split="test"))) == (16, 4)


def test_bounds_of_recordings_must_rise_within_the_recording(tmp_path):
    np.savez(tmp_path / "x.npz", x=ROWS, offset=np.array([0, 99]))
    with pytest.raises(ValueError, match="offset must be whole numbers that rise"):
        data.load(f"series:{tmp_path / 'x.npz'},window=4")


def test_a_split_without_samples_is_said_to_be_empty(tmp_path):
    stored(tmp_path / "x.npy", ROWS[:1])
    with pytest.raises(ValueError, match="none of them is in the test split"):
        data.load(f"array:{tmp_path / 'x.npy'}", split="test")
