"""Two modalities: an encoder for each, and one space in which their embeddings are compared."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from vergence.encoders import mlp
from vergence.learning.collectives import gather
from vergence.learning.pairs import mean
from vergence.learning.problem import Problem, TwoEncoders, readers
from vergence.methods import Method
from vergence.objectives import Objective, koleo


def two_modal(method: Method, problem: Problem) -> nn.Module:
    """An encoder and a projector for each of two kinds of views, compared in one space; the first encoder is exported.

    References:
        Radford et al. (2021), Fig. 3. https://arxiv.org/abs/2103.00020
    """
    places = readers(problem.groups)
    return TwoModal(method, problem.encoder(0), problem.encoder(places.index(1)), places=places)


class TwoModal(TwoEncoders):
    """The views of a sample are of two kinds of data."""

    def __init__(self, method: Method, encoder: Any, second: Any, *, places: Sequence[int] = (0, 1)):
        heads = _projector(method, encoder), _projector(method, second)
        super().__init__(method, (encoder, second), heads, width=method.projector[-1], places=places)
        self.objective = Objective(str(method.objective), learnable=method.learnable, **method.hyperparameters)

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        loss = self.average(self.objective, outputs)
        if not self.method.koleo:
            return loss
        return loss + self.method.koleo * mean([koleo(gather(output)) for output in outputs])


def _projector(method: Method, encoder: Any) -> nn.Sequential:
    widths = [encoder.width, *[width or encoder.width for width in method.projector]]
    return mlp(widths, norm=method.projector_norm, final_norm=method.projector_final_norm)
