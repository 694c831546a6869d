"""Files of arrays: .npy, .npz, .parquet, and labels; nothing in them is ever executed."""

import difflib
import gzip
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPELLINGS = {"X": "x", "data": "x", "images": "x", "Y": "y", "labels": "y", "label": "y", "target": "y", "targets": "y"}


def existing_file(path: str) -> Path:
    """The file at ``path``; if there is none, an error that names the nearest one."""
    file = Path(path).expanduser()
    if file.is_file():
        return file
    what = f"{path} is a folder, not a file." if file.is_dir() else f"There is no file {path}."
    raise FileNotFoundError(what + _nearest(file))


def existing_folder(path: str) -> Path:
    """The folder at ``path``; if there is none, an error that names the nearest one."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    what = f"{path} is a file, not a folder." if folder.exists() else f"There is no folder {path}."
    raise FileNotFoundError(what + _nearest(folder))


def tables(path: str) -> dict[str, NDArray[Any]]:
    """The named arrays of a file, under the names x, y, x_train, y_train, x_test and y_test."""
    file = existing_file(path)
    if file.suffix == ".npy":
        return {"x": loaded(file)}
    if file.suffix == ".npz":
        return _renamed(loaded(file), path)
    if file.suffix == ".parquet":
        return _parquet(file)
    raise ValueError(f"{path} ends in {file.suffix or 'nothing'}; arrays are read from .npy, .npz and .parquet.")


def loaded(file: Path) -> Any:
    """The array of a .npy file, left on disk until it is read, or the dict of arrays of a .npz file."""
    try:
        if file.suffix == ".npy":
            return np.load(file, allow_pickle=False, mmap_mode="r")
        with np.load(file, allow_pickle=False) as archive:
            return dict(archive)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if not re.search("Object arrays|Python objects", str(error)):  # numpy says either
            raise ValueError(f"{file} cannot be read as {file.suffix}: {error}") from error
        raise ValueError(
            f"{file} holds Python objects, which are not loaded because a pickle can run any code. If you trust it, "
            "convert it once: np.save('new.npy', np.stack(np.load('old.npy', allow_pickle=True)).astype(np.float32))."
        ) from None


def uncompressed(file: Path) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz."""
    try:
        return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{file} is damaged: {error}") from error


def label_file(path: str) -> NDArray[Any]:
    """One label a sample: a .npy array, or a text file with a label a line."""
    file = existing_file(path)
    return loaded(file) if file.suffix == ".npy" else np.array(file.read_text(encoding="utf-8").splitlines())


def _nearest(missing: Path) -> str:
    beside = [child.name for child in missing.parent.iterdir()] if missing.parent.is_dir() else []
    near = [name for name in difflib.get_close_matches(missing.name, beside) if name != missing.name]
    return f" Did you mean {missing.parent / near[0]}?" if near else ""


def _renamed(found: dict[str, Any], path: str) -> dict[str, NDArray[Any]]:
    endings = ("", "_train", "_test")
    spellings = {f"{old}{ending}": f"{new}{ending}" for old, new in SPELLINGS.items() for ending in endings}
    known = {spellings.get(key, key): value for key, value in found.items()}
    if len(known) == 1:
        return {"x": next(iter(known.values()))}
    if "x" in known or {"x_train", "x_test"} <= set(known):
        return known
    raise ValueError(
        f"{path} holds {', '.join(found)}; expected x (and y), or x_train and x_test (and y_train, y_test)."
    )


def _parquet(file: Path) -> dict[str, NDArray[Any]]:
    """A table of numbers, or one column of equally long lists; a column with a name for labels is the labels."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Reading .parquet needs pyarrow: pip install 'vergence[parquet]'.") from None
    columns = {SPELLINGS.get(name, name): values for name, values in parquet.read_table(file).to_pydict().items()}
    labels = columns.pop("y", None)
    try:
        x = np.asarray(*columns.values()) if len(columns) == 1 else np.column_stack([*columns.values()])
    except ValueError:
        raise ValueError(
            f"{file}: the lists in column {next(iter(columns))} differ in length; expected one length."
        ) from None
    return {"x": x} if labels is None else {"x": x, "y": np.asarray(labels)}
