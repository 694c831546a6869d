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

MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"
FACTS = "facts.json"


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
        there = (run.path / "config.yaml").exists()
        if there and resume:
            run.check_same(config)
            run.lengthen(config)
            return run
        if overwrite and there:
            run.clear()
        elif run.path.exists() and any(entry.suffix != ".part" for entry in run.path.iterdir()):
            what = "holds a run" if there else "is not empty"
            raise FileExistsError(
                f"{path} {what}. Continue it with --resume, replace it with --overwrite, or name another."
            )
        with run.writable():
            run.path.mkdir(parents=True, exist_ok=True)
            run.write_text("config.yaml", config.to_yaml())
        return run

    def check_same(self, config: Config) -> None:
        """Refuse to continue under another config, naming each difference; more epochs are allowed.

        A setting that the version of the run did not know yet is no difference.
        """
        was = self.config
        changed = {key: pair for key, pair in configs.differences(was, config).items() if key not in RESUMABLE}
        changed = {key: pair for key, pair in changed.items() if key in was.settings()}
        if config.epochs > was.epochs:
            changed.pop("epochs")
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
            warnings.warn(
                f"From here on, {' and '.join(follows)} go by {config.epochs} epochs instead of {was.epochs}: the "
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

        with self.writable():
            lock = open(self.path / ".lock", "w")  # noqa: SIM115 - held as long as the context
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RuntimeError(
                    f"Another process is using {self.path}. Wait for it, or name another run."
                ) from error
            yield

    @contextlib.contextmanager
    def writable(self) -> Iterator[None]:
        """Say in a sentence when the directory cannot be written."""
        try:
            yield
        except OSError as error:
            reason = f"Cannot write to the run directory {self.path}: {error.strerror}. Name another with --run."
            raise type(error)(error.errno, reason) from error

    def clear(self) -> None:
        for name in CLEARED:
            shutil.rmtree(self.path / name, ignore_errors=True)
            if not (self.path / name).is_dir():
                (self.path / name).unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> Path:
        return write_bytes(self.path / name, text.encode())

    def write_json(self, name: str, value: Any) -> Path:
        return self.write_text(name, json.dumps(value, indent=1, default=float) + "\n")

    def read_json(self, name: str) -> Any:
        path = self.path / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def log(self, row: Mapping[str, Any], *, name: str = "log.jsonl") -> None:
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def rows(self, name: str = "log.jsonl") -> list[dict[str, Any]]:
        """The rows of a log; a line torn by a kill is left out."""
        path = self.path / name
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        rows = []
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                rows.append(json.loads(line))
        return rows

    def rewind(self, step: int, *, keep: int) -> None:
        """Drop the log rows after ``step``, which a resumed run writes again, and old checkpoints left by a kill."""
        for name in ("log.jsonl", "timing.jsonl"):
            if (self.path / name).exists():
                kept = [json.dumps(row) for row in self.rows(name) if row["step"] <= step]
                self.write_text(name, "".join(f"{line}\n" for line in kept))
        self.prune("step", keep=keep)

    def save(self, checkpoint: Checkpoint, *, keep: int = 2, series: str = "step") -> Path:
        """Write a checkpoint, then prune all but the newest ``keep`` of its series."""
        for log in self.path.glob("*.jsonl"):  # a checkpoint must not outlive the rows that led to it
            _flush(log)
        home = self.path / "checkpoints"
        final = home / f"{series}-{checkpoint.step:09d}"
        part = home / f".{final.name}.part"
        for left in home.glob(".*.part"):  # by a process that was killed while it saved
            shutil.rmtree(left)
        part.mkdir(parents=True)
        try:
            _write_checkpoint(part, checkpoint)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(part, final)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            reason = f"Cannot save {final}: {error.strerror}. The checkpoint before it is kept."
            raise type(error)(error.errno, reason) from error
        _flush(home)
        self.prune(series, keep=keep)
        return final

    def prune(self, series: str, *, keep: int) -> None:
        """Delete all checkpoints of a series but the newest ``keep``."""
        for old in self.checkpoints(series)[:-keep]:
            shutil.rmtree(old, ignore_errors=True)

    def checkpoints(self, series: str = "step") -> list[Path]:
        """The checkpoint directories of a series, oldest first."""
        return sorted((self.path / "checkpoints").glob(f"{series}-*"))

    def load(self, *, best: bool = False) -> Checkpoint | None:
        """The newest checkpoint whose checksums agree, or the ``best`` if one was chosen; ``None`` if there is none."""
        for path in reversed(self.checkpoints() + (self.checkpoints("best") if best else [])):
            fault = _fault(path)
            if fault is None:
                return _read(path)
            warnings.warn(f"Checkpoint {path} is damaged ({fault}); trying the one before it.", stacklevel=2)
        return None


# What may differ between a run and its continuation without changing what was computed so far.
RESUMABLE = {"workers", "device", "saving.every", "saving.keep", "track"}

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
    "results.json",
    "report.html",
    "samples.json",
)


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
        for name in (TENSORS, FACTS):
            if hashlib.sha256((path / name).read_bytes()).hexdigest() != digests[name]:
                return f"{name} does not match its checksum"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"unreadable manifest or file: {error}"
    return None


def _read(path: Path) -> Checkpoint:
    from safetensors.torch import load as deserialize

    facts = json.loads((path / FACTS).read_bytes())
    return Checkpoint(facts["step"], deserialize((path / TENSORS).read_bytes()), facts)
