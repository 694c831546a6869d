"""Real processes for tests: a function run by every rank of a gloo group, its results brought back in order."""

import multiprocessing
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed


def together(function: Callable[..., Any], processes: int, *arguments: Any) -> list[Any]:
    """What ``function(*arguments)`` returns in each of several processes that form a group."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        facts = (function, processes, Path(folder), arguments)
        members = [context.Process(target=_member, args=(rank, *facts)) for rank in range(processes)]
        for member in members:
            member.start()
        for member in members:
            member.join()
        return [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(processes)]


def _member(rank: int, function: Callable[..., Any], processes: int, folder: Path, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    store = distributed.FileStore(str(folder / "store"), processes)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=processes, timeout=timedelta(seconds=60))
    # Through a file: tensors in a queue would need this process to outlive their reader.
    torch.save(function(*arguments), folder / f"{rank}.pt")
    distributed.destroy_process_group()
