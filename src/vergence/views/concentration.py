"""What theory says of sets of views before any training: how they concentrate a class, and how they mix classes.

A description, never a recommendation: with destructive sets among the candidates its rank correlation with accuracy is
about .25. A crop of 1 to 5 % concentrates a class best, and is the worst to learn from.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor

from vergence.counters import sample_keys
from vergence.theory import Concentration, augmented_distance, closest_views, curve_of_views
from vergence.theory.graph import GraphSurvey, survey
from vergence.views.recipe import Recipe

QUANTILES = (0.002, 0.005, 0.01, 0.03, 0.1, 0.2)  # of distances between plain samples of a class: where curves differ
CONNECTING_VIEWS = 8  # views compared between classes: a full comparison would cost more than all the rest
CONNECTIONS = 10  # pairs of different classes shown

Embed = Callable[[Tensor], Tensor]
LOWER_BOUND = "Distances over sampled views are too large, never too small: 1 - sigma is an upper estimate."


@dataclass(frozen=True)
class Connection:
    """Two samples of different classes that come close under their views; view 0 is the sample itself."""

    first: int
    second: int
    first_view: int
    second_view: int
    distance: float


@dataclass(frozen=True)
class Concentrated:
    """One set. ``curve`` is 1 - sigma against delta, averaged over classes; ``worst`` that of the least concentrated
    class; ``score`` the mean of the curve, whose interval is over resampled views; ``mixed`` the share of pairs of
    different classes that come within the middle delta, ``outside`` the samples of each class outside its main part."""

    name: str
    score: float
    interval: tuple[float, float]
    deltas: tuple[float, ...]
    curve: tuple[float, ...]
    worst: tuple[float, ...]
    exact: bool
    outside: Mapping[int, tuple[int, ...]]
    mixed: float
    connections: tuple[Connection, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "connections": [vars(connection) for connection in self.connections]}


def concentrations(
    x: Tensor,
    labels: Tensor | None,
    sets: Mapping[str, Recipe],
    *,
    views: int = 24,
    deltas: Sequence[float] | None = None,
    resamples: int = 5,
    seed: int = 0,
    embed: Embed | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> list[Concentrated]:
    """How each set concentrates the classes of these samples: a few tens of each class, drawn evenly.

    Each sample has ``views`` views, itself among them. Distances are between pixels, or between what ``embed`` makes
    of a batch of views. Deltas default to quantiles of the distances between plain samples of a class. Without labels
    all samples count as one class, so that overlap of different classes looks like concentration.

    References:
        Huang et al. (2023), Sec. 5.2. https://arxiv.org/abs/2111.00743
    """
    _validate(sets, views, resamples)
    embed = embed or (lambda batch: batch)
    known = torch.zeros(len(x), dtype=torch.long) if labels is None else labels
    deltas = tuple(deltas or default_deltas(embed(next(iter(sets.values())).plain(x)), known))
    found = []
    for name, recipe in sets.items():
        curves = [_curve(recipe, x, known, views, deltas, seed + number, embed) for number in range(resamples)]
        near = stacked_views(recipe, x, min(views, CONNECTING_VIEWS), seed=seed, embed=embed)
        found.append(_described(name, curves, deltas, near, known))
        progress(name)
    return found


def graph_of_views(
    x: Tensor, labels: Tensor | None, recipe: Recipe, *, classes: Sequence[str] = (), views: int = 8, seed: int = 0
) -> GraphSurvey:
    """The augmentation graph of these samples under a recipe, decomposed."""
    return survey(stacked_views(recipe, x, views, seed=seed), labels, classes=tuple(classes), seed=seed)


def stacked_views(
    recipe: Recipe,
    x: Tensor,
    views: int,
    *,
    seed: int = 0,
    embed: Embed = lambda batch: batch,
    own: Tensor | None = None,
) -> Tensor:
    """Views of samples ``[n, views, ...]``, the sample itself first; a sample's views do not depend on the others."""
    own = torch.arange(len(x)) if own is None else own
    keys = sample_keys(seed, 0, own)
    drawn = [recipe.view(x[own], keys, number=number) for number in range(views - 1)]
    return torch.stack([embed(batch) for batch in [recipe.plain(x[own]), *drawn]], 1)


def default_deltas(plain: Tensor, labels: Tensor) -> list[float]:
    """Quantiles of the distances between plain samples of a class."""
    rows = plain.flatten(1).float()
    within = [torch.nn.functional.pdist(rows[labels == label]) for label in labels.unique()]
    levels = torch.cat(within).quantile(torch.tensor(QUANTILES))
    deltas = sorted({float(f"{level:.3g}") for level in levels.tolist() if level > 0})
    if not deltas:
        raise ValueError("The samples of a class do not differ from each other, so there is no distance to allow.")
    return deltas


def _curve(
    recipe: Recipe, x: Tensor, labels: Tensor, views: int, deltas: Sequence[float], seed: int, embed: Embed
) -> list[Concentration]:
    """The curve of one drawing of views; classes are compared with themselves only."""

    def own_views(own: Tensor) -> Tensor:
        return stacked_views(recipe, x, views, seed=seed, embed=embed, own=own).float()

    return curve_of_views(own_views, labels, deltas)


def _described(
    name: str, measured: list[list[Concentration]], deltas: tuple[float, ...], near: Tensor, labels: Tensor
) -> Concentrated:
    curves = torch.tensor([[point.outside for point in curve] for curve in measured])
    middle = measured[0][len(deltas) // 2]
    mixed, connections = _connections(near.float(), labels, middle.delta)
    return Concentrated(
        name=name,
        score=curves.mean().item(),
        interval=_interval(curves.mean(1)),
        deltas=deltas,
        curve=tuple(curves.mean(0).tolist()),
        worst=tuple(1 - point.sigma for point in measured[0]),
        exact=all(point.exact for curve in measured for point in curve),
        outside=_outside(middle, labels),
        mixed=mixed,
        connections=connections,
    )


def _outside(found: Concentration, labels: Tensor) -> dict[int, tuple[int, ...]]:
    """For each class the samples, by their place, that are not in its main part."""
    rest = {part.label: (labels == part.label).index_fill(0, part.members, False) for part in found.parts}
    return {label: tuple(own.nonzero()[:, 0].tolist()) for label, own in rest.items()}


def _connections(stacks: Tensor, labels: Tensor, delta: float) -> tuple[float, tuple[Connection, ...]]:
    """The share of pairs of samples of different classes that come within delta, and the closest of them."""
    first, second = torch.triu_indices(len(labels), len(labels), 1)
    first, second = (side[labels[first] != labels[second]] for side in (first, second))
    if not len(first):
        return 0.0, ()
    gaps = augmented_distance(stacks, limit=delta)[first, second]
    closest = gaps.topk(min(CONNECTIONS, len(gaps)), largest=False).indices
    found = []
    for pair in closest[gaps[closest] <= delta].tolist():
        i, j = int(first[pair]), int(second[pair])
        found.append(Connection(i, j, *closest_views(stacks[i], stacks[j]), float(gaps[pair])))
    return (gaps <= delta).float().mean().item(), tuple(found)


def _interval(scores: Tensor) -> tuple[float, float]:
    """Student's 95 % interval of the mean, within [0, 1]; the point itself when there is one drawing only."""
    mean, count = scores.mean().item(), len(scores)
    half = stdtrit(count - 1, 0.975) * scores.std().item() / math.sqrt(count) if count > 1 else 0.0
    return max(0.0, mean - half), min(1.0, mean + half)


def _validate(sets: Mapping[str, Recipe], views: int, resamples: int) -> None:
    if not sets:
        raise ValueError("There are no sets of views to describe.")
    if views < 2 or resamples < 1:
        raise ValueError(
            f"Expected at least 2 views (the sample itself is one) and 1 resample, got {views}, {resamples}."
        )
