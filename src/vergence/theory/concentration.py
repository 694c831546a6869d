"""Concentration: the share of each class that augmentation brings together."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vergence.theory.clique import Clique, cover_clique, maximum_clique
from vergence.theory.distance import augmented_distance, within_classes
from vergence.types import Labels, Square

LARGEST_SEARCH = 2000  # samples of a class; beyond, the root of the search alone takes minutes: vertex cover instead


@dataclass(frozen=True)
class MainPart:
    """The largest part found of a class with all its samples within delta of each other; no share exceeds ``upper``."""

    label: int
    members: Int[Tensor, " k"]
    share: float
    upper: float

    @property
    def exact(self) -> bool:
        return self.share == self.upper


@dataclass(frozen=True)
class Concentration:
    """How concentrated augmented data are at one delta: ``sigma``, the smallest share over the classes, and the parts.

    With sampled views distances are over-estimated, so ``sigma`` is a lower bound of the share under the whole set of
    augmentations. ``exact`` says whether every part is proven largest for the distances given.
    """

    delta: float
    parts: tuple[MainPart, ...]

    @property
    def sigma(self) -> float:
        return min(part.share for part in self.parts)

    @property
    def upper(self) -> float:
        """No choice of main parts has a larger sigma."""
        return min(part.upper for part in self.parts)

    @property
    def mean(self) -> float:
        """The share averaged over classes: smoother than ``sigma``, for ranking."""
        return sum(part.share for part in self.parts) / len(self.parts)

    @property
    def outside(self) -> float:
        """The share of a class outside its main part, averaged over classes: 1 - ``mean``."""
        return 1 - self.mean

    @property
    def exact(self) -> bool:
        return all(part.exact for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        parts = [
            {"label": p.label, "members": p.members.tolist(), "share": p.share, "upper": p.upper} for p in self.parts
        ]
        return {"delta": self.delta, "sigma": self.sigma, "upper": self.upper, "mean": self.mean, "parts": parts}


def concentration(distance: Square, labels: Labels, delta: float, *, seconds: float = 10.0) -> Concentration:
    r"""The :math:`\sigma` of a :math:`(\sigma, \delta)`-augmentation: each class has a main part of at least this
    share, any two samples of which are within :math:`\delta` under the augmented distance.

    A main part is a maximum clique, because the augmented distance is no metric. ``seconds`` bounds the search of each
    class; after it the best clique stands, with an upper bound.

    References:
        Huang et al. (2023), Definition 1. https://arxiv.org/abs/2111.00743
    """
    return concentration_curve(distance, labels, [delta], seconds=seconds)[0]


def concentration_curve(
    distance: Square, labels: Labels, deltas: Sequence[float], *, seconds: float = 10.0
) -> list[Concentration]:
    """The concentration at each delta, in the order given. Never decreases with delta."""
    _validate(distance, labels, deltas)
    curves = {int(label): _class_curve(distance, labels == label, deltas, seconds) for label in labels.unique()}
    return [
        Concentration(delta, tuple(_part(label, labels, curve[delta]) for label, curve in curves.items()))
        for delta in deltas
    ]


def curve_of_views(
    views: Callable[[Tensor], Float[Tensor, "k m *shape"]], labels: Labels, deltas: Sequence[float]
) -> list[Concentration]:
    """The concentration at each delta of samples whose views are drawn one class at a time.

    ``views`` gives the views of the samples with these numbers. Sampled views are farther apart than all views, so
    concentration is estimated from below.
    """
    distance = within_classes(labels, lambda own: augmented_distance(views(own)))
    return concentration_curve(distance, labels, deltas)


def shares_outside(
    views: Callable[[Tensor], Float[Tensor, "k m *shape"]], labels: Labels, deltas: Sequence[float]
) -> Float[Tensor, " deltas"]:
    r""":math:`1 - \sigma` averaged over classes, at each delta: ``outside`` along ``curve_of_views``, from above."""
    return torch.tensor([point.outside for point in curve_of_views(views, labels, deltas)])


def ranked_by_concentration(
    sets: Mapping[str, Callable[[int, Tensor], Tensor]], labels: Labels, deltas: Sequence[float], *, draws: int = 5
) -> dict[str, Float[Tensor, "draws deltas"]]:
    """Sets of augmentations, best first: the less of a class is outside its main part, over all deltas, the better.

    ``sets[name](seed, numbers)`` gives the views of the samples with these numbers; every draw has a seed of its own.

    References:
        Huang et al. (2023), Sec. 5.2. https://arxiv.org/abs/2111.00743
    """
    curves = {
        name: torch.stack([shares_outside(partial(views, seed), labels, deltas) for seed in range(draws)])
        for name, views in sets.items()
    }
    return dict(sorted(curves.items(), key=lambda item: item[1].mean().item()))


def _class_curve(distance: Tensor, own: Tensor, deltas: Sequence[float], seconds: float) -> dict[float, Clique]:
    """The main part of one class at each delta; each starts from the one before, so the curve never falls."""
    inner = distance[own][:, own]
    curve: dict[float, Clique] = {}
    clique = Clique((), 0)
    for delta in sorted(set(deltas)):
        near = (inner <= delta) & (delta >= inner.T)
        if len(inner) > LARGEST_SEARCH:
            clique = max(clique, cover_clique(near), key=lambda found: len(found.members))
        else:
            clique = maximum_clique(near, seconds=seconds, known=clique.members)
        curve[delta] = clique
    return curve


def _part(label: int, labels: Tensor, clique: Clique) -> MainPart:
    members = (labels == label).nonzero()[:, 0]
    inside = torch.tensor(clique.members, dtype=torch.long, device=labels.device)
    return MainPart(label, members[inside], len(inside) / len(members), clique.upper / len(members))


def _validate(distance: Tensor, labels: Tensor, deltas: Sequence[float]) -> None:
    if distance.ndim != 2 or distance.shape[0] != distance.shape[1] or len(labels) != len(distance):
        raise ValueError(
            f"Expected a square distance matrix with one label a row, got {list(distance.shape)} "
            f"and {len(labels)} labels."
        )
    if distance.isnan().any():
        raise ValueError("The distance matrix holds NaN.")
    if not torch.allclose(distance, distance.T):
        worst = (distance - distance.T).nan_to_num(0).abs().max()
        raise ValueError(f"The distance matrix is not symmetric: entries differ by up to {worst:.3g}.")
    if (distance < 0).any():
        raise ValueError("The distance matrix holds negative entries.")
    if not deltas or not all(math.isfinite(delta) and delta > 0 for delta in deltas):
        raise ValueError(f"Expected finite deltas above 0, got {list(deltas)}.")
    classes, counts = labels.unique(return_counts=True)
    if (counts < 2).any():
        alone = classes[counts < 2].tolist()
        raise ValueError(f"Every class needs at least 2 samples to have a main part; one sample only in {alone}.")
