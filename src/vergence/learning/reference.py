"""What every method is measured against: an encoder trained with the labels, and one that is not trained."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from vergence.learning.collectives import gather
from vergence.learning.pairs import encoded, mean
from vergence.learning.problem import OneEncoder, Problem
from vergence.methods import Method


def classifier(method: Method, problem: Problem) -> nn.Module:
    r"""A linear classifier on the representation, trained with the labels by cross-entropy.

    :math:`-\frac1n \sum_i \log p_{y_i}(x_i)`: log of the number of classes for a network that knows nothing.
    """
    if problem.classes < 2:
        raise ValueError(f"A classifier needs labels of at least 2 classes; the data has {problem.classes}.")
    return Classifier(method, problem.encoder(0), classes=problem.classes)


def untrained(method: Method, problem: Problem) -> nn.Module:
    """The encoder as it was initialized: nothing is trained."""
    return Untrained(method, problem.encoder(0))


class Classifier(OneEncoder):
    """All views of a sample are classified, so that it sees what a contrastive method sees."""

    def __init__(self, method: Method, encoder: Any, *, classes: int):
        super().__init__(method, encoder)
        self.classifier = nn.Linear(encoder.width, classes)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        return encoded(self.encoder, self.classifier, views)

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        assert labels is not None, "a classifier is built for data with labels"
        known = gather(labels)
        return mean([nn.functional.cross_entropy(gather(output), known) for output in outputs])


class Untrained(OneEncoder):
    """Its loss is 0 and has no gradient; a run of it takes no step."""

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        return encoded(self.encoder, self.projector, views)

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return outputs[0].new_zeros(())
