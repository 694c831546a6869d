"""Pretext tasks: the encoder learns by predicting a label that is made from the image itself."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vergence.learning.collectives import gather
from vergence.learning.problem import OneEncoder, Problem
from vergence.methods import Method

TURNS = 4
STEP, REACH = 10, 11  # bins of 10 units from -110 to 110 along a and b, as Zhang et al. (2016), Sec. 2.1
BINS = (2 * REACH + 1) ** 2
# Linear sRGB to CIE XYZ (IEC 61966-2-1), each row divided by that of the D65 white, so that rows add up to one.
TO_XYZ = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8728))


def rotation(method: Method, problem: Problem) -> nn.Module:
    r"""Predict by which of four right angles an image was turned.

    The cross-entropy :math:`-\frac{1}{4n} \sum_{i,r} \log p_r(\mathrm{turn}_r(x_i))`: log 4 = 1.386 for a network that
    knows nothing.

    References:
        Gidaris et al. (2018). https://arxiv.org/abs/1803.07728
    """
    if len(problem.shape) != 3 or problem.shape[1] != problem.shape[2]:
        raise ValueError(f"rotation needs square images [channels, side, side], got {list(problem.shape)}.")
    return Rotation(method, problem.encoder(0))


def colorization(method: Method, problem: Problem, *, cells: int = 4) -> nn.Module:
    r"""Predict the colors of an image from its lightness, as classes of CIE ab.

    The cross-entropy :math:`-\frac1n \sum_i \frac1C \sum_c \log p_c(\mathrm{color}_{ic})` over C cells of each image.
    Coarser than the paper: the authors color every pixel by a deep decoder, share a pixel's color among the five
    nearest of the 313 bins that a display can show, and weigh rare colors up. Our encoders end in one vector, so a
    linear layer colors a grid of cells by its mean, in the nearest of all 529 bins, and all colors weigh the same.

    References:
        Zhang et al. (2016), Sec. 2. https://arxiv.org/abs/1603.08511
    """
    if len(problem.shape) != 3 or problem.shape[0] != 3:
        raise ValueError(f"colorization needs color images [3, height, width], got {list(problem.shape)}.")
    return Colorization(method, problem.encoder(0), cells=cells)


class Rotation(OneEncoder):
    """The first view in all four orientations, each classified."""

    def __init__(self, method: Method, encoder: Any):
        super().__init__(method, encoder)
        self.classifier = nn.Linear(encoder.width, TURNS)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        turned = torch.cat([torch.rot90(views[0], turns, (2, 3)) for turns in range(TURNS)])
        return list(self.classifier(self.encoder(turned)).chunk(TURNS))

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        logits = torch.stack([gather(output) for output in outputs], dim=2)
        turns = torch.arange(TURNS, device=logits.device).expand(len(logits), TURNS)
        return F.cross_entropy(logits, turns)


class Colorization(OneEncoder):
    """The lightness of the first view in, the classes of its colors out."""

    def __init__(self, method: Method, encoder: Any, *, cells: int):
        super().__init__(method, encoder)
        self.cells = cells
        self.classifier = nn.Linear(encoder.width, BINS * cells * cells)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        lightness, colors = lab(views[0])
        classes = color_classes(F.adaptive_avg_pool2d(colors, self.cells))
        logits = self.classifier(self.encoder(lightness.expand(-1, 3, -1, -1) / 100))
        losses = F.cross_entropy(logits.view(len(logits), BINS, self.cells, self.cells), classes, reduction="none")
        return [losses.mean((1, 2))]

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return gather(outputs[0]).mean()


def lab(x: Tensor) -> tuple[Tensor, Tensor]:
    """sRGB images in [0, 1] as CIE lightness, 0 to 100, and the colors a and b; gray has a = b = 0.

    References:
        CIE 15:2004; the white point is D65.
    """
    linear = torch.where(x <= 0.04045, x / 12.92, ((x.clamp(min=0.04045) + 0.055) / 1.055) ** 2.4)
    xyz = torch.einsum("ij,njhw->nihw", _to_xyz(x.dtype, x.device), linear)
    edge = 6 / 29
    root = torch.where(xyz > edge**3, xyz.clamp(min=edge**3) ** (1 / 3), xyz / (3 * edge**2) + 4 / 29)
    fx, fy, fz = root.unbind(1)
    return (116 * fy - 16)[:, None], torch.stack([500 * (fx - fy), 200 * (fy - fz)], dim=1)


@cache
def _to_xyz(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix on a device, brought there once: each copy would make the processor wait."""
    return torch.tensor(TO_XYZ, dtype=dtype, device=device)


def color_classes(colors: Tensor) -> Tensor:
    """The bin of each color ``[n, 2, h, w]``, a number below 529."""
    a, b = ((colors / STEP).round().long().clamp(-REACH, REACH) + REACH).unbind(1)
    return a * (2 * REACH + 1) + b
