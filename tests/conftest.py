"""What all tests share: one thread (two workers share two cores), float64 pairs, and a way past the shape checks."""

import os

import jaxtyping
import pytest
import torch

torch.set_num_threads(1)
# Some machines list AMX tiles and kill whoever uses them; a bfloat16 product would take the other tests along.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@pytest.fixture
def unchecked():
    """Shape checks off, to reach the errors that users see: the checks run under pytest only."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
