"""Vision transformers, from patches of 4 pixels to patches of 16: small ones of ours, for 32 to 224 pixels."""

import math
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vergence.counters import content_keys, split, uniform
from vergence.types import Keys

Pool = Literal["mean", "class"]
PATCHES = 8  # along each side, where no size of a patch is given: 4 pixels of 32, 12 of 96, 16 from 128 on
LARGEST_PATCH = 16  # of the papers, at 224 pixels


def vit(
    shape: tuple[int, ...],
    *,
    patch: int | None = None,
    width: int = 128,
    depth: int = 4,
    attention_heads: int = 4,
    pool: Pool = "mean",
    registers: int = 0,
    drop_path: float = 0.0,
) -> nn.Module:
    """A vision transformer for two cores: 4 blocks of width 128 by default, 0.8 million weights.

    Positions are fixed sines, stretched over the image, so that crops of any size can be read; a side that is no
    multiple of the patch is resized to the nearest. ``drop_path`` leaves out a block for a sample with a probability
    that rises to it from the first block to the last; which ones is a function of the sample's pixels, so that chunks
    and processes agree.

    References:
        Dosovitskiy et al. (2021). https://arxiv.org/abs/2010.11929
        Huang et al. (2016), stochastic depth. https://arxiv.org/abs/1603.09382
        Darcet et al. (2024), registers. https://arxiv.org/abs/2309.16588
    """
    if len(shape) != 3:
        raise ValueError(f"A ViT reads images [channels, height, width], got samples of shape {list(shape)}.")
    if width % (4 * attention_heads):
        raise ValueError(
            f"width must be a multiple of 4 x attention_heads = {4 * attention_heads}, for sines of two axes and equal "
            f"heads; got {width}."
        )
    side = patch or max(2, min(LARGEST_PATCH, max(shape[1:]) // PATCHES))
    return ViT(
        shape, patch=side, width=width, depth=depth, heads=attention_heads, pool=pool, registers=registers,
        drop_path=drop_path,
    )  # fmt: skip


def vit_tiny(
    shape: tuple[int, ...],
    *,
    patch: int | None = None,
    pool: Pool = "class",
    registers: int = 0,
    drop_path: float = 0.1,
) -> nn.Module:
    """ViT-Ti: 12 blocks of width 192 with 3 heads, 5.4 million weights.

    References:
        Touvron et al. (2021), DeiT, Table 1. https://arxiv.org/abs/2012.12877
    """
    options: dict[str, Any] = {"pool": pool, "registers": registers, "drop_path": drop_path}
    return vit(shape, patch=patch, width=192, depth=12, attention_heads=3, **options)


def vit_small(
    shape: tuple[int, ...],
    *,
    patch: int | None = None,
    pool: Pool = "class",
    registers: int = 0,
    drop_path: float = 0.1,
) -> nn.Module:
    """ViT-S: 12 blocks of width 384 with 6 heads, 21 million weights.

    References:
        Touvron et al. (2021), DeiT, Table 1. https://arxiv.org/abs/2012.12877
    """
    options: dict[str, Any] = {"pool": pool, "registers": registers, "drop_path": drop_path}
    return vit(shape, patch=patch, width=384, depth=12, attention_heads=6, **options)


class ViT(nn.Module):
    """Patches, positions, and blocks of attention; ``tokens`` may be given the patches that are seen."""

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        pool: Pool,
        registers: int,
        drop_path: float,
    ):
        super().__init__()
        self.patch, self.width, self.heads, self.pool = patch, width, heads, pool
        self.grid = tuple(max(1, round(side / patch)) for side in shape[1:])
        self.embed = nn.Conv2d(shape[0], width, patch, stride=patch)
        self.extra = nn.Parameter(torch.zeros(1 + registers, width))  # the class token, then the registers
        self.blocks = nn.ModuleList(Block(width, heads, drop=drop_path * (k + 1) / depth) for k in range(depth))
        self.norm = nn.LayerNorm(width)
        initialized(self)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.tokens(x)
        return tokens[:, 0] if self.pool == "class" else tokens[:, len(self.extra) :].mean(1)

    def tokens(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        """The class token, the registers and the patches ``seen`` (their numbers, a row for each sample), or all."""
        keys = content_keys(x) if self.training and any(block.drop for block in self.blocks) else None
        x = self.fitted(x)
        patches = self.embed(x)
        tokens = patches.flatten(2).mT + positions_beside(patches, tuple(patches.shape[2:]), self.grid, self.width)
        if seen is not None:
            tokens = tokens.gather(1, seen[:, :, None].expand(-1, -1, self.width))
        tokens = torch.cat([self.extra.expand(x.shape[0], -1, -1).to(tokens), tokens], dim=1)
        for number, block in enumerate(self.blocks):
            tokens = block(tokens, None if keys is None else split(keys, number))
        return self.norm(tokens)

    def fitted(self, x: Tensor) -> Tensor:
        """The images with sides that are multiples of the patch: as they are, or resized to the nearest."""
        sides = [max(1, round(side / self.patch)) * self.patch for side in x.shape[2:]]
        if list(x.shape[2:]) == sides:
            return x
        return F.interpolate(x, size=sides, mode="bilinear", align_corners=False)


class Block(nn.Module):
    """Attention and a perceptron, each after a layer norm and added to its input."""

    def __init__(self, width: int, heads: int, *, drop: float = 0.0):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, keys: Keys | None = None) -> Tensor:
        shares = (1.0, 1.0) if keys is None or not self.drop else self._kept(keys, x)
        x = x + shares[0] * self._attention(self.before_attention(x))
        return x + shares[1] * self.mlp(self.before_mlp(x))

    def _attention(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        query, key, value = self.attend(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.project(mixed.transpose(1, 2).reshape(n, length, width))

    def _kept(self, keys: Keys, x: Tensor) -> tuple[Tensor, Tensor]:
        """For both parts 0 where a sample leaves it out, else what keeps the mean."""
        kept = (uniform(keys, 2) >= self.drop).to(x) / (1 - self.drop)
        return kept[:, :1, None], kept[:, 1:, None]


def positions_beside(x: Tensor, grid: tuple[int, ...], reference: tuple[int, ...], width: int) -> Tensor:
    """``positions`` in the type and on the device of a tensor, brought there once: copies make the processor wait."""
    if torch.compiler.is_compiling():  # what a tracer gives is a placeholder, which must not be kept for real images
        return positions(grid, reference, width).to(x)
    return _positions_on(grid, reference, width, x.dtype, x.device)


@lru_cache(maxsize=32)
def _positions_on(
    grid: tuple[int, ...], reference: tuple[int, ...], width: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    return positions(grid, reference, width).to(device, dtype)


def positions(grid: tuple[int, ...], reference: tuple[int, ...], width: int) -> Tensor:
    """Sines and cosines of the place of each patch, ``[patches, width]``: half of the columns for each axis.

    Places are stretched to the reference grid, so that the corners of a crop are where the corners of an image are.

    References:
        Chen et al. (2021), MoCo v3, App. A: fixed two-dimensional sines. https://arxiv.org/abs/2104.02057
    """
    rates = torch.exp(-math.log(10_000) * torch.arange(width // 4) / (width // 4))
    rows, columns = (
        (torch.arange(count) + 0.5) * most / count - 0.5 for count, most in zip(grid, reference, strict=True)
    )
    angles = [
        axis.flatten()[:, None] * rates for axis in torch.meshgrid(rows.double(), columns.double(), indexing="ij")
    ]
    return torch.cat([part for angle in angles for part in (angle.sin(), angle.cos())], dim=1)


def initialized(module: nn.Module) -> nn.Module:
    """Weights of 0.02 and no biases, as the papers start; the patches as a linear layer would."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.trunc_normal_(part.weight, std=0.02)
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Conv2d):
            nn.init.xavier_uniform_(part.weight.view(len(part.weight), -1))
            nn.init.zeros_(part.bias)  # type: ignore[arg-type]
        if isinstance(part, ViT):
            nn.init.trunc_normal_(part.extra, std=0.02)
    return module
