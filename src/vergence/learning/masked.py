"""Masked images: the encoder sees some patches and learns by predicting the others, as pixels or as features."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vergence.counters import content_keys, split, uniform
from vergence.encoders.vit import Block, ViT, initialized, positions_beside
from vergence.learning.collectives import gather
from vergence.learning.memory import MovingAverage
from vergence.learning.problem import OneEncoder, Problem
from vergence.methods import Method
from vergence.types import Keys

BLOCKS, BLOCK_AREA = 4, 0.175  # of I-JEPA: four targets, each from .15 to .2 of the image (Sec. 3)


def mae(
    method: Method, problem: Problem, *, masked: float = 0.75, decoder_width: int = 64, decoder_depth: int = 2
) -> nn.Module:
    r"""Masked auto-encoder: a ViT encodes a quarter of the patches, a small decoder predicts the pixels of the others.

    The mean of :math:`(\hat x - x)^2` over the pixels of hidden patches. The targets x are the pixels of a patch less
    their mean, divided by their deviation: a loss of 1 is what a decoder that knows nothing has. Nothing is contrasted,
    and nothing prevents collapse but the pixels themselves; what is aligned is what two masks of one image have in
    common.

    References:
        He et al. (2022). https://arxiv.org/abs/2111.06377
    """
    if not 0 < masked < 1:
        raise ValueError(f"masked must be a share of the patches between 0 and 1, got {masked}.")
    return MaskedAutoencoder(method, problem.encoder(0), masked=masked, width=decoder_width, depth=decoder_depth)


def i_jepa(
    method: Method,
    problem: Problem,
    *,
    decoder_width: int = 64,
    decoder_depth: int = 2,
    target_momentum: float = 0.996,
) -> nn.Module:
    r"""I-JEPA: from part of an image, predict what a moving average of the encoder makes of four blocks of it.

    The mean of :math:`\ell(\hat h - \bar h)` over the patches of the blocks, with Huber's :math:`\ell` and targets
    :math:`\bar h` of mean 0 and deviation 1 in each patch.

    Simpler than the paper: the blocks are squares of .175 of the image, where the authors draw areas from .15 to .2 and
    aspects from .75 to 1.5; and the context is as many of the other patches as every image has, where the authors take
    a block of at least .85 and cut it to the least of the batch, which would depend on the batch.

    References:
        Assran et al. (2023), Sec. 3. https://arxiv.org/abs/2301.08243
    """
    return JointPredictor(
        method, problem.encoder(0), width=decoder_width, depth=decoder_depth, momentum=target_momentum
    )


class MaskedAutoencoder(OneEncoder):
    """The first view, with patches left out by a draw that depends on its pixels only."""

    def __init__(self, method: Method, encoder: Any, *, masked: float, width: int, depth: int):
        super().__init__(method, encoder)
        vit = parts(encoder)[1]
        count = math.prod(vit.grid)
        self.seen = max(1, round((1 - masked) * count))
        if self.seen >= count:
            raise ValueError(f"An image of {count} patches has none to leave out: give a smaller --backbone.patch.")
        self.decoder = Decoder(vit.width, width, depth=depth, out=vit.embed.in_channels * vit.patch**2)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        before, vit = parts(self.encoder)
        x = vit.fitted(before(views[0]))
        order = uniform(content_keys(x), math.prod(vit.grid)).argsort(1)
        seen, hidden = order[:, : self.seen], order[:, self.seen :]
        tokens = vit.tokens(x, seen)[:, len(vit.extra) :]
        predicted = self.decoder(tokens, seen, hidden, vit.grid)
        return [(predicted - _rows(_targets(x, vit.patch), hidden)).square().mean((1, 2))]

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return gather(outputs[0]).mean()


class JointPredictor(OneEncoder):
    """The first view: some patches as context, four blocks as targets, both drawn by its pixels only."""

    def __init__(self, method: Method, encoder: Any, *, width: int, depth: int, momentum: float):
        super().__init__(method, encoder)
        vit = parts(encoder)[1]
        self.momentum = momentum
        # Rounded down on small grids, where four blocks would leave no context.
        rounded = round if min(vit.grid) > 4 else int
        self.sides = tuple(max(1, rounded(math.sqrt(BLOCK_AREA) * side)) for side in vit.grid)
        self.context = math.prod(vit.grid) - BLOCKS * math.prod(self.sides)
        if self.context < 1:
            raise ValueError(f"A grid of {vit.grid} patches has no context left beside its targets: use more patches.")
        self.decoder = Decoder(vit.width, width, depth=depth, out=vit.width)
        self.target = MovingAverage(vit)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        before, vit = parts(self.encoder)
        x = vit.fitted(before(views[0]))
        blocks, seen = self._drawn(content_keys(x), vit.grid)
        tokens = vit.tokens(x, seen)[:, len(vit.extra) :]
        with torch.no_grad():
            whole = self.target.module.tokens(x)[:, len(vit.extra) :]  # type: ignore[operator]
            whole = F.layer_norm(whole, whole.shape[-1:])
        losses = [
            F.smooth_l1_loss(self.decoder(tokens, seen, block, vit.grid), _rows(whole, block), reduction="none")
            for block in blocks
        ]
        return [torch.stack([loss.mean((1, 2)) for loss in losses]).mean(0)]

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return gather(outputs[0]).mean()

    def after_step(self, progress: float) -> None:
        """The target follows, with a momentum that rises to 1 along a line."""
        self.target.follow(parts(self.encoder)[1], self.momentum + (1 - self.momentum) * progress)

    def _drawn(self, keys: Keys, grid: tuple[int, ...]) -> tuple[list[Tensor], Tensor]:
        """The patches of each block, and those of the context, which are in no block."""
        (height, width), (rows, columns) = self.sides, grid
        places, blocks = uniform(split(keys, 0), 2 * BLOCKS), []
        inside = torch.zeros(len(keys), rows * columns, dtype=torch.bool, device=keys.device)
        for number in range(BLOCKS):
            top, left = (
                (places[:, 2 * number + axis] * (side - extent + 1)).long()
                for axis, (side, extent) in enumerate(zip(grid, self.sides, strict=True))
            )
            down, along = torch.arange(height, device=keys.device), torch.arange(width, device=keys.device)
            block = (top[:, None, None] + down[:, None]) * columns + left[:, None, None] + along
            blocks.append(block.flatten(1))
            inside.scatter_(1, blocks[-1], True)
        rank = uniform(split(keys, 1), rows * columns).masked_fill(inside, 2.0)
        return blocks, rank.argsort(1)[:, : self.context]


class Decoder(nn.Module):
    """A narrow transformer that is given some patches' features and asked for others by their place."""

    def __init__(self, inputs: int, width: int, *, depth: int, out: int):
        super().__init__()
        if width % 16:
            raise ValueError(f"decoder_width must be a multiple of 16, got {width}.")
        self.width = width
        self.embed = nn.Linear(inputs, width)
        self.hidden = nn.Parameter(0.02 * torch.randn(width))
        self.blocks = nn.Sequential(*[Block(width, heads=4) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, out))
        initialized(self)

    def forward(self, tokens: Tensor, seen: Tensor, asked: Tensor, grid: tuple[int, ...]) -> Tensor:
        places = positions_beside(tokens, tuple(grid), tuple(grid), self.width).expand(len(tokens), -1, -1)
        known = self.embed(tokens) + _rows(places, seen)
        unknown = self.hidden.to(known) + _rows(places, asked)
        return self.head(self.blocks(torch.cat([known, unknown], dim=1))[:, known.shape[1] :])


def parts(encoder: Any) -> tuple[nn.Module, ViT]:
    """What stands before the transformer of an encoder, and the transformer; other encoders are refused."""
    if isinstance(encoder, ViT):
        return nn.Identity(), encoder
    if isinstance(encoder, nn.Sequential) and isinstance(encoder[-1], ViT):
        return encoder[:-1], encoder[-1]
    raise ValueError("Masked images are read by a transformer of ours: use --encoder vit, vit_tiny or vit_small.")


def _targets(x: Tensor, patch: int) -> Tensor:
    """The pixels of each patch, less their mean and divided by their deviation (He et al., Sec. 3)."""
    pixels = F.unfold(x, patch, stride=patch).mT
    if pixels.shape[2] == 1:
        return pixels  # a patch of one number has no deviation
    variance, mean = torch.var_mean(pixels, dim=2, keepdim=True)
    return (pixels - mean) / (variance + 1e-6).sqrt()  # the authors' epsilon, for patches of one color


def _rows(values: Tensor, numbers: Tensor) -> Tensor:
    """Rows of each sample by their numbers."""
    return values.gather(1, numbers[:, :, None].expand(-1, -1, values.shape[2]))
