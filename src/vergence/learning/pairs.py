"""Several views: which of them are compared, and how they are encoded."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from vergence.methods import Pairs


def compared(pairs: Pairs, groups: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of views that a symmetric objective is averaged over, each once; ``groups`` has a number per view.

    *all* is every pair; *global* every pair with a view of group 0, as SwAV and DINO compare crops; *first* the first
    view with each other one. With two views there is one pair, whatever the name.

    References:
        Tian et al. (2020), Contrastive multiview coding, Sec. 3.3: *first* is its core view, *all* its full graph.
        https://arxiv.org/abs/1906.05849
    """
    if len(groups) < 2:
        raise ValueError(f"A comparison takes two views or more, and the recipe gives {len(groups)}.")
    every = combinations(range(len(groups)), 2)
    if len(groups) == 2 or pairs in ("all", "together"):
        return list(every)
    if pairs == "first":
        return [(first, second) for first, second in every if first == 0]
    return [(first, second) for first, second in every if 0 in (groups[first], groups[second])]


def directed(pairs: Pairs, groups: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs (query, key) where keys come from a target: both directions of each pair that is compared.

    With *global*, keys are global views only: the target never sees a small crop (SwAV, Sec. 3.2; DINO, Sec. 3.1).
    """
    both = [way for pair in compared(pairs, groups) for way in (pair, pair[::-1])]
    if len(groups) == 2 or pairs != "global":
        return both
    return [(query, key) for query, key in both if groups[key] == 0]


def without_negatives(outputs: Sequence[Tensor], count: int) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Embeddings of the views, and as a keyword of the objective those of the last ``count``, the hard negatives."""
    if not count:
        return list(outputs), {}
    return list(outputs[:-count]), {"hard_negatives": torch.cat(list(outputs[-count:]))}


def encoded(encoder: nn.Module, head: nn.Module, views: Sequence[Tensor], *, apart: int = 2) -> list[Tensor]:
    """The embedding of every view under the encoder and the head.

    Up to ``apart`` views are encoded one after the other, and batch norm sees one view at a time; where the encoder
    packs rows of tokens, which it then treats one by one, in one pass of the encoder all the same. More are encoded
    together: those of one shape in one pass, then all of them in one pass of the head, as SwAV's and DINO's code does.
    Batch norm then takes its statistics over all views of a shape in the encoder, and over all views in the head.
    """
    if len(views) <= apart:
        if len(views) > 1 and getattr(encoder, "packs", False):
            return [head(part) for part in encoder(_below(views)).split([len(view) for view in views])]
        return [head(encoder(view)) for view in views]
    places: dict[torch.Size, list[int]] = {}
    for number, view in enumerate(views):
        places.setdefault(view.shape, []).append(number)
    made: dict[int, Tensor] = {}
    for numbers in places.values():
        parts = encoder(torch.cat([views[number] for number in numbers])).chunk(len(numbers))
        made.update(zip(numbers, parts, strict=True))
    return list(head(torch.cat([made[number] for number in range(len(views))])).chunk(len(views)))


def _below(views: Sequence[Tensor]) -> Tensor:
    """Rows of tokens of several views in one tensor, padded to the longest."""
    longest = max(view.shape[1] for view in views)
    return torch.cat([nn.functional.pad(view, (0, longest - view.shape[1])) for view in views])


def mean(losses: Sequence[Tensor]) -> Tensor:
    """The mean of losses that are one number each."""
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return total / len(losses)
