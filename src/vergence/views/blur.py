"""Gaussian blur of every image of a batch at once, each with its own width."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vergence.types import FloatImages


def kernel_side(size: int) -> int:
    """The odd kernel nearest a tenth of the image's side, at least 3: Chen et al. (2020), SimCLR, Appendix A."""
    return 2 * max(size // 20, 1) + 1


def blur(x: FloatImages, sigma: Float[Tensor, " n"], *, side: int) -> FloatImages:
    """Gaussian blur of standard deviation ``sigma`` pixels on ``side`` x ``side``, edges reflected, as torchvision."""
    radius = side // 2
    offset = torch.arange(radius + 1, device=sigma.device, dtype=torch.float64)
    weights = (-0.5 * (offset / sigma.double()[:, None]) ** 2).exp()
    weights = weights / (weights[:, :1] + 2 * weights[:, 1:].sum(dim=1, keepdim=True))
    weights = weights.float().to(x.device)[:, :, None, None, None]
    padded = F.pad(x, (radius, radius, radius, radius), mode="reflect")
    return _along(_along(padded, weights, 2), weights, 3)


def _along(x: FloatImages, weights: Tensor, axis: int) -> Tensor:
    radius = weights.shape[1] - 1
    length = x.shape[axis] - 2 * radius
    total = x.narrow(axis, radius, length) * weights[:, 0]
    for offset in range(1, radius + 1):
        both = x.narrow(axis, radius - offset, length) + x.narrow(axis, radius + offset, length)
        total.add_(both.mul_(weights[:, offset]))
    return total
