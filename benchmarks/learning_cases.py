"""Runs with a fault and runs without: each is trained, or spoiled, from scratch, and frozen into what a doctor sees.

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

from vergence import assembly, data, encoders, optim, training, views
from vergence.config import Config, Watching
from vergence.diagnostics.faults import neighbour_votes
from vergence.examination import Examination, examine
from vergence.learners import Learner
from vergence.methods import METHODS, Method, customised
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
    untrained: float = math.nan  # not told to the doctor: the agreement of the encoder as it was initialised

    def examined(self) -> Examination:
        hidden = ("h", "hyperparameters", "untrained")
        given = {name: value for name, value in vars(self).items() if name not in hidden}
        return examine(self.h, classifiers=(), **given, **self.hyperparameters)

    @property
    def agreement(self) -> float:
        """The share of samples whose label is that of most of their neighbours."""
        return float((neighbour_votes(self.h, self.labels)[0] == self.labels).double().mean())


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
    optimiser = torch.optim.AdamW([p for p in learner.parameters() if p.requires_grad], lr=2e-3, weight_decay=1e-4)
    kept = keep(samples.labels).nonzero().squeeze(1)
    for epoch in range(EPOCHS):
        losses = []
        for part in kept[torch.randperm(len(kept))].split(BATCH):
            if len(part) < BATCH:
                continue
            loss = loss_of(learner, recipe(samples.x[part], sample_keys(seed, epoch, part)), samples.labels[part])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            learner.after_step(epoch / EPOCHS)
            losses.append(loss.item())
    return ready(learner, partial(freeze, loss=sum(losses) / len(losses)), untrained)


def finished(settings: Config, *, prepare: Callable[[Any], object] = lambda learner: None) -> Trained:
    """Train as the product does, and freeze what the run makes of its held-out samples."""
    parts = assembly.assemble(settings)
    prepare(parts.learner)
    row = customised(settings.method, heads=settings.heads, objective=settings.objective)
    told = {"batch": settings.batch, "seed": settings.seed}
    freeze = partial(frozen, parts.learner, parts.test, parts.recipe, torch.arange(len(parts.test)), row, **told)
    untrained = agreement_before(parts.learner, freeze)
    optimiser = optim.optimiser(parts.learner, parts.config.optim)
    steps = list(training.fit(parts.learner, optimiser, parts.samples, parts.recipe, parts.config))
    losses = [step.loss for step in steps if step.epoch > steps[-1].epoch - 1]
    return ready(parts.learner, partial(freeze, loss=sum(losses) / len(losses) if losses else None), untrained)


def agreement_before(learner: Any, freeze: Callable[..., Case]) -> float:
    """What training has to beat: the agreement of neighbours in an untrained encoder."""
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


def retrained(row: Method, **options: Any) -> Callable[[int], Case]:
    """Digits, trained anew with a fault."""
    return lambda seed: trained(row, seed=seed, **options).case


def rerun(name: str, prepare: Callable[[Any], object] = lambda learner: None, **options: Any) -> Callable[[int], Case]:
    """CIFAR-10, trained anew with a fault."""
    return lambda seed: finished(photographs(name, seed=seed, **options), prepare=prepare).case


def spoiled(sound: Callable[[int], Trained], **changes: Callable[[Case], Tensor]) -> Callable[[int], Case]:
    """A sound run with some of what the doctor is given spoiled."""

    def case(seed: int) -> Case:
        given = sound(seed).case
        torch.manual_seed(seed)
        return dataclasses.replace(given, **{name: change(given) for name, change in changes.items()})

    return case


def leaking(sound: Callable[[int], Trained]) -> Callable[[int], Case]:
    """Features extracted while batch norm was still in training mode."""

    def case(seed: int) -> Case:
        run = sound(seed)
        run.learner.train()
        leaked = run.freeze()
        run.learner.eval()
        return leaked

    return case


def repeated(sound: Callable[[int], Trained]) -> Callable[[int], Case]:
    """A quarter of the samples stand in the data twice, the second time stored with slight loss."""

    def case(seed: int) -> Case:
        given = sound(seed).case
        torch.manual_seed(seed)
        again = torch.arange(len(given.h)) % 4 == 0
        doubled = {}
        for name in ("h", "z1", "z2"):
            rows = getattr(given, name)
            copies = rows[again] * (1 + 1e-4 * torch.randn(int(again.sum()), rows.shape[1]))
            doubled[name] = torch.cat([rows, copies])
        return dataclasses.replace(given, **doubled, labels=torch.cat([given.labels, given.labels[again]]))

    return case


def projected(sound: Callable[[int], Trained]) -> Callable[[int], Case]:
    """The embedding is handed in as the representation."""

    def case(seed: int) -> Case:
        run = sound(seed)
        with torch.no_grad():
            return dataclasses.replace(run.case, h=run.learner.projector(run.case.h))

    return case


def narrow_encoder() -> nn.Module:
    """An encoder whose output passes through three numbers."""
    inner = encoders.build("mlp", (1, 8, 8), hidden=(256, 128))
    narrow = nn.Sequential(inner, nn.Linear(128, 3), nn.Linear(3, 128))
    narrow.width = 128
    return narrow


def raw_products(learner: Learner, pair: tuple[Tensor, ...], labels: Tensor) -> Tensor:
    """NT-Xent by someone who forgot to normalise."""
    z = torch.cat(learner.outputs(pair))
    scores = (z @ z.T / 0.5).fill_diagonal_(-torch.inf)
    return nn.functional.cross_entropy(scores, torch.arange(len(z)).roll(len(z) // 2))


def shuffled(case: Case) -> Tensor:
    return case.z2[torch.randperm(len(case.z2))]


def constant(case: Case) -> Tensor:
    return case.z2[:1].expand_as(case.z2)


def flat(case: Case) -> Tensor:
    """Rows that fill three directions only."""
    return case.h @ torch.randn(case.h.shape[1], 3) @ torch.randn(3, case.h.shape[1])


def flipped(case: Case, share: float = 0.25) -> Tensor:
    wrong = torch.rand(len(case.labels)) < share
    return torch.where(wrong, (case.labels + torch.randint(1, 10, case.labels.shape)) % 10, case.labels)


def detained(learner: Any) -> None:
    learner.projector.requires_grad_(False)


def found_in_both(sound: Callable[[int], Trained]) -> dict[str, tuple[Callable[[int], Case], tuple[str, ...]]]:
    """Faults that a sound run can be spoiled with."""
    return {
        "dead view": (spoiled(sound, z2=constant), ("dead view",)),
        "shuffled pairs": (spoiled(sound, z2=shuffled), ("shuffled pairs",)),
        "batch norm in training mode": (leaking(sound), ("batch statistics leak",)),
        "duplicates": (repeated(sound), ("duplicates",)),
        "label noise": (spoiled(sound, labels=flipped), ("label noise",)),
        "wrong layer": (projected(sound), ("wrong layer",)),
    }


NO_STOP = method("simsiam", target="online", predictor=(), projector_norm=False, projector_final_norm=False)
ALONE = {"uniform_weight": 0.0}
# Per data set the faults, each with the name or names by which the doctor may call it.
FAULTS: dict[str, dict[str, tuple[Callable[[int], Case], tuple[str, ...]]]] = {
    "digits": {
        "no stop-gradient": (retrained(NO_STOP), ("complete collapse",)),
        "alignment alone": (retrained(method("align_uniform", hyperparameters=ALONE)), ("complete collapse",)),
        "narrow encoder": (retrained(method("simclr"), encoder=narrow_encoder), ("dimensional collapse",)),
        "unnormalised input": (
            retrained(method("simclr"), loss_of=raw_products),
            ("unnormalised input", "impossible loss"),
        ),
        "temperature 5": (
            retrained(method("simclr", hyperparameters={"temperature": 5.0})),
            ("temperature too high",),
        ),
        "temperature 0.005": (
            retrained(method("simclr", hyperparameters={"temperature": 0.005})),
            ("temperature too low",),
        ),
        "two classes": (retrained(method("simclr"), keep=lambda labels: labels < 2), ("false negatives",)),
        "frozen projector": (retrained(method("simclr"), prepare=detained), ("frozen projector",)),
        **found_in_both(digits),
    },
    "cifar10": {
        "alignment alone": (rerun("align_uniform", objective=ALONE), ("complete collapse",)),
        "three directions": (spoiled(cifar, h=flat), ("dimensional collapse",)),
        "temperature 5": (rerun("simclr", objective={"temperature": 5.0}), ("temperature too high",)),
        "temperature 0.005": (rerun("simclr", objective={"temperature": 0.005}), ("temperature too low",)),
        "frozen projector": (rerun("simclr", prepare=detained), ("frozen projector",)),
        **found_in_both(cifar),
    },
}


def others(name: str) -> Callable[[int], Case]:
    """A healthy run of a method that is not a comparison of two views by one encoder."""
    if name == "colourisation":
        return rerun(name)
    return lambda seed: finished(halves_or_wholes(name, seed=seed)).case


# Runs without a fault. That of ``random`` is healthy in that nothing is wrong with its rows: it has learned nothing,
# which rows alone cannot tell, and which the accuracies beside an untrained encoder do.
HEALTHY: dict[str, dict[str, Callable[[int], Case]]] = {
    "digits": {
        name: retrained(method(name)) if row.learner == "two_view" else others(name)
        for name, row in METHODS.items()
        if name != "colourisation"
    },
    "cifar10": {
        "simclr": lambda seed: cifar(seed).case,
        **{name: rerun(name) for name in ("moco", "byol", "simsiam", "barlow_twins", "vicreg", "colourisation")},
    },
}
