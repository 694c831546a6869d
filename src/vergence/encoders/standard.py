"""The first layer of every encoder we train: inputs in the units of the training data."""

import torch
from torch import Tensor, nn

SMALLEST_DEVIATION = 1e-6  # a constant channel stays zero instead of becoming infinite


class Standardize(nn.Module):
    """``(x - mean) / deviation`` per channel (images, series) or per column (vectors); stored with the weights."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        size = (shape[0], *[1] * (len(shape) - 1))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("deviation", torch.ones(size))

    def measure(self, x: Tensor) -> "Standardize":
        """Take the mean and deviation from ``x [n, ...]``."""
        axes = [0, *range(2, x.ndim)]
        self.mean.copy_(x.mean(axes).view_as(self.mean))
        self.deviation.copy_(x.std(axes, correction=0).clamp(min=SMALLEST_DEVIATION).view_as(self.deviation))
        return self

    def set(self, mean: Tensor, deviation: Tensor) -> "Standardize":
        """Take the mean and deviation that are given, one for each channel."""
        self.mean.copy_(mean.view_as(self.mean))
        self.deviation.copy_(deviation.view_as(self.deviation))
        return self

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation
