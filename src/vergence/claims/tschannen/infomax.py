"""Claims of Tschannen et al. about training: raising a bound on information is not what makes features good.

Two encoders see the halves of digits. A bound is measured on pairs that were held out, and accuracy is that of the
authors' linear probe on the top halves.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from vergence import evaluation, features
from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import contrast
from vergence.claims.laboratory import Laboratory, Row, column, mean, stated, steps_of, train
from vergence.claims.tschannen.encoders import log_condition_numbers
from vergence.config import Config, Optim, Watching
from vergence.counters import drawn
from vergence.data import Samples
from vergence.learning import loop
from vergence.report.experiments import curves
from vergence.runs import assembly
from vergence.runs.assembly import Assembled

BATCHES = 30  # over which a bound is averaged
PAPER = 45  # epochs of 60,000 digits in batches of 128: the authors' 21,000 steps
POINTS = 5  # measurements along a training, both ends among them
PROBE = "accuracy of a linear probe"


@claim(
    65,
    "Accuracy rises while an invertible encoder raises InfoNCE, though the information cannot change.",
    kind="training",
    tolerance="mean rise > 0.01, inverse error < 1e-3",
    minutes=4.2,
)
def accuracy_rises_at_constant_information(laboratory: Laboratory) -> Outcome:
    settings = {**protocol(laboratory), "encoder": "additive_flow", "backbone": couplings(laboratory)}
    runs = followed(laboratory, inverted, settings)
    before, after = ends(runs)
    rise, error = mean(after, "accuracy") - mean(before, "accuracy"), max(column(after, "inverse"))
    holds = rise > 0.01 and error < 1e-3
    return Outcome(
        holds,
        f"accuracy {stated(before, 'accuracy')} before and {stated(after, 'accuracy')} after training, held-out "
        f"InfoNCE {mean(before, 'bound'):.2f} and {mean(after, 'bound'):.2f} nats, largest inverse error {error:.0e}",
        {"rise": rise, "inverse_error": error},
        {"accuracy": along(runs, "accuracy", PROBE), "bound": along(runs, "bound", "held-out InfoNCE in nats")},
        why="" if holds else "The training is short: the authors take 21,000 steps.",
        contrasts=[contrast("after over before", column(after, "accuracy"), column(before, "accuracy"), margin=0.01)],
        undecidable="" if error < 1e-3 else f"The encoder is not inverted: its inverse is off by {error:.0e}.",
    )


@claim(
    211,
    "Training makes an encoder worse conditioned: the condition number of its Jacobian grows.",
    kind="training",
    tolerance="every seed",
    minutes=2.0,
)
def the_condition_number_grows(laboratory: Laboratory) -> Outcome:
    runs = followed(laboratory, conditioned, {**protocol(laboratory), "encoder": "residual_mlp"})
    before, after = ends(runs)
    growth = [last["condition"] - first["condition"] for first, last in zip(before, after, strict=True)]
    return Outcome(
        min(growth) > 0,
        f"median log condition number {stated(before, 'condition')} before and {stated(after, 'condition')} after "
        f"training, accuracy {stated(before, 'accuracy')} and {stated(after, 'accuracy')}",
        {"growth": growth},
        {
            "condition": along(runs, "condition", "log condition number of the Jacobian"),
            "accuracy": along(runs, "accuracy", PROBE),
        },
        contrasts=[contrast("after over before", column(after, "condition"), column(before, "condition"))],
    )


@claim(
    70,
    "A held-out bound is one of held-out pairs: it falls when the test images exchange their lower halves.",
    tolerance="fall > 1 nat",
)
def the_held_out_bound_sees_held_out_pairs() -> Outcome:
    perceptron = {"hidden": (64,), "norm": False}
    rate = Optim("adam", learning_rate=3e-3, warmup=0.0)
    parts = assembly.assemble(
        Config("digits", "infomax", "mlp", views="halves", batch=128, epochs=6, backbone=perceptron, optim=rate)
    )
    train(parts)
    x = parts.test.x[torch.arange(len(parts.test))]
    lower = x.shape[2] // 2
    x[:, :, lower:] = x[loop.epoch_order(len(x), 0, 0), :, lower:]
    paired, exchanged = (bound_of(parts, samples) for samples in (parts.test, replace(parts.test, x=x)))
    return Outcome(paired - exchanged > 1, f"InfoNCE {paired:.2f} nats, and {exchanged:.2f} of exchanged halves")


def protocol(laboratory: Laboratory) -> dict[str, Any]:
    """Settings like those of the authors: halves of MNIST digits in batches of 128, Adam at a constant rate.

    They take 21,000 steps at a rate of 1e-4; where the scale is small, hundreds of steps at ten times the rate, and at
    the medium one five times as many.
    """
    scale = laboratory.scale
    epochs = {"medium": 4, "paper": PAPER}.get(laboratory.name, max(1, scale.epochs // 2))
    rate = 1e-4 if scale.paper else 1e-3
    return {
        "data": "digits" if scale.data == "digits" else "mnist",
        "method": "infomax",
        "views": "halves",
        "limit": 4 * scale.samples,
        "epochs": epochs,
        "batch": 128,
        # Some batches have a very large NWJ: unclipped, its gradient stays in the averages of Adam for long.
        "optim": Optim("adam", learning_rate=rate, weight_decay=0.0, warmup=0.0, schedule="constant", clip=1.0),
        "watching": Watching(every=0),
    }


def couplings(laboratory: Laboratory) -> dict[str, int]:
    """The authors' flow at the scale of the paper, a third of it elsewhere."""
    return {} if laboratory.scale.paper else {"couplings": 10, "hidden": 256}


def probed(parts: Assembled) -> Row:
    """Accuracy of the authors' probe on the top halves, and the bound on held-out and on training pairs."""
    bounds = {"bound": bound_of(parts, parts.test), "bound_seen": bound_of(parts, parts.samples)}
    return {"accuracy": probe(parts), **bounds}


def probe(parts: Assembled) -> float:
    """Accuracy on held-out top halves of a linear probe fitted to the training ones like the authors."""
    train, test = (
        features.extract(parts.learner.encoder, split, parts.recipe) for split in (parts.samples, parts.test)
    )
    return evaluation.linear_probe(train.h, train.labels, test.h, test.labels, protocol="saga").accuracy


def inverted(parts: Assembled) -> Row:
    """What ``probed`` sees, and how far the inverse of a flow is from the standardized samples, at most."""
    return {**probed(parts), "inverse": inverse_error(parts)}


def conditioned(parts: Assembled, *, samples: int = 32) -> Row:
    """What ``probed`` sees, and the median over test samples of the log condition number of the encoder's Jacobian."""
    x = _held_out(parts, samples)
    return {**probed(parts), "condition": float(log_condition_numbers(parts.learner.encoder, x).median())}


@torch.no_grad()
def bound_of(parts: Assembled, samples: Samples) -> float:
    """The learner's bound in nats, averaged over batches of these samples' halves as large as those of training."""
    learner, device, values = parts.learner, assembly.device(parts.config), []
    with features.frozen(learner):
        for indices, x in islice(loop.batches(samples, replace(parts.config, epochs=1)), BATCHES):
            outputs = learner.outputs(parts.recipe(x.to(device), indices.to(device)))
            values.append(float(learner.information(outputs)))
    return sum(values) / len(values)


@torch.no_grad()
def inverse_error(parts: Assembled, *, samples: int = 512, dtype: torch.dtype = torch.float32) -> float:
    """The largest error of a flow's inverse on test samples, in deviations of a pixel."""
    standardize, flow = parts.learner.encoder
    x, flow = standardize(_held_out(parts, samples)).flatten(1).to(dtype), copy.deepcopy(flow).to(dtype)
    return float((flow.inverse(flow(x)) - x).abs().max())


def _held_out(parts: Assembled, count: int) -> Tensor:
    rows = drawn(len(parts.test), count, groups=parts.test.labels)
    return parts.recipe.plain(parts.test.x[rows].to(assembly.device(parts.config)))


def followed(laboratory: Laboratory, measure: Callable[[Assembled], Row], settings: Row) -> list[list[Row]]:
    """What is measured before, along and after a training, for every seed."""
    return [
        laboratory.remember(f"followed_{measure.__name__}", config.settings(), partial(_followed, config, measure))[
            "rows"
        ]
        for config in seeded(laboratory, settings)
    ]


def _followed(config: Config, measure: Callable[[Assembled], Row]) -> Row:
    parts = assembly.assemble(config)
    total = loop.steps_per_epoch(len(parts.samples), config.batch) * config.epochs
    rows = [{"step": 0, **measure(parts)}]
    for step in steps_of(parts):
        if step.number in places(total):
            rows.append({"step": step.number, **measure(parts)})
    return {"rows": rows}


def places(total: int) -> set[int]:
    """The steps after which something is measured, evenly spaced; the last is one of them."""
    return {round(total * number / (POINTS - 1)) for number in range(1, POINTS)}


def seeded(laboratory: Laboratory, settings: Row) -> list[Config]:
    """A config for every seed."""
    return [Config(**settings, seed=seed) for seed in laboratory.seeds]


def ends(runs: list[list[Row]]) -> tuple[list[Row], list[Row]]:
    """What was measured first, and what last, with every seed."""
    return [run[0] for run in runs], [run[-1] for run in runs]


def along(runs: list[list[Row]], key: str, up: str, *, across: str = "training step", **options: Any) -> Figure:
    """One figure along training, a band over seeds."""
    points = {rows[0]["step"]: column(rows, key) for rows in zip(*runs, strict=True)}
    return curves({key: points}, across, up, **options)
