"""Whether this processor can do what a precision asks for: tried once, in a process that may die of it."""

import subprocess
import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from vergence.config import Config

# Some machines list AMX tiles and kill whoever uses them: bfloat16 products then end in SIGILL.
TRIAL = """
import torch
a = torch.ones(64, 64, dtype=torch.bfloat16)
(a @ a).sum().item()
torch.nn.functional.conv2d(torch.ones(2, 32, 16, 16).bfloat16(), torch.ones(32, 32, 3, 3).bfloat16())
"""
PATIENCE = 300  # seconds for a process that imports torch on a busy machine


def usable(config: Config, device: torch.device) -> Config:
    """The config, with float32 in place of a precision that would kill the process; the run records what was used."""
    if config.precision not in ("bfloat16", "float16") or works(device):
        return config
    warnings.warn(
        f"This processor lists AMX but ends programs that use it, so {config.precision} would stop the training; "
        "float32 is used and recorded instead.",
        stacklevel=2,
    )
    return replace(config, precision="float32")


def works(device: torch.device) -> bool:
    """Whether products in half precision do not end the process; tried on processors that list AMX only."""
    return device.type != "cpu" or not lists_amx() or survives(TRIAL)


def lists_amx() -> bool:
    """Whether the processor says that it has matrix tiles; where nobody says, it has not."""
    file = Path("/proc/cpuinfo")
    return file.exists() and " amx" in file.read_text(encoding="utf-8", errors="replace")


@cache
def survives(program: str) -> bool:
    """Whether a program comes to its end, in time, in a process of its own."""
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
