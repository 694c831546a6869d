"""Places of shards: local paths and globs, or addresses that fsspec knows (https, s3, gs, hf).

What is not on a local disk is copied to one, a shard at a time, with time-outs, retries and growing waits between them;
the copy is removed when room is needed or the process ends.
"""

import atexit
import glob
import hashlib
import os
import queue
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")

PIECE = 2**20  # bytes asked for at once: each must come before the time-out
GONE = (404, 410)  # the answers of HTTP that there is no such file; others may pass
FIRST_WAIT = 0.5  # seconds before the second attempt; every further wait is twice as long
NUMBERS = re.compile(r"\{(\d+)\.\.(\d+)\}")
CHOICES = re.compile(r"\{([^{}]*,[^{}]*)\}")


class Unreachable(OSError):
    """A shard that could not be read after all attempts; the sentence names it."""


def expanded(pattern: str, endings: tuple[str, ...], *, timeout: float, retries: int) -> list[str]:
    """The shards that a pattern names, in the order of their names.

    ``{0000..0127}`` counts, ``{a,b}`` chooses, ``*`` and ``?`` match, a folder stands for the shards in it; patterns
    are joined by ``::``. Hidden files and those still being written (``.part``, ``.tmp``) are passed over.
    """
    found: list[str] = []
    for one in pattern.split("::"):
        for plain in _counted(one):
            found += _matching(plain, endings, timeout=timeout, retries=retries)
    shards = list(dict.fromkeys(found))
    if not shards:
        raise FileNotFoundError(
            f"No shard matches {pattern}. Expected files ending in {' or '.join(endings)}: a folder, a glob such as "
            f"shards/*{endings[0]}, or a range such as shards/train-{{0000..0127}}{endings[0]}."
        )
    return shards


def remote(place: str) -> bool:
    """Whether a place is an address rather than a path."""
    return "://" in place and not place.startswith("file://")


@dataclass(frozen=True)
class Spool:
    """A folder for copies of remote shards, of at most ``room`` bytes, which goes when this process ends."""

    timeout: float = 30.0
    retries: int = 5
    room: int = 2**34
    folder: Path = field(default_factory=lambda: _spool_folder())

    def local(self, place: str) -> Path:
        """The shard as a local file, copied first where it is remote; several processes copy it once."""
        if not remote(place):
            return Path(place.removeprefix("file://"))
        copy = self.folder / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}-{Path(place).name[-80:]}"
        with _locked(copy):
            if not copy.exists():
                self._make_room()
                attempted(lambda: _copied(place, copy, timeout=self.timeout), place, retries=self.retries)
            os.utime(copy)  # the longest unused goes first
        return copy

    def _make_room(self) -> None:
        kept = sorted(
            (file for file in self.folder.iterdir() if file.suffix not in (".lock", ".part")),
            key=_last_use,
            reverse=True,
        )
        held = 0
        for file in kept:
            held += file.stat().st_size
            if held > self.room // 2:  # half, so that what comes next has room too
                file.unlink(missing_ok=True)


def attempted(action: Callable[[], Value], place: str, *, retries: int) -> Value:
    """What an action gives, tried ``retries`` times with growing waits; then a sentence that names the shard."""
    start, reason = time.monotonic(), "nothing"
    for attempt in range(max(1, retries)):
        try:
            return action()
        except Exception as error:  # network libraries raise anything
            if is_absent(error):
                raise Unreachable(f"There is no shard {place} (any more): {_short(error)}") from error
            reason = _short(error.__cause__ or error if isinstance(error, FileNotFoundError) else error)
        if attempt + 1 < retries:
            time.sleep(FIRST_WAIT * 2**attempt)
    raise Unreachable(
        f"The shard {place} could not be read in {max(1, retries)} attempts over {time.monotonic() - start:.0f} s; the "
        f"last one ended with: {reason}. What was trained is kept: --resume continues when it can be reached."
    )


def is_absent(error: BaseException) -> bool:
    """Whether a store said that it has no such file, rather than nothing or that it has a fault of its own.

    fsspec says FileNotFoundError of any HTTP answer but success, also of 503, which is the cause of it then.
    """
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError):
        return False
    if (status := getattr(cause, "status", None)) is not None:
        return status in GONE
    return isinstance(cause, FileNotFoundError) or not (isinstance(cause, OSError) or _is_of(cause, "aiohttp"))


def _is_of(error: BaseException | None, library: str) -> bool:
    return type(error).__module__.partition(".")[0] == library


def within(seconds: float, action: Callable[["queue.Queue[Any]"], None]) -> None:
    """Run an action that reports progress to a queue; a pause longer than ``seconds`` is a TimeoutError."""
    reports: queue.Queue[Any] = queue.Queue()
    worker = threading.Thread(target=action, args=(reports,), daemon=True)
    worker.start()
    while True:
        try:
            report = reports.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no answer for {seconds:g} s") from None
        if isinstance(report, BaseException):
            raise report
        if report is None:
            return


def answered(place: str, question: Callable[[Any, str], Value], *, timeout: float, retries: int) -> Value:
    """What a remote file system answers to a question about a place, with time-outs and retries."""
    answers: list[Value] = []

    def ask(reports: "queue.Queue[Any]") -> None:
        try:
            system, path = _system(place)
            answers.append(question(system, path))
            reports.put(None)
        except BaseException as error:
            reports.put(error)

    attempted(lambda: within(timeout, ask), place, retries=retries)
    return answers[-1]


def _copied(place: str, copy: Path, *, timeout: float) -> None:
    """Copy a remote file whole or not at all."""
    part = copy.with_name(f"{copy.name}.{os.getpid()}.{threading.get_ident()}.{time.monotonic_ns()}.part")

    def read(reports: "queue.Queue[Any]") -> None:
        try:
            system, path = _system(place)
            with system.open(path, "rb", cache_type="none", block_size=0) as source, part.open("wb") as file:
                while piece := source.read(PIECE):
                    file.write(piece)
                    reports.put(len(piece))
            size = _length(system, path)
            if size is not None and size != part.stat().st_size:
                raise OSError(f"{part.stat().st_size} of {size} bytes came")
            reports.put(None)
        except BaseException as error:
            reports.put(error)

    try:
        within(timeout, read)
        os.replace(part, copy)
    finally:
        part.unlink(missing_ok=True)


def _length(system: Any, path: str) -> int | None:
    with suppress(Exception):
        return system.info(path).get("size")
    return None


def _system(place: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"{place} needs fsspec: pip install 'vergence[remote]'.") from None
    try:
        return fsspec.core.url_to_fs(place)
    except ImportError as error:
        raise ImportError(f"{place} needs another library: {error}") from None


def _matching(pattern: str, endings: tuple[str, ...], *, timeout: float, retries: int) -> list[str]:
    if remote(pattern):
        return _matching_far(pattern, endings, timeout=timeout, retries=retries)
    path = Path(pattern.removeprefix("file://")).expanduser()
    if path.is_dir():
        return sorted(str(file) for file in path.iterdir() if _finished(file.name, endings))
    if path.exists():
        return [str(path)]
    if glob.has_magic(str(path)):
        return sorted(file for file in glob.glob(str(path), recursive=True) if _finished(Path(file).name, ("",)))
    raise FileNotFoundError(f"There is no shard {pattern}.")


def _matching_far(pattern: str, endings: tuple[str, ...], *, timeout: float, retries: int) -> list[str]:
    scheme = pattern.partition("://")[0]
    if not glob.has_magic(pattern) and pattern.endswith(endings):
        return [pattern]
    inside = pattern if glob.has_magic(pattern) else f"{pattern.rstrip('/')}/*"
    found = answered(inside, lambda system, path: system.glob(path), timeout=timeout, retries=retries)
    named = [name if "://" in name else f"{scheme}://{name}" for name in map(str, found)]
    return sorted(name for name in named if _finished(name.rpartition("/")[2], endings))


def _finished(name: str, endings: tuple[str, ...]) -> bool:
    return name.endswith(endings) and not name.startswith((".", "_")) and not name.endswith((".part", ".tmp"))


def _counted(pattern: str) -> Iterator[str]:
    """A pattern with its braces written out: ranges that keep their leading zeros, and lists."""
    if found := NUMBERS.search(pattern):
        first, last = found.groups()
        values = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    elif found := CHOICES.search(pattern):
        values = found.group(1).split(",")
    else:
        yield pattern
        return
    for value in values:
        yield from _counted(pattern[: found.start()] + value + pattern[found.end() :])


@contextmanager
def _locked(copy: Path) -> Iterator[None]:
    import fcntl

    with open(copy.with_name(f"{copy.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _spool_folder() -> Path:
    """A new folder for copies; those that killed processes left are removed."""
    home = Path(os.environ.get("VERGENCE_SPOOL", tempfile.gettempdir()))
    for left in home.glob("vergence-spool-*-*"):
        with suppress(ValueError, OSError):
            if not Path("/proc", left.name.split("-")[2]).exists() and Path("/proc").exists():
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"vergence-spool-{os.getpid()}-", dir=home))
    atexit.register(_removed, folder, os.getpid())
    return folder


def _removed(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked worker ends earlier than its parent
        shutil.rmtree(folder, ignore_errors=True)


def _last_use(file: Path) -> float:
    return file.stat().st_mtime


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
