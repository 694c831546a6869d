"""Reading other people's embeddings: one array from a file of any common kind, never running code that it holds.

``READERS`` maps an ending to what the file must begin like and to its reader.
"""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from vergence.data.files import array_in, existing_file, tables, usable_numbers
from vergence.diagnostics.arrays import not_finite

# Names looked for, in this order, in files that hold several arrays.
USUAL_NAMES = ("h", "test_h", "embeddings", "embedding", "features", "z", "x", "arr_0")
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
    if beginning != expected:
        raise ValueError(f"{path} is not what its name says: it should be {expected} and begins like {beginning}")
    array = usable_numbers(reader(file, name), str(path))
    if column and len(array.shape) == 1:
        array = array[:, None]
    if len(array.shape) != 2:
        raise ValueError(f"{path} holds an array of shape {list(array.shape)}; rows of embeddings [n, d] are needed")
    if not drop_nan:
        return array
    kept = np.setdiff1d(np.arange(len(array)), not_finite(array))
    return array if len(kept) == len(array) else array[kept]


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
    return "something else" if b"\x00" in head or not head else "text"


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
    except Exception as error:  # torch raises the errors of three libraries here
        reason = str(error).strip().partition("\n")[0][:300] or type(error).__name__
        raise ValueError(
            f"{file} is damaged or holds more than tensors, which is refused. Save the tensor alone: {reason}"
        ) from error
    if isinstance(found, torch.Tensor):
        return found
    items = found.items() if isinstance(found, dict) else ()
    tensors = {str(key): value for key, value in items if isinstance(value, torch.Tensor)}
    return tensors[_chosen(file, tensors, name)]


def _csv(file: Path, name: str | None) -> np.ndarray:
    """A table of numbers; a first line without any number is a heading."""
    try:
        with file.open(newline="", encoding="utf-8") as opened:
            rows = [row for row in csv.reader(opened) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file} is not a table of numbers: {error}") from error
    if rows and not any(_is_number(cell) for cell in rows[0]):
        rows = rows[1:]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1:
        raise ValueError(f"{file} must hold lines of equally many numbers; the lengths of its lines are {lengths}")
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{file}: {error}. Give labels as a file of their own") from None


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
    raise ValueError(f"{file} holds {', '.join(names) or 'no arrays'}: say which are the embeddings")


READERS: dict[str, tuple[str, Callable[[Path, str | None], Any]]] = {
    ".npy": ("a .npy array", lambda file, name: array_in(file)),
    ".npz": ("a zip archive (.npz or .pt)", _npz),
    ".safetensors": ("a safetensors file", _safetensors),
    ".parquet": ("a parquet table", lambda file, name: tables(str(file))["x"]),
    ".csv": ("text", _csv),
    ".pt": ("a zip archive (.npz or .pt)", _torch),
    ".pth": ("a zip archive (.npz or .pt)", _torch),
}
