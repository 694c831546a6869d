"""Learner: two views -> loss, for every row of METHODS that compares embeddings of one kind of data."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vergence.encoders import mlp
from vergence.learning.collectives import gather
from vergence.learning.memory import MovingAverage, Queue
from vergence.learning.problem import Problem
from vergence.methods import Method
from vergence.objectives import Objective


def two_view(method: Method, problem: Problem) -> nn.Module:
    """One encoder for two views of each sample, with the heads and the memory of the method's row."""
    return Learner(method, problem.encoder(0))


class Learner(nn.Module):
    """A two-view method with weights.

    ``outputs`` encodes the views and ``loss`` compares them, apart so that a large batch can be encoded in chunks and
    so that processes can exchange embeddings in between: objectives see one big batch and know nothing of processes.
    """

    def __init__(self, method: Method, encoder: Any):
        super().__init__()
        self.method = method
        self.encoder = encoder
        widths = [encoder.width, *[width or encoder.width for width in method.projector]]
        self.width = widths[-1]
        self.projector = mlp(widths, norm=method.projector_norm, final_norm=method.projector_final_norm)
        self.predictor = mlp([widths[-1], *method.predictor]) if method.predictor else nn.Identity()
        self.target = MovingAverage(self.branch) if method.target == "momentum" else None
        self.queue = Queue(method.queue, widths[-1]) if method.queue else None
        self.objective = Objective(str(method.objective), learnable=method.learnable, **method.hyperparameters)
        self._keys: Tensor | None = None

    @property
    def branch(self) -> nn.Sequential:
        """Encoder and projector: what the two views share."""
        return nn.Sequential(self.encoder, self.projector)

    @property
    def branches(self) -> tuple[nn.Module, nn.Module]:
        """What makes the embedding of each view."""
        return self.branch, self.branch

    def forward(self, views: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return self.loss(self.outputs(views), labels)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        """What the loss compares: an embedding per view, or a query and then a key per view, side by side."""
        embeddings = [self.projector(self.encoder(view)) for view in views]
        if self.method.target == "online":
            return embeddings
        queries = [self.predictor(embedding) for embedding in embeddings]
        if self.target is None:
            return [*queries, *[embedding.detach() for embedding in embeddings]]
        with torch.no_grad():
            return [*queries, *[self.target(view) for view in views]]

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        """The objective on the embeddings of all processes; two-branch methods average both directions."""
        outputs = [gather(output) for output in outputs]
        extra = (gather(labels),) if self.method.labels and labels is not None else ()
        if self.method.target == "online":
            return self.objective(*outputs, *extra)
        query1, query2, key1, key2 = outputs
        options = {}
        if self.queue is not None:
            self._keys = nn.functional.normalize(key2, dim=1)
            if int(self.queue.pushed):
                options["negatives"] = self.queue.negatives()
        return (self.objective(query1, key2, **options) + self.objective(query2, key1, **options)) / 2

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        """Let the memory follow: the moving average moves, and one key a sample enters the queue."""
        if self.target is not None:
            self.target.follow(self.branch, self.momentum(progress))
        if self.queue is not None and self._keys is not None:
            self.queue.push(self._keys)
            self._keys = None

    def momentum(self, progress: float) -> float:
        """The momentum at ``progress`` in [0, 1]: constant, or rising to 1 along a cosine (BYOL, App. J)."""
        start = self.method.momentum
        if not self.method.momentum_to_one:
            return start
        return 1 - (1 - start) * (math.cos(math.pi * progress) + 1) / 2
