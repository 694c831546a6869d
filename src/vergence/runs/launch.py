"""Processes: starting several, joining their group, and stopping them without loss."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import FrameType

import torch
from torch import distributed

from vergence.learning.collectives import gather

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
PATIENCE = timedelta(minutes=30)  # how long a process waits for the others, for instance while one of them evaluates


class Stopped(RuntimeError):
    """A signal asked for an end; the run is saved and can be resumed."""


class Signals:
    """Notices a request to stop, so that the loop can end between two steps; the second Ctrl-C ends at once."""

    def __init__(self) -> None:
        self.received: int | None = None

    def __enter__(self) -> "Signals":
        self._before = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def anywhere(self) -> bool:
        """Whether any process was asked to stop: all of them must stop after the same step."""
        flag = torch.tensor([self.received is not None])
        return bool(gather(flag).any())

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.received == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number


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
        distributed.init_process_group(backend, timeout=PATIENCE)
    return True


def start(arguments: Sequence[str], *, devices: int, restarts: int = 3) -> int:
    """Run ``python -m vergence ARGUMENTS`` in several processes under torchrun; return its exit status.

    A process that dies is started again with all the others, and the run continues from its last checkpoint.
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
                raise Stopped("Stopped; saved. --resume continues.")
    return status


def available(devices: int) -> None:
    """Refuse more processes than there are accelerators, or processors where there are none."""
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
