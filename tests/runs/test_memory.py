"""What one batch lets go of serves the next one."""

import resource

import pytest
import torch
from torch import nn

from vergence import features
from vergence.runs.memory import keep_freed_memory


@pytest.mark.skipif(not keep_freed_memory(), reason="the C library cannot be told")
def test_an_encoder_without_gradients_asks_the_system_for_no_memory_after_its_first_batches():
    encoder = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
    x = torch.zeros(128, 1, 32, 32)  # activations of 8 MiB: 2,048 pages each
    with features.frozen(encoder), torch.no_grad():
        for _ in range(3):
            encoder(x)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(8):
            encoder(x)
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before < 2048
