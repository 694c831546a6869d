"""Runs for the doctor's suite: each is trained from scratch and frozen into what a doctor sees.

Two-view methods on digits are trained in a loop of their own, into which any fault can be put. CIFAR-10, and the
methods that are not a comparison of two views by one encoder, are trained as ``vergence train`` trains them.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from vergence import data, encoders, views
from vergence.config import Config, Watching
from vergence.diagnostics import Diagnosis, diagnose
from vergence.diagnostics.trials import bench
from vergence.learning import Learner, loop, optimizers
from vergence.methods import METHODS, Method, customized
from vergence.runs import assembly
from vergence.views import sample_keys

EPOCHS, BATCH = 30, 128
WIDTHS = {"projector": (128, 64), "predictor": (64, 64)}  # the papers' heads are wide for 8 x 8 images
BLOCK = 64  # samples that are frozen at once


@dataclass(frozen=True)
class Case:
    """What the doctor is given."""

    h: Tensor
    z1: Tensor
    z2: Tensor
    labels: Tensor
    objective: str | None
    loss: float | None
    batch: int
    hyperparameters: dict[str, Any]
    projector: dict[str, Tensor]
    compared: bool
    untrained: float = math.nan  # not told to the doctor: the agreement of the encoder as it was initialized

    def examined(self) -> Diagnosis:
        hidden = ("h", "hyperparameters", "untrained")
        given = {name: value for name, value in vars(self).items() if name not in hidden}
        return diagnose(self.h, **given, **self.hyperparameters)

    @property
    def agreement(self) -> float:
        """The share of samples whose label is that of most of their neighbours."""
        return float(bench(self.h, self.labels).correct.double().mean())


@dataclass(frozen=True)
class Trained:
    """A learner, the case that it makes of held-out samples, and how to make it again."""

    learner: Any
    case: Case
    freeze: Callable[[], Case]


def method(name: str, **changes: Any) -> Method:
    """A row of METHODS with heads that suit digits."""
    row = METHODS[name]
    heads = {part: widths for part, widths in WIDTHS.items() if getattr(row, part)}
    if row.queue:
        heads["queue"] = 512
    return dataclasses.replace(row, **{**heads, **changes})


def trained(
    row: Method,
    *,
    seed: int,
    prepare: Callable[[Any], object] = lambda learner: None,
    loss_of: Callable[..., Tensor] = lambda learner, pair, labels: learner(pair, labels),
    encoder: Callable[[], nn.Module] = lambda: encoders.build("mlp", (1, 8, 8), hidden=(256, 128)),
    keep: Callable[[Tensor], Tensor] = torch.ones_like,
) -> Trained:
    """Train a row on digits, and freeze what it makes of the held-out ones."""
    torch.manual_seed(seed)
    samples, recipe = data.load("digits"), views.glyph()
    learner = Learner(row, encoder())
    prepare(learner)
    test = data.load("digits", split="test")
    held_out = keep(test.labels).nonzero().squeeze(1)
    freeze = partial(frozen, learner, test, recipe, held_out, row, batch=BATCH, seed=seed)
    untrained = agreement_before(learner, freeze)
    optimizer = torch.optim.AdamW(
        [p for p in learner.parameters() if p.requires_grad], lr=row.learning_rate, weight_decay=1e-4
    )
    kept = keep(samples.labels).nonzero().squeeze(1)
    for epoch in range(EPOCHS):
        losses = []
        for part in kept[torch.randperm(len(kept))].split(BATCH):
            if len(part) < BATCH:
                continue
            loss = loss_of(learner, recipe(samples.x[part], sample_keys(seed, epoch, part)), samples.labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            learner.after_step(epoch / EPOCHS)
            losses.append(loss.item())
    return ready(learner, partial(freeze, loss=sum(losses) / len(losses)), untrained)


def finished(settings: Config, *, prepare: Callable[[Any], object] = lambda learner: None) -> Trained:
    """Train as the product does, and freeze what the run makes of its held-out samples."""
    parts = assembly.assemble(settings)
    prepare(parts.learner)
    row = customized(settings.method, heads=settings.heads, objective=settings.objective)
    told = {"batch": settings.batch, "seed": settings.seed}
    freeze = partial(frozen, parts.learner, parts.test, parts.recipe, torch.arange(len(parts.test)), row, **told)
    untrained = agreement_before(parts.learner, freeze)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    steps = list(loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config))
    losses = [step.loss for step in steps if step.epoch > steps[-1].epoch - 1]
    return ready(parts.learner, partial(freeze, loss=sum(losses) / len(losses) if losses else None), untrained)


def agreement_before(learner: Any, freeze: Callable[..., Case]) -> float:
    """What training has to beat: the agreement of neighbors in an untrained encoder."""
    learner.eval()
    untrained = freeze(loss=None).agreement
    learner.train()
    return untrained


def ready(learner: Any, freeze: Callable[[], Case], untrained: float) -> Trained:
    learner.eval()
    return Trained(learner, dataclasses.replace(freeze(), untrained=untrained), freeze)


@torch.no_grad()
def frozen(
    learner: Any,
    samples: data.Samples,
    recipe: Any,
    kept: Tensor,
    row: Method,
    *,
    loss: float | None,
    batch: int,
    seed: int,
) -> Case:
    """Features of held-out samples in blocks, as an extraction loop makes them, in the mode the learner is in."""
    rows = []
    for part in kept.split(BLOCK):
        pair = recipe(samples.x[part], sample_keys(seed, 10_000, part))
        embeddings = (branch(view) for branch, view in zip(learner.branches, pair, strict=True))
        rows.append((learner.encoder(recipe.plain(samples.x[part])), *embeddings))
    h, z1, z2 = (torch.cat(column) for column in zip(*rows, strict=True))
    reading = row.reading() if row.objective else {}
    weights = learner.projector.state_dict()
    return Case(h, z1, z2, samples.labels[kept], row.objective, loss, batch, reading, weights, row.compares)


@cache
def digits(seed: int) -> Trained:
    """A sound run on digits, which some faults spoil."""
    return trained(method("simclr", hyperparameters={"temperature": 0.5}), seed=seed)


def photographs(name: str, *, seed: int, **options: Any) -> Config:
    """A short run on 3,000 images of CIFAR-10."""
    return Config(
        data="cifar10", method=name, encoder="convnet", epochs=8, batch=128, limit=3000, seed=seed,
        watching=Watching(every=0), **options,
    )  # fmt: skip


@cache
def cifar(seed: int) -> Trained:
    """A sound run on CIFAR-10, which some faults spoil."""
    return finished(photographs("simclr", seed=seed))


def halves_or_wholes(name: str, *, seed: int) -> Config:
    """A run on digits of a method that is not a comparison of two views by one encoder; CLIP compares their halves."""
    views_of = {"views": "halves"} if name == "clip" else {}
    return Config(data="digits", method=name, epochs=EPOCHS, seed=seed, watching=Watching(every=0), **views_of)
