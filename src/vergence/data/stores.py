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


def faiss_index(file: Path, name: str | None) -> np.ndarray:
    """The vectors of a FAISS index, as far as it keeps them: a quantized index gives its approximations."""
    faiss = _library("faiss", "faiss-cpu")
    try:
        index = faiss.read_index(str(file))
        if hasattr(index, "make_direct_map"):
            index.make_direct_map()
        return np.asarray(index.reconstruct_n(0, index.ntotal), dtype=np.float32)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise ValueError(f"{file} is not a FAISS index whose vectors can be read back: {reason}") from error


def _lance(path: Path, name: str | None) -> np.ndarray:
    lancedb = _library("lancedb", "lancedb")
    home, table = (path.parent, path.stem) if path.suffix == ".lance" else (path, name)
    tables = sorted(each.stem for each in home.glob("*.lance"))
    table = table or (tables[0] if len(tables) == 1 else None)
    if table not in tables:
        raise ValueError(f"{path} holds the tables {', '.join(tables) or 'none'}: say which with --key.")
    columns = lancedb.connect(str(home)).open_table(table).to_arrow()
    lists = [field.name for field in columns.schema if "list" in str(field.type)]
    wanted = name if name in lists else lists[0] if len(lists) == 1 else None
    if wanted is None:
        raise ValueError(
            f"The table {table} has the vector columns {', '.join(lists) or 'none'}: say which with --key."
        )
    return np.asarray(columns[wanted].to_pylist(), dtype=np.float32)


def _chroma(path: Path, name: str | None) -> np.ndarray:
    chromadb = _library("chromadb", "chromadb")
    client = chromadb.PersistentClient(path=str(path))
    names = [str(getattr(each, "name", each)) for each in client.list_collections()]
    wanted = name or (names[0] if len(names) == 1 else None)
    if wanted not in names:
        raise ValueError(f"{path} holds the collections {', '.join(names) or 'none'}: say which with --key.")
    return np.asarray(client.get_collection(wanted).get(include=["embeddings"])["embeddings"], dtype=np.float32)


def _library(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"Reading this store needs {name}: pip install {package}.") from error
