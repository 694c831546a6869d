"""Two modalities: an encoder for each, and one space in which they meet."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from vergence.distributed import gather
from vergence.encoders import mlp
from vergence.learners.problem import Problem
from vergence.methods import Method
from vergence.objectives import Objective


def two_modal(method: Method, problem: Problem) -> nn.Module:
    """An encoder and a projector for each view, compared in one space; the first encoder is exported.

    References:
        Radford et al. (2021), Fig. 3. https://arxiv.org/abs/2103.00020
    """
    return TwoModal(method, problem.encoder(0), problem.encoder(1))


class TwoModal(nn.Module):
    """The two views of a sample are two kinds of data, and nothing is shared between their branches."""

    def __init__(self, method: Method, encoder: Any, second: Any):
        super().__init__()
        self.method = method
        self.encoder, self.second = encoder, second
        self.projector, self.second_projector = _projector(method, encoder), _projector(method, second)
        self.width = method.projector[-1] if method.projector else encoder.width
        self.objective = Objective(str(method.objective), learnable=method.learnable, **method.hyperparameters)

    @property
    def branches(self) -> tuple[nn.Module, nn.Module]:
        """What makes the embedding of each view."""
        return nn.Sequential(self.encoder, self.projector), nn.Sequential(self.second, self.second_projector)

    def forward(self, views: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return self.loss(self.outputs(views), labels)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        return [branch(view) for branch, view in zip(self.branches, views, strict=True)]

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return self.objective(*[gather(output) for output in outputs])

    def after_step(self, progress: float) -> None:
        """Nothing follows a step: there is no memory."""


def _projector(method: Method, encoder: Any) -> nn.Sequential:
    widths = [encoder.width, *[width or encoder.width for width in method.projector]]
    return mlp(widths, norm=method.projector_norm, final_norm=method.projector_final_norm)
