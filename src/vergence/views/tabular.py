"""Views of rows of a table: some cells are replaced by what the column holds elsewhere."""

from functools import partial

import torch
from torch import Tensor

from vergence.counters import normal, split, uniform
from vergence.types import Embedding, Keys
from vergence.views.constants import brought
from vergence.views.recipe import Recipe, plain, require

CORRUPTED, REPLACED, NOISE = range(3)


def tabular(*, corruption: float = 0.3, noise: float = 0.1) -> Recipe:
    """Views of vectors: every cell is, with probability ``corruption``, replaced by its column's value in another row.

    The other rows are those given to ``fitted``; without it a replaced cell becomes 0, the mean of a standardized
    column. ``noise`` is the standard deviation of what is added to every cell, as a share of its column's (of 1 without
    ``fitted``). SCARF corrupts one view at 0.6; here both are corrupted, at half that rate, so that the two are alike.

    References:
        Bahri et al. (2022), SCARF, Sec. 3. https://arxiv.org/abs/2106.15147
    """
    require(0 <= corruption <= 1, "corruption", corruption, "in [0, 1]")
    require(noise >= 0, "noise", noise, "at least 0")
    return _tabular(torch.zeros(1, 1), corruption=corruption, noise=noise)


def _tabular(reference: Embedding, *, corruption: float, noise: float) -> Recipe:
    spread = reference.std(dim=0) if len(reference) > 1 else torch.ones(1)
    draw = partial(_corrupt, reference=reference, spread=spread, corruption=corruption, noise=noise)
    description = f"corruption {corruption:g} + noise {noise:g}"
    return Recipe("vector", (draw, draw), plain, description, partial(_tabular, corruption=corruption, noise=noise))


def _corrupt(
    x: Embedding, keys: Keys, *, reference: Tensor, spread: Tensor, corruption: float, noise: float
) -> Embedding:
    d = x.shape[1]
    if reference.shape[1] not in (1, d):
        raise ValueError(f"x must have the {reference.shape[1]} columns of the fitted table, got {d}")
    reference, spread = (brought(part, keys.device) for part in (reference, spread))
    replaced = uniform(split(keys, CORRUPTED), d) < corruption
    rows = (uniform(split(keys, REPLACED), d) * len(reference)).long()
    others = reference.expand(-1, d).gather(0, rows).to(x)
    shaken = x + (noise * spread * normal(split(keys, NOISE), d)).to(x)
    return torch.where(replaced.to(x.device), others, shaken).float()
