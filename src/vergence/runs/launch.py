"""Processes: starting several, joining their group, and stopping them without loss."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from vergence.runs.signals import Signals, Stopped

__all__ = ["Signals", "Stopped", "available", "joined", "resuming", "speaking_of_loss", "start"]

PATIENCE = 1800.0  # seconds that a process waits for the others, for instance while one of them evaluates
LOST = ("gloo", "nccl", "connection", "timed out", "timeout", "socket", "peer", "store")  # words of a broken link


def joined() -> bool:
    """Whether torchrun, or a scheduler that sets the same variables, started this process; it then joins the group."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "MASTER_ADDR" not in os.environ:
        return False
    if not distributed.is_initialized():
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is not None:
            torch.accelerator.set_device_index(int(os.environ.get("LOCAL_RANK", "0")))
        # Flags and counts travel from processor to processor, also where the embeddings are on accelerators.
        backend = "cpu:gloo,cuda:nccl" if accelerator and accelerator.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=timedelta(seconds=patience()))
    return True


def patience() -> float:
    """Seconds after which a process that hears nothing from the others gives up: VERGENCE_PATIENCE, or half an hour."""
    given = os.environ.get("VERGENCE_PATIENCE", str(PATIENCE))
    try:
        return max(1.0, float(given))
    except ValueError:
        raise ValueError(f"VERGENCE_PATIENCE is a number of seconds, not {given!r}.") from None


@contextmanager
def speaking_of_loss(saying: Callable[[], str]) -> Iterator[None]:
    """Say in a sentence that another process or machine is gone, and what is kept."""
    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        together = distributed.is_initialized() and distributed.get_world_size() > 1
        if not together or type(error).__name__ == "Stopped" or not any(word in text for word in LOST):
            raise
        first = str(error).strip().splitlines()[0][:200]
        raise RuntimeError(
            f"Another process or machine cannot be reached any more ({first}). {saying()} Start the same command "
            "on all machines again, with --resume."
        ) from error


def start(arguments: Sequence[str], *, devices: int, restarts: int = 3, saying: Callable[[], str] = lambda: "") -> int:
    """Run ``python -m vergence ARGUMENTS`` in several processes under torchrun; return its exit status.

    A process that dies is started again with all the others, and the run continues from its last checkpoint. Stopped by
    a signal, it stops them all; ``saying`` gives the sentence on what is saved then.
    """
    # Without this, processes that are started again meet the leftovers of the first attempt in the shared store.
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // devices)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={devices}"]
    # The two dashes keep torchrun from reading --run as the beginning of an option of its own.
    command += [f"--max-restarts={restarts}", "-m", "--", "vergence", *arguments]
    process = subprocess.Popen(command, env=environment)
    with Signals() as signals:
        while (status := _wait(process)) is None:
            if signals.received is not None:
                process.send_signal(signal.SIGTERM)
                process.wait()
                raise Stopped(f"Stopped. {saying()}")
    return status


def available(devices: int) -> None:
    """Refuse no processes, and more than there are accelerators, or processors where there are none."""
    if devices < 1:
        raise ValueError(f"--devices must be at least 1, got {devices}.")
    accelerators = torch.accelerator.device_count() if torch.accelerator.current_accelerator() else 0
    there = accelerators or os.cpu_count() or 1
    if devices > there:
        what = "accelerators" if accelerators else "processors"
        raise ValueError(f"--devices {devices} is more than the {there} {what} of this machine.")


def resuming(run: str | Path, *, quiet: bool = False) -> list[str]:
    """The arguments with which a child process takes part in a run."""
    return ["train", "--run", str(run), "--resume", *(["--quiet"] if quiet else [])]


def _wait(process: subprocess.Popen) -> int | None:
    try:
        return process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        return None
