"""Representations written for other programs, row by row as they are made: .npy, .npz, .safetensors or .parquet.

Rows go to a file beside the last one, which takes its name when it is whole; memory holds one batch at a time.
"""

import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ENDINGS = (".npy", ".npz", ".safetensors", ".parquet")


def write_rows(
    path: Path,
    batches: Iterable[NDArray[np.float32]],
    n: int,
    *,
    names: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
) -> list[Path]:
    """Write ``n`` rows that come in batches, with a name and a label for each where there are any; return the files.

    A .npy holds numbers only, so names and labels lie beside it, a line each: ``h.names.txt``, ``h.labels.txt``.
    """
    if path.suffix not in ENDINGS:
        raise ValueError(f"Representations are written as {', '.join(ENDINGS)}, got {path.name!r}.")
    known = {"names": names, "labels": labels}
    texts = {name: [_line(text) for text in column] for name, column in known.items() if column is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    with _whole(path) as part, _rows_on_disk(path, batches, n) as rows:
        writer = {".npz": _npz, ".safetensors": _safetensors, ".parquet": _parquet}.get(path.suffix)
        if writer is None:
            os.replace(str(rows.filename), part)
        else:
            writer(part, rows, texts)
    if path.suffix != ".npy":
        return [path]
    return [path, *(_beside(path, name, column) for name, column in texts.items())]


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A name to write under; the file gets its own name when nothing went wrong."""
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        raise type(error)(error.errno, f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _rows_on_disk(path: Path, batches: Iterable[NDArray[np.float32]], n: int) -> Iterator[np.memmap]:
    """The rows as an array on disk, filled batch by batch."""
    place, rows, start = path.with_name(f".{path.name}.rows.part"), None, 0
    try:
        for batch in batches:
            if rows is None:
                rows = np.lib.format.open_memmap(place, "w+", np.float32, (n, batch.shape[1]))
            rows[start : start + len(batch)] = batch
            start += len(batch)
        if rows is None or start != n:
            raise ValueError(f"There are {start} rows to write; expected {n}.")
        rows.flush()
        yield rows
    finally:
        place.unlink(missing_ok=True)


def _npz(part: Path, rows: np.memmap, texts: dict[str, list[str]]) -> None:
    with zipfile.ZipFile(part, "w", allowZip64=True) as archive:
        for name, array in {"h": rows, **{name: np.array(column) for name, column in texts.items()}}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)


def _safetensors(part: Path, rows: np.memmap, texts: dict[str, list[str]]) -> None:
    """The tensor ``h``, and ``labels`` as numbers; names and the classes of the labels are JSON in the metadata."""
    header: dict[str, object] = {"__metadata__": {name: json.dumps(column) for name, column in texts.items()}}
    header["h"] = {"dtype": "F32", "shape": list(rows.shape), "data_offsets": [0, rows.nbytes]}
    codes = np.empty(0, np.int64)
    if "labels" in texts:
        codes = np.unique(texts["labels"], return_inverse=True)[1].astype("<i8")
        span = [rows.nbytes, rows.nbytes + codes.nbytes]
        header["labels"] = {"dtype": "I64", "shape": [len(codes)], "data_offsets": span}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with part.open("wb") as file, open(str(rows.filename), "rb") as source:
        file.write(len(text).to_bytes(8, "little") + text)
        source.seek(rows.offset)
        shutil.copyfileobj(source, file, 2**20)
        file.write(codes.tobytes())


def _parquet(part: Path, rows: np.memmap, texts: dict[str, list[str]]) -> None:
    """The columns ``embedding`` (a list of numbers), ``name`` and ``label``."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Writing .parquet needs pyarrow: pip install 'vergence[parquet]'.") from None
    fields = [("embedding", pyarrow.list_(pyarrow.float32()))]
    schema = pyarrow.schema([*fields, *((name.removesuffix("s"), pyarrow.string()) for name in texts)])
    with parquet.ParquetWriter(part, schema) as writer:
        for start in range(0, len(rows), 4096):
            columns = {"embedding": list(rows[start : start + 4096])}
            columns |= {name.removesuffix("s"): column[start : start + 4096] for name, column in texts.items()}
            writer.write_table(pyarrow.table(columns, schema=schema))


def _beside(path: Path, what: str, column: list[str]) -> Path:
    """A text file beside an array, a line for each of its rows."""
    file = path.with_suffix(f".{what}.txt")
    with _whole(file) as part:
        part.write_text("".join(f"{text}\n" for text in column), encoding="utf-8", errors="replace")
    return file


def _line(text: str) -> str:
    """A name on one line."""
    return " ".join(str(text).split("\n")).replace("\r", " ")
