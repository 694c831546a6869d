"""What learners are built from, and what those share that have no memory."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from torch import Tensor, nn

from vergence.learning.collectives import gather
from vergence.learning.pairs import encoded, mean
from vergence.methods import Method


@dataclass(frozen=True)
class Problem:
    """What a learner is built for: ``encoder(i)`` makes a fresh encoder for view i; shape and kind are the first's.

    ``groups`` has a number for each view, 0 for those drawn as the first one is. The last ``negatives`` views are no
    views of the sample but hard negatives.
    """

    encoder: Callable[[int], Any]
    shape: tuple[int, ...]
    classes: int = 0
    kind: str = "vector"
    groups: tuple[int, ...] = (0, 0)
    negatives: int = 0


class Memoryless(nn.Module, ABC):
    """A learner that keeps nothing between steps but its weights."""

    def __init__(self, method: Method, encoder: Any):
        super().__init__()
        self.method = method
        self.encoder = encoder

    def forward(self, views: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return self.loss(self.outputs(views), labels)

    @abstractmethod
    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        """What the loss needs of the views, a row for each sample."""

    @abstractmethod
    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        """The loss of the samples of all processes."""

    def after_step(self, progress: float) -> None:
        """Nothing follows a step."""


class OneEncoder(Memoryless):
    """One encoder whose method compares no embeddings of two views: what it embeds is its representation."""

    def __init__(self, method: Method, encoder: Any):
        super().__init__(method, encoder)
        self.projector = nn.Identity()
        self.width = encoder.width

    @property
    def branches(self) -> tuple[nn.Module, nn.Module]:
        """What makes the embedding of a view, whichever it is."""
        return self.encoder, self.encoder


class TwoEncoders(Memoryless):
    """Two encoders with a head each and no weights in common; the first encoder is exported.

    ``places`` says for each view which of the two reads it. Every view of the one is compared with every view of the
    other.
    """

    def __init__(
        self,
        method: Method,
        encoders: tuple[Any, Any],
        heads: tuple[nn.Module, nn.Module],
        *,
        width: int,
        places: Sequence[int] = (0, 1),
    ):
        super().__init__(method, encoders[0])
        self.second = encoders[1]
        self.projector, self.second_projector = heads
        self.width = width
        self.places = tuple(places)

    @property
    def branches(self) -> tuple[nn.Module, ...]:
        """What makes the embedding of each view."""
        both = nn.Sequential(self.encoder, self.projector), nn.Sequential(self.second, self.second_projector)
        return tuple(both[place] for place in self.places)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        own = [[view for view, place in zip(views, self.places, strict=True) if place == side] for side in (0, 1)]
        apart = 2 if len(views) == 2 else 0
        first = encoded(self.encoder, self.projector, own[0], apart=apart)
        second = encoded(self.second, self.second_projector, own[1], apart=apart)
        left = [iter(first), iter(second)]
        return [next(left[place]) for place in self.places]

    def average(self, compare: Callable[[Tensor, Tensor], Tensor], outputs: Sequence[Tensor]) -> Tensor:
        """The mean of a comparison over all pairs of a view of the first encoder and one of the second."""
        made = [gather(output) for output in outputs]
        sides = [[z for z, place in zip(made, self.places, strict=True) if place == side] for side in (0, 1)]
        return mean([compare(first, second) for first, second in product(*sides)])


def readers(groups: Sequence[int]) -> tuple[int, ...]:
    """Which of two encoders reads each view: one each, or where there are more than two views one for each group."""
    if len(groups) == 2:
        return (0, 1)
    if set(groups) != {0, 1}:
        raise ValueError(
            f"Two encoders read two kinds of views, and the {len(groups)} views are of {len(set(groups))} kinds."
        )
    return tuple(groups)
