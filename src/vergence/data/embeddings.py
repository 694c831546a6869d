"""Reading other people's embeddings: one array from a file of any common kind, never running code that it holds.

``READERS`` maps an ending to what the file must begin like and to its reader.
"""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from vergence.data.files import array_in, existing_file, label_values, tables, usable_numbers
from vergence.data.stores import columns_of, faiss_index, is_store, read_store
from vergence.diagnostics.arrays import not_finite

# Names looked for, in this order, in files that hold several arrays.
USUAL_NAMES = ("h", "test_h", "embeddings", "embedding", "features", "z", "x", "arr_0")
IDENTIFIERS = ("id", "uuid")
UNNAMED = ("", "Unnamed: 0")  # what pandas calls the column of a frame's own row numbers
LABEL_NAMES = ("labels", "label", "y", "target", "targets", "class", "test_labels")
BEGINNINGS = {
    b"\x93NUMPY": "a .npy array",
    b"PK\x03\x04": "a zip archive (.npz or .pt)",
    b"PAR1": "a parquet table",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip file",
    b"\x80": "a pickle",
}


def read_embeddings(path: str | Path, *, name: str | None = None, drop_nan: bool = False, column: bool = False) -> Any:
    """Rows of embeddings ``[n, d]`` from .npy (left on disk), .npz, .safetensors, .parquet, .csv or a torch file.

    ``name`` chooses the array where a file holds several. NaN rows are kept for the examination to count and locate,
    unless ``drop_nan``. With ``column`` an array ``[n]`` is one column.
    """
    if is_store(Path(path)):
        return _whole(read_store(Path(path), name), path, drop_nan=drop_nan, column=column)
    file = existing_file(str(path))
    beginning = kind(file)
    if file.suffix in (".pkl", ".pickle", ".joblib") or beginning == "a pickle":
        raise ValueError(
            f"{path} is a pickle, which can run any code when it is opened, so it is refused. If you trust it, convert "
            "it once: np.save('embeddings.npy', np.asarray(pickle.load(open('old.pkl', 'rb')), dtype=np.float32))"
        )
    if file.suffix not in READERS:
        raise ValueError(f"{path} ends in {file.suffix or 'nothing'}; embeddings are read from {', '.join(READERS)}")
    expected, reader = READERS[file.suffix]
    if expected and beginning != expected:
        raise ValueError(f"{path} is not what its name says: it should be {expected} and begins like {beginning}")
    return _whole(reader(file, name), path, drop_nan=drop_nan, column=column)


def read_labels(path: str | Path, name: str | None = None, *, key: str | None = None) -> np.ndarray | None:
    """The labels that lie in a file of embeddings, under ``name`` or a usual one; None where there are none.

    ``key`` chooses the table or collection of a store that holds several.
    """
    file = Path(path)
    store = is_store(file)
    if not store and (file.suffix not in LABELED or not file.is_file()):
        if name is not None:
            raise FileNotFoundError(f"There is no file of labels {name}, and {path} holds no columns.")
        return None
    found = columns_of(file, key) if store else LABELED[file.suffix](file)
    for wanted in (name,) if name is not None else LABEL_NAMES:
        if wanted in found and np.ndim(found[wanted]) == 1:
            return label_values(np.asarray(found[wanted]), str(path))
    if name is None:
        return None
    raise ValueError(f"There is no file {name}, and {path} has no labels of that name; it holds {', '.join(found)}.")


def _columns(file: Path) -> dict[str, Any]:
    """The columns of a .csv with a heading, as text."""
    rows = _lines(file, errors="replace")
    if not _has_heading(rows):
        return {}
    found = {name: np.array(column) for name, column in zip(rows[0], zip(*rows[1:], strict=False), strict=False)}
    return {name: column for name, column in found.items() if name != "y" or name in _label_names(rows[0])}


def _table(file: Path) -> dict[str, Any]:
    from pyarrow import parquet

    try:
        columns = parquet.read_table(file).to_pydict()
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(f"{file} cannot be read as a parquet table: {str(error)[:300]}") from error
    return {name: np.asarray(column) for name, column in columns.items() if _flat(column)}


def _flat(column: list[Any]) -> bool:
    return bool(column) and not any(isinstance(cell, list | dict | bytes) for cell in column)


def _whole(array: Any, path: str | Path, *, drop_nan: bool, column: bool) -> Any:
    """Rows of numbers, or an error that says what came instead."""
    array = usable_numbers(array, str(path))
    if column and len(array.shape) == 1:
        array = array[:, None]
    if len(array.shape) != 2:
        raise ValueError(f"{path} holds an array of shape {list(array.shape)}; rows of embeddings [n, d] are needed")
    if not drop_nan:
        return array
    kept = np.setdiff1d(np.arange(len(array)), not_finite(array))
    return array if len(kept) == len(array) else array[kept]


def finite_together(arrays: Sequence[Any], labels: Any = None) -> tuple[list[Any], Any]:
    """The rows at which every array is finite, with their labels: what belongs together is left out together.

    Arrays that do not have a row for each other are left to the examination, which refuses them.
    """
    given = [array for array in arrays if array is not None]
    if len({len(array) for array in given}) != 1:
        return list(arrays), labels
    bad = np.unique(np.concatenate([not_finite(array) for array in given]))
    if not len(bad):
        return list(arrays), labels
    kept = np.setdiff1d(np.arange(len(given[0])), bad)
    matching = labels is not None and len(labels) == len(given[0])
    return [None if array is None else array[kept] for array in arrays], labels[kept] if matching else labels


def finite_pairs(x: Any, y: Any) -> list[Any]:
    """The rows at which both variables are finite: if each lost its own, the others would no longer match."""
    if len(x) != len(y):
        return [x, y]
    kept = np.setdiff1d(np.arange(len(x)), np.concatenate([not_finite(x), not_finite(y)]))
    return [x[kept], y[kept]]


def kind(file: Path) -> str:
    """What the first bytes of a file say it is, whatever its name says."""
    with file.open("rb") as opened:
        head = opened.read(512)
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < file.stat().st_size:
        return "a safetensors file"
    for beginning, found in BEGINNINGS.items():
        if head.startswith(beginning):
            return found
    if not head:
        raise ValueError(f"{file} is empty.")
    return "something else" if b"\x00" in head else "text"


def _parquet(file: Path, name: str | None) -> np.ndarray:
    """The column that was asked for; where there are several of lists, the one with a usual name."""
    try:
        from pyarrow import parquet

        kinds = {field.name: str(field.type) for field in parquet.ParquetFile(file).schema_arrow}
    except Exception:  # no library, or a damaged file: the reader of tables says it
        kinds = {}
    lists = [each for each, kind in kinds.items() if "list" in kind]
    column = _chosen(file, lists, None) if name is None and len(lists) > 1 else name
    return tables(str(file), column=column)["x"]


def _npz(file: Path, name: str | None) -> np.ndarray:
    arrays = array_in(file)
    return arrays[_chosen(file, arrays, name)]


def _safetensors(file: Path, name: str | None) -> torch.Tensor:
    try:
        with safe_open(file, framework="pt") as opened:
            return opened.get_tensor(_chosen(file, opened.keys(), name))
    except ValueError:
        raise
    except Exception as error:  # the library's own errors, and those of torch for a type that it lacks
        raise ValueError(f"{file} is not a sound .safetensors file: {error}") from error


def _torch(file: Path, name: str | None) -> torch.Tensor:
    try:
        found = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch raises the errors of three libraries here, and some advise to run the code
        raise ValueError(
            f"{file} is damaged or holds more than tensors, which is refused because a pickle can run any code. Save "
            "the tensor alone: torch.save(tensor, 'new.pt')."
        ) from error
    if isinstance(found, torch.Tensor):
        return _stored(found, file)
    items = found.items() if isinstance(found, dict) else ()
    tensors = {str(key): value for key, value in items if isinstance(value, torch.Tensor)}
    return _stored(tensors[_chosen(file, tensors, name)], file)


def _stored(tensor: torch.Tensor, file: Path) -> torch.Tensor:
    """A tensor without its gradient; one that is said to be larger than what is stored of it is refused."""
    if tensor.layout is not torch.strided:  # refused as what it is
        return tensor.detach()
    held = 0 if tensor.is_meta else tensor.untyped_storage().nbytes()
    if held < tensor.numel() * tensor.element_size():
        raise ValueError(f"{file} says that it holds {tensor.numel():,} numbers, but stores {held:,} bytes of them.")
    return tensor.detach()


def _csv(file: Path, name: str | None) -> np.ndarray:
    """A table of numbers, with a heading or none."""
    try:
        rows = _lines(file)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file} is not a table of numbers: {error}") from error
    heading: list[str] = []
    if _has_heading(rows):
        heading, rows = rows[0], rows[1:]
    rows = _vectors(heading, rows, name)
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1:
        raise ValueError(f"{file} must hold lines of equally many numbers; the lengths of its lines are {lengths}")
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError:
        row, cell = next((i, cell) for i, row in enumerate(rows) for cell in row if not _is_number(cell))
        raise ValueError(
            f"{file} must hold numbers; row {row} has {cell[:40]!r}. Labels go into a column named label, or a file of "
            "their own."
        ) from None


def _lines(file: Path, errors: str = "strict") -> list[list[str]]:
    """The cells of each line, between commas; or between semicolons or tabs where the first line has no comma."""
    with file.open(newline="", encoding="utf-8-sig", errors=errors) as opened:
        first = opened.readline()
        opened.seek(0)
        separator = next((mark for mark in ",;\t" if mark in first), ",")
        return [row for row in csv.reader(opened, delimiter=separator) if row]


def _vectors(heading: list[str], rows: list[list[str]], name: str | None) -> list[list[str]]:
    """Rows without the columns of labels and of identifiers; a column of ``[0.1, 0.2]``, as pgvector writes, opened."""
    if not rows:
        return rows
    brackets = [place for place, cell in enumerate(rows[0]) if re.fullmatch(r"\s*[\[{(].*[\])}]\s*", cell)]
    if brackets:
        wanted = heading.index(name) if name in heading else brackets[0]
        return [row[wanted].strip("[]{}() ").split(",") for row in rows]
    passed_over = (*_label_names(heading), *IDENTIFIERS, *UNNAMED)
    dropped = {place for place, word in enumerate(heading) if word in passed_over}
    return [[cell for place, cell in enumerate(row) if place not in dropped] for row in rows] if dropped else rows


def _label_names(heading: list[str]) -> tuple[str, ...]:
    """What columns of labels are called; beside x and a column of labels, y is a coordinate."""
    others = tuple(name for name in LABEL_NAMES if name != "y")
    return others if "x" in heading and any(name in heading for name in others) else LABEL_NAMES


def _has_heading(rows: list[list[str]]) -> bool:
    """Whether the first line names the columns: no number in it, or a label's name, or a word above a number.

    A frame without names of its own is written with the numbers of its columns: ``0,1,2,label``.
    """
    if not rows:
        return False
    words = [place for place, cell in enumerate(rows[0]) if not _is_number(cell)]
    below = rows[1] if len(rows) > 1 else []
    return len(words) == len(rows[0]) or any(
        rows[0][place] in (*LABEL_NAMES, *IDENTIFIERS) or (place < len(below) and _is_number(below[place]))
        for place in words
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _chosen(file: Path, names: Iterable[str], name: str | None) -> str:
    """The array that was asked for, the only one, or the one with a usual name."""
    names = list(names)
    wanted = (name,) if name is not None else USUAL_NAMES if len(names) > 1 else tuple(names)
    for candidate in wanted:
        if candidate in names:
            return candidate
    raise ValueError(f"{file} holds {', '.join(names) or 'no arrays'}: say which are the embeddings with --key NAME")


READERS: dict[str, tuple[str, Callable[[Path, str | None], Any]]] = {
    ".npy": ("a .npy array", lambda file, name: array_in(file)),
    ".npz": ("a zip archive (.npz or .pt)", _npz),
    ".safetensors": ("a safetensors file", _safetensors),
    ".parquet": ("a parquet table", _parquet),
    ".csv": ("text", _csv),
    ".faiss": ("", faiss_index),
    ".index": ("", faiss_index),
    ".pt": ("a zip archive (.npz or .pt)", _torch),
    ".pth": ("a zip archive (.npz or .pt)", _torch),
}
# Files that may hold labels beside the embeddings, and how their arrays or columns are read.
LABELED: dict[str, Callable[[Path], Any]] = {
    ".npz": array_in,
    ".parquet": _table,
    ".csv": _columns,
}
