"""A small transformer over tokens, to be trained from scratch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from vergence.encoders.text_bag import VOCABULARY
from vergence.tables import UnknownName

PADDING = 0
PIECE = 16  # texts of about one length that are encoded together
POOLINGS = ("mean", "first", "last")
POSITIONS = ("rotary", "learned", "none")
BASE = 10_000.0  # the longest wave of rotary positions, in tokens over 2 pi (Su et al., Sec. 3.2.2)


class Block(nn.Module):
    """Attention and a perceptron, each on normalized inputs and added to what came in (pre-norm)."""

    def __init__(self, width: int, heads: int, dropout: float, rotary: bool):
        super().__init__()
        self.heads, self.rotary, self.rate = heads, rotary, dropout
        self.before_attention, self.before_perceptron = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        x = x + self.dropout(self._attended(self.before_attention(x), real))
        return x + self.dropout(self.perceptron(self.before_perceptron(x)))

    def _attended(self, x: Tensor, real: Tensor) -> Tensor:
        n, t, width = x.shape
        query, key, value = self.inputs(x).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if self.rotary:
            query, key = rotated(query), rotated(key)
        rate = self.rate if self.training else 0.0
        made = functional.scaled_dot_product_attention(query, key, value, real[:, None, None], dropout_p=rate)
        return self.output(made.transpose(1, 2).reshape(n, t, width))


class TextTransformer(nn.Module):
    """Token vectors, blocks of attention, a last norm, and the mean of the states or one of them."""

    def __init__(
        self, vocabulary: int, length: int, width: int, depth: int, heads: int, *, dropout: float, pooling: str,
        positions: str,
    ):  # fmt: skip
        super().__init__()
        if pooling not in POOLINGS:
            raise UnknownName("pooling", pooling, POOLINGS)
        if positions not in POSITIONS:
            raise UnknownName("positions", positions, POSITIONS)
        if width % heads or (width // heads) % 2:
            raise ValueError(f"width ({width}) must be a multiple of twice the number of heads ({heads}).")
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=PADDING, sparse=True)
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        self.places = nn.Parameter(0.02 * torch.randn(length, width)) if positions == "learned" else None
        self.blocks = nn.ModuleList(Block(width, heads, dropout, positions == "rotary") for _ in range(depth))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.width, self.pooling = width, pooling

    def forward(self, tokens: Tensor) -> Tensor:
        return by_length(self._encoded, tokens) if self.training else self._encoded(tokens)

    def _encoded(self, tokens: Tensor) -> Tensor:
        real = tokens != PADDING
        real = real | (torch.arange(tokens.shape[1], device=tokens.device) == 0)  # a row has a place to look at
        x = self.tokens(tokens)
        if self.places is not None:
            x = x + self.places[: tokens.shape[1]]
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, real)
        return pooled(self.norm(x), real, self.pooling)


def by_length(encode: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """Rows encoded in pieces of about one length each, so that a processor computes little padding, in their order.

    Pairs of sentences cannot both be in batches of one length: of the books' next sentences 38 % of a batch of 256 is
    padding, and 4 % in pieces of 16. An accelerator is faster with the whole batch, and a compiler wants one graph.
    """
    if tokens.device.type != "cpu" or len(tokens) <= PIECE or torch.compiler.is_compiling():
        return encode(tokens)
    lengths = (tokens != PADDING).sum(1).clamp(min=1)
    order = lengths.argsort(stable=True)
    made = torch.cat([encode(tokens[rows, : int(lengths[rows[-1]])]) for rows in order.split(PIECE)])
    return made[order.argsort()]


def pooled(states: Tensor, real: Tensor, pooling: str) -> Tensor:
    """One vector of the states ``[n, t, d]`` of each row: their mean, the first, or the last that is not padding."""
    if pooling == "first":
        return states[:, 0]
    lengths = real.sum(1)
    if pooling == "last":
        return states[torch.arange(states.shape[0], device=states.device), lengths - 1]
    return (states * real[..., None]).sum(1) / lengths[:, None]


def rotated(x: Tensor) -> Tensor:
    """Pairs of columns turned by an angle that grows with the position: products then depend on distances alone.

    References:
        Su et al. (2021), eq. 34. https://arxiv.org/abs/2104.09864
    """
    half = x.shape[-1] // 2
    speed = BASE ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * speed
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def transformer(
    shape: tuple[int, ...],
    *,
    vocabulary: int = 0,
    width: int = 256,
    depth: int = 2,
    heads: int = 4,
    dropout: float = 0.1,
    pooling: str = "mean",
    positions: str = "rotary",
) -> nn.Module:
    """A small transformer over tokens: pre-norm, GELU, rotary or learned positions, mean, first or last pooling.

    References:
        Vaswani et al. (2017). https://arxiv.org/abs/1706.03762; pre-norm: Xiong et al. (2020).
    """
    options = {"dropout": dropout, "pooling": pooling, "positions": positions}
    return TextTransformer(vocabulary or VOCABULARY, shape[0], width, depth, heads, **options)  # type: ignore[arg-type]
