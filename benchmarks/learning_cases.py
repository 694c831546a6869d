"""Runs with a fault and runs without, for each data set: what the doctor's suite consists of."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from learning_runs import Case, Trained, cifar, digits, finished, halves_or_wholes, method, photographs, trained
from vergence import encoders
from vergence.learning import Learner
from vergence.methods import METHODS, Method


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
    """NT-Xent by someone who forgot to normalize."""
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
        "unnormalized input": (
            retrained(method("simclr"), loss_of=raw_products),
            ("unnormalized input", "impossible loss"),
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
    if name == "colorization":
        return rerun(name)
    return lambda seed: finished(halves_or_wholes(name, seed=seed)).case


# Runs without a fault. That of ``random`` is healthy in that nothing is wrong with its rows: it has learned nothing,
# which rows alone cannot tell, and which the accuracies beside an untrained encoder do.
HEALTHY: dict[str, dict[str, Callable[[int], Case]]] = {
    "digits": {
        name: retrained(method(name)) if row.learner == "two_view" else others(name)
        for name, row in METHODS.items()
        if name not in ("colorization", "quick_thought", "simcse")  # of color, of texts
    },
    "cifar10": {
        "simclr": lambda seed: cifar(seed).case,
        **{name: rerun(name) for name in ("moco", "byol", "simsiam", "barlow_twins", "vicreg", "colorization")},
    },
}
