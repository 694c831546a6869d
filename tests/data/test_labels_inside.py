"""Embeddings in files of several arrays: chosen by name, with the labels beside them."""

import numpy as np
import pytest

import vergence as vg
from vergence.data.embeddings import read_embeddings, read_labels

H = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
Y = np.arange(40) % 2


def test_an_array_is_chosen_by_its_name_and_labels_are_found(tmp_path):
    np.savez(tmp_path / "e.npz", first=H, second=2 * H, labels=Y)
    with pytest.raises(ValueError, match="holds first, second, labels: say which are the embeddings with --key NAME"):
        read_embeddings(tmp_path / "e.npz")
    np.testing.assert_allclose(read_embeddings(tmp_path / "e.npz", name="second"), 2 * H)
    np.testing.assert_array_equal(read_labels(tmp_path / "e.npz"), Y)
    found = vg.doctor(tmp_path / "e.npz", key="second").to_dict()
    assert found["accuracy"]
    with pytest.raises(ValueError, match="no labels of that name; it holds first"):
        vg.doctor(tmp_path / "e.npz", key="second", labels="colors")


def test_a_column_of_a_parquet_file_is_the_labels(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"embedding": list(H), "color": [f"c{y}" for y in Y]})
    parquet.write_table(table.select(["embedding"]), tmp_path / "plain.parquet")
    np.testing.assert_allclose(read_embeddings(tmp_path / "plain.parquet"), H)
    parquet.write_table(table, tmp_path / "e.parquet")
    assert read_labels(tmp_path / "e.parquet", "color").tolist() == [f"c{y}" for y in Y]


def test_a_csv_with_a_heading_and_one_as_pgvector_writes_it(tmp_path):
    lines = [f"{n},{','.join(map(str, row))},c{Y[n]}" for n, row in enumerate(H)]
    (tmp_path / "e.csv").write_text("\n".join(["id,a,b,c,label", *lines]))
    np.testing.assert_allclose(read_embeddings(tmp_path / "e.csv"), H, rtol=1e-6)
    assert read_labels(tmp_path / "e.csv").tolist() == [f"c{y}" for y in Y]
    lines = [f'{n},"[{",".join(map(str, row))}]"' for n, row in enumerate(H)]
    (tmp_path / "pg.csv").write_text("\n".join(["id,embedding", *lines]))
    np.testing.assert_allclose(read_embeddings(tmp_path / "pg.csv"), H, rtol=1e-6)


def test_a_faiss_index_without_the_library_says_what_to_install(tmp_path):
    try:
        import faiss
    except ImportError:
        (tmp_path / "e.faiss").write_bytes(b"IxF2")
        with pytest.raises(ImportError, match="pip install faiss-cpu"):
            read_embeddings(tmp_path / "e.faiss")
        return
    index = faiss.IndexFlatIP(3)
    index.add(H)
    faiss.write_index(index, str(tmp_path / "e.faiss"))
    np.testing.assert_allclose(read_embeddings(tmp_path / "e.faiss"), H)


def test_a_frame_written_with_the_numbers_of_its_columns_and_rows(tmp_path):
    """pandas writes ``,0,1,label``: the first column counts rows, and is no feature."""
    rows = np.random.default_rng(0).normal(size=(5, 2)).round(3)
    for heading, first in ((",0,1,label", True), ("0,1,label", False)):
        for classes in ("01010", "ababa"):
            lines = [
                ",".join([*([str(n)] if first else []), *map(str, row), label])
                for n, (row, label) in enumerate(zip(rows, classes, strict=True))
            ]
            file = tmp_path / "frame.csv"
            file.write_text("\n".join([heading, *lines]))
            np.testing.assert_allclose(read_embeddings(file), rows)
            assert [str(label) for label in read_labels(file)] == list(classes)


def test_a_table_without_a_heading_keeps_its_first_line(tmp_path):
    (tmp_path / "plain.csv").write_text("1,2\n3,4\n5,6")
    assert read_embeddings(tmp_path / "plain.csv").shape == (3, 2)
