"""Reading other people's embeddings: one array from a file of any common kind, never running code that it holds.

``READERS`` maps an ending to its reader. A file's first bytes are compared with its name before it is opened.
"""

import csv
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

# Names looked for, in this order, in files that hold several arrays.
USUAL_NAMES = ("h", "test_h", "embeddings", "embedding", "features", "z", "x", "arr_0")
CONVERT = (
    "A pickle can run any code when it is opened, so it is refused. Where you trust it, convert it once: "
    'numpy.save("embeddings.npy", numpy.asarray(pickle.load(open(path, "rb"))))'
)


def read_embeddings(path: str | Path, *, name: str | None = None) -> Any:
    """Rows of embeddings ``[n, d]`` from .npy (memory-mapped), .npz, .safetensors, .parquet, .csv or a torch file.

    ``name`` chooses the array where a file holds several. NaN rows are kept: the examination counts and locates them.
    """
    array = _read(Path(path), name)
    if len(array.shape) != 2:
        raise ValueError(f"{path} holds an array of shape {list(array.shape)}; rows of embeddings [n, d] are needed")
    return array


def read_labels(path: str | Path, *, name: str | None = None) -> np.ndarray:
    """One label for each row, numbers or words, from the same kinds of files."""
    path = Path(path)
    array = _csv_cells(path) if path.suffix in (".csv", ".txt") else np.asarray(_read(path, name))
    array = array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array
    if array.ndim != 1:
        raise ValueError(f"{path} holds an array of shape {list(array.shape)}; one label for each row is needed")
    return array


def kind(path: Path) -> str:
    """What the first bytes of a file say it is, whatever its name says."""
    with path.open("rb") as file:
        head = file.read(16)
    beginnings = {
        b"\x93NUMPY": "npy",
        b"PK\x03\x04": "zip",
        b"PAR1": "parquet",
        b"\x89HDF": "hdf5",
        b"\x1f\x8b": "gzip",
    }
    for beginning, found in beginnings.items():
        if head.startswith(beginning):
            return found
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle"
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size:
        return "safetensors"
    return "text" if head and all(byte in b"\t\r\n" or 32 <= byte < 127 or byte > 127 for byte in head) else "unknown"


def _read(path: Path, name: str | None) -> Any:
    if not path.is_file():
        raise ValueError(f"There is no file {path}")
    if path.suffix in (".pkl", ".pickle", ".joblib") or kind(path) == "pickle":
        raise ValueError(f"{path} is a pickle. {CONVERT}")
    if path.suffix not in READERS:
        raise ValueError(f"{path.name} ends in {path.suffix or 'nothing'!r}. Known: {', '.join(READERS)}")
    expected, reader = READERS[path.suffix]
    if kind(path) != expected:
        raise ValueError(f"{path.name} is not what its name says: it should begin like {expected}, not {kind(path)}")
    return reader(path, name)


def _npy(path: Path, name: str | None) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}). If it holds objects: {CONVERT}") from error


def _npz(path: Path, name: str | None) -> np.ndarray:
    with np.load(path, allow_pickle=False) as archive:
        try:
            return archive[_chosen(path, archive.files, name)]
        except ValueError as error:
            raise ValueError(f"{path} cannot be read ({error}). If it holds objects: {CONVERT}") from error


def _safetensors(path: Path, name: str | None) -> torch.Tensor:
    with safe_open(path, framework="pt") as file:
        return file.get_tensor(_chosen(path, list(file.keys()), name))


def _torch(path: Path, name: str | None) -> torch.Tensor:
    found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    if isinstance(found, torch.Tensor):
        return found
    tensors = (
        {key: value for key, value in found.items() if isinstance(value, torch.Tensor)}
        if isinstance(found, Mapping)
        else {}
    )
    return tensors[_chosen(path, list(tensors), name)]


def _parquet(path: Path, name: str | None) -> np.ndarray:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ValueError("Reading .parquet needs pyarrow: pip install 'vergence[parquet]'") from error
    table = parquet.read_table(path, columns=[name] if name else None)
    lists = [field.name for field in table.schema if hasattr(field.type, "value_type")]
    if lists:
        return np.array(table[_chosen(path, lists, name)].to_pylist(), dtype=np.float32)
    numbers = [field.name for field in table.schema if str(field.type).startswith(("float", "double", "halffloat"))]
    if not numbers:
        raise ValueError(
            f"{path} has no column of numbers or lists of numbers. Columns: {', '.join(table.column_names)}"
        )
    return np.stack([table[column].to_numpy() for column in numbers], axis=1)


def _csv(path: Path, name: str | None) -> np.ndarray:
    cells = _csv_cells(path)
    try:
        return cells.astype(np.float64)
    except ValueError as error:
        raise ValueError(
            f"{path} has a cell that is not a number ({error}); labels belong in a file of their own"
        ) from error


def _csv_cells(path: Path) -> np.ndarray:
    """The cells as text; a first line without any number is a heading."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    if len(rows) > 1 and not any(_is_number(cell) for cell in rows[0]) and any(_is_number(cell) for cell in rows[1]):
        rows = rows[1:]
    lengths = sorted({len(row) for row in rows}) or [0]
    if len(lengths) > 1 or not rows:
        raise ValueError(f"{path} must hold lines of equally many cells; it has {lengths[0]} to {lengths[-1]}")
    return np.array(rows)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _chosen(path: Path, names: list[str], name: str | None) -> str:
    if name is not None and name in names:
        return name
    usual = [usual for usual in USUAL_NAMES if usual in names]
    if name is None and (usual or len(names) == 1):
        return (usual or names)[0]
    wanted = f"no array {name!r}" if name else "several arrays"
    raise ValueError(f"{path} holds {wanted if names else 'no arrays'}. Say which: {', '.join(names)}")


READERS: dict[str, tuple[str, Callable[[Path, str | None], Any]]] = {
    ".npy": ("npy", _npy),
    ".npz": ("zip", _npz),
    ".safetensors": ("safetensors", _safetensors),
    ".parquet": ("parquet", _parquet),
    ".csv": ("text", _csv),
    ".pt": ("zip", _torch),
    ".pth": ("zip", _torch),
}
