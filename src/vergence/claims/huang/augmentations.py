"""Claims of Huang et al. that need images: which augmentations concentrate the classes, and which train well."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import Tensor

from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import Contrast, contrast
from vergence.claims.laboratory import SLACK, Laboratory, Row, column, lead, mean, stated
from vergence.counters import drawn
from vergence.data import load
from vergence.report.experiments import curves
from vergence.theory import ranked_by_concentration
from vergence.views import Recipe, from_letters, sample_keys
from vergence.views.image import LETTERS

LADDER = ("a", "ab", "abc", "abcd", "abcde")
DELTAS = (9.1, 10.7, 12.4)  # between pixels; the crop alone leaves 0.78, 0.62 and 0.45 of a class outside there
STRENGTHS = (0.125, 0.25, 0.5, 1.0)
# Widths of heads beside encoders of 64 features; the papers' would cost twenty times the encoder.
HEADS: Mapping[str, Mapping[str, Any]] = {
    "simclr": {},
    "barlow_twins": {"projector": (256, 256, 256)},
    "moco": {},
    "simsiam": {"projector": (256, 256), "predictor": (64, 256)},
}
Ladders = Mapping[str, Mapping[Any, list[Row]]]


@claim(
    42,
    "Dropping flip, color distortion, color dropping and blur, in this order, never raises kNN accuracy.",
    kind="training",
    tolerance="no step falls by more than 0.01, for any method, with probability .95",
    minutes=12.0,
    medium=13.0,
)
def richer_augmentation(laboratory: Laboratory) -> Outcome:
    def rung(number: int) -> Mapping[str, Any]:
        return {name: letter in LADDER[number - 1] for letter, name in LETTERS.items()}

    ladders = _ladders(laboratory, range(1, len(LADDER) + 1), rung)
    picture = curves(_accuracies(ladders), "transformations, each with all before it", "kNN accuracy")
    names = ["crop", "+ blur", "+ color\ndropping", "+ color\ndistortion", "+ flip"]
    picture.axes[0].set_xticks(range(1, len(LADDER) + 1), names)
    return _climbed(ladders, [name.replace("\n", " ") for name in names], picture)


@claim(
    221,
    "Beside the crop, kNN accuracy falls with the strength of the color distortion: 1, 1/2, 1/4, 1/8.",
    kind="training",
    tolerance="no step to a strength twice as high falls by more than 0.01, for any method, with probability .95",
    minutes=10.0,
    medium=12.0,
)
def stronger_distortion(laboratory: Laboratory) -> Outcome:
    def pair(strength: float) -> Mapping[str, Any]:
        return {name: letter in "ad" for letter, name in LETTERS.items()} | {"strength": strength}

    ladders = _ladders(laboratory, STRENGTHS, pair)
    across = "strength of the color distortion beside the crop"
    picture = curves(_accuracies(ladders), across, "kNN accuracy", logarithmic=True)
    return _climbed(ladders, ["1/8", "1/4", "1/2", "1"], picture)


@claim(
    43,
    "1 - sigma of crop pairs on CIFAR-10: with color distortion < with color dropping < with blur and with flip.",
    kind="training",
    tolerance="order of means over 5 drawings",
    minutes=1.0,
)
def order_of_crop_pairs(laboratory: Laboratory) -> Outcome:
    recipes = {f"crop and {LETTERS[letter]}": from_letters(f"a{letter}") for letter in "bcde"}
    samples = load("cifar10")
    own = drawn(len(samples), 10 * min(50, laboratory.scale.samples // 40 or 50), groups=samples.labels)
    assert samples.labels is not None
    x, labels = samples.x[own], samples.labels[own]
    sets = {name: partial(_views, recipe, x) for name, recipe in recipes.items()}
    outside = ranked_by_concentration(sets, labels, DELTAS)
    scores = {name: outside[name].mean().item() for name in sets}
    blur, gray, color, flip = scores.values()
    seen = {name: dict(zip(DELTAS, shares.T.tolist(), strict=True)) for name, shares in outside.items()}
    across = "delta: distance of the closest views that counts as near"
    picture = curves(seen, across, "1 - sigma: share left outside")
    measured = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    drawings = {name: outside[name].mean(1).tolist() for name in sets}
    order = [("color", "gray"), ("gray", "blur"), ("gray", "flip")]
    contrasts = [
        contrast(f"outside with {more} over {less}", *(drawings[f"crop and {each}"] for each in (more, less)))
        for less, more in order
    ]
    return Outcome(color < gray < min(blur, flip), measured, scores, {"curves": picture}, contrasts=contrasts)


def _views(recipe: Recipe, x: Tensor, seed: int, own: Tensor) -> Tensor:
    """24 views of each of these samples, the sample itself first."""
    keys = sample_keys(seed, 0, own)
    return torch.stack([recipe.plain(x[own]), *(recipe.view(x[own], keys, number=n) for n in range(23))], 1)


def _ladders(laboratory: Laboratory, rungs: Any, view: Callable[[Any], Mapping[str, Any]]) -> Ladders:
    """Trials of every method on every rung: half the epochs of the scale, and half of many samples, but the paper's."""
    scale = laboratory.scale
    epochs = scale.epochs if scale.paper else max(1, scale.epochs // 2)
    limit = min(scale.samples, 25_000)

    def trials(method: str, rung: Any) -> list[Row]:
        heads = {} if scale.paper else HEADS[method]
        return laboratory.trials(
            method=method, views="simclr", view=view(rung), heads=heads, epochs=epochs, limit=limit
        )

    return {method: {rung: trials(method, rung) for rung in rungs} for method in HEADS}


def _accuracies(ladders: Ladders, key: str = "knn") -> dict[str, dict[Any, list[float]]]:
    return {method: {rung: column(rows, key) for rung, rows in cells.items()} for method, cells in ladders.items()}


def _climbed(ladders: Ladders, names: Sequence[str], picture: Figure) -> Outcome:
    """Whether every method's accuracy rises at every step."""
    means = {method: [mean(rows, "knn") for rows in cells.values()] for method, cells in ladders.items()}
    orders = {method: float(spearmanr(range(len(names)), path).statistic) for method, path in means.items()}
    sentences = []
    for method, cells in ladders.items():
        first, *_, last = (stated(rows, "knn") for rows in cells.values())
        near, *_, nearer = (mean(rows, "center") for rows in cells.values())
        sentences.append(
            f"{method} {names[0]} {first}, {names[-1]} {last}, Spearman {orders[method]:.2f}, by the nearest center "
            f"{near:.3f} and {nearer:.3f}"
        )
    rising = [sum(path[step] >= path[step - 1] for path in means.values()) for step in range(1, len(names))]
    steps = ", ".join(f"{name} {count}" for name, count in zip(names[1:], rising, strict=True))
    sentences.append(f"of {len(means)} methods, so many do not fall at each step: {steps}")
    holds = min(rising) == len(means)
    why = "" if holds else _against(ladders, names)
    contrasts = _rises(ladders, names)
    named = {method: dict(zip(names, cells.values(), strict=True)) for method, cells in ladders.items()}
    figures = {key: _accuracies(named, key) for key in ("knn", "center")}
    return Outcome(holds, "; ".join(sentences), figures, {"ladder": picture}, why, contrasts)


def _rises(ladders: Ladders, names: Sequence[str]) -> list[Contrast]:
    """Every method's rise at each step, by no less than -SLACK."""
    contrasts = []
    for method, cells in ladders.items():
        rungs = [column(rows, "knn") for rows in cells.values()]
        for before, after in pairwise(range(len(names))):
            name = f"{method}: {names[after]} over {names[before]}"
            contrasts.append(contrast(name, rungs[after], rungs[before], margin=-SLACK, about=method, unit="accuracy"))
    return contrasts


def _against(ladders: Ladders, names: Sequence[str]) -> str:
    """The largest fall of a step, beside its standard error."""
    falls = {}
    for method, cells in ladders.items():
        rungs = list(cells.values())
        for before, after in pairwise(range(len(names))):
            falls[f"{method} from {names[before]} to {names[after]}"] = lead(rungs[before], rungs[after], "knn")
    worst = max(falls, key=falls.__getitem__)
    fall, error = falls[worst]
    return f"The largest fall is {fall:.3f}, of {worst}, with a standard error of {error:.3f}."
