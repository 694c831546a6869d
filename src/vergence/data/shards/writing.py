"""Writing shards: samples of any source as WebDataset tars or Parquet files, each whole or not at all, with checksums.

A finished shard is a line in ``.progress.jsonl``; who is interrupted goes on after the last of them.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vergence.counters import shuffled
from vergence.data.arrays import StoredArray
from vergence.data.captions import TABLES, _rows
from vergence.data.images import ImageFiles, _reason
from vergence.data.samples import Samples
from vergence.data.shards import index as indices
from vergence.data.shards import tables, tars
from vergence.data.shards.index import Entry, Index
from vergence.data.shards.records import Roles

PROGRESS = ".progress.jsonl"
ROW_GROUP = 2**24  # bytes of a row group, which is what a reader holds in memory at once


@dataclass(frozen=True)
class Record:
    """One sample as it is written: ``data`` is bytes with an ``ending``, an array or a text."""

    name: str
    data: Any
    ending: str
    label: int | None = None
    caption: str | None = None


def write_shards(
    samples: Samples, folder: Path, *, format: str, records: int, seed: int | None, source: str
) -> Iterator[tuple[Entry, list[tuple[str, str]]]]:
    """Write all samples in shards of ``records``; yield each finished shard and what had to be left out of it.

    ``seed`` puts samples in another order, by counter; None keeps theirs. Shards that an interrupted call finished are
    not written again.
    """
    n = len(samples)
    order = torch.arange(n) if seed is None else shuffled(torch.arange(n), seed=seed)
    facts = {"source": source, "n": n, "format": format, "records": records, "seed": seed}
    done = _progress(folder, facts)
    content, ending, width = (
        _content(samples),
        {"wds": "tar", "parquet": "parquet"}[format],
        len(str((n - 1) // records)),
    )
    entries = []
    for number, start in enumerate(range(0, n, records)):
        name = f"shard-{number:0{max(5, width)}d}.{ending}"
        if name in done:
            entries.append(done[name])
            yield done[name], []
            continue
        skipped: list[tuple[str, str]] = []
        made = _sound(content, order[start : start + records].tolist(), samples, skipped)
        entry = _written(folder / name, made, format, samples)
        if entry is not None:
            with (folder / PROGRESS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(vars(entry)) + "\n")
            entries.append(entry)
            yield entry, skipped
    index = _index(samples, format, entries)
    part = folder / f".{indices.FILE}.part"
    part.write_text(index.to_json(), encoding="utf-8")
    os.replace(part, folder / indices.FILE)
    (folder / PROGRESS).unlink(missing_ok=True)


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verified(folder: Path) -> list[tuple[str, str]]:
    """The shards of a folder that do not match the checksums of its index, each with what is wrong."""
    found = indices.read((folder / indices.FILE).read_text(encoding="utf-8"), str(folder / indices.FILE))
    faults = []
    for entry in found.entries:
        path = folder / entry.name
        if not path.is_file():
            faults.append((str(path), "missing"))
        elif path.stat().st_size != entry.bytes:
            faults.append((str(path), f"{path.stat().st_size} bytes, {entry.bytes} were written"))
        elif checksum(path) != entry.sha256:
            faults.append((str(path), "does not match its checksum"))
    return faults


def _progress(folder: Path, facts: Mapping[str, Any]) -> dict[str, Entry]:
    """The shards that an interrupted call finished; a folder with other shards is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / PROGRESS
    if not file.exists():
        if (folder / indices.FILE).exists():
            raise FileExistsError(
                f"{folder} holds shards that are complete: `--check` compares them with their checksums. "
                "For others name another folder."
            )
        if any(not child.name.startswith(".") for child in folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty: name another folder for the shards.")
        file.write_text(json.dumps(facts) + "\n", encoding="utf-8")
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    if json.loads(lines[0]) != facts:
        raise ValueError(f"{folder} holds shards of another call, {lines[0]}: name another folder or remove it.")
    done = {}
    for line in lines[1:]:
        with suppress(ValueError, TypeError):  # a line torn by a kill
            entry = Entry(**{**(found := json.loads(line)), "records": tuple(found["records"])})
            if (folder / entry.name).is_file() and (folder / entry.name).stat().st_size == entry.bytes:
                done[entry.name] = entry
    return done


def _sound(
    content: Callable[[int], Record], numbers: Sequence[int], samples: Samples, skipped: list[tuple[str, str]]
) -> Iterator[Record]:
    for number in numbers:
        try:
            yield content(number)
        except Exception as error:  # a damaged image may raise anything
            name = samples.names[number] if samples.names is not None else str(number)
            skipped.append((name, _reason(error)))


def _content(samples: Samples) -> Callable[[int], Record]:
    """How to get the record of a sample: files as they are, arrays and texts as they were given."""
    captions = _captions(samples)
    names = samples.names if samples.names is not None and samples.kind != "text" else None

    def record(number: int) -> Record:
        data, ending = _data(samples, number)
        label = None if samples.labels is None else int(samples.labels[number])
        name = str(names[number]) if names is not None else f"{number:09d}"
        return Record(name, data, ending, label, captions.get(name))

    return record


def _data(samples: Samples, number: int) -> tuple[Any, str]:
    if samples.kind == "text":
        assert samples.names is not None
        return samples.names[number], "txt"
    if not isinstance(samples.x, ImageFiles):
        return samples.x[torch.tensor([number])][0].numpy(), "npy"
    with samples.x.opened(int(samples.x.indices[number])) as image:
        place = getattr(image, "filename", "")
        if place and Path(place).is_file():
            image.verify()
            return Path(place).read_bytes(), Path(place).suffix.removeprefix(".").lower()
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "PNG")
        return buffer.getvalue(), "png"


def _captions(samples: Samples) -> dict[str, str]:
    if samples.captions is None:
        return {}
    root = Path(samples.source.partition(":")[2])
    table = next(root / name for name in TABLES if (root / name).is_file())
    found: dict[str, str] = {}
    for file, caption in _rows(table):
        found.setdefault(str(Path(file)), caption)
    return found


def _written(path: Path, records: Iterator[Record], format: str, samples: Samples) -> Entry | None:
    """A shard, whole or not at all; None where no record is sound."""
    part = path.with_name(f".{path.name}.part")
    try:
        counts = _tar(part, records) if format == "wds" else _table(part, records, samples)
        if not sum(counts):
            return None
        entry = Entry(path.name, counts, part.stat().st_size, checksum(part))
        os.replace(part, path)
        return entry
    except OSError as error:
        raise type(error)(error.errno, f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        part.unlink(missing_ok=True)


def _tar(part: Path, records: Iterator[Record]) -> tuple[int]:
    keys: dict[str, int] = {}
    with tarfile.open(part, "w", format=tarfile.GNU_FORMAT) as file:
        for record in records:
            key = _key(record.name)
            keys[key] = keys.get(key, 0) + 1
            key = key if keys[key] == 1 else f"{key}~{keys[key]}"
            members = {record.ending: _bytes(record.data)}
            members |= {} if record.label is None else {"cls": str(record.label).encode()}
            members |= {} if record.caption is None else {"txt": record.caption.encode()}
            for ending, content in members.items():
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
    return (sum(keys.values()),)


def _key(name: str) -> str:
    """A name as WebDataset reads it: no dot but the one before the ending."""
    folder, slash, last = name.replace("\\", "/").lstrip("/").rpartition("/")
    stem = Path(last).stem if "." in last else last
    return f"{folder}{slash}{stem.replace('.', '_')}" or "sample"


def _bytes(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    buffer = io.BytesIO()
    np.save(buffer, data, allow_pickle=False)
    return buffer.getvalue()


def _table(part: Path, records: Iterator[Record], samples: Samples) -> tuple[int, ...]:
    """A Parquet file in row groups of about 16 MiB."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Writing .parquet needs pyarrow: pip install 'vergence[parquet]'.") from None
    made: list[Record] = []
    counts: list[int] = []
    schema = _schema(samples)
    options: dict[str, Any] = {"compression": "zstd" if samples.kind == "text" else "none", "use_dictionary": False}
    with parquet.ParquetWriter(part, schema, **options) as writer:

        def flush() -> None:
            if made:
                writer.write_table(pyarrow.table(_columns(made, schema), schema=schema), row_group_size=len(made))
                counts.append(len(made))
                made.clear()

        held = 0
        for record in records:
            made.append(record)
            held += len(record.data) if isinstance(record.data, bytes | str) else record.data.nbytes
            if held >= ROW_GROUP:
                flush()
                held = 0
        flush()
    return tuple(counts)


def _schema(samples: Samples) -> Any:
    import pyarrow

    if samples.kind == "text":
        data = pyarrow.field("text", pyarrow.string())
    elif isinstance(samples.x, ImageFiles):
        data = pyarrow.field("image", pyarrow.binary())
    else:
        dtype = samples.x.dtype if isinstance(samples.x, torch.Tensor | StoredArray) else torch.float32
        inner = pyarrow.uint8() if dtype == torch.uint8 else pyarrow.float32()
        kind = pyarrow.list_(inner, int(np.prod(samples.shape)))
        data = pyarrow.field("x", kind, metadata={"shape": json.dumps(samples.shape)})
    more = [pyarrow.field("name", pyarrow.string())]
    more += [pyarrow.field("label", pyarrow.int64())] if samples.labels is not None else []
    more += [pyarrow.field("caption", pyarrow.string())] if samples.captions is not None else []
    return pyarrow.schema([data, *more])


def _columns(made: list[Record], schema: Any) -> dict[str, Any]:
    import pyarrow

    first = schema.field(0)
    if pyarrow.types.is_fixed_size_list(first.type):
        flat = np.concatenate([np.ravel(record.data) for record in made])
        data: Any = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), type=first.type)
    else:
        data = [record.data for record in made]
    known = {"name": "name", "label": "label", "caption": "caption"}
    return {first.name: data} | {
        name: [getattr(record, known[name]) for record in made] for name in schema.names if name in known
    }


def _index(samples: Samples, format: str, entries: Sequence[Entry]) -> Index:
    if format == "parquet":
        roles = tables.roles_of(_schema(samples), "the shards")
    else:
        ending = "txt" if samples.kind == "text" else "npy"
        ending = "*" if isinstance(samples.x, ImageFiles) else ending
        form = {"txt": "text", "npy": "array", "*": "bytes"}[ending]
        label, caption = ("cls" * (samples.labels is not None)), ("txt" * (samples.captions is not None))
        roles = Roles(tars.IMAGE if ending == "*" else ending, form, label, caption)  # type: ignore[arg-type]
    return Index(format, roles, samples.kind, tuple(samples.shape), tuple(samples.classes), tuple(entries))
