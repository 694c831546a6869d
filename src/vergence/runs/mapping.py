"""The doctor over shards: every shard is looked through once, by any number of processes or by Ray, and merged."""

import glob
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise, repeat
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any, Literal

import numpy as np
import torch

from vergence.data.embeddings import read_embeddings
from vergence.data.shards import tables
from vergence.data.shards.places import expanded
from vergence.data.shards.records import Damaged, Roles
from vergence.diagnostics import merging
from vergence.diagnostics.merging import State

Engine = Literal["processes", "ray"]
CHUNK = 32_768  # rows in memory at once in each process
TURNS = 4  # parts that each process of a cluster gets on average: a slow one does not make the others wait for long

WAITING = 2**25  # bytes of sums of chunks that wait to be merged

Piece = tuple[str, int]  # a file and the number of a part of it


@dataclass(frozen=True)
class Workers:
    """Processes that work side by side: none beside this one, a pool of them, or those of a cluster by Ray."""

    count: int
    engine: Engine
    pool: ProcessPoolExecutor | None
    counter: Any  # the pieces and the rows that were seen so far

    @property
    def over(self) -> Callable[..., Iterator[Any]]:
        """``map``, over the processes of the pool where there is one."""
        return map if self.pool is None else self.pool.map


@contextmanager
def workers(processes: int = 1, engine: Engine = "processes") -> Iterator[Workers]:
    """So many processes, until the end of the block.

    They are copies of this process, which has imported all, where it has no other thread that would be cut off. Reading
    a file starts threads, so they begin before any is read.
    """
    if processes < 1:
        raise ValueError(f"processes must be at least 1, not {processes}.")
    threads = Path("/proc/self/task")
    alone = threads.exists() and len(list(threads.iterdir())) == 1
    context = get_context("fork" if alone else "spawn")
    counter = context.Array("q", 2)
    if processes == 1 or engine == "ray":
        _begin(counter, torch.get_num_threads())
        yield Workers(processes, engine, None, counter)
        return
    with ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(counter, 1)) as pool:
        yield Workers(processes, engine, pool, counter)


def examined(
    files: Sequence[str], workers: Workers, *, drop_nan: bool = False,
    saying: Callable[[int, int, int], None] = lambda done, parts, rows: None,
) -> State:  # fmt: skip
    """The state of the rows of all files; ``saying`` is told how many of the parts are done, and their rows."""
    looked = dict(zip(sorted(files), workers.over(_pieces, sorted(files)), strict=True))
    _require_alike({file: roles for file, (_, roles) in looked.items() if roles is not None})
    pieces = [piece for found, _ in looked.values() for piece in found]
    by_ray, counter = workers.engine == "ray", workers.counter
    # Each part fills a reservoir of its own: few of them, but where a slow machine would make others wait.
    parts = _parts(pieces, TURNS * workers.count if by_ray else workers.count)
    made = _by_ray(parts, drop_nan, workers) if by_ray else workers.over(_packed_state, parts, repeat(drop_nan))
    states: list[State] = []
    with _told(lambda: saying(counter[0], len(pieces), counter[1])):
        for state in map(unpacked, made):
            _require_width(state.d, parts[len(states)][0][0], states[0].d if states else state.d, parts[0][0][0])
            states.append(state)
    return merging.merged(*states)


def are_shards(targets: Sequence[str]) -> bool:
    """Whether targets are the shards of one set: a folder or a glob of them, or Parquet files named by number."""
    if len(targets) == 1:
        path = Path(targets[0])
        return glob.has_magic(targets[0]) or (path.is_dir() and any(path.glob("*.parquet")))
    kinds = {re.sub(r"\d+", "0", Path(target).name) for target in targets}
    folders = {Path(target).parent for target in targets}
    return len(kinds) == len(folders) == 1 and all(target.endswith((".parquet", ".pq")) for target in targets)


def shard_files(target: Any) -> list[str]:
    """The files that a target stands for."""
    return expanded(str(target), (".parquet", ".pq"), timeout=30.0, retries=3)


def state_of(pieces: Sequence[Piece], *, drop_nan: bool = False) -> State:
    """The state of the rows of some pieces, read one after the other."""
    state, waiting = None, list[State]()
    for file, number in pieces:
        looked_at = 0
        for start, rows, labels in _chunks(file, number):
            looked_at += len(rows)
            keys = row_keys(file, start, len(rows))
            rows, keys, labels = _finite(rows, keys, labels, file, start, drop_nan=drop_nan)
            if len(rows):
                waiting.append(merging.of(rows, keys, labels, within=state))
                _require_width(rows.shape[1], file, waiting[0].d if state is None else state.d, pieces[0][0])
            if waiting and (state is None or _enough(waiting, state)):
                state, waiting = merging.merged(*([state] if state else []), *waiting), []
        _count(looked_at)
    if not waiting and state is None:
        raise ValueError(f"No row of {pieces[0][0]} and {len(pieces) - 1} other parts is finite.")
    return merging.merged(*([state] if state else []), *waiting)


def _enough(waiting: Sequence[State], state: State) -> bool:
    """Whether to merge: for each time a full reservoir is copied there are as many rows that may enter it."""
    rows = sum(len(each.keys) for each in waiting)
    return not state.is_full or rows >= len(state.keys) or len(waiting) * state.product.nbytes >= WAITING


def row_keys(file: str, start: int, count: int) -> torch.Tensor:
    """A key for each row: a hash of the name of its file and of its number in it, rising within a file."""
    first = zlib.crc32(Path(file).name.encode()) << 31
    return first + start + torch.arange(count)


def _pieces(file: str) -> tuple[list[Piece], Roles | None]:
    """The parts of a file, row groups of Parquet with their columns, or the whole of anything else."""
    if not file.endswith((".parquet", ".pq")):
        return [(file, 0)], None
    try:
        table = tables._file(Path(file))
    except Damaged as error:
        raise ValueError(f"{file}: {error}.") from None
    return [(file, number) for number in range(table.num_row_groups)], tables.roles_of(table.schema_arrow, file)


def _require_alike(roles: Mapping[str, Roles]) -> None:
    """Refuse shards whose embeddings are in other columns or shapes than those of the first, or labels in some only."""
    for file, own in roles.items():
        first, known = next(iter(roles.items()))
        shapes = {own.shape, known.shape} - {()}  # lists of any length say no shape
        if (own.data, own.form) != (known.data, known.form) or len(shapes) > 1:
            raise ValueError(
                f"The shards differ: {file} has its rows in {own.described}, {first} in {known.described}. Examine "
                "each kind by itself."
            )
        if bool(own.label) != bool(known.label):
            has, lacks = (file, first) if own.label else (first, file)
            raise ValueError(
                f"{has} has labels and {lacks} has none: examine those with labels by themselves, or give all a "
                "column of labels."
            )


def _require_width(d: int, file: str, known: int, first: str) -> None:
    if d != known:
        raise ValueError(f"The shards differ: {file} has rows of {d} dimensions, {first} of {known}.")


def _parts(pieces: Sequence[Piece], count: int) -> list[list[Piece]]:
    edges = np.linspace(0, len(pieces), min(count, len(pieces)) + 1).round().astype(int)
    return [list(pieces[start:stop]) for start, stop in pairwise(edges)]


def _chunks(file: str, number: int) -> Iterator[tuple[int, torch.Tensor, Any]]:
    """Rows of a piece with the number of the first and their labels, a bounded number at a time."""
    if file.endswith((".parquet", ".pq")):
        yield from _of_row_group(file, number)
        return
    array = read_embeddings(file)
    for start in range(0, len(array), CHUNK):
        yield start, torch.as_tensor(np.array(array[start : start + CHUNK], np.float32)), None


def _of_row_group(file: str, number: int) -> Iterator[tuple[int, torch.Tensor, Any]]:
    try:
        schema = tables._file(Path(file)).schema_arrow
        roles = tables.roles_of(schema, file)
        if roles.form != "array":
            raise ValueError(f"{file} has no column of embeddings; it has {', '.join(schema.names)}.")
        for records in tables.in_batches(Path(file), number, replace(roles, key=""), CHUNK):  # names are not read
            if records.arrays is None or records.arrays.ndim != 2:
                raise ValueError(f"{file}: the lists in column {roles.data} differ in length; expected one length.")
            labels = records.table.column(roles.label).to_numpy(zero_copy_only=False) if roles.label else None
            yield records.first, torch.from_numpy(np.array(records.arrays, np.float32)), labels
    except Damaged as error:
        raise ValueError(f"{file}: {error}.") from None


def _finite(
    rows: torch.Tensor, keys: torch.Tensor, labels: Any, file: str, start: int, *, drop_nan: bool
) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """The rows without NaN and infinity, which are an error unless they shall be left out."""
    if bool(torch.isfinite(rows.sum())):  # no sum with NaN or infinity in it is finite
        return rows, keys, labels
    good = torch.isfinite(rows).all(dim=1)
    if bool(good.all()):
        return rows, keys, labels
    if not drop_nan:
        bad = (~good).nonzero().squeeze(1)
        raise ValueError(
            f"{len(bad)} rows of {file} hold NaN or infinity, the first is row {start + int(bad[0])}. "
            "Leave them out with --drop-nan."
        )
    return rows[good], keys[good], None if labels is None else np.asarray(labels)[good.numpy()]


@contextmanager
def _told(saying: Callable[[], None]) -> Iterator[None]:
    """Say it twice a second until the end of the block, and then once more."""
    end = Event()

    def repeatedly() -> None:
        while not end.wait(0.5):
            saying()

    thread = Thread(target=repeatedly, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    saying()


def _by_ray(parts: Sequence[list[Piece]], drop_nan: bool, workers: Workers) -> Iterator[bytes]:
    """The same as a Ray Data job: on the cluster that Ray is connected to, or on this machine."""
    try:
        import ray
    except ImportError:
        raise ImportError("--engine ray needs Ray: pip install 'vergence[ray]'.") from None
    if not ray.is_initialized():
        ray.init(
            address=os.environ.get("RAY_ADDRESS"), num_cpus=None if os.environ.get("RAY_ADDRESS") else workers.count,
            include_dashboard=False, log_to_driver=False, logging_level="error",
        )  # fmt: skip
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = [
        {"number": number, "files": [file for file, _ in part], "pieces": [at for _, at in part]}
        for number, part in enumerate(parts)
    ]
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows)).map(_ray_row, fn_kwargs={"drop_nan": drop_nan})
    found = {row["number"]: row["state"] for row in dataset.iter_rows()}
    yield from (found[number] for number in sorted(found))


def _ray_row(row: dict[str, Any], drop_nan: bool) -> dict[str, Any]:
    pieces = [(str(file), int(at)) for file, at in zip(row["files"], row["pieces"], strict=True)]
    return {"number": int(row["number"]), "state": _packed_state(pieces, drop_nan)}


_counter: Any = None


def _begin(counter: Any, threads: int) -> None:
    """Count on the common counter; the processes are the parallelism, and threads none."""
    global _counter
    _counter = counter
    torch.set_num_threads(threads)


def _count(rows: int) -> None:
    if _counter is not None:
        with _counter.get_lock():
            _counter[0] += 1
            _counter[1] += rows


def _packed_state(part: Sequence[Piece], drop_nan: bool) -> bytes:
    return packed(state_of(part, drop_nan=drop_nan))


def packed(state: State) -> bytes:
    """A state as bytes that hold arrays only, for whoever brings it to another process."""
    plain: dict[str, Any] = {
        name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in vars(state).items()
    }
    classes = plain.pop("classes")
    if classes is not None:
        plain |= {"class_names": np.array(list(classes)), "class_counts": np.array(list(classes.values()))}
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **{name: value for name, value in plain.items() if value is not None})
    return buffer.getvalue()


def unpacked(content: bytes) -> State:
    """A state from its bytes."""
    with np.load(BytesIO(content), allow_pickle=False) as archive:
        found: dict[str, Any] = dict(archive)
    names, counts = found.pop("class_names", None), found.pop("class_counts", None)
    if names is not None:
        found["classes"] = dict(zip(names.tolist(), counts.tolist(), strict=True))
    for name in ("count", "total", "product"):
        found[name] = torch.from_numpy(found[name])
    for name, kind in {"mean": float, "square": float, "zeros": int}.items():
        found[name] = kind(found[name])
    return State(**found)
