"""Quick-Thought: an encoder for a sentence and another for its context, both kept."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vergence.encoders import mlp
from vergence.learning.collectives import gather
from vergence.learning.pairs import encoded, without_negatives
from vergence.learning.problem import Memoryless, Problem
from vergence.methods import Method
from vergence.objectives import Objective


class SideBySide(nn.Module):
    """Two encoders of one kind of data: the directions that they give a sample, side by side."""

    def __init__(self, first: Any, second: Any):
        super().__init__()
        self.first, self.second = first, second
        self.width = first.width + second.width
        self.packs = getattr(first, "packs", False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([nn.functional.normalize(encoder(x), dim=1) for encoder in (self.first, self.second)], dim=1)


def context(method: Method, problem: Problem) -> nn.Module:
    """An encoder for the first view and another for the second, a sentence and the next; both are kept, side by side.

    References:
        Logeswaran & Lee (2018), Sec. 3. https://arxiv.org/abs/1803.02893
    """
    return Context(method, problem.encoder(0), problem.encoder(1), negatives=problem.negatives)


class Context(Memoryless):
    """The first encoder reads the first view, the second reads the others; hard negatives are read as contexts are."""

    def __init__(self, method: Method, first: Any, second: Any, *, negatives: int = 0):
        super().__init__(method, SideBySide(first, second))
        self.negatives = negatives
        widths = [first.width, *[width or first.width for width in method.projector]]
        self.width = widths[-1]
        heads = [mlp(widths, norm=method.projector_norm, final_norm=method.projector_final_norm) for _ in range(2)]
        self.projector, self.second_projector = heads
        self.objective = Objective(str(method.objective), learnable=method.learnable, **method.hyperparameters)

    @property
    def branches(self) -> tuple[nn.Module, nn.Module]:
        """What makes the embedding of the sentence, and of its context."""
        return (
            nn.Sequential(self.encoder.first, self.projector),
            nn.Sequential(self.encoder.second, self.second_projector),
        )

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        first = self.projector(self.encoder.first(views[0]))
        return [first, *encoded(self.encoder.second, self.second_projector, views[1:])]

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        (sentence, after), hard = without_negatives([gather(output) for output in outputs], self.negatives)
        return self.objective(sentence, after, **hard)
