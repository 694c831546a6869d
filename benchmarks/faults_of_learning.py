"""Faults injected into real training runs on digits, and what the doctor says of them: the confusion table.

    python benchmarks/faults_of_learning.py             three seeds, about ten minutes on one core
    python benchmarks/faults_of_learning.py --seeds 1   one seed
    python benchmarks/faults_of_learning.py --peers     what lightly, stable-pretraining and reptrix compute instead

Every case is trained, or spoiled, from scratch; the doctor sees held-out embeddings, labels, objective, loss and the
projector's weights, never the name of the fault.
"""

import argparse
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from vergence import data, encoders, views
from vergence.examination import Examination, examine
from vergence.learners import Learner
from vergence.methods import METHODS, Method
from vergence.views import sample_keys

EPOCHS, BATCH = 30, 128
WIDTHS = {"projector": (128, 64), "predictor": (64, 64)}  # the papers' heads are wide for 8 x 8 images


@dataclass(frozen=True)
class Case:
    """What the doctor is given."""

    h: Tensor
    z1: Tensor
    z2: Tensor
    labels: Tensor
    objective: str
    loss: float
    hyperparameters: dict[str, Any]
    projector: dict[str, Tensor]

    def examined(self) -> Examination:
        given = {name: value for name, value in vars(self).items() if name not in ("h", "hyperparameters")}
        return examine(self.h, batch=BATCH, classifiers=(), **given, **self.hyperparameters)


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
    prepare: Callable[[Learner], None] = lambda learner: None,
    loss_of: Callable[[Learner, tuple[Tensor, ...], Tensor], Tensor] = lambda learner, pair, labels: learner(
        pair, labels
    ),
    encoder: Callable[[], nn.Module] = lambda: encoders.build("mlp", (1, 8, 8), hidden=(256, 128)),
    keep: Callable[[Tensor], Tensor] = lambda labels: torch.ones_like(labels, dtype=torch.bool),
) -> tuple[Learner, Case]:
    """Train a row on digits, and freeze what it makes of the held-out ones."""
    torch.manual_seed(seed)
    samples, recipe = data.load("digits"), views.glyph()
    learner = Learner(row, encoder())
    prepare(learner)
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
    return learner, frozen(learner.eval(), row, sum(losses) / len(losses), seed=seed, keep=keep)


@torch.no_grad()
def frozen(
    learner: Learner, row: Method, loss: float, *, seed: int, keep: Callable[[Tensor], Tensor], block: int = 64
) -> Case:
    """Features of the held-out digits in blocks, as an extraction loop makes them, in the mode the learner is in."""
    samples, recipe = data.load("digits", split="test"), views.glyph()
    kept = keep(samples.labels).nonzero().squeeze(1)
    rows = []
    for part in kept.split(block):
        pair = recipe(samples.x[part], sample_keys(seed, 10_000, part))
        plain = learner.encoder(recipe.plain(samples.x[part]))
        rows.append((plain, *(learner.projector(learner.encoder(view)) for view in pair)))
    h, z1, z2 = (torch.cat(column) for column in zip(*rows, strict=True))
    hyperparameters = row.reading()
    return Case(h, z1, z2, samples.labels[kept], row.objective, loss, hyperparameters, learner.projector.state_dict())


@cache
def simclr(seed: int) -> tuple[Learner, Case]:
    return trained(method("simclr", hyperparameters={"temperature": 0.5}), seed=seed)


def spoiled(**changes: Callable[[Case], Tensor]) -> Callable[[int], Case]:
    """A sound SimCLR run with some of what the doctor is given spoiled."""

    def case(seed: int) -> Case:
        sound = simclr(seed)[1]
        torch.manual_seed(seed)
        return dataclasses.replace(sound, **{name: change(sound) for name, change in changes.items()})

    return case


def retrained(row: Method, **options: Any) -> Callable[[int], Case]:
    return lambda seed: trained(row, seed=seed, **options)[1]


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


def shuffled(z: Tensor) -> Tensor:
    return z[torch.randperm(len(z))]


def leaking(seed: int) -> Case:
    """Features extracted while batch norm was still in training mode."""
    learner, sound = simclr(seed)
    case = frozen(learner.train(), learner.method, sound.loss, seed=seed, keep=torch.ones_like)
    learner.eval()
    return case


def repeated(seed: int) -> Case:
    """A quarter of the samples stand in the data twice, the second time stored with slight loss."""
    sound = simclr(seed)[1]
    again = torch.arange(len(sound.h)) % 4 == 0
    doubled = {}
    for name in ("h", "z1", "z2"):
        rows = getattr(sound, name)
        copies = rows[again] * (1 + 1e-4 * torch.randn(int(again.sum()), rows.shape[1]))
        doubled[name] = torch.cat([rows, copies])
    return dataclasses.replace(sound, **doubled, labels=torch.cat([sound.labels, sound.labels[again]]))


def flipped(labels: Tensor, share: float = 0.25) -> Tensor:
    wrong = torch.rand(len(labels)) < share
    return torch.where(wrong, (labels + torch.randint(1, 10, labels.shape)) % 10, labels)


def embedding_as_representation(seed: int) -> Case:
    learner, sound = simclr(seed)
    with torch.no_grad():
        return dataclasses.replace(sound, h=learner.projector(sound.h))


NO_STOP = method("simsiam", target="online", predictor=(), projector_norm=False, projector_final_norm=False)
# The fault, and the name or names by which the doctor may call it.
FAULTS: dict[str, tuple[Callable[[int], Case], tuple[str, ...]]] = {
    "complete collapse": (retrained(NO_STOP), ("complete collapse",)),
    "alignment alone": (
        retrained(method("align_uniform", hyperparameters={"uniform_weight": 0.0})),
        ("complete collapse",),
    ),
    "dimensional collapse": (retrained(method("simclr"), encoder=narrow_encoder), ("dimensional collapse",)),
    "dead view": (spoiled(z2=lambda case: case.z2[:1].expand_as(case.z2)), ("dead view",)),
    "shuffled pairs": (spoiled(z2=lambda case: shuffled(case.z2)), ("shuffled pairs",)),
    "batch norm in training mode": (leaking, ("batch statistics leak",)),
    "duplicates": (repeated, ("duplicates",)),
    "label noise": (spoiled(labels=lambda case: flipped(case.labels)), ("label noise",)),
    "unnormalised input": (
        retrained(method("simclr"), loss_of=raw_products),
        ("unnormalised input", "impossible loss"),
    ),
    "temperature too high": (
        retrained(method("simclr", hyperparameters={"temperature": 5.0})),
        ("temperature too high",),
    ),
    "temperature too low": (
        retrained(method("simclr", hyperparameters={"temperature": 0.005})),
        ("temperature too low",),
    ),
    "false negatives": (retrained(method("simclr"), keep=lambda labels: labels < 2), ("false negatives",)),
    "wrong layer": (embedding_as_representation, ("wrong layer",)),
    "frozen projector": (
        retrained(method("simclr"), prepare=lambda learner: learner.projector.requires_grad_(False)),
        ("frozen projector",),
    ),
}


def healthy() -> Iterator[tuple[str, Callable[[int], Case]]]:
    for name, row in METHODS.items():
        if row.learner == "two_view":
            yield name, retrained(method(name))


def diagnose(name: str, make: Callable[[int], Case], seed: int) -> tuple[str, ...]:
    found = make(seed).examined()
    print(f"{name:30} seed {seed}  {', '.join(found.faults) or 'no fault'}", flush=True)
    return found.faults


def suite(seeds: int) -> tuple[Counter, Counter]:
    """Per injected fault how often it was named, and per healthy method how often an alarm was raised."""
    named, alarmed = Counter(), Counter()
    for seed in range(seeds):
        for name, (make, accepted) in FAULTS.items():
            said = diagnose(name, make, seed)
            named[
                name, said[0] if said and said[0] in accepted else "named" if set(said) & set(accepted) else "missed"
            ] += 1
        for name, make in healthy():
            alarmed[name] += bool(diagnose(f"healthy {name}", make, seed))
    return named, alarmed


def table(named: Counter, alarmed: Counter, seeds: int) -> Iterator[str]:
    """The confusion table, and its two sums."""
    yield f"{'injected':30} {'first':>6} {'named':>6} {'missed':>6}"
    for name, (_, accepted) in FAULTS.items():
        first = sum(named[name, fault] for fault in accepted)
        yield f"{name:30} {first:6} {first + named[name, 'named']:6} {named[name, 'missed']:6}"
    missed = sum(count for (_, how), count in named.items() if how == "missed")
    total = sum(named.values())
    yield f"named {total - missed} of {total} injected faults ({100 * (total - missed) / total:.0f} %)"
    alarms = [name for name, count in alarmed.items() if count]
    yield f"alarms on {sum(alarmed.values())} of {len(alarmed) * seeds} healthy runs {', '.join(alarms)}"


def said_by_peers(seed: int = 0) -> Iterator[str]:
    """What other libraries' diagnostics compute on the same cases: numbers without verdicts."""
    from peers import declare_operators

    declare_operators()
    from lightly.utils.debug import std_of_l2_normalized
    from reptrix.rankme import get_rankme

    yield f"{'case':30} {'lightly std':>12} {'stable-pretraining RankMe':>26} {'reptrix RankMe':>15}  vergence"
    cases = {name: make for name, (make, _) in FAULTS.items()} | {"healthy simclr": lambda seed: simclr(seed)[1]}
    for name, make in cases.items():
        case = make(seed)
        # stable-pretraining computes this inside a Lightning callback: its two lines, as there.
        shares = torch.linalg.svdvals(case.h)
        shares = shares / shares.sum() + 1e-5
        rank = float(torch.exp(-(shares * shares.log()).sum()))
        deviation = float(std_of_l2_normalized(case.z1)) * case.z1.shape[1] ** 0.5
        said = ", ".join(case.examined().faults) or "no fault"
        yield f"{name:30} {deviation:12.3f} {rank:26.1f} {get_rankme(case.h):15.1f}  {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    lines = said_by_peers() if options.peers else table(*suite(options.seeds), options.seeds)
    print(*lines, sep="\n")
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
