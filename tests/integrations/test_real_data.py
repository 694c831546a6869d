"""Data and embeddings out of the real libraries, frames, datasets and stores: `make test-integrations` has them all."""

import numpy as np
import pytest
import torch
from PIL import Image

from vergence.data.embeddings import read_embeddings, read_labels
from vergence.data.objects import divided

Y = np.arange(40) % 2
H = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
X = np.random.default_rng(1).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
NAMES = [f"class {label}" for label in Y]


def rows(samples):
    return samples.x[torch.arange(len(samples.x))].numpy()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_of_numbers_of_texts_and_of_lists(library):
    frame = pytest.importorskip(library).DataFrame
    numbers = divided(frame({"a": H[:, 0], "b": H[:, 1], "label": NAMES}), "all")
    np.testing.assert_allclose(rows(numbers), H[:, :2])
    assert numbers.classes == ("class 0", "class 1")
    assert divided(frame({"text": ["a b", "c d"] * 20, "label": Y}), "all").kind == "text"
    np.testing.assert_allclose(rows(divided(frame({"embedding": H.tolist(), "label": Y}), "all")), H)


def test_a_dataset_of_hugging_face_and_what_load_dataset_gives():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    columns = {"image": [Image.fromarray(x) for x in X], "label": Y.tolist()}
    whole = datasets.Dataset.from_dict(columns, features=features)
    found = divided(whole, "all")
    assert found.classes == ("cat", "dog")
    np.testing.assert_array_equal(rows(found), X.transpose(0, 3, 1, 2))
    both = datasets.DatasetDict({"train": whole.select(range(30)), "test": whole.select(range(30, 40))})
    assert [len(divided(both, split).x) for split in ("train", "test", "all")] == [30, 10, 40]
    np.testing.assert_array_equal(rows(divided(both, "test")), X[30:].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("kind", ["IndexFlatIP", "IndexFlatL2", "IndexIVFFlat", "IndexHNSWFlat", "IndexIDMap"])
def test_a_faiss_index_gives_its_vectors_back_in_order(tmp_path, kind):
    faiss = pytest.importorskip("faiss")
    flat = faiss.IndexFlatL2(6)
    index = {
        "IndexIVFFlat": lambda: faiss.IndexIVFFlat(flat, 6, 2),
        "IndexHNSWFlat": lambda: faiss.IndexHNSWFlat(6, 4),
        "IndexIDMap": lambda: faiss.IndexIDMap(flat),
    }.get(kind, lambda: getattr(faiss, kind)(6))()
    index.train(H)
    if kind == "IndexIDMap":
        index.add_with_ids(H, np.arange(40) + 1000)
    else:
        index.add(H)
    faiss.write_index(index, str(tmp_path / "e.faiss"))
    np.testing.assert_allclose(read_embeddings(tmp_path / "e.faiss"), H)


def test_a_table_of_lancedb_with_its_labels(tmp_path):
    lancedb = pytest.importorskip("lancedb")
    listed = [{"vector": h.tolist(), "label": name} for h, name in zip(H, NAMES, strict=True)]
    lancedb.connect(str(tmp_path)).create_table("docs", listed)
    for place in (tmp_path, tmp_path / "docs.lance"):
        np.testing.assert_allclose(read_embeddings(place), H)
        assert read_labels(place).tolist() == NAMES
    lancedb.connect(str(tmp_path)).create_table("others", listed[:20])
    with pytest.raises(ValueError, match="holds the tables docs, others: say which with --key"):
        read_embeddings(tmp_path)
    assert len(read_embeddings(tmp_path, name="others")) == len(read_labels(tmp_path, key="others")) == 20


def test_a_folder_of_chroma_with_its_labels(tmp_path):
    chromadb = pytest.importorskip("chromadb")
    collection = chromadb.PersistentClient(str(tmp_path)).create_collection("docs")
    facts = [{"label": name, "city": "x"} for name in NAMES]
    collection.add(ids=[f"{place:02d}" for place in range(40)], embeddings=H.tolist(), metadatas=facts)
    np.testing.assert_allclose(read_embeddings(tmp_path), H)
    assert read_labels(tmp_path).tolist() == NAMES
    assert set(read_labels(tmp_path, "city")) == {"x"}


def test_a_column_of_a_parquet_file_by_its_name(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"first": H.tolist(), "second": H[:, :3].tolist(), "label": NAMES})
    parquet.write_table(table, tmp_path / "e.parquet")
    np.testing.assert_allclose(read_embeddings(tmp_path / "e.parquet", name="second"), H[:, :3])
    with pytest.raises(ValueError, match="holds first, second: say which are the embeddings with --key"):
        read_embeddings(tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="has no column third"):
        read_embeddings(tmp_path / "e.parquet", name="third")
    assert read_labels(tmp_path / "e.parquet").tolist() == NAMES


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([(torch.from_numpy(x).permute(2, 0, 1), int(y)) for x, y in zip(X, Y, strict=True)])


class Named(torch.utils.data.Dataset):
    classes = ("cat", "dog")

    def __len__(self):
        return 40

    def __getitem__(self, place):
        return Image.fromarray(X[place]), int(Y[place])


def test_a_stream_is_read_and_a_part_has_the_names_of_the_whole():
    np.testing.assert_array_equal(rows(divided(Stream(), "all")), X.transpose(0, 3, 1, 2))
    half = divided(torch.utils.data.Subset(Named(), range(0, 40, 3)), "all")
    assert half.classes == ("cat", "dog")
    np.testing.assert_array_equal(half.labels, Y[::3])
