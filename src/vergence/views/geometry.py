"""Where a view looks: crop, resize and flip of every image of a batch at once, each with its own window."""

import functools
import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vergence.types import FloatImages, Images, Keys

Windows = Int[Tensor, "n 4"]
Resized = Float[Tensor, "n c rows columns"]
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
    limits = torch.tensor([height, width], device=draws.device)
    fits = ((sides > 0) & (sides <= limits)).all(dim=-1)
    first = fits.int().argmax(dim=1)
    sides = sides[torch.arange(len(draws), device=draws.device), first]
    corners = (draws[:, -2:] * (limits - sides + 1)).long()
    central = torch.tensor(_central_window(height, width, ratio), device=draws.device)
    return torch.where(fits.any(dim=1, keepdim=True), torch.cat([corners, sides], dim=1), central)


def plain_windows(n: int, height: int, width: int, *, square: bool) -> Windows:
    """The whole image, or its largest central square, n times."""
    window = _central_window(height, width, (1.0, 1.0)) if square else (0, 0, height, width)
    return torch.tensor([window]).expand(n, 4)


def resample(x: Images, windows: Windows, flips: Flips, size: tuple[int, int]) -> Resized:
    """The window of each image, resized to ``size`` by antialiased bilinear interpolation, mirrored where ``flips``.

    Both axes are sums of a few weighted rows or columns, so a sample's result never depends on the rest of the batch.
    Bytes become [0, 1] on the way.
    """
    rows, row_weights = _taps(windows[:, 0], windows[:, 2], torch.zeros_like(flips), x.shape[2], size[0])
    columns, column_weights = _taps(windows[:, 1], windows[:, 3], flips, x.shape[3], size[1])
    unit = 255.0 if x.dtype == torch.uint8 else 1.0
    row_weights = (row_weights / unit).float().to(x.device)[:, :, None, :, None]
    column_weights = column_weights.float().to(x.device)[:, :, None, None, :]
    tall = _total(_rows(x, index) * weight for index, weight in zip(rows, row_weights, strict=True))
    return _total(_columns(tall, index) * weight for index, weight in zip(columns, column_weights, strict=True))


def _central_window(height: int, width: int, ratio: tuple[float, float]) -> tuple[int, int, int, int]:
    aspect = min(max(width / height, ratio[0]), ratio[1])
    rows, columns = min(height, round(width / aspect)), min(width, round(height * aspect))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def _taps(start: Keys, length: Keys, flips: Flips, side: int, size: int) -> tuple[Tensor, Tensor]:
    """Which input lines make each output line, and their weights, both [taps, n, size]: a triangle around the centre.

    The triangle is one input pixel wide when enlarging and one output pixel wide when reducing (antialiasing), cut at
    the window's edge and normalised.
    """
    scale = (length / size)[:, None].double()
    support = scale.clamp(min=1.0)
    centre = scale * (torch.arange(size, device=start.device) + 0.5)
    centre = torch.where(flips[:, None], length[:, None] - centre, centre)
    # As many as the whole side would need, so that the count does not depend on the windows of the batch.
    taps = math.ceil(2 * max(side / size, 1.0))
    index = (centre - support + 0.5).floor().long() + torch.arange(taps, device=start.device)[:, None, None]
    weights = (1 - (index + 0.5 - centre).abs() / support).clamp(min=0.0)
    weights = weights * ((index >= 0) & (index < length[:, None]))
    last = (length - 1)[:, None]
    return start[:, None] + index.clamp(min=0).minimum(last), weights / weights.sum(dim=0)


def _rows(x: Images, index: Tensor) -> Tensor:
    n, channels, height, width = x.shape
    planes = torch.arange(0, n * channels * height, height, device=index.device).view(n, channels, 1)
    # Copying whole rows is several times faster than gathering numbers.
    lines = (planes + index[:, None]).flatten().to(x.device)
    return x.reshape(-1, width).index_select(0, lines).view(n, channels, -1, width)


def _columns(x: FloatImages, index: Tensor) -> Tensor:
    n, channels, height, _ = x.shape
    return x.gather(3, index.to(x.device)[:, None, None].expand(n, channels, height, -1))


def _total(terms: Iterator[Tensor]) -> Tensor:
    return functools.reduce(torch.Tensor.add_, terms)
