"""Files of embeddings: every kind gives the array that was written; nothing that runs code is opened."""

import pickle
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vergence.data.embeddings import read_embeddings, read_labels

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def write(path):
    """ROWS in a file of the kind its name says."""
    if path.suffix == ".npy":
        np.save(path, ROWS)
    elif path.suffix == ".npz":
        np.savez(path, embeddings=ROWS, labels=np.arange(4))
    elif path.suffix == ".safetensors":
        save_file({"test_h": torch.from_numpy(ROWS), "test_labels": torch.arange(4)}, path)
    elif path.suffix == ".pt":
        torch.save({"features": torch.from_numpy(ROWS), "epoch": 3}, path)
    else:
        path.write_text("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in ROWS))
    return path


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt", ".csv"])
def test_every_kind_of_file_gives_its_rows(tmp_path, ending):
    np.testing.assert_array_equal(np.asarray(read_embeddings(write(tmp_path / f"rows{ending}"))), ROWS)


def test_parquet_gives_its_rows(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"embedding": ROWS.tolist()}), tmp_path / "rows.parquet")
    np.testing.assert_array_equal(read_embeddings(tmp_path / "rows.parquet"), ROWS)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1" + bytes(16))
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'vergence\[parquet\]'"):
        read_embeddings(tmp_path / "rows.parquet")


def test_npy_stays_on_disk(tmp_path):
    assert isinstance(read_embeddings(write(tmp_path / "rows.npy")), np.memmap)


@pytest.mark.parametrize("ending", [".pkl", ".npy", ".csv"])
def test_a_pickle_is_refused_under_any_name_and_does_not_run(tmp_path, ending):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    (tmp_path / f"rows{ending}").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match=r"is a pickle.*np\.save"):
        read_embeddings(tmp_path / f"rows{ending}")
    assert not (tmp_path / "exploded").exists()


def test_python_objects_in_npy_are_refused(tmp_path):
    np.save(tmp_path / "rows.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        read_embeddings(tmp_path / "rows.npy")


def test_a_torch_file_with_code_is_refused(tmp_path):
    torch.save({"features": torch.nn.Linear(2, 2)}, tmp_path / "rows.pt")
    with pytest.raises(ValueError, match="holds more than tensors"):
        read_embeddings(tmp_path / "rows.pt")


@pytest.mark.parametrize(("ending", "other"), [(".npy", ".npz"), (".csv", ".npy"), (".pt", ".npy"), (".npz", ".csv")])
def test_a_file_that_is_not_what_its_name_says(tmp_path, ending, other):
    write(tmp_path / f"rows{other}").rename(tmp_path / f"rows{ending}")
    with pytest.raises(ValueError, match="not what its name says"):
        read_embeddings(tmp_path / f"rows{ending}")


def test_several_arrays_need_a_name(tmp_path):
    np.savez(tmp_path / "rows.npz", one=ROWS, two=2 * ROWS)
    np.testing.assert_array_equal(read_embeddings(tmp_path / "rows.npz", name="two"), 2 * ROWS)
    with pytest.raises(ValueError, match="holds one, two: say which"):
        read_embeddings(tmp_path / "rows.npz")


def test_nan_rows_are_kept_or_dropped(tmp_path):
    rows = ROWS.copy()
    rows[2, 1] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    assert len(read_embeddings(tmp_path / "rows.npy")) == 4
    np.testing.assert_array_equal(read_embeddings(tmp_path / "rows.npy", drop_nan=True), ROWS[[0, 1, 3]])


def test_shapes_endings_and_missing_files_are_explained(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3.0))
    with pytest.raises(ValueError, match=r"shape \[3\]; rows of embeddings"):
        read_embeddings(tmp_path / "one.npy")
    (tmp_path / "rows.xlsx").write_text("no")
    with pytest.raises(ValueError, match=r"ends in \.xlsx; embeddings are read from \.npy"):
        read_embeddings(tmp_path / "rows.xlsx")
    with pytest.raises(FileNotFoundError, match=r"Did you mean .*one\.npy"):
        read_embeddings(tmp_path / "ome.npy")
    (tmp_path / "rows.csv").write_text("1,2\n3\n")
    with pytest.raises(ValueError, match=r"lengths of its lines are \[1, 2\]"):
        read_embeddings(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").write_text("1,cat\n3,dog\n")
    with pytest.raises(ValueError, match="cat"):
        read_embeddings(tmp_path / "rows.csv")


def test_a_table_is_read_whole_with_the_mark_that_windows_writes_and_with_other_separators(tmp_path):
    table = "\n".join(",".join(map(str, row)) for row in ROWS.tolist())
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + table.encode())
    (tmp_path / "semicolons.csv").write_text(table.replace(",", ";"))
    (tmp_path / "tabs.csv").write_text(table.replace(",", "\t"))
    for file in tmp_path.iterdir():
        np.testing.assert_array_equal(read_embeddings(file), ROWS)


def test_a_cell_that_is_no_number_is_named_with_its_row(tmp_path):
    (tmp_path / "e.csv").write_text("a,b\n1,2\n3,\n")
    with pytest.raises(ValueError, match=r"must hold numbers; row 1 has ''"):
        read_embeddings(tmp_path / "e.csv")


def test_y_is_a_coordinate_beside_x_and_a_column_of_labels(tmp_path):
    (tmp_path / "e.csv").write_text("x,y,label\n1,2,a\n3,4,b\n")
    np.testing.assert_array_equal(read_embeddings(tmp_path / "e.csv"), [[1, 2], [3, 4]])
    assert read_labels(tmp_path / "e.csv").tolist() == ["a", "b"]
    (tmp_path / "e.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    np.testing.assert_array_equal(read_embeddings(tmp_path / "e.csv"), [[1, 2], [3, 4]])
    assert read_labels(tmp_path / "e.csv").tolist() == ["0", "1"]


def test_a_tensor_that_waits_for_a_gradient_is_read_and_one_that_is_not_there_is_refused(tmp_path):
    rows = torch.from_numpy(ROWS)
    torch.save(rows.clone().requires_grad_(), tmp_path / "e.pt")
    assert torch.equal(torch.as_tensor(read_embeddings(tmp_path / "e.pt")), rows)
    for unreal in (torch.zeros(1).expand(10**9, 64), torch.empty(4, 3, device="meta")):
        torch.save(unreal, tmp_path / "e.pt")
        with pytest.raises(ValueError, match="numbers, but stores"):
            read_embeddings(tmp_path / "e.pt")


def test_a_link_that_leads_nowhere_is_called_one(tmp_path):
    (tmp_path / "e.npy").symlink_to("e.npy")
    with pytest.raises(FileNotFoundError, match="a link that leads to no file"):
        read_embeddings(tmp_path / "e.npy")


def test_a_parquet_row_without_its_list_is_refused_in_a_sentence(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"embedding": [None, *ROWS.tolist()]}), tmp_path / "e.parquet")
    assert read_labels(tmp_path / "e.parquet") is None
    with pytest.raises(ValueError, match="some are missing"):
        read_embeddings(tmp_path / "e.parquet")
