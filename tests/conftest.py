"""What all tests share: one thread (two workers share two cores), float64 pairs, and a way past the shape checks."""

import os

import jaxtyping
import pytest
import threadpoolctl
import torch

# Threads spin while they wait: two workers with two each keep each other from the two cores, in torch and in the
# libraries of numpy. What is started from here, workers and commands, has one from the beginning.
torch.set_num_threads(1)
threadpoolctl.threadpool_limits(1)
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
# Some machines list AMX tiles and kill whoever uses them; a bfloat16 product would take the other tests along.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@pytest.fixture
def unassessed(monkeypatch):
    """``train`` ends with its last step: features, diagnosis and page take longer than what is tested."""
    from vergence.runs.results import Answer
    from vergence.stages import train

    monkeypatch.setattr(train, "assess", lambda parts, place, *, quiet: Answer((), {}))


@pytest.fixture
def unchecked():
    """Shape checks off, to reach the errors that users see: the checks run under pytest only."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
