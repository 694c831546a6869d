"""Files of lines: columns by tabs, of .csv by commas, of .jsonl by name; .gz or not; errors name their line."""

import csv
import gzip
import json
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from vergence.data.files import existing_file
from vergence.data.numbers import Names, Numbers
from vergence.data.ragged import Column

LARGE = 2**30  # bytes of a file from which on its texts stay there


@dataclass
class Rows:
    """The rows of a file: cells of the small columns, texts, the number of each line, and which lines were empty."""

    cells: dict[str, Sequence[str]]
    texts: dict[str, Sequence[str]]
    numbers: np.ndarray | Numbers
    empty: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """Empty lines, in one entry."""
        return ((_listed(self.empty), "empty"),) if self.empty else ()

    def named(self, places: Sequence[int]) -> str:
        """The lines of some rows, the first of them by number."""
        return _listed([int(self.numbers[place]) for place in places])


def _listed(numbers: Sequence[int]) -> str:
    """Lines by number, five of them."""
    more = f" and {len(numbers) - 5:,} more" * (len(numbers) > 5)
    return f"line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:5]))}{more}"


def lines_of(file: Path) -> Iterator[tuple[int, int, str]]:
    """Number, first byte and content of every line; a byte that is not UTF-8 is an error that names its line."""
    offset, number = 0, 0
    try:
        with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as stream:
            for number, raw in enumerate(stream, 1):
                if number == 1 and 3 * raw.count(0) > len(raw):
                    raise ValueError(
                        f"{file} is not UTF-8 text: every other byte of line 1 is 0, as in UTF-16. Save it as UTF-8."
                    )
                yield number, offset, raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                offset += len(raw)
    except UnicodeDecodeError as error:
        found = f"line {number} holds the byte {error.object[error.start]:#x}"
        raise ValueError(f"{file} is not UTF-8 text: {found}.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, OverflowError) as error:
        raise ValueError(f"{file} is damaged after line {number}: {error}") from error


def records(file: Path) -> Iterator[tuple[int, int, list[str]]]:
    """Number, first byte and cells of every line, none of an empty one; of .jsonl the keys come first."""
    ending = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if ending.lower() == ".csv":
        yield from _separated(file)
    elif ending.lower() == ".jsonl":
        yield from _objects(file)
    else:
        for number, offset, line in lines_of(file):
            yield number, offset, line.split("\t") if line.strip() else []


def _separated(file: Path) -> Iterator[tuple[int, int, list[str]]]:
    """Cells between commas; one in quotes may hold commas and go on over several lines."""
    reader = csv.reader(f"{line}\n" for _, _, line in lines_of(file))
    try:
        for cells in reader:
            yield reader.line_num, 0, cells if any(cell.strip() for cell in cells) else []
    except csv.Error as error:
        raise ValueError(f"{file}, line {reader.line_num}, is not CSV: {error}.") from None


def _objects(file: Path) -> Iterator[tuple[int, int, list[str]]]:
    """A JSON object a line, with the keys of the first one."""
    keys: list[str] = []
    for number, _, line in lines_of(file):
        try:
            value = json.loads(line) if line.strip() else {}
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file}, line {number}, is not JSON: {error}.") from None
        if not isinstance(value, dict):
            raise ValueError(f'{file}, line {number}: expected an object such as {{"text": ...}}, got {line[:40]}.')
        if value and not keys:
            keys = list(value)
            yield number, 0, keys
        yield number, 0, ["" if value.get(key) is None else str(value[key]) for key in keys] if value else []


def read(path: str, names: "Header", *, by_line: bool = False) -> Rows:
    """The rows of a file whose columns ``names`` finds; ``by_line`` or a large file leaves the texts where they are."""
    file = existing_file(path)
    stays = by_line or file.stat().st_size > LARGE
    if stays and file.suffix in (".gz", ".csv", ".jsonl"):
        raise ValueError(
            f"{path} is too large to be held in memory, and lines of a {file.suffix} cannot be found: unpack it, to "
            "columns with tabs between them."
        )
    numbers, offsets, empty = Numbers(), Numbers(), array("q")
    header, cells = None, dict[str, Any]()
    known: dict[str, str] = {}  # one string for all cells that are equal, such as labels
    for number, offset, parts in records(file):
        if not parts:
            empty.append(number)
            continue
        if header is None:
            header = names.found(parts, path)
            if not header.named and len(parts) > 1:
                _require_names(file, parts)
            kept = [name for name in header.columns if not (stays and name in header.texts)]
            cells = {name: Names() if stays else [] for name in kept}
            if header.named:
                continue
        if len(parts) != header.width:
            raise ValueError(
                f"{path}, line {number}: {len(parts)} column{'s' * (len(parts) != 1)}, but the first line has "
                f"{header.width}."
            )
        missing = next((name for name in header.texts if not parts[header.columns[name]].strip()), None)
        if missing is not None:
            if header.width > 1 and len(header.texts) > 1:
                raise ValueError(f"{path}, line {number}: the column {missing} is empty.")
            empty.append(number)
            continue
        for name, column in cells.items():
            cell = parts[header.columns[name]]
            column.append(cell if stays or name in header.texts else known.setdefault(cell, cell))
        numbers.append(number)
        offsets.append(offset)
    if header is None or not len(numbers):
        raise ValueError(f"There is no text in {path}: {len(empty)} lines, all of them empty or a header.")
    offsets.append(file.stat().st_size)
    texts: dict[str, Sequence[str]] = {
        name: Column(file, offsets, header.columns[name]) if stays else cells.pop(name) for name in header.texts
    }
    return Rows(cells, texts, numbers if stays else numbers[:], empty)


def _require_names(file: Path, first: list[str]) -> None:
    """Refuse a .csv or .jsonl whose columns are not known by name: which of them is the text cannot be guessed."""
    if {".csv", ".jsonl"} & set(file.suffixes):
        raise ValueError(
            f"{file} names no column of texts; it has {', '.join(first[:8])}. Say which it is: text:{file},column=NAME."
        )


@dataclass(frozen=True)
class Found:
    """Which column is what: ``texts`` are columns of texts, ``named`` whether the first line names them."""

    columns: dict[str, int]
    texts: tuple[str, ...]
    width: int
    named: bool


@runtime_checkable
class Header(Protocol):
    """How the columns of a file are recognized, in its first line or by their number."""

    def found(self, first: list[str], path: str) -> Found: ...


def position(header: Sequence[str], names: Iterable[str]) -> int | None:
    """The first column of a header that is called by one of these names."""
    return next((header.index(name) for name in names if name in header), None)
