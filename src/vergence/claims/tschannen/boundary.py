"""A claim of Tschannen et al. about the boundary between encoder and critic, with a probe after every layer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import nn

from vergence import evaluation, features
from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import contrast
from vergence.claims.laboratory import Laboratory, Row, column, train
from vergence.claims.tschannen.designs import epochs_of, in_words
from vergence.claims.tschannen.infomax import PROBE, bound_of, protocol, seeded
from vergence.config import Config
from vergence.information import info_nce
from vergence.information.critics import Concat, Separable
from vergence.learning.infomax import Infomax
from vergence.report.experiments import curves
from vergence.runs import assembly
from vergence.runs.assembly import Assembled

DEPTH, WIDTH = 4, 100  # hidden layers that encoder and critic share between them, and their units
CHANNELS = 32  # of every layer of the convolutional encoder
BOUNDARIES = {f"{layers} + {DEPTH - layers}": layers for layers in (DEPTH, 1)}  # layers of encoder + critic


@claim(
    212,
    "Layers moved from the encoder into the critic do not lower the bound, but the accuracy where the encoder ends.",
    kind="training",
    tolerance="all layers in the encoder against one: accuracy higher, bound no more than 0.1 nats lower",
    minutes=4.0,
)
def capacity_belongs_in_the_encoder(laboratory: Laboratory) -> Outcome:
    digits = {name: _divided(laboratory, "concat", DEPTH - layers) for name, layers in BOUNDARIES.items()}
    separable, pictures = _divided(laboratory, "separable", 0), _convolutional(laboratory)
    subjects = {
        "digits, concat critic": {name: column(rows, "accuracy") for name, rows in digits.items()},
        "digits, separable critic": _at(separable),
        "CIFAR-10, convnet": _at(pictures),
    }
    lines = {f"digits, concat, {name}": rows for name, rows in digits.items()}
    lines |= {"digits, separable": separable, "CIFAR-10, convnet": pictures}
    first, last = BOUNDARIES
    contrasts = [
        contrast(f"{name}: accuracy of {first} over {last}", cells[first], cells[last], about=name, unit="accuracy")
        for name, cells in subjects.items()
    ]
    bounds = (column(digits[cell], "bound") for cell in (last, first))
    contrasts.append(
        contrast(f"bound of {last} over {first}", *bounds, margin=-0.1, about="digits, concat critic: bound")
    )
    words = [
        f"{name}: {fmean(cells[first]):.3f} with {first} layers in encoder + critic, "
        f"{fmean(cells[last]):.3f} with {last}"
        for name, cells in subjects.items()
    ]
    return Outcome(
        all(each.mean > each.margin for each in contrasts),
        "; ".join(words) + f"; bounds of the concat critic {in_words(digits, 'bound')}",
        {"layers": {name: [row["layers"] for row in rows] for name, rows in lines.items()}},
        {"layers": _by_layer(lines)},
        why="With a separable critic the boundary is a name: the network, its loss and its gradients are the same, so "
        "the accuracy where the encoder ends is that of a layer. It rises with depth in a convolutional net up to the "
        "projector, and falls in a perceptron on digits, whose pixels are nearly separable.",
        contrasts=contrasts,
    )


def _at(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Accuracies of the layers at which the encoder of each boundary ends, in one network."""
    return {name: [row["layers"][layers - 1] for row in rows] for name, layers in BOUNDARIES.items()}


def _convolutional(laboratory: Laboratory) -> list[Row]:
    """SimCLR with as many convolutions as the perceptron has layers; its projector is the critic. All are equally wide.

    A quarter of the images: a probe for each layer takes as long as training.
    """
    return laboratory.trials(
        method="simclr", backbone={"channels": (CHANNELS,) * DEPTH}, limit=laboratory.scale.samples // 4,
        measure=layered,
    )  # fmt: skip


def layered(parts: Assembled) -> Row:
    """A probe after every layer of the encoder and of its projector."""
    return {"layers": _probes(parts, nn.Sequential(parts.learner.encoder, parts.learner.projector))}


def _divided(laboratory: Laboratory, critic: str, inner: int) -> list[Row]:
    """A training with ``inner`` of the hidden layers in the critic and the others in the encoder, with every seed."""
    hidden = (WIDTH,) * (DEPTH - inner)
    # Half the batch: a critic of pairs takes a quarter of the time.
    settings = {**protocol(laboratory), **epochs_of(laboratory, 2), "batch": 64, "encoder": "mlp"}
    return [
        laboratory.remember(
            "divided", config.settings() | {"critic": critic, "inner": inner}, partial(_trained, config, critic, inner)
        )
        for config in seeded(laboratory, settings | {"backbone": {"hidden": hidden, "norm": False}})
    ]


def _trained(config: Config, critic: str, inner: int) -> Row:
    parts = assembly.assemble(config)
    encoders, width = (parts.learner.encoder, parts.learner.second), parts.learner.width
    # Both need one layer of their own: what makes the embedding, and what joins the two sides.
    joined: Separable | Concat = (
        Separable(width, width, width=WIDTH, embedding=WIDTH, layers=inner)
        if critic == "separable"
        else Concat(width, width, width=WIDTH, layers=1 + inner)
    )
    learner = Infomax(parts.learner.method, *encoders, critic=joined, bound=info_nce, target=None)
    parts = replace(parts, learner=learner.to(assembly.device(config)))
    train(parts)
    chain = nn.Sequential(encoders[0], joined.x) if isinstance(joined, Separable) else encoders[0]
    accuracies = _probes(parts, chain)
    return {"layers": accuracies, "accuracy": accuracies[DEPTH - inner - 1], "bound": bound_of(parts, parts.test)}


def _probes(parts: Assembled, chain: nn.Module) -> list[float]:
    """A probe after every layer of one side, those in the critic among them."""
    train, test = (features.by_layer(chain, samples, parts.recipe) for samples in (parts.samples, parts.test))
    labels = parts.samples.labels, parts.test.labels
    return [
        # Fitted to the end: the authors' stops early, and finds later layers worse than they are.
        evaluation.linear_probe(seen, labels[0], unseen, labels[1]).accuracy
        for seen, unseen in zip(train, test, strict=True)
    ]


def _by_layer(row: Mapping[str, Sequence[Row]]) -> Figure:
    """Probes along the layers, a line for each place of the boundary."""
    cells = {
        name: {
            float(number): list(values) for number, values in enumerate(zip(*column(rows, "layers"), strict=True), 1)
        }
        for name, rows in row.items()
    }
    figure = curves(cells, "layer; after the fourth, those of the critic", PROBE)
    figure.axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
