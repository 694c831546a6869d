"""Claims of Tschannen et al. about design: at equal information, features depend on the critic and the encoder.

The last moves the boundary between the two, with a probe after every layer on either side of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import nn

from vergence import evaluation, features
from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import Contrast, contrast
from vergence.claims.laboratory import SLACK, Laboratory, Row, column, mean, stated, train
from vergence.claims.tschannen.infomax import PROBE, bound_of, probed, protocol, seeded
from vergence.config import Config
from vergence.information import info_nce
from vergence.information.critics import Concat, Separable
from vergence.learning.infomax import Infomax
from vergence.report.experiments import curves, marks, scatter
from vergence.runs import assembly
from vergence.runs.assembly import Assembled

ESTIMATORS = {"InfoNCE": "infomax", "NWJ": "infomax_nwj"}
CRITICS = ("bilinear", "separable", "concat")
PERCEPTRON = {"hidden": (300, 300, 100), "norm": False}  # the authors' MLP
TARGETS = (2.0, 4.0)  # the authors', in nats
DEPTH, WIDTH = 4, 100  # hidden layers that encoder and critic share between them, and their units
CHANNELS = 32  # of every layer of the convolutional encoder
BOUNDARIES = {f"{layers} + {DEPTH - layers}": layers for layers in (DEPTH, 1)}  # layers of encoder + critic

Cells = Mapping[str, Mapping[str, Sequence[Row]]]


@claim(
    68,
    "The concatenating critic has the highest NWJ bound and the lowest accuracy.",
    kind="training",
    tolerance="order of means over seeds",
    minutes=5.0,
)
def a_tighter_bound_is_no_better(laboratory: Laboratory) -> Outcome:
    cells = {critic: _with(laboratory, critic) for critic in CRITICS}
    held = "bound"
    highest = max(CRITICS, key=lambda critic: mean(cells[critic], "bound_seen"))
    lowest = min(CRITICS, key=lambda critic: mean(cells[critic], "accuracy"))
    holds = highest == lowest == "concat"
    points = {critic: {"": (mean(rows, "bound_seen"), mean(rows, "accuracy"))} for critic, rows in cells.items()}
    return Outcome(
        holds,
        f"NWJ of training batches, as the authors have it, and accuracy: {_in_words(cells, 'bound_seen')}; held-out "
        f"NWJ: {', '.join(f'{critic} {mean(rows, held):.2f}' for critic, rows in cells.items())}",
        {
            critic: {key: column(rows, key) for key in ("bound", "bound_seen", "accuracy")}
            for critic, rows in cells.items()
        },
        {
            "critics": scatter(points, "NWJ bound on training batches in nats, mean over seeds", PROBE),
            "accuracy": marks({"": {critic: column(rows, "accuracy") for critic, rows in cells.items()}}, PROBE),
        },
        why="" if holds else f"{highest} has the highest bound, {lowest} the lowest accuracy.",
        contrasts=_against_others(cells, "concat"),
    )


def _with(laboratory: Laboratory, critic: str) -> list[Row]:
    """NWJ raised under a critic; the rate falls to nothing, so that the bound is the end of a training."""
    longer = {"epochs": 8} if laboratory.name == "medium" else _epochs(laboratory, 3)
    settings = {**protocol(laboratory), **longer, "encoder": "mlp", "backbone": PERCEPTRON}
    settings["optim"] = replace(settings["optim"], schedule="cosine")
    return laboratory.trials(**settings | {"method": "infomax_nwj", "objective": {"critic": critic}}, measure=probed)


def _against_others(row: Mapping[str, Sequence[Row]], name: str) -> list[Contrast]:
    """One setting's bound above that of each other, and its accuracy below."""
    own, contrasts = row[name], []
    for other, rows in row.items():
        if other != name:
            bounds = column(own, "bound_seen"), column(rows, "bound_seen")
            contrasts.append(contrast(f"bound over {other}", *bounds, about="bound", unit="nats"))
            accuracies = column(rows, "accuracy"), column(own, "accuracy")
            contrasts.append(contrast(f"accuracy of {other} over it", *accuracies, about="accuracy", unit="accuracy"))
    return contrasts


@claim(
    69,
    "At equal bounds a convolutional encoder is better than a perceptron, and 4 nats are no worse than 2.",
    kind="training",
    tolerance="order of means over seeds, where bounds are within 0.1 of the target",
    minutes=11.0,
)
def the_encoder_decides_at_equal_bounds(laboratory: Laboratory) -> Outcome:
    convolutional = {} if laboratory.scale.paper else {"channels": (16, 32)}
    cells = {
        "ConvNet": _targeted(laboratory, "halfnet", convolutional),
        "MLP": _targeted(laboratory, "mlp", PERCEPTRON),
    }
    bounds, accuracies = _means(cells, "bound_seen"), _means(cells, "accuracy")
    reached = {
        name: {cell for cell, nats in row.items() if abs(nats - _target(cell)) < 0.1} for name, row in bounds.items()
    }
    gaps = {cell: accuracies["ConvNet"][cell] - accuracies["MLP"][cell] for cell in reached["ConvNet"] & reached["MLP"]}
    rises = {
        f"{name}, {estimator}": accuracies[name][high] - accuracies[name][low]
        for name in cells
        for estimator in ESTIMATORS
        if {low := _cell(estimator, TARGETS[0]), high := _cell(estimator, TARGETS[1])} <= reached[name]
    }
    both = all(any(cell.startswith(estimator) for cell in gaps) for estimator in ESTIMATORS)
    return Outcome(
        both and min(gaps.values()) > 0 and min(rises.values(), default=-1.0) >= 0,
        f"{len(gaps)} of 4 settings matched. "
        + ". ".join(f"{name}: {_in_words(row, 'bound_seen')}" for name, row in cells.items()),
        {"gaps": gaps, "rises": rises, "bounds": bounds, "accuracies": accuracies},
        {
            "accuracy": marks(_values(cells, "accuracy"), PROBE),
            "bound": marks(_values(cells, "bound_seen"), "bound on training batches in nats"),
        },
        why="" if both else _unmatched_in_words(accuracies),
        contrasts=_matched(cells, gaps, rises),
        undecidable="" if both else _unmatched_in_words(accuracies),
    )


def _matched(cells: Cells, gaps: Iterable[str], rises: Iterable[str]) -> list[Contrast]:
    """The contrasts of settings whose bounds were brought to their targets."""
    found = [
        contrast(
            f"ConvNet over MLP, {cell}",
            *(column(cells[name][cell], "accuracy") for name in ("ConvNet", "MLP")),
            about="encoder",
            unit="accuracy",
        )
        for cell in gaps
    ]
    for name, estimator in (rise.split(", ") for rise in rises):
        low, high = (column(cells[name][_cell(estimator, target)], "accuracy") for target in TARGETS)
        title = f"{TARGETS[1]:g} nats over {TARGETS[0]:g}, {name}, {estimator}"
        found.append(contrast(title, high, low, margin=-SLACK, about="target", unit="accuracy"))
    return found


def _unmatched_in_words(accuracies: Mapping[str, Mapping[str, float]]) -> str:
    """What accuracies say where bounds are not equal."""
    above = [accuracies["ConvNet"][cell] > accuracies["MLP"][cell] for cell in accuracies["MLP"]]
    low, high = TARGETS
    rising = [
        row[_cell(estimator, high)] >= row[_cell(estimator, low)]
        for row in accuracies.values()
        for estimator in ESTIMATORS
    ]
    return (
        "Not every bound reached its target in so few steps; the authors take 21,000. The accuracies agree: the "
        f"ConvNet's is higher in {sum(above)} of {len(above)} settings, and {high:g} nats no worse in {sum(rising)} of "
        f"{len(rising)}."
    )


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
        "; ".join(words) + f"; bounds of the concat critic {_in_words(digits, 'bound')}",
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


def _targeted(laboratory: Laboratory, encoder: str, options: Row) -> dict[str, list[Row]]:
    """Trials that bring each bound to each target; all digits are used, so that few are seen twice."""
    longer = {"epochs": 4} if laboratory.name == "medium" else _epochs(laboratory, 3)
    settings = {**protocol(laboratory), **longer, "limit": 0, "encoder": encoder, "backbone": options}
    # The rate falls to nothing: at a constant one the bound keeps swinging around its target.
    settings["optim"] = replace(settings["optim"], schedule="cosine")
    return {
        _cell(estimator, target): laboratory.trials(
            **settings | {"method": method, "objective": {"target": target}}, measure=probed
        )
        for estimator, method in ESTIMATORS.items()
        for target in TARGETS
    }


def _cell(estimator: str, target: float) -> str:
    return f"{estimator}, {target:g} nats"


def _target(cell: str) -> float:
    return float(cell.split()[1])


def _divided(laboratory: Laboratory, critic: str, inner: int) -> list[Row]:
    """A training with ``inner`` of the hidden layers in the critic and the others in the encoder, with every seed."""
    hidden = (WIDTH,) * (DEPTH - inner)
    # Half the batch: a critic of pairs takes a quarter of the time.
    settings = {**protocol(laboratory), **_epochs(laboratory, 2), "batch": 64, "encoder": "mlp"}
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


def _epochs(laboratory: Laboratory, eighths: int) -> dict[str, int]:
    """A share of the epochs of the scale."""
    return {"epochs": max(1, eighths * 2 * protocol(laboratory)["epochs"] // 8)}


def _values(cells: Cells, key: str) -> dict[str, dict[str, list[float]]]:
    return {name: {cell: column(rows, key) for cell, rows in row.items()} for name, row in cells.items()}


def _means(cells: Cells, key: str) -> dict[str, dict[str, float]]:
    return {name: {cell: mean(rows, key) for cell, rows in row.items()} for name, row in cells.items()}


def _in_words(row: Mapping[str, Sequence[Row]], key: str) -> str:
    return "; ".join(f"{cell} {mean(rows, key):.2f} nats, {stated(rows, 'accuracy')}" for cell, rows in row.items())
