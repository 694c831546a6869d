"""Learner: two views or more -> loss, for every row of METHODS that compares embeddings of one kind of data."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vergence.encoders import mlp
from vergence.learning.collectives import gather
from vergence.learning.memory import MovingAverage, Queue
from vergence.learning.pairs import compared, directed, encoded, mean
from vergence.learning.problem import Problem
from vergence.methods import Method
from vergence.objectives import Objective


def two_view(method: Method, problem: Problem) -> nn.Module:
    """One encoder for the views of each sample, with the heads and the memory of the method's row."""
    return Learner(method, problem.encoder(0), groups=problem.groups)


class Learner(nn.Module):
    """A method with weights that compares two views, or averages over pairs of more (see ``Method.pairs``).

    ``outputs`` encodes the views and ``loss`` compares them, apart so that a large batch can be encoded in chunks and
    so that processes can exchange embeddings in between: objectives see one big batch and know nothing of processes.
    ``groups`` has a number for each view, 0 for the global ones; where all are 0, any number of views may come.
    """

    def __init__(self, method: Method, encoder: Any, *, groups: Sequence[int] = (0, 0)):
        super().__init__()
        self.method = method
        self.groups = tuple(groups)
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
        """Encoder and projector: what all views share."""
        return nn.Sequential(self.encoder, self.projector)

    @property
    def branches(self) -> tuple[nn.Module, nn.Module]:
        """What makes the embedding of a view, whichever it is."""
        branch = self.branch
        return branch, branch

    def forward(self, views: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        return self.loss(self.outputs(views), labels)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        """What the loss compares: an embedding per view, or a query per view and then the keys, side by side."""
        embeddings = encoded(self.encoder, self.projector, views)
        if self.method.target == "online":
            return embeddings
        queries = encoded(self.predictor, nn.Identity(), embeddings)
        keys = self._key_views(len(views))
        if self.target is None:
            return [*queries, *[embeddings[number].detach() for number in keys]]
        with torch.no_grad():
            encoder, projector = self.target.module.children()
            apart = 2 if len(views) == 2 else 0
            return [*queries, *encoded(encoder, projector, [views[number] for number in keys], apart=apart)]

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        """The objective on the embeddings of all processes, averaged over pairs; with a target over both directions."""
        outputs = [gather(output) for output in outputs]
        extra = (gather(labels),) if self.method.labels and labels is not None else ()
        if self.method.target == "online":
            pairs = compared(self.method.pairs, self._groups(len(outputs)))
            return mean([self.objective(outputs[first], outputs[second], *extra) for first, second in pairs])
        views = len(self.groups) if any(self.groups) else len(outputs) // 2
        keys = dict(zip(self._key_views(views), outputs[views:], strict=True))
        options = {}
        if self.queue is not None:
            self._keys = nn.functional.normalize([*keys.values()][:2][-1], dim=1)
            if int(self.queue.pushed):
                options["negatives"] = self.queue.negatives()
        ways = directed(self.method.pairs, self._groups(views))
        return mean([self.objective(outputs[query], keys[key], **options) for query, key in ways])

    def _groups(self, count: int) -> tuple[int, ...]:
        """The group of each of ``count`` views."""
        if len(self.groups) != count and any(self.groups):
            raise ValueError(f"This learner was built for {len(self.groups)} views, got {count}.")
        return self.groups if any(self.groups) else (0,) * count

    def _key_views(self, count: int) -> list[int]:
        """The numbers of the views that keys are made of."""
        return sorted({key for _, key in directed(self.method.pairs, self._groups(count))})

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
