"""What learners are built from, and what those share that have no memory."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from vergence.methods import Method


@dataclass(frozen=True)
class Problem:
    """What a learner is built for: ``encoder(i)`` makes a fresh encoder for view i; shape and kind are the first's."""

    encoder: Callable[[int], Any]
    shape: tuple[int, ...]
    classes: int = 0
    kind: str = "vector"


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
        """What makes the embedding of each view."""
        return self.encoder, self.encoder


class TwoEncoders(Memoryless):
    """An encoder and a head for each view, with no weights in common; the first encoder is exported."""

    def __init__(self, method: Method, encoders: tuple[Any, Any], heads: tuple[nn.Module, nn.Module], *, width: int):
        super().__init__(method, encoders[0])
        self.second = encoders[1]
        self.projector, self.second_projector = heads
        self.width = width

    @property
    def branches(self) -> tuple[nn.Module, nn.Module]:
        """What makes the embedding of each view."""
        return nn.Sequential(self.encoder, self.projector), nn.Sequential(self.second, self.second_projector)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        return [branch(view) for branch, view in zip(self.branches, views, strict=True)]
