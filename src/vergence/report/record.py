"""Record: what a run directory holds, read with numpy alone; what is absent or broken is named, never fatal."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors import SafetensorError, safe_open

from vergence.runs.results import Results, Verdict
from vergence.runs.results import read as read_results

NOTHING = Results(verdict=Verdict(label="", sentence="This run has no verdict yet."))

FILES = {
    "config.yaml": "what the run depended on",
    "env.json": "the machine and the versions",
    "log.jsonl": "the loss along training",
    "results.json": "accuracies, diagnostics and the verdict",
    "features.safetensors": "the embeddings",
}
# Training features are large and no page shows them.
SAMPLES = ("test_h", "test_labels", "test_z1", "test_z2", "test_rows")  # a row for each held-out sample
ARRAYS = (*SAMPLES, "thumbnails", "thumbnail_rows", "viewed", "viewed_rows")


@dataclass(frozen=True)
class Record:
    """A run directory as read: mappings are empty where a file is missing, and ``missing`` says so in words."""

    path: Path
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    log: tuple[Mapping[str, Any], ...]
    results: Results
    features: Mapping[str, np.ndarray]
    missing: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def seconds(self) -> float:
        """How long training took, over all its parts: the clock starts again when a run is resumed."""
        try:
            lines = _log(self.path / "timing.jsonl")
        except OSError:
            return 0.0
        clock = [line["seconds"] for line in lines if finite(line.get("seconds"))]
        return float(sum(after if after < before else after - before for before, after in pairwise([0.0, *clock])))

    def series(self, *keys: str) -> tuple[np.ndarray, ...]:
        """Columns of the log, at the lines where every one of ``keys`` is a finite number."""
        rows = [[line.get(key) for key in keys] for line in self.log]
        kept = [row for row in rows if all(finite(value) for value in row)]
        return tuple(np.array(kept, dtype=float).reshape(-1, len(keys)).T)


def read(run_directory: str | Path) -> Record:
    """Read a run directory; a partial one is read as far as it goes."""
    path = Path(run_directory)
    if not path.is_dir():
        raise FileNotFoundError(f"No run directory at {path}. A run is made by `vergence train --run {path}`.")
    if not any((path / name).is_file() for name in FILES):
        raise FileNotFoundError(f"{path} is not a run directory: it holds none of {', '.join(FILES)}.")
    missing: list[str] = []

    def part(name: str, parse: Callable[[Path], Any], empty: Any) -> Any:
        if not (path / name).is_file():
            missing.append(f"{name} ({FILES[name]}) is absent.")
            return empty
        try:
            return parse(path / name)
        except (OSError, ValueError, yaml.YAMLError, SafetensorError) as error:
            missing.append(f"{name} ({FILES[name]}) cannot be read: {error}")
            return empty

    return Record(
        path=path,
        config=part("config.yaml", lambda file: mapping(yaml.safe_load(file.read_text(encoding="utf-8"))), {}),
        environment=part("env.json", lambda file: mapping(json.loads(file.read_text(encoding="utf-8"))), {}),
        log=part("log.jsonl", _log, ()),
        results=part("results.json", lambda file: read_results(file.parent), NOTHING),
        features=part("features.safetensors", _features, {}),
        missing=tuple(missing),
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """``value`` if it is a mapping, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted names, as the command line spells them: ``optim.learning_rate``."""
    rows: dict[str, Any] = {}
    for key, value in config.items():
        inner = flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {f"{prefix}{key}": value}
        rows.update(inner)
    return rows


def _log(file: Path) -> tuple[Mapping[str, Any], ...]:
    """The lines that are whole. An interrupted run may have torn the last one."""
    lines = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            lines.append(mapping(json.loads(line)))
        except json.JSONDecodeError:
            continue
    return tuple(lines)


def _features(file: Path) -> dict[str, np.ndarray]:
    """The arrays of a page, samples with a thumbnail or a name first and in their order; others follow."""
    with safe_open(file, framework="numpy") as stored:
        found = {name: stored.get_tensor(name) for name in ARRAYS if name in stored.keys()}  # noqa: SIM118
    first = found.pop("thumbnail_rows", None)
    n = max((len(found[name]) for name in SAMPLES if name in found), default=0)
    if first is None or len(first) > n:
        return found
    kept = found.get("test_rows", np.arange(n))  # places in the data, rising: damaged samples of shards are left out
    first = np.searchsorted(kept, first)
    order = np.concatenate([first, np.setdiff1d(np.arange(n), first)])
    own = {name: found[name][order] for name in SAMPLES if name in found and len(found[name]) == n}
    return {**found, **own}
