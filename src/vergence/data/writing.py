"""Representations written for other programs, row by row as they are made: .npy, .npz, .safetensors or .parquet.

A file takes its name when it is whole; memory holds one batch at a time. Only the names in a .npz or .safetensors file,
which are one block of it, are collected until the end.
"""

import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ENDINGS = (".npy", ".npz", ".safetensors", ".parquet")
ROW_GROUP = 8192  # rows of a Parquet file that are read and written together

# Embeddings behind a ReLU shrink by a third, and then take three times as long to write and to read.
TEXTS_ONLY = {"name": "snappy", "label": "snappy"}


class Rows(NamedTuple):
    """Some representations, with a name and a label for each where there are any."""

    h: NDArray[np.float32]
    names: Sequence[str] | None = None
    labels: Sequence[str] | None = None

    @property
    def texts(self) -> dict[str, list[str]]:
        known = {"names": self.names, "labels": self.labels}
        return {name: [_line(text) for text in column] for name, column in known.items() if column is not None}


def write_rows(
    path: Path, batches: Iterable[Rows], *, facts: Mapping[str, Any] | None = None
) -> tuple[list[Path], int]:
    """Write rows that come in batches; return the files, and how many rows they hold.

    A .npy holds numbers only, so names and labels lie beside it, a line each: ``h.names.txt``, ``h.labels.txt``.
    ``facts`` go into the metadata of a .parquet file.
    """
    if path.suffix not in ENDINGS:
        raise ValueError(f"Representations are written as {', '.join(ENDINGS)}, got {path.name!r}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        return [path], _parquet(path, batches, facts or {})
    if path.suffix == ".npy":
        return _npy(path, batches)
    texts: dict[str, list[str]] = {}
    with _whole(path) as part, _rows_on_disk(path, batches, texts) as rows:
        {".npz": _npz, ".safetensors": _safetensors}[path.suffix](part, rows, texts)
        n = len(rows)
    return [path], n


def _npy(path: Path, batches: Iterable[Rows]) -> tuple[list[Path], int]:
    """An array, and a text file for each column of texts, all written as the rows come."""
    n, width, files = 0, 0, [path]
    with ExitStack() as stack:
        part = stack.enter_context(_whole(path))
        file = stack.enter_context(part.open("wb"))
        columns: dict[str, Any] = {}
        for batch in batches:
            if not n:
                width = batch.h.shape[1]
                _header(file, (0, width))
                for name in batch.texts:
                    beside = path.with_suffix(f".{name}.txt")
                    own = stack.enter_context(_whole(beside))
                    columns[name] = stack.enter_context(own.open("w", encoding="utf-8", errors="replace"))
                    files.append(beside)
            file.write(np.ascontiguousarray(batch.h, np.float32).data)
            for name, column in batch.texts.items():
                columns[name].writelines(f"{text}\n" for text in column)
            n += len(batch.h)
        _require_rows(n, path)
        file.seek(0)
        _header(file, (n, width))  # numpy leaves room for the number of rows to grow
    return files, n


def _header(file: Any, shape: tuple[int, int]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})


def _require_rows(n: int, path: Path) -> None:
    if not n:
        raise ValueError(f"There is nothing to write to {path}: no sample can be read.")


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
def _rows_on_disk(path: Path, batches: Iterable[Rows], texts: dict[str, list[str]]) -> Iterator[np.memmap]:
    """The rows as an array on disk, filled batch by batch; their texts go to ``texts``."""
    place, rows, width = path.with_name(f".{path.name}.rows.part"), 0, 0
    try:
        with place.open("wb") as file:
            for batch in batches:
                width = batch.h.shape[1]
                file.write(np.ascontiguousarray(batch.h, np.float32).data)
                rows += len(batch.h)
                for name, column in batch.texts.items():
                    texts.setdefault(name, []).extend(column)
        _require_rows(rows, path)
        yield np.memmap(place, np.float32, "r", shape=(rows, width))
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


def _parquet(path: Path, batches: Iterable[Rows], facts: Mapping[str, Any]) -> int:
    """The columns ``embedding`` (a list of a fixed size), ``name`` and ``label``; how many rows."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Writing .parquet needs pyarrow: pip install 'vergence[parquet]'.") from None
    n = 0
    with ExitStack() as stack:
        part = stack.enter_context(_whole(path))
        writer, written = None, Future[None]()
        written.set_result(None)
        for batch in _grouped(batches):
            kind = pyarrow.list_(pyarrow.float32(), batch.h.shape[1])
            if writer is None:
                fields = [("embedding", kind), *((name.removesuffix("s"), pyarrow.string()) for name in batch.texts)]
                metadata = {"vergence": json.dumps(facts)}
                schema = pyarrow.schema(fields, metadata=metadata)
                how: dict[str, Any] = {"use_dictionary": ["label"], "compression": TEXTS_ONLY}
                writer = stack.enter_context(parquet.ParquetWriter(part, schema, **how))
                aside = stack.enter_context(ThreadPoolExecutor(1))  # rows are written while the next are made
            flat = pyarrow.array(np.ascontiguousarray(batch.h, np.float32).ravel())
            columns = {"embedding": pyarrow.FixedSizeListArray.from_arrays(flat, type=kind)}
            columns |= {name.removesuffix("s"): column for name, column in batch.texts.items()}
            written.result()
            written = aside.submit(writer.write_table, pyarrow.table(columns, schema=schema))
            n += len(batch.h)
        written.result()
        _require_rows(n, path)
    return n


def _grouped(batches: Iterable[Rows]) -> Iterator[Rows]:
    """Batches joined until they make a row group."""
    held: list[Rows] = []
    for batch in batches:
        held.append(batch)
        if sum(len(each.h) for each in held) >= ROW_GROUP:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(held: Sequence[Rows]) -> Rows:
    texts: list[Any] = [None if first is None else [] for first in held[0][1:]]
    for batch in held:
        for column, more in zip(texts, batch[1:], strict=True):
            if column is not None and more is not None:
                column.extend(more)
    return Rows(np.concatenate([batch.h for batch in held]), *texts)


def _line(text: str) -> str:
    """A name on one line."""
    return " ".join(str(text).split("\n")).replace("\r", " ")
