"""Run: a directory holding config, log, checkpoints, features and results.

Whatever is written appears whole or not at all: to a temporary name, flushed to the disk, then renamed. A checkpoint is
a directory with a manifest of checksums; a damaged one is passed over with a warning. No pickle anywhere.
"""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from vergence import config as configs
from vergence.config import Config
from vergence.methods import METHODS

MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"
FACTS = "facts.json"
LOCK = ".lock"
SHARDED = "sharded"  # the series of checkpoints that every process wrote a part of
EXACT = 2**53  # whole numbers beyond it are not exact in JSON

_held: set[int] = set()  # the locks of this process


def _let_go() -> None:
    """Of a copy of the process: a worker that outlives a killed run for some seconds must not hold its lock."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@dataclass(frozen=True)
class Checkpoint:
    """The state after ``step`` steps: tensors by name, and facts that are not tensors."""

    step: int
    tensors: Mapping[str, Any]
    facts: Mapping[str, Any]


class Run:
    """A directory and the files each stage leaves in it."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path, config: Config, *, overwrite: bool = False, resume: bool = False) -> "Run":
        """A directory for a new run, or with ``resume`` the one that is there; nothing is ever lost by accident."""
        run = cls(path)
        if run.path.exists() and not run.path.is_dir():
            raise FileExistsError(f"{path} is a file, not a run directory.")
        if not _is_text(str(run.path)):
            raise ValueError(
                f"The name {str(path)!r} is not UTF-8 text, which files of tensors need: name another run."
            )
        there = (run.path / "config.yaml").exists()
        if there and resume:
            run.check_same(config)
            if config.epochs > run.config.epochs:
                with run.locked():  # the config of a run that another process is training stays as it is
                    run.lengthen(config)
            return run
        run.check_free(overwrite=overwrite)
        with run.writable():
            run.path.mkdir(parents=True, exist_ok=True)
        with run.locked():  # what another process is training is never cleared
            run.check_free(overwrite=overwrite)  # new/../old is old only now that new is there
            with run.writable():
                run.clear()
                run.write_text("config.yaml", config.to_yaml())
        return run

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a directory that holds something, unless it is a run that shall be overwritten."""
        there = (self.path / "config.yaml").exists()
        if not (overwrite and there) and self.occupied():
            if not there:
                raise FileExistsError(f"{self.path} is not empty and holds no run: name another folder.")
            raise FileExistsError(
                f"{self.path} holds a run. Continue it with --resume, replace it with --overwrite, or name another."
            )

    def occupied(self) -> bool:
        """Whether something of anyone's is in the directory; locks and half-written files do not count."""
        with self.writable():
            entries = list(self.path.iterdir()) if self.path.exists() else []
        return any(entry.suffix != ".part" and entry.name != LOCK for entry in entries)

    def check_same(self, config: Config) -> None:
        """Refuse to continue under another config, naming each difference; more epochs are allowed.

        A setting that the version of the run did not know yet is no difference.
        """
        was = self.config
        changed = {key: pair for key, pair in configs.differences(was, config).items() if key not in RESUMABLE}
        changed = {key: pair for key, pair in changed.items() if key in was.settings() or key == "objective.name"}
        if config.epochs > was.epochs:
            changed.pop("epochs")
        own = getattr(METHODS[was.method], "objective", None)  # a method's own objective need not be named
        if {name or own for name in changed.get("objective.name", (own, own))} == {own}:
            changed.pop("objective.name", None)
        if changed:
            lines = [f"  {key}: the run has {was!r}, you gave {now!r}" for key, (was, now) in changed.items()]
            raise ValueError("\n".join([f"Cannot resume {self.path} with other settings:", *lines]))

    def lengthen(self, config: Config) -> None:
        """Write down that the run goes on for more epochs, and say what depends on their number."""
        was = self.config
        if config.epochs <= was.epochs:
            return
        with self.writable():
            self.write_text("config.yaml", replace(was, epochs=config.epochs).to_yaml())
        follows = [f"the {config.optim.schedule} schedule"] * (config.optim.schedule != "constant")
        follows += ["the momentum that rises to 1"] * bool(config.heads.get("momentum_to_one"))
        if follows:
            go = "goes" if len(follows) == 1 else "go"
            warnings.warn(
                f"From here on, {' and '.join(follows)} {go} by {config.epochs} epochs instead of {was.epochs}: the "
                f"result will not be that of {config.epochs} epochs in one go.",
                stacklevel=2,
            )

    @property
    def config(self) -> Config:
        path = self.path / "config.yaml"
        if not path.exists():
            raise FileNotFoundError(f"{self.path} is not a run: it has no config.yaml.")
        return configs.read(path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory: two processes cannot train in one run. The lock dies with the process."""
        import fcntl

        with self.writable():  # a lock that is a link leads to someone else's file
            lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            with self.writable():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RuntimeError(f"Another process is using {self.path}. Wait for it, or name another run.") from error
        else:
            _held.add(lock)
            yield
        finally:
            _held.discard(lock)
            os.close(lock)

    @contextlib.contextmanager
    def writable(self) -> Iterator[None]:
        """Say in a sentence when the directory cannot be written."""
        try:
            yield
        except OSError as error:
            reason = (
                f"Cannot write to the run directory {self.path}: {error.strerror or error}. Name another with --run."
            )
            raise type(error)(error.errno, reason) from error

    def clear(self) -> None:
        """Remove what a run leaves; a symbolic link goes, and what it points to stays."""
        for name in CLEARED:
            remove(self.path / name)

    def write_text(self, name: str, text: str) -> Path:
        return write_bytes(self.path / name, text.encode())

    def write_json(self, name: str, value: Any) -> Path:
        return self.write_text(name, json.dumps(value, indent=1, default=float) + "\n")

    def read_json(self, name: str) -> Any:
        """The mapping in a file that ``write_json`` wrote; ``None`` where there is none."""
        path = self.path / name
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}). {_again(self.path, name)}") from error
        if not isinstance(found, dict):
            raise ValueError(
                f"{path} is damaged: it holds {type(found).__name__}, not a mapping. {_again(self.path, name)}"
            )
        return found

    def log(self, row: Mapping[str, Any], *, name: str = "log.jsonl") -> None:
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def rows(self, name: str = "log.jsonl") -> list[dict[str, Any]]:
        """The rows of a log; a line torn by a kill, or damaged in another way, is left out."""
        return [row for line in self._lines(name) if (row := _logged(line)) is not None]

    def _lines(self, name: str) -> list[str]:
        path = self.path / name
        return path.read_bytes().decode("utf-8", errors="replace").split("\n") if path.exists() else []

    def rewind(self, step: int, *, keep: int) -> None:
        """Drop the log rows after ``step``, which a resumed run writes again, and old checkpoints left by a kill."""
        for name in ("log.jsonl", "timing.jsonl"):
            if (self.path / name).exists():
                lines = [line for line in self._lines(name) if line.strip()]
                rows = [row for line in lines if (row := _logged(line)) is not None]
                if len(rows) < len(lines):
                    left_out = f"{len(lines) - len(rows)} of {len(lines)} lines of {self.path / name}"
                    warnings.warn(f"{left_out} cannot be read and are left out.", stacklevel=2)
                kept = [json.dumps(row) for row in rows if row["step"] <= step]
                self.write_text(name, "".join(f"{line}\n" for line in kept))
        self.prune("step", keep=keep)

    def save(self, checkpoint: Checkpoint, *, keep: int = 2, series: str = "step") -> Path:
        """Write a checkpoint, then prune all but the newest ``keep`` of its series."""
        for log in self.path.glob("*.jsonl"):  # a checkpoint must not outlive the rows that led to it
            _flush(log)
        home = self.path / "checkpoints"
        final = home / f"{series}-{checkpoint.step:09d}"
        part = home / f".{final.name}.part"
        try:
            for left in home.glob(".*.part"):  # by a process that was killed while it saved
                remove(left)
            part.mkdir(parents=True)
            _write_checkpoint(part, checkpoint)
            remove(final)
            os.rename(part, final)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            raise type(error)(error.errno, f"Cannot save {final}: {error.strerror or error}. {self.kept()}") from error
        _flush(home)
        self.prune(series, keep=keep)
        return final

    @property
    def saved(self) -> bool:
        """Whether there is a checkpoint whose checksums agree."""
        return any(_fault(path) is None for path in self._resumable())

    def _resumable(self) -> list[Path]:
        """The checkpoints that training can continue from, newest first; sharded ones are beside the others."""
        found = [*self.checkpoints(), *self.checkpoints(SHARDED)]
        return sorted(found, key=lambda path: path.name.rpartition("-")[2], reverse=True)

    def kept(self) -> str:
        """What a process that ends now leaves behind, in a sentence that is true."""
        for path in self._resumable():
            if _fault(path) is None:
                return f"Step {read_step(path)} is saved; --resume continues."
        return "Nothing is saved yet; --resume starts from the beginning."

    def prune(self, series: str, *, keep: int) -> None:
        """Delete all checkpoints of a series but the newest ``keep``."""
        for old in self.checkpoints(series)[:-keep]:
            with contextlib.suppress(OSError):
                remove(old)

    def checkpoints(self, series: str = "step") -> list[Path]:
        """The checkpoint directories of a series, oldest first."""
        return sorted((self.path / "checkpoints").glob(f"{series}-*"))

    def fingerprint(self) -> str:
        """A word for the weights that the run is used with; empty where there are none."""
        found = self.checkpoints("best") or self.checkpoints()
        return hashlib.sha256((found[-1] / MANIFEST).read_bytes()).hexdigest()[:16] if found else ""

    def load(self, *, best: bool = False) -> Checkpoint | None:
        """The newest checkpoint whose checksums agree, or the ``best`` if one was chosen; ``None`` if there is none."""
        for path in reversed(self.checkpoints() + (self.checkpoints("best") if best else [])):
            fault = _fault(path)
            if fault is None:
                return read_checkpoint(path)
            warnings.warn(f"Checkpoint {path} is damaged ({fault}); trying the one before it.", stacklevel=2)
        return None


# What may differ between a run and its continuation without changing what was computed so far.
RESUMABLE = {"evaluate", "sharding.recompute", "workers", "device", "saving.every", "saving.keep", "track"}

# What an overwritten run loses; whatever else lies in its directory stays.
CLEARED = (
    "checkpoints",
    "tensorboard",
    "tracking.json",
    "mlflow.db",
    "log.jsonl",
    "timing.jsonl",
    "env.json",
    "features.safetensors",
    "baselines.safetensors",
    "start.safetensors",
    "start.json",
    "hits.safetensors",
    "map.safetensors",
    "finetuned",
    "results.json",
    "report.html",
    "samples.json",
    "tokenizer.json",
    "tokens.json",
)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # a name of other bytes, which Python keeps as surrogates
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file, a directory with all that is in it, or a symbolic link, but never what a link points to."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


def _logged(line: str) -> dict[str, Any] | None:
    """A line of a log as a row of numbers by name, with its step; ``None`` where it is not one."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int) or row["step"] < 0:
        return None
    numbers = (isinstance(value, float) or (isinstance(value, int) and abs(value) <= EXACT) for value in row.values())
    return row if all(numbers) else None


def _again(run: Path, name: str) -> str:
    """How a damaged file of a run is made again."""
    if name == "results.json":
        return f"`vergence doctor {run}` makes it again."
    if name == "samples.json":
        return f"`vergence train --run {run} --resume` makes it again."
    return "Remove it to go on."


def environment() -> dict[str, Any]:
    """What a result may depend on besides the config: versions, the machine, the number of threads."""
    import torch

    libraries = {name: metadata.version(name) for name in ("vergence", "torch", "numpy", "scipy", "scikit-learn")}
    return {
        "python": platform.python_version(),
        **libraries,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": str(torch.accelerator.current_accelerator() or "none"),
    }


def file_to_write(path: str | Path) -> Path:
    """Where an answer shall be written: its folder is made, and what cannot be is said before the work, not after."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to write to.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"The folder {path.parent} cannot be written to.")
    return path


def write_bytes(path: Path, data: bytes) -> Path:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        _write_through(part, data)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    _flush(path.parent)
    return path


def _write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """The files of a checkpoint, then the manifest with their checksums, each flushed to the disk."""
    from safetensors.torch import save as serialize

    contents = {
        TENSORS: serialize({name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}),
        FACTS: json.dumps({"step": checkpoint.step, **checkpoint.facts}).encode(),
    }
    for name, data in contents.items():
        _write_through(folder / name, data)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    _write_through(folder / MANIFEST, json.dumps(digests).encode())
    _flush(folder)


def _write_through(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush(path: Path) -> None:
    """See that a file, or the names in a directory, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fault(path: Path) -> str | None:
    """What is wrong with a checkpoint, in words; ``None`` when every checksum agrees."""
    try:
        digests = json.loads((path / MANIFEST).read_bytes())
        parts = () if path.name.startswith(SHARDED) else (TENSORS,)
        for name in (*parts, FACTS, *(name for name in digests if name not in (TENSORS, FACTS))):
            if sha256(path / name) != digests[name]:
                return f"{name} does not match its checksum"
        if not isinstance(json.loads((path / FACTS).read_bytes())["step"], int):
            return f"{FACTS} names no step"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return f"unreadable manifest or file: {error}"
    return None


def sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def read_step(path: Path) -> int:
    return json.loads((path / FACTS).read_bytes())["step"]


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint whose checksums agree."""
    from safetensors import SafetensorError
    from safetensors.torch import load as deserialize

    facts = json.loads((path / FACTS).read_bytes())
    try:
        return Checkpoint(facts["step"], deserialize((path / TENSORS).read_bytes()), facts)
    except SafetensorError as error:
        raise ValueError(f"{path / TENSORS} is not a file of tensors: {error}") from error
