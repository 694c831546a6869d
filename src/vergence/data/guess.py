"""What people type for data: a path alone, a pattern of files; what it was taken for is said, and recorded."""

import glob
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from vergence import tables
from vergence.data.images import SUFFIXES
from vergence.data.lines import position, records
from vergence.data.text import TEXT_COLUMNS

LOOKED_AT = 2000  # files of a folder that are looked at to see what it holds
ARRAYS = {".npy", ".npz"}
TEXTS = {".txt", ".tsv"}
# What a file or a folder of files is read by, by the ending of the name.
ROWS = {
    **dict.fromkeys(SUFFIXES, ("folder", "images")),
    **dict.fromkeys(ARRAYS, ("array", "an array")),
    **dict.fromkeys(TEXTS, ("text", "texts, one a line")),
    ".csv": ("text", "a table of texts, separated by commas"),
    ".jsonl": ("text", "a table of texts, a JSON object a line"),
    ".parquet": ("parquet", "Parquet files"),
    ".tar": ("wds", "WebDataset shards"),
}


def understood(source: str) -> str:
    """A source with the row that reads it: ``photos`` is ``folder:photos``, ``x.npy`` is ``array:x.npy``.

    A name of a row, ``row:place`` and ``package.module:name`` stay as they are. Raises where there is no such path.
    """
    place, *options = re.split(r",(?=[a-z_]+=)", source)
    name = place.partition(":")[0]
    if name in tables.names("data") or name in tables.OLD_SPELLINGS or tables.is_given(place):
        return source
    path = Path(place).expanduser()
    if not (path.exists() or glob.has_magic(place)):
        if re.fullmatch(r"[\w.]+(:[\w.]+.*)?", place) and path.suffix.lower() not in ROWS:
            return source  # a name: the table explains it where it is unknown
        raise FileNotFoundError(f"There is no file or folder {place}. Data are named by a path, or as in `list data`.")
    row, what = _taken_for(path, place)
    written = ",".join([f"{row}:{place}", *options])
    warnings.warn(f"{place} was taken for {what}: --data {written}", stacklevel=2)
    return written


def _taken_for(path: Path, place: str) -> tuple[str, str]:
    if (path / "config.yaml").is_file():
        raise ValueError(f"{place} is a run, not data. To start from its weights: --start {place}")
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = list(islice(_files(path), LOOKED_AT))
    else:
        files = [Path(found) for found in islice(glob.iglob(str(path), recursive=True), LOOKED_AT)]
        if not files:
            raise FileNotFoundError(f"No file matches {place}.")
    endings = Counter(_ending(file) for file in files)
    known = [ending for ending, _ in endings.most_common() if ending in ROWS]
    if not known:
        seen = ", ".join(f"{count} {ending or 'without an ending'}" for ending, count in endings.most_common(4))
        raise ValueError(f"{place} holds nothing that is known ({seen or 'no files'}); known are {', '.join(ROWS)}.")
    row, what = ROWS[known[0]]
    if path.is_file() and row == "folder":
        raise ValueError(f"{place} is one image; give the folder that it lies in, or a pattern such as '*.jpg'.")
    if path.is_dir() and row in ("array", "text"):
        raise ValueError(f"{place} holds {what}: give one file, such as {files[0]}.")
    if row == "parquet" and path.is_file() and not _has_images(path):
        return "array", "a table of numbers"
    if path.is_file() and _ending(path) == ".csv" and _holds_numbers(path):
        return "array", "a table of numbers"
    return row, f"a folder of {what}" if path.is_dir() else f"{len(files):,} {what}" if not path.is_file() else what


def _ending(file: Path) -> str:
    """The ending that tells what a file is: of ``texts.tsv.gz`` that before ``.gz``."""
    return Path(file.stem).suffix.lower() if file.suffix.lower() == ".gz" else file.suffix.lower()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _holds_numbers(path: Path) -> bool:
    """Whether the second row of a table has two numbers or more, or a list of them, and its first names no texts."""
    try:
        (_, _, first), (_, _, second) = islice((row for row in records(path) if row[2]), 2)
    except ValueError:  # fewer rows, or none that can be read: whoever reads it says so
        return False
    numbers = sum(bool(re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", cell, re.I)) for cell in second)
    vectors = any(re.match(r"\s*\[\s*[-+.\d]", cell) for cell in second)
    return (numbers > 1 or vectors) and position([name.strip().lower() for name in first], TEXT_COLUMNS) is None


def _has_images(path: Path) -> bool:
    """Whether a Parquet file has a column of encoded images or of texts, which shards are read by."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Reading .parquet needs pyarrow: pip install 'vergence[parquet]'.") from None
    kinds = [str(field.type) for field in parquet.ParquetFile(path).schema_arrow]
    return any(kind in ("binary", "large_binary") or kind.startswith("struct") for kind in kinds)
