"""The first layer of every encoder we train: inputs in the units of the training data."""

import torch
from torch import Tensor, nn

SMALLEST_DEVIATION = 1e-6  # of the mean: below it a channel is constant but for rounding


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
        deviation = x.std(axes, correction=0).view_as(self.deviation)
        # What never varies here may vary elsewhere: by the scale of the others, not by the rounding of a constant.
        usual = torch.maximum(deviation.max(), self.mean.abs())
        usual = torch.where(usual > 0, usual, 1.0)
        self.deviation.copy_(torch.where(deviation > SMALLEST_DEVIATION * self.mean.abs(), deviation, usual))
        return self

    def set(self, mean: Tensor, deviation: Tensor) -> "Standardize":
        """Take the mean and deviation that are given, one for each channel."""
        self.mean.copy_(mean.view_as(self.mean))
        self.deviation.copy_(deviation.view_as(self.deviation))
        return self

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation
