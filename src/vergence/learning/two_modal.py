"""Two modalities: an encoder for each, and one space in which they meet."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from vergence.encoders import mlp
from vergence.learning.collectives import gather
from vergence.learning.problem import Problem, TwoEncoders
from vergence.methods import Method
from vergence.objectives import Objective


def two_modal(method: Method, problem: Problem) -> nn.Module:
    """An encoder and a projector for each view, compared in one space; the first encoder is exported.

    References:
        Radford et al. (2021), Fig. 3. https://arxiv.org/abs/2103.00020
    """
    return TwoModal(method, problem.encoder(0), problem.encoder(1))


class TwoModal(TwoEncoders):
    """The two views of a sample are two kinds of data."""

    def __init__(self, method: Method, encoder: Any, second: Any):
        heads = _projector(method, encoder), _projector(method, second)
        super().__init__(method, (encoder, second), heads, width=method.projector[-1])
        self.objective = Objective(str(method.objective), learnable=method.learnable, **method.hyperparameters)

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return self.objective(*[gather(output) for output in outputs])


def _projector(method: Method, encoder: Any) -> nn.Sequential:
    widths = [encoder.width, *[width or encoder.width for width in method.projector]]
    return mlp(widths, norm=method.projector_norm, final_norm=method.projector_final_norm)
