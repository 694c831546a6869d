"""Parquet shards: a row a sample. A row group is what is read at once, so it bounds the memory of an open piece.

The sample is a column of image files (bytes, or the struct of bytes and path that Hugging Face writes), of arrays
(lists of numbers, nested or of a fixed size with their shape in the metadata of the field) or of texts; or all columns
of numbers together are one vector.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vergence.data.shards.records import Damaged, Form, Listing, Roles

LABELS = ("label", "labels", "cls", "class", "y", "target", "targets", "fine_label")
CAPTIONS = ("caption", "captions", "text", "txt")
KEYS = ("__key__", "key", "name", "names", "id", "file", "path", "filename", "file_name")
DATA = ("image", "img", "x", "embedding", "embeddings", "array", "text", "sentence")
NUMBERS = "*"  # the role of data that are all columns of numbers
MANY = 100_000  # whole numbers from 0 to this are labels as they are; others are looked through


@dataclass(frozen=True, eq=False)
class TableRecords:
    """The rows of one row group."""

    table: Any
    place: str
    first: int  # the number of its first row in the file
    arrays: np.ndarray | None  # all samples at once, where they are arrays of one shape
    fault: str = ""

    def __len__(self) -> int:
        return self.table.num_rows

    def name(self, row: int) -> str:
        key = next((name for name in KEYS if name in self.table.column_names), "")
        found = self.table.column(key)[row].as_py() if key and row < len(self) else None
        return str(found) if found is not None else f"{Path(self.place).stem}/{self.first + row}"

    def data(self, row: int, roles: Roles) -> Any:
        if row >= len(self):
            raise Damaged("the shard holds fewer rows than its index says")
        if self.arrays is not None:
            return self.arrays[row]
        found = self.table.column(roles.data)[row].as_py()
        if isinstance(found, dict):
            found = found.get("bytes")
        if found is None:
            raise Damaged(f"{roles.data} is empty")
        if roles.form != "array":
            return found
        try:
            return np.asarray(found).reshape(roles.shape or np.shape(found))
        except ValueError:
            raise Damaged("its lists differ in length") from None

    def label(self, row: int, roles: Roles) -> Any:
        found = self.table.column(roles.label)[row].as_py()
        if found is None:
            raise Damaged("its label is empty")
        return int(found) if isinstance(found, float) and found == int(found) else found

    def caption(self, row: int, roles: Roles) -> str:
        return str(self.table.column(roles.caption)[row].as_py() or "")


def opened(path: Path, piece: int, roles: Roles) -> TableRecords:
    """One row group of a file, only the columns that are used."""
    file = _file(path)
    values, columns = _columns(file.schema_arrow, roles)
    try:
        table = file.read_row_group(piece, columns=columns, use_threads=False).combine_chunks()
    except Exception as error:  # damaged pages may raise anything
        raise Damaged(f"row group {piece} cannot be read: {_short(error)}") from None
    return TableRecords(table, str(path), _first_row(file, piece), _arrays(table, values, roles))


def in_batches(path: Path, piece: int, roles: Roles, rows: int) -> Iterator[TableRecords]:
    """One row group of a file, at most ``rows`` at a time: the others are not decoded yet."""
    import pyarrow

    file = _file(path)
    values, columns = _columns(file.schema_arrow, roles)
    first = _first_row(file, piece)
    batches = file.iter_batches(rows, row_groups=[piece], columns=columns, use_threads=False)
    while True:
        try:
            table = pyarrow.Table.from_batches([next(batches)])
        except StopIteration:
            return
        except Exception as error:  # damaged pages may raise anything
            raise Damaged(f"row group {piece} cannot be read: {_short(error)}") from None
        yield TableRecords(table, str(path), first, _arrays(table, values, roles))
        first += len(table)


def _columns(schema: Any, roles: Roles) -> tuple[list[str], list[str]]:
    """The columns that make a sample, and all that are read: the others are labels, captions and names."""
    numbers = [name for name in schema.names if is_number(schema.field(name).type)] if roles.data == NUMBERS else []
    chosen = numbers or [roles.data]
    key = roles.key if roles.key in schema.names else ""
    columns = list(dict.fromkeys(name for name in (*chosen, roles.label, roles.caption, key) if name))
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise Damaged(f"there is no column {missing[0]!r}; it has {', '.join(schema.names)}")
    return [name for name in chosen if name != roles.label], columns


def _first_row(file: Any, piece: int) -> int:
    return sum(file.metadata.row_group(number).num_rows for number in range(piece))


def listed(path: Any, data: str = "") -> Listing:
    """How many rows each row group of a file holds, what they consist of, and which labels there are."""
    file = _file(path)
    counts = tuple(file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups))
    if not sum(counts):
        raise Damaged("the table has no rows")
    roles = roles_of(file.schema_arrow, str(path), data)
    if not roles.label:
        return Listing(counts, roles)
    return Listing(counts, roles, _labels(file, roles), classes=class_names(file.schema_arrow, roles.label))


def roles_of(schema: Any, where: str, data: str = "") -> Roles:
    """Which columns are the sample, the label, the caption and the name, by their names and types."""
    forms = {name: form for name in schema.names if (form := form_of(schema.field(name).type))}
    label = next((name for name in LABELS if name in schema.names and forms.get(name) != "bytes"), "")
    key = next((name for name in KEYS if name in schema.names), "")
    free = [name for name in forms if name not in (label, key)]
    usual = [name for name in DATA if name in free]
    by_form = [name for form in ("bytes", "array", "text") for name in free if forms[name] == form]
    chosen = data or next((name for name in usual if forms[name] != "text"), "") or next(iter([*by_form]), "")
    if not chosen and any(is_number(schema.field(name).type) for name in schema.names if name not in (label, key)):
        return Roles(NUMBERS, "array", label, "", key)
    if chosen not in forms:
        raise ValueError(
            f"{where} has the columns {', '.join(map(str, schema.names))}; expected one of images (bytes), arrays "
            "(lists of numbers) or texts, or columns of numbers. Name it with column=NAME."
        )
    caption = next((name for name in CAPTIONS if name in forms and name != chosen and forms[name] == "text"), "")
    return Roles(
        chosen, forms[chosen], label, caption if forms[chosen] == "bytes" else "", key, _shape(schema.field(chosen))
    )


def class_names(schema: Any, label: str) -> tuple[str, ...]:
    """The names of the classes where Hugging Face wrote them down."""
    raw = (schema.metadata or {}).get(b"huggingface")
    try:
        return tuple(json.loads(raw)["info"]["features"][label]["names"]) if raw else ()
    except (ValueError, KeyError, TypeError):
        return ()


def _file(path: Any) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Reading .parquet needs pyarrow: pip install 'vergence[parquet]'.") from None
    try:
        return parquet.ParquetFile(path, memory_map=isinstance(path, Path))
    except OSError:
        raise
    except Exception as error:
        raise Damaged(f"not a whole Parquet file (still being written, or cut off): {_short(error)}") from None


def _labels(file: Any, roles: Roles) -> set[Any]:
    """The labels of a file: from the statistics of its row groups, or from the column itself."""
    import pyarrow

    kind = file.schema_arrow.field(roles.label).type
    at = file.schema_arrow.names.index(roles.label)
    if pyarrow.types.is_integer(kind) and not any(pyarrow.types.is_nested(field.type) for field in file.schema_arrow):
        known = [file.metadata.row_group(number).column(at).statistics for number in range(file.num_row_groups)]
        if all(each is not None and each.has_min_max and not each.null_count for each in known):
            low, high = min(each.min for each in known), max(each.max for each in known)
            if low >= 0 and high < MANY:
                return set(range(high + 1))
    found = set(file.read(columns=[roles.label]).column(0).unique().to_pylist())
    whole = all(isinstance(label, int) and 0 <= label < MANY for label in found)
    return set(range(max(found) + 1)) if found and whole else found


def _arrays(table: Any, columns: list[str], roles: Roles) -> np.ndarray | None:
    """All samples as one array without going through Python numbers; ``None`` where their shapes differ."""
    if roles.form != "array":
        return None
    if roles.data == NUMBERS:
        return np.column_stack([table.column(name).to_numpy() for name in columns])
    found = stacked(table, columns[0])
    return found if found is None or not roles.shape else found.reshape(table.num_rows, *roles.shape)


def stacked(table: Any, column: str) -> np.ndarray | None:
    """A column of lists, nested or not, as one array; ``None`` where they differ in length or some are missing."""
    import pyarrow

    chunks = table.column(column)
    values = chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()  # which copies
    if values.null_count or not table.num_rows:
        return None
    shape: list[int] = []
    while pyarrow.types.is_nested(values.type):
        inner = values.flatten()
        each, left = divmod(len(inner), max(1, table.num_rows * int(np.prod(shape or [1]))))
        if left or (not pyarrow.types.is_fixed_size_list(values.type) and len(_lengths(values)) > 1):
            return None
        shape.append(each)
        values = inner
    return values.to_numpy(zero_copy_only=False).reshape(table.num_rows, *shape)


def _lengths(values: Any) -> list[int]:
    return np.unique(np.diff(values.offsets.to_numpy())).tolist()


def form_of(kind: Any) -> Form | None:
    """What a column may hold, by its type."""
    from pyarrow import types

    if types.is_struct(kind):
        return "bytes" if any(kind.field(number).name == "bytes" for number in range(kind.num_fields)) else None
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "bytes"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
        if is_number(kind):
            return "array"
    return None


def is_number(kind: Any) -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _shape(field: Any) -> tuple[int, ...]:
    """The shape of one sample, where the metadata of the field say it, or the size of its list."""
    from pyarrow import types

    raw = (field.metadata or {}).get(b"shape")
    if raw:
        return tuple(int(side) for side in json.loads(raw))
    fixed = types.is_fixed_size_list(field.type) and not types.is_nested(field.type.value_type)
    return (field.type.list_size,) if fixed else ()


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200].rstrip(".")
