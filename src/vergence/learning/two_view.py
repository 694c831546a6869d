"""Learner: two views or more -> loss, for every row of METHODS that compares embeddings of one kind of data."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vergence.counters import seed_from
from vergence.encoders import mlp
from vergence.learning.collectives import gather
from vergence.learning.memory import Average, Clock, MovingAverage, Queue
from vergence.learning.pairs import compared, directed, encoded, mean, without_negatives
from vergence.learning.problem import Problem
from vergence.learning.prototypes import Prototypes
from vergence.methods import Method
from vergence.objectives import Objective, koleo
from vergence.objectives.nearest import nearest

CENTER_MOMENTUM = 0.9  # DINO, App. D: from .9 to .999 the accuracy is the same
SHARPENED = 0.3  # share of the training over which DINO's teacher temperature rises: 30 of 100 epochs


def two_view(method: Method, problem: Problem) -> nn.Module:
    """One encoder for the views of each sample, with the heads and the memory of the method's row."""
    views = len(problem.groups) - problem.negatives
    return Learner(method, problem.encoder(0), groups=problem.groups[:views], negatives=problem.negatives)


class Learner(nn.Module):
    """A method with weights that compares two views, or averages over pairs of more (see ``Method.pairs``).

    ``outputs`` encodes the views and ``loss`` compares them, apart so that a large batch can be encoded in chunks and
    so that processes can exchange embeddings in between: objectives see one big batch and know nothing of processes.
    ``groups`` has a number for each view, 0 for the global ones; where all are 0, any number of views may come. What
    comes after them are ``negatives`` hard negatives, which stand beside the other keys of the batch.
    """

    def __init__(self, method: Method, encoder: Any, *, groups: Sequence[int] = (0, 0), negatives: int = 0):
        super().__init__()
        self.method, self.negatives = method, negatives
        self.groups = tuple(groups)
        self.encoder = encoder
        widths = [encoder.width, *[width or encoder.width for width in method.projector]]
        self.width = widths[-1]
        self.projector = mlp(widths, norm=method.projector_norm, final_norm=method.projector_final_norm)
        if method.prototypes:
            self.projector.append(Prototypes(widths[-1], method.prototypes))
            self.width = method.prototypes
        self.predictor = mlp([widths[-1], *method.predictor]) if method.predictor else nn.Identity()
        self.target = MovingAverage(self.branch) if method.target == "momentum" else None
        self.queue = Queue(method.queue, widths[-1]) if method.queue else None
        self.objective = Objective(str(method.objective), learnable=method.learnable, **method.hyperparameters)
        given = self.objective.hyperparameters
        self.center = Average(self.width, momentum=CENTER_MOMENTUM) if method.memory == "center" else None
        self.past = Average(self.width, self.width, momentum=given["memory"]) if method.memory == "past" else None
        self.clock = Clock() if "seed" in given or method.key_temperature_end else None
        self._keys: Tensor | None = None
        self._observed: Tensor | None = None

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
        if self.method.target == "online":
            outputs, hard = without_negatives(outputs, self.negatives)
            loss, views = self._compared(outputs, labels, hard), len(outputs)
        else:
            views = len(self.groups) if any(self.groups) else len(outputs) // 2
            loss = self._predicted(outputs[:views], outputs[views:])
        if not self.method.koleo:
            return loss
        own = [output for output, group in zip(outputs, self._groups(views), strict=False) if group == 0]
        return loss + self.method.koleo * mean([koleo(output) for output in own])

    def _compared(self, outputs: list[Tensor], labels: Tensor | None, hard: dict[str, Tensor]) -> Tensor:
        """A symmetric objective: of all views at once, or averaged over pairs."""
        groups = self._groups(len(outputs))
        if self.method.pairs == "together":
            named = {"global_views": groups.count(0)} if any(groups) and self.method.objective == "lejepa" else {}
            return self.objective(*outputs, **named, **self._given())
        extra = (gather(labels),) if self.method.labels and labels is not None else ()
        pairs, given = compared(self.method.pairs, groups), {**self._given(), **hard}
        return mean([self.objective(outputs[first], outputs[second], *extra, **given) for first, second in pairs])

    def _predicted(self, queries: list[Tensor], made: list[Tensor]) -> Tensor:
        """An objective of queries and the keys that they should find, averaged over both directions."""
        keys = dict(zip(self._key_views(len(queries)), made, strict=True))
        options = self._given()
        if self.queue is not None:
            self._keys = nn.functional.normalize([*keys.values()][:2][-1], dim=1)
            if self.queue.filled and self.method.memory != "neighbors":
                options["negatives"] = self.queue.negatives()
        self._observe(queries, made)
        ways = directed(self.method.pairs, self._groups(len(queries)))
        if self.method.memory == "neighbors":
            near = {number: self._neighbors(key) for number, key in keys.items()}
            # The neighbor is the anchor, among the predictions of the batch (NNCLR, Eq. 3).
            return mean([self.objective(near[key], queries[query], **options) for query, key in ways])
        return mean([self.objective(queries[query], keys[key], **options) for query, key in ways])

    def _given(self) -> dict[str, Any]:
        """What the objective takes from memory."""
        given: dict[str, Any] = {}
        if self.center is not None:
            given["center"] = self.center.value
        if self.past is not None:
            given["past"] = self.past.value
        if self.clock is not None and "seed" in self.objective.hyperparameters:
            given["seed"] = seed_from(self.objective.hyperparameters["seed"], self.clock.count)
        if self.clock is not None and self.method.key_temperature_end:
            start, end = self.objective.hyperparameters["key_temperature"], self.method.key_temperature_end
            given["key_temperature"] = start + (end - start) * min(1.0, self.clock.share / SHARPENED)
        return given

    @torch.no_grad()
    def _observe(self, queries: list[Tensor], keys: list[Tensor]) -> None:
        """What the step will leave in memory: the mean key, or the second moments of the queries of global views."""
        if self.center is not None:
            self._observed = torch.cat(keys).mean(0)
        if self.past is not None:
            own = [query for query, group in zip(queries, self._groups(len(queries)), strict=True) if group == 0]
            u = nn.functional.normalize(torch.cat(own).detach().float(), dim=1)
            self._observed = u.T @ u / len(u)

    @torch.no_grad()
    def _neighbors(self, key: Tensor) -> Tensor:
        """The nearest key of the queue for each key; while the queue is empty, the key itself."""
        assert self.queue is not None, "a method with neighbors has a queue"
        held = self.queue.negatives().to(key.dtype)
        return held[nearest(nn.functional.normalize(key, dim=1), held)] if len(held) else key

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
        remembered = self.center if self.center is not None else self.past
        if remembered is not None and self._observed is not None:
            remembered.follow(self._observed)
            self._observed = None
        if self.clock is not None:
            self.clock.tick(progress)

    def momentum(self, progress: float) -> float:
        """The momentum at ``progress`` in [0, 1]: constant, or rising to 1 along a cosine (BYOL, App. J)."""
        start = self.method.momentum
        if not self.method.momentum_to_one:
            return start
        return 1 - (1 - start) * (math.cos(math.pi * progress) + 1) / 2
