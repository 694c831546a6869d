"""What learners are built from, and what those share that train a single encoder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from vergence.methods import Method


@dataclass(frozen=True)
class Problem:
    """What a learner is built for: ``encoder(i)`` makes a fresh encoder for view i, ``shape`` is a view's."""

    encoder: Callable[[int], Any]
    shape: tuple[int, ...]
    classes: int = 0


class OneEncoder(nn.Module, ABC):
    """An encoder whose method compares no embeddings of two views: no projector, no memory."""

    def __init__(self, method: Method, encoder: Any):
        super().__init__()
        self.method = method
        self.encoder = encoder
        self.projector = nn.Identity()
        self.width = encoder.width

    @property
    def branches(self) -> tuple[nn.Module, nn.Module]:
        """What makes the embedding of each view: here its representation."""
        return self.encoder, self.encoder

    def forward(self, views: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return self.loss(self.outputs(views), labels)

    @abstractmethod
    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        """What the loss needs of the views, a row for each sample."""

    @abstractmethod
    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        """The loss of the samples of all processes."""

    def after_step(self, progress: float) -> None:
        """Nothing follows a step: there is no memory."""
