"""Views of texts as rows of tokens, where 0 is padding: read a span, lose tokens, swap neighbors."""

from functools import partial

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vergence.counters import split, uniform
from vergence.types import Keys
from vergence.views.halves import same
from vergence.views.recipe import NEGATIVE, Recipe, View, plain, require

Tokens = Int[Tensor, "n t"]

SPAN, DROPPED, SWAPPED, OFFSET = range(4)


def text(*, crop: float = 0.7, dropout: float = 0.1, swap: float = 0.1) -> Recipe:
    """Views of texts: a random span of at least ``crop`` of the tokens, some left out, some swapped with a neighbor.

    ``dropout`` is the probability that a token of the span is left out, ``swap`` that two neighbors change places.
    What remains moves to the front, and padding follows; a text never loses its last token.

    References:
        Wei & Zou (2019), Easy data augmentation. https://arxiv.org/abs/1901.11196
    """
    require(0 < crop <= 1, "crop", crop, "in (0, 1]")
    require(0 <= dropout < 1, "dropout", dropout, "in [0, 1)")
    require(0 <= swap <= 1, "swap", swap, "in [0, 1]")
    draw = partial(_view, crop=crop, dropout=dropout, swap=swap)
    return Recipe("text", (draw, draw), plain, f"span {crop:g} + dropout {dropout:g} + swap {swap:g}")


def pairs(*, negatives: int = -1, dropout: float = 0.1, crop: float = 1.0, swap: float = 0.0) -> Recipe:
    """A text and its positive, with some tokens left out, and as many hard negatives as the data has.

    The positive is the next sentence (``text:FILE,pairs=next``) or a column of a table (``pairs:FILE.tsv``).
    """
    negatives = max(0, negatives)
    draw = text(crop=crop, dropout=dropout, swap=swap).draws[0]
    hard = [View(draw, group=NEGATIVE, field=f"negative_{number}") for number in range(1, negatives + 1)]
    views = (View(draw), View(draw, field="positive"), *hard)
    lost = f", {dropout:g} of the tokens lost" if dropout else ""
    return Recipe("text", views, plain, f"text and positive{f' and {negatives} negatives' * bool(negatives)}{lost}")


def dropout() -> Recipe:
    """The same sample twice: what differs is the encoder's own dropout, whose masks follow from the seed and the step.

    References:
        Gao et al. (2021), SimCSE, Sec. 3. https://arxiv.org/abs/2104.08821
    """
    return Recipe("any", (same, same), plain, "the sample itself, under two dropout masks", by_encoder=True)


def _view(x: Tokens, keys: Keys, *, crop: float, dropout: float, swap: float) -> Tokens:
    keys = keys.to(x.device)
    kept = span = x != 0 if crop == 1 else _span(x, uniform(split(keys, SPAN), 2), crop)
    if dropout:
        kept = span & (uniform(split(keys, DROPPED), x.shape[1]) >= dropout)
        kept = torch.where(kept.any(dim=1, keepdim=True), kept, _first(span))
    packed = _packed(x, kept)
    if not swap:
        return packed
    return _swapped(packed, uniform(split(keys, SWAPPED), x.shape[1]), uniform(split(keys, OFFSET), 1), swap)


def _span(x: Tokens, draws: Tensor, crop: float) -> Bool[Tensor, "n t"]:
    """Which tokens are in the random span."""
    present = x != 0
    count = present.sum(dim=1, keepdim=True)
    length = ((crop + (1 - crop) * draws[:, :1]) * count).round().long().clamp(min=1)
    number = present.cumsum(dim=1) - 1 - (draws[:, 1:] * (count - length + 1)).long()
    return present & (number >= 0) & (number < length)


def _first(mask: Bool[Tensor, "n t"]) -> Bool[Tensor, "n t"]:
    return mask & (mask.cumsum(dim=1) == 1)


def _packed(x: Tokens, kept: Bool[Tensor, "n t"]) -> Tokens:
    """The kept tokens, moved to the front; the rest is padding."""
    behind = x.shape[1]  # a place for what is not kept
    place = torch.where(kept, kept.cumsum(dim=1) - 1, behind)
    return x.new_zeros(len(x), behind + 1).scatter_(1, place, x)[:, :behind]


def _swapped(x: Tokens, draws: Tensor, offset: Tensor, swap: float) -> Tokens:
    """Pairs of neighbors change places with probability ``swap``; a coin says whether pairs begin at 0 or 1."""
    t = x.shape[1]
    place = torch.arange(t, device=x.device) + (offset < 0.5).long()
    partner = (place ^ 1) - (offset < 0.5).long()
    inside = (partner >= 0) & (partner < (x != 0).sum(dim=1, keepdim=True)) & (x != 0)
    chosen = inside & (draws.gather(1, (place // 2).clamp(max=t - 1)) < swap)
    return x.gather(1, torch.where(chosen, partner, torch.arange(t, device=x.device)))
