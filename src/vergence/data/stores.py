"""Vector stores: rows of embeddings from the files of FAISS, LanceDB and Chroma, where their library is installed."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

CHROMA = "chroma.sqlite3"


def is_store(path: Path) -> bool:
    """Whether a folder is a vector store: a Lance table, or what Chroma leaves on disk."""
    return path.is_dir() and (path.suffix == ".lance" or (path / CHROMA).is_file() or any(path.glob("*.lance")))


def read_store(path: Path, name: str | None) -> np.ndarray:
    """The embeddings in a folder of LanceDB (``name`` is the table) or Chroma (``name`` is the collection)."""
    return _chroma(path, name) if (path / CHROMA).is_file() else _lance(path, name)


def columns_of(path: Path, name: str | None) -> dict[str, np.ndarray]:
    """What a store holds beside the embeddings, by name: the columns of a table, the metadata of a collection."""
    if (path / CHROMA).is_file():
        rows = [row or {} for row in _collection(path, name).get(include=["metadatas"])["metadatas"]]
        return {key: np.array([row.get(key, "") for row in rows]) for key in (rows[0] if rows else {})}
    table = _table(path, name)
    flat = [field.name for field in table.schema if "list" not in str(field.type)]
    return {key: np.asarray(table[key].to_pylist()) for key in flat}


def faiss_index(file: Path, name: str | None) -> np.ndarray:
    """The vectors of a FAISS index, as far as it keeps them: a quantized index gives its approximations."""
    faiss = _library("faiss", "faiss-cpu")
    try:
        whole = index = faiss.read_index(str(file))  # an index inside another lives as long as that one
        if "IDMap" in type(whole).__name__:  # names for the rows of an index inside, which has them in order
            index = faiss.downcast_index(whole.index)
        if hasattr(index, "make_direct_map"):
            index.make_direct_map()
        if index.ntotal:
            index.reconstruct(0)  # asked for all at once, an index that cannot ends the process
        return np.asarray(index.reconstruct_n(0, index.ntotal), dtype=np.float32)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise ValueError(f"{file} is not a FAISS index whose vectors can be read back: {reason}") from error


def _lance(path: Path, name: str | None) -> np.ndarray:
    columns = _table(path, name)
    lists = [field.name for field in columns.schema if "list" in str(field.type)]
    wanted = name if name in lists else lists[0] if len(lists) == 1 else None
    if wanted is None:
        raise ValueError(f"{path} has the vector columns {', '.join(lists) or 'none'}: say which with --key.")
    return np.asarray(columns[wanted].to_pylist(), dtype=np.float32)


def _table(path: Path, name: str | None) -> Any:
    """The table of a LanceDB folder, as Arrow has it."""
    lancedb = _library("lancedb", "lancedb")
    home, table = (path.parent, path.stem) if path.suffix == ".lance" else (path, name)
    tables = sorted(each.stem for each in home.glob("*.lance"))
    table = table if table in tables else tables[0] if len(tables) == 1 else None
    if table is None:
        raise ValueError(f"{path} holds the tables {', '.join(tables) or 'none'}: say which with --key.")
    return lancedb.connect(str(home)).open_table(table).to_arrow()


def _chroma(path: Path, name: str | None) -> np.ndarray:
    return np.asarray(_collection(path, name).get(include=["embeddings"])["embeddings"], dtype=np.float32)


def _collection(path: Path, name: str | None) -> Any:
    """The collection of a Chroma folder."""
    chromadb = _library("chromadb", "chromadb")
    client = chromadb.PersistentClient(path=str(path))
    names = [str(getattr(each, "name", each)) for each in client.list_collections()]
    wanted = name or (names[0] if len(names) == 1 else None)
    if wanted not in names:
        raise ValueError(f"{path} holds the collections {', '.join(names) or 'none'}: say which with --key.")
    return client.get_collection(wanted)


def _library(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"Reading this store needs {name}: pip install {package}.") from error
