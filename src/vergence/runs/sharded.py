"""Sharded checkpoints: every process writes its part through torch.distributed.checkpoint, as safetensors; no pickle.

They lie beside the other checkpoints of a run, with the same manifest of checksums, and appear whole or not at all.
"""

import json
import os
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from vergence.learning import collectives, sharding
from vergence.runs.run import FACTS, MANIFEST, SHARDED, Run, _fault, _write_through, remove, sha256


def save(run: Run, learner: Any, optimizer: torch.optim.Optimizer, *, step: int, method: str, keep: int) -> None:
    """Write a sharded checkpoint; all processes must call it."""
    from torch.distributed import checkpoint  # imports torch's compiler, which takes a second
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    home = run.path / "checkpoints"
    final, part = home / f"{SHARDED}-{step:09d}", home / f".{SHARDED}-{step:09d}.part"
    leads = collectives.rank() == 0
    if leads:
        remove(part)
        part.mkdir(parents=True)
    collectives.meet()
    writer = HuggingFaceStorageWriter(str(part), save_distributed=True)
    checkpoint.save(sharding.state(learner, optimizer), storage_writer=writer)
    collectives.meet()
    if leads:
        facts = {"step": step, "method": method, "version": metadata.version("vergence")}
        _write_through(part / FACTS, json.dumps(facts).encode())
        digests = {file.name: sha256(file) for file in sorted(part.iterdir()) if file.is_file()}
        _write_through(part / MANIFEST, json.dumps(digests).encode())
        remove(final)
        os.rename(part, final)
        run.prune(SHARDED, keep=keep)
    collectives.meet()


def restore(run: Run, learner: Any, optimizer: torch.optim.Optimizer) -> Mapping[str, Any] | None:
    """Load the newest sound sharded checkpoint into the learner and the optimizer; return its facts, or None."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    chosen = newest(run) if collectives.rank() == 0 else None
    step = int(json.loads((chosen / FACTS).read_bytes())["step"]) if chosen is not None else -1
    step = int(collectives.gather(torch.tensor([step]))[0])
    if step < 0:
        return None
    path = run.path / "checkpoints" / f"{SHARDED}-{step:09d}"
    if not path.is_dir():
        raise RuntimeError(f"Process {collectives.rank()} does not see {path}: all nodes must share the run directory.")
    sharding.with_moments(optimizer)
    state = sharding.state(learner, optimizer)
    checkpoint.load(state, storage_reader=HuggingFaceStorageReader(str(path)))
    prefix = "model."  # the tensors are in place; modules that count along are told by loading them again
    learner.load_state_dict({name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)})
    return json.loads((path / FACTS).read_bytes())


def newest(run: Run) -> Path | None:
    """The newest sharded checkpoint whose checksums agree."""
    for path in reversed(run.checkpoints(SHARDED)):
        fault = _fault(path)
        if fault is None:
            return path
        warnings.warn(f"Checkpoint {path} is damaged ({fault}); trying the one before it.", stacklevel=2)
    return None
