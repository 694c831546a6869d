"""Large images, one at a time: color and blur with the parameters of an image as numbers, in place, plane by plane.

A batch of small images is changed at once, with parameters as vectors that are stretched over the pixels. From about a
hundred pixels a side on this is slower than image by image: numbers need no stretching, what a sample does not need (a
clamp of a darker image, the far tail of a narrow blur) is left out, and the planes of one image stay in the cache.
Nothing depends on the other images of a batch.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vergence.types import FloatImages, Mask
from vergence.views.color import BRIGHTNESS, CONTRAST, HUE, LUMA, SATURATION, Factors, Orders
from vergence.views.constants import unasked

LARGE = 80 * 80  # pixels, from which on one at a time is faster on a processor
FAINT = 1e-6  # weights of a blur below this are left out: no pixel changes by more than their sum

Image = Float[Tensor, "c height width"]


def is_large(x: FloatImages) -> bool:
    """Whether images are better changed one at a time."""
    return not unasked(x) and x.shape[2] * x.shape[3] >= LARGE


def jitter_each(x: FloatImages, chosen: Mask, factors: Factors, order: Orders) -> FloatImages:
    """What ``color.jitter`` does, one image at a time."""
    made = x.clone(memory_format=torch.contiguous_format)
    for place in chosen.nonzero()[:, 0].tolist():
        ratios = factors[place].tolist()
        for kind in order[place].tolist():
            CHANGES[kind](made[place], ratios[kind])
    return made


def blur_each(x: FloatImages, chosen: Mask, sigma: Tensor, *, side: int) -> FloatImages:
    """What ``blur.blur`` does to the chosen images, one at a time."""
    made = x.clone(memory_format=torch.contiguous_format)
    for place in chosen.nonzero()[:, 0].tolist():
        blur_(made[place], float(sigma[place]), radius=side // 2)
    return made


def brighten_(x: Image, ratio: float) -> None:
    """In place, every pixel times a ratio, at most 1."""
    x.mul_(ratio)
    _clamp_(x, ratio)


def contrast_(x: Image, ratio: float) -> None:
    """In place, ratio x + (1 - ratio) m, with m the mean gray."""
    # Two sums: threads may cut a single sum over an image differently.
    sums = x.sum(dim=2).sum(dim=1).tolist()
    mean = sum(weight * part for weight, part in zip(_luma(x), sums, strict=True)) / (x.shape[1] * x.shape[2])
    torch.add(torch.tensor((1 - ratio) * mean, dtype=x.dtype), x, alpha=ratio, out=x)
    _clamp_(x, ratio)


def saturate_(x: Image, ratio: float) -> None:
    """In place, ratio x + (1 - ratio) g, with g the gray of each pixel."""
    if len(x) == 1:
        return
    shade = x[0] * ((1 - ratio) * LUMA[0])
    shade.add_(x[1], alpha=(1 - ratio) * LUMA[1]).add_(x[2], alpha=(1 - ratio) * LUMA[2])
    for plane in x.unbind(0):
        torch.add(shade, plane, alpha=ratio, out=plane)
    _clamp_(x, ratio)


def turn_hue_(x: Image, turn: float) -> None:
    """In place, add a share of a whole turn to the hue, keeping HSV's value and saturation; as ``color`` does it."""
    if len(x) == 1:
        return
    red, green, blue = x.unbind(0)
    smallest = torch.minimum(red, green)
    torch.minimum(smallest, blue, out=smallest)
    chroma = torch.maximum(red, green)
    torch.maximum(chroma, blue, out=chroma).sub_(smallest)
    hue = torch.add(green, blue).sub_(red).sub_(smallest).add_(chroma)
    # A gray pixel has distance 0, and any hue will do.
    side = torch.clamp(chroma, min=torch.finfo(x.dtype).tiny)
    hue.div_(side)
    hue.copysign_(torch.sub(green, blue, out=side)).add_(6 * turn)
    hue.sub_(torch.mul(hue, 1 / 6, out=side).round_(), alpha=6)
    torch.abs(hue, out=side).neg_().add_(2).clamp_(0.0, 1.0)
    torch.addcmul(smallest, side, chroma, out=red)
    torch.add(hue, 1, out=side).abs_().sub_(1).clamp_(0.0, 1.0)
    torch.addcmul(smallest, side, chroma, out=green)
    hue.sub_(1).abs_().sub_(1).clamp_(0.0, 1.0)
    torch.addcmul(smallest, hue, chroma, out=blue)


def blur_(x: Image, sigma: float, *, radius: int) -> None:
    """In place, Gaussian blur on 2 radius + 1 pixels a side, edges reflected; faint weights are left out."""
    weights = kernel(sigma, radius)
    reach = len(weights) - 1
    if not reach:
        return
    padded = F.pad(x[None], (reach, reach, reach, reach), mode="reflect")[0]
    _along(_along(padded, weights, 1), weights, 2, out=x)


def kernel(sigma: float, radius: int) -> list[float]:
    """Weights of the middle and of one side of a Gaussian, up to the last that counts."""
    bell = [math.exp(-0.5 * (offset / sigma) ** 2) for offset in range(radius + 1)]
    total = bell[0] + 2 * sum(bell[1:])
    return [weight / total for weight in bell if weight / total >= FAINT]


def _along(x: Tensor, weights: Sequence[float], axis: int, out: Tensor | None = None) -> Tensor:
    reach = len(weights) - 1
    length = x.shape[axis] - 2 * reach
    total = torch.mul(x.narrow(axis, reach, length), weights[0], out=out)
    both = torch.empty_like(total)
    for offset in range(1, reach + 1):
        torch.add(x.narrow(axis, reach - offset, length), x.narrow(axis, reach + offset, length), out=both)
        total.add_(both, alpha=weights[offset])
    return total


def _clamp_(x: Image, ratio: float) -> None:
    # A ratio of at most 1 is a mean of two numbers in [0, 1], or less than one of them.
    if ratio > 1:
        x.clamp_(0.0, 1.0)


def _luma(x: Image) -> Sequence[float]:
    return LUMA if len(x) == 3 else (1.0,)


CHANGES = {BRIGHTNESS: brighten_, CONTRAST: contrast_, SATURATION: saturate_, HUE: turn_hue_}
