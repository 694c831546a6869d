"""Where a view looks: crop, resize and flip of every image of a batch at once, each with its own window."""

import functools
import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vergence.types import FloatImages, Images, Keys
from vergence.views.constants import constant

Windows = Int[Tensor, "n 4"]
Resized = Float[Tensor, "n c rows columns"]
Lines = Int[Tensor, "n _ _"]
Weights = Float[Tensor, "n _ _"]
Lattice = tuple[Lines, Weights, Lines, Weights]
Flips = Bool[Tensor, " n"]

TRIES = 10  # as torchvision's RandomResizedCrop, before it falls back on the central crop


def crop_windows(
    draws: Float[Tensor, "n 22"], height: int, width: int, *, scale: tuple[float, float], ratio: tuple[float, float]
) -> Windows:
    """Random crops as rows of (top, left, height, width), from uniform draws.

    The share of the area is uniform in ``scale``, the logarithm of the aspect uniform between those of ``ratio``. The
    first of ten tries that fits in the image; if none does, the largest central crop of a permitted aspect.

    References:
        Szegedy et al. (2015), Sec. 6; torchvision's ``RandomResizedCrop.get_params``.
    """
    area = height * width * (scale[0] + (scale[1] - scale[0]) * draws[:, :TRIES])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = (low + (high - low) * draws[:, TRIES : 2 * TRIES]).exp()
    sides = torch.stack([(area / aspect).sqrt().round(), (area * aspect).sqrt().round()], dim=-1).long()
    limits = constant((height, width), torch.int64, draws.device)
    fits = ((sides > 0) & (sides <= limits)).all(dim=-1)
    first = fits.int().argmax(dim=1)
    sides = sides[torch.arange(len(draws), device=draws.device), first]
    corners = (draws[:, -2:] * (limits - sides + 1)).long()
    central = constant(_central_window(height, width, ratio), torch.int64, draws.device)
    return torch.where(fits.any(dim=1, keepdim=True), torch.cat([corners, sides], dim=1), central)


def plain_windows(n: int, height: int, width: int, *, square: bool, device: torch.device) -> Windows:
    """The whole image, or its largest central square, n times."""
    window = _central_window(height, width, (1.0, 1.0)) if square else (0, 0, height, width)
    return constant(window, torch.int64, device).expand(n, 4)


def lattice(windows: Windows, flips: Flips, shape: tuple[int, int], size: tuple[int, int]) -> Lattice:
    """Which rows and columns of an image of this shape make those of its window resized to ``size``, and their weights.

    Bilinear interpolation, antialiased when reducing; columns are in mirrored order where ``flips``.
    """
    rows = _taps(windows[:, 0], windows[:, 2], torch.zeros_like(flips), shape[0], size[0])
    return *rows, *_taps(windows[:, 1], windows[:, 3], flips, shape[1], size[1])


def resample(x: Images, rows: Lines, row_weights: Weights, columns: Lines, column_weights: Weights) -> Resized:
    """The images seen through their lattices; bytes become [0, 1].

    Each axis is a sum of a few weighted lines, so a sample's result never depends on the rest of the batch.
    """
    unit = 255.0 if x.dtype == torch.uint8 else 1.0
    x = x.float()
    weights = zip(rows.unbind(1), (row_weights / unit).to(x.device).unbind(1), strict=True)
    tall = _total(_rows(x, index).mul_(weight[:, None, :, None]) for index, weight in weights)
    weights = zip(columns.unbind(1), column_weights.to(x.device).unbind(1), strict=True)
    return _total(_columns(tall, index).mul_(weight[:, None, None, :]) for index, weight in weights)


def _central_window(height: int, width: int, ratio: tuple[float, float]) -> tuple[int, int, int, int]:
    aspect = min(max(width / height, ratio[0]), ratio[1])
    rows, columns = min(height, round(width / aspect)), min(width, round(height * aspect))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def _taps(start: Keys, length: Keys, flips: Flips, side: int, size: int) -> tuple[Lines, Weights]:
    """The input lines of each output line: a triangle around its center, cut at the window's edge and normalized.

    It is one input pixel wide either way when enlarging, one output pixel when reducing.
    """
    start, length, flips = start[:, None], length[:, None].double(), flips[:, None]
    scale = length / size
    support = scale.clamp(min=1.0)
    center = scale * (torch.arange(size, device=start.device) + 0.5)
    center = torch.where(flips, length - center, center)
    first = (center - support + 0.5).floor()
    # What follows is exact or relative to ``first``, so float32 will do, and is much faster.
    offset, first, support, last = (part.float()[:, None] for part in (center - first, first, support, length - 1))
    # As many as the whole side would need, so that the count does not depend on the windows of the batch.
    tap = torch.arange(math.ceil(2 * max(side / size, 1.0)), device=start.device)[:, None]
    weights = 1 - (tap + 0.5 - offset).abs_().div_(support)
    index = first + tap
    inside = index.clamp(min=0.0).minimum(last)
    weights = weights.clamp_(min=0.0).mul_((index == inside).float())
    total = functools.reduce(torch.add, weights.unbind(dim=1))
    return start[:, None] + inside.long(), weights / total[:, None]


def _rows(x: Images, index: Tensor) -> Tensor:
    n, channels, height, width = x.shape
    planes = torch.arange(0, n * channels * height, height, device=index.device).view(n, channels, 1)
    # Copying whole rows is several times faster than gathering numbers.
    lines = (planes + index[:, None]).flatten().to(x.device)
    return x.reshape(-1, width).index_select(0, lines).view(n, channels, index.shape[1], width)


def _columns(x: FloatImages, index: Tensor) -> Tensor:
    n, channels, height, _ = x.shape
    return x.gather(3, index.to(x.device)[:, None, None].expand(n, channels, height, index.shape[1]))


def _total(terms: Iterator[Tensor]) -> Tensor:
    return functools.reduce(torch.Tensor.add_, terms)
