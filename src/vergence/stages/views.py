"""Which augmentations suit the data? Sets of them ranked before training, by how they concentrate each class."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor

from vergence import data as sources
from vergence import features
from vergence.data import Samples
from vergence.report.ranking import ranking_page
from vergence.runs import assembly
from vergence.runs.progress import Progress
from vergence.runs.results import Answer
from vergence.runs.run import Run, write_bytes
from vergence.theory import Concentration, augmented_distance, closest_views, concentration_curve, within_classes
from vergence.theory.graph import GraphSurvey, survey
from vergence.views import Recipe, from_letters, sample_keys

LETTERS = "abcde"
STRENGTHS = (1.0, 0.25, 0.125)  # of color distortion beside the crop; 1/2 is the pair itself (Huang et al., Table 3)
QUANTILES = (0.002, 0.005, 0.01, 0.03, 0.1, 0.2)  # of distances between plain samples of a class: where curves differ
CONNECTING_VIEWS = 8  # views compared between classes: a full comparison would cost more than all the rest
CONNECTIONS = 10  # pairs of different classes shown

LOWER_BOUND = "Distances over sampled views are too large, never too small: 1 - sigma is an upper estimate."
NO_LABELS = "No labels: all samples count as one class, so that overlap of different classes looks like concentration."


@dataclass(frozen=True)
class Connection:
    """Two samples of different classes that come close under their views; view 0 is the sample itself."""

    first: int
    second: int
    first_view: int
    second_view: int
    distance: float


@dataclass(frozen=True)
class RankedSet:
    """One augmentation set. ``curve`` is 1 - sigma against delta, averaged over classes; ``worst`` that of the least
    concentrated class; ``score`` the mean of the curve, whose interval is over resampled views."""

    name: str
    description: str
    score: float
    interval: tuple[float, float]
    curve: tuple[float, ...]
    worst: tuple[float, ...]
    exact: bool
    outside: Mapping[str, tuple[int, ...]]
    mixed: float
    connections: tuple[Connection, ...]


@dataclass(frozen=True)
class Ranking:
    """Augmentation sets, best first, and how they were measured."""

    sets: tuple[RankedSet, ...]
    deltas: tuple[float, ...]
    space: str
    samples: int
    views: int
    resamples: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "sets": [_plain(row) for row in self.sets]}

    def table(self) -> str:
        """The ranking as text: the score with its interval, then 1 - sigma at each delta."""
        width = max(len(row.name) for row in self.sets)
        head = f"{'':>3} {'set':<{width}}  1 - sigma  {'interval':<15}  mixed  " + " ".join(
            f"{delta:>6.3g}" for delta in self.deltas
        )
        lines = [
            f"{place:>3} {row.name:<{width}}  {row.score:9.3f}  [{row.interval[0]:.3f}, {row.interval[1]:.3f}]  "
            f"{row.mixed:5.1%}  " + " ".join(f"{value:6.3f}" for value in row.curve)
            for place, row in enumerate(self.sets, 1)
        ]
        measured = f"{self.space}, {self.samples} samples, {self.views} views each, {self.resamples} resamplings"
        return "\n".join([head, *lines, f"Measured in {measured}.", *self.notes])

    def figure(self) -> Any:
        """The curves 1 - sigma against delta, as a matplotlib figure."""
        from vergence.report.colors import CATEGORIES, category
        from vergence.report.figures import MARKERS, canvas, legend

        figure, axes = canvas(f"delta ({self.space})", "1 - sigma", height=2.8 + 0.1 * len(self.sets))
        for number, row in enumerate(self.sets):
            line = "-" if number < len(CATEGORIES) else "--"
            marker, label = MARKERS[number % len(MARKERS)], f"{row.name} {row.score:.2f}"
            axes.plot(self.deltas, row.curve, line, color=category(number), marker=marker, markersize=4, label=label)
        axes.set_ylim(0, 1)
        legend(axes)
        return figure


def augmentation_sets(names: Sequence[str] = ()) -> dict[str, Recipe]:
    """Sets named by letters, with the strength of color distortion after a colon: ``ad``, ``abc``, ``ad:0.25``.

    By default every pair and the ladder of (a) crop, (b) blur, (c) color dropping, (d) color distortion and (e) flip;
    crop with four strengths of color distortion.
    """
    pairs = ["".join(pair) for pair in itertools.combinations(LETTERS, 2)]
    ladder = [LETTERS[:length] for length in (1, 3, 4, 5)]
    strengths = [f"ad:{value:g}" for value in STRENGTHS]
    return dict(_named(name) for name in names or [*pairs, *ladder, *strengths])


def rank_views(
    samples: Samples,
    sets: Mapping[str, Recipe] | None = None,
    *,
    per_class: int = 50,
    views: int = 24,
    deltas: Sequence[float] | None = None,
    resamples: int = 5,
    seed: int = 0,
    space: str = "pixels",
    embed: Callable[[Tensor], Tensor] | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Ranking:
    """Rank augmentation sets by their concentration: the less of a class they leave outside its main part, the better.

    Takes the first ``per_class`` samples of each class and ``views`` views of each, the sample itself among them.
    Distances are between pixels, or between what ``embed`` makes of a batch of views; then name the ``space``, because
    the ranking depends on it. Deltas default to quantiles of the distances between plain samples of a class.

    References:
        Huang et al. (2023), Sec. 5.2. https://arxiv.org/abs/2111.00743
    """
    sets = augmentation_sets() if sets is None else sets
    _validate(sets, views, resamples)
    indices, labels = _chosen(samples, per_class)
    x, embed = samples.x[indices], embed or (lambda batch: batch)
    deltas = tuple(deltas or _default_deltas(embed(next(iter(sets.values())).plain(x)), labels))
    rows = []
    for name, recipe in sets.items():
        measured = [_measured(recipe, x, labels, views, deltas, seed + number, embed) for number in range(resamples)]
        stacks = _stack(recipe, x, CONNECTING_VIEWS, seed, embed)
        rows.append(_ranked(name, recipe, measured, stacks, samples, indices, labels))
        progress(name)
    notes = (LOWER_BOUND, *([NO_LABELS] if samples.labels is None else []))
    ordered = tuple(sorted(rows, key=lambda row: row.score))
    return Ranking(ordered, deltas, space, len(indices), views, resamples, notes)


def survey_views(
    samples: Samples, recipe: Recipe, *, per_class: int = 50, views: int = 8, seed: int = 0
) -> GraphSurvey:
    """The augmentation graph of the first ``per_class`` samples of each class under a recipe, decomposed."""
    indices, labels = _chosen(samples, per_class)
    stacks = _stack(recipe, samples.x[indices], views, seed, lambda batch: batch)
    known = labels if samples.labels is not None else None
    return survey(stacks, known, classes=samples.classes, seed=seed)


def _measured(
    recipe: Recipe,
    x: Tensor,
    labels: Tensor,
    views: int,
    deltas: Sequence[float],
    seed: int,
    embed: Callable[[Tensor], Tensor],
) -> list[Concentration]:
    """The curve of one drawing of views; classes are compared with themselves only."""
    distance = within_classes(labels, lambda own: augmented_distance(_stack(recipe, x, views, seed, embed, own)))
    return concentration_curve(distance, labels, deltas)


def _stack(
    recipe: Recipe,
    x: Tensor,
    views: int,
    seed: int,
    embed: Callable[[Tensor], Tensor],
    own: Tensor | None = None,
) -> Tensor:
    """Views of samples, the sample itself first. A sample's views do not depend on which others are asked for."""
    own = torch.arange(len(x)) if own is None else own
    keys = sample_keys(seed, 0, own)
    drawn = [recipe.view(x[own], keys, number=number) for number in range(views - 1)]
    return torch.stack([embed(batch) for batch in [recipe.plain(x[own]), *drawn]], 1)


def _ranked(
    name: str,
    recipe: Recipe,
    measured: list[list[Concentration]],
    stacks: Tensor,
    samples: Samples,
    indices: Tensor,
    labels: Tensor,
) -> RankedSet:
    curves = torch.tensor([[1 - point.mean for point in curve] for curve in measured])
    middle = measured[0][len(measured[0]) // 2]
    mixed, connections = _connections(stacks, indices, labels, middle.delta)
    return RankedSet(
        name=name,
        description=recipe.describe(),
        score=curves.mean().item(),
        interval=_interval(curves.mean(1)),
        curve=tuple(curves.mean(0).tolist()),
        worst=tuple(1 - point.sigma for point in measured[0]),
        exact=all(point.exact for curve in measured for point in curve),
        outside=_outside(middle, samples, indices, labels),
        mixed=mixed,
        connections=connections,
    )


def _outside(found: Concentration, samples: Samples, indices: Tensor, labels: Tensor) -> dict[str, tuple[int, ...]]:
    """For each class the samples, by their place in the data, that are not in its main part."""
    outside = {}
    for part in found.parts:
        rest = (labels == part.label).index_fill(0, part.members, False)
        outside[_class_name(samples, part.label)] = tuple(indices[rest].tolist())
    return outside


def _class_name(samples: Samples, label: int) -> str:
    if samples.labels is None:
        return "all samples"
    return samples.classes[label] if label < len(samples.classes) else str(label)


def _connections(stacks: Tensor, indices: Tensor, labels: Tensor, delta: float) -> tuple[float, tuple[Connection, ...]]:
    """The share of pairs of samples of different classes that come within delta, and the closest of them."""
    first, second = torch.triu_indices(len(labels), len(labels), 1)
    first, second = (side[labels[first] != labels[second]] for side in (first, second))
    if not len(first):
        return 0.0, ()
    gaps = augmented_distance(stacks, limit=delta)[first, second]
    closest = gaps.topk(min(CONNECTIONS, len(gaps)), largest=False).indices
    found = []
    for pair in closest[gaps[closest] <= delta].tolist():
        i, j = int(first[pair]), int(second[pair])
        found.append(
            Connection(int(indices[i]), int(indices[j]), *closest_views(stacks[i], stacks[j]), float(gaps[pair]))
        )
    return (gaps <= delta).float().mean().item(), tuple(found)


def _chosen(samples: Samples, per_class: int) -> tuple[Tensor, Tensor]:
    """The first samples of each class, and their labels; without labels as many samples as ten classes would have."""
    if per_class < 2:
        raise ValueError(f"per_class must be at least 2, got {per_class}")
    if samples.labels is None:
        return torch.arange(min(len(samples), 10 * per_class)), torch.zeros(min(len(samples), 10 * per_class)).long()
    own = [(samples.labels == label).nonzero()[:per_class, 0] for label in samples.labels.unique()]
    indices = torch.cat(own)
    return indices, samples.labels[indices]


def _default_deltas(plain: Tensor, labels: Tensor) -> list[float]:
    rows = plain.flatten(1)
    within = [torch.nn.functional.pdist(rows[labels == label]) for label in labels.unique()]
    levels = torch.cat(within).quantile(torch.tensor(QUANTILES))
    return sorted({float(f"{level:.3g}") for level in levels.tolist() if level > 0})


def _interval(scores: Tensor) -> tuple[float, float]:
    """Student's 95 % interval of the mean, within [0, 1]; the point itself when there is one drawing only."""
    mean, count = scores.mean().item(), len(scores)
    half = student.ppf(0.975, count - 1) * scores.std().item() / math.sqrt(count) if count > 1 else 0.0
    return max(0.0, mean - half), min(1.0, mean + half)


def _validate(sets: Mapping[str, Recipe], views: int, resamples: int) -> None:
    if not sets:
        raise ValueError("There are no augmentation sets to rank.")
    if views < 2 or resamples < 1:
        raise ValueError(
            f"Expected at least 2 views (the sample itself is one) and 1 resample, got {views}, {resamples}."
        )


def _named(name: str) -> tuple[str, Recipe]:
    letters, _, strength = name.partition(":")
    bracketed = f"({','.join(letters)})"
    if not strength:
        return bracketed, from_letters(letters)
    if not strength.replace(".", "", 1).isdigit():
        raise ValueError(f"Expected letters, then a strength after a colon, such as ad:0.25; got {name!r}.")
    return f"{bracketed} x {strength}", from_letters(letters, strength=float(strength))


def _plain(row: RankedSet) -> dict[str, Any]:
    return {**vars(row), "connections": [vars(connection) for connection in row.connections]}


def views(
    *,
    data: str = "digits",
    sets: tuple[str, ...] = (),
    encoder: Path | None = None,
    per_class: int = 50,
    view_count: int = 24,
    resamples: int = 5,
    graph: bool = False,
    seed: int = 0,
    output: Path | None = None,
    quiet: bool = False,
) -> Answer:
    """Rank augmentation sets before training, by how well they concentrate the classes of your data."""
    samples = sources.load(data, split="train")
    recipes, where = augmentation_sets(sets), {} if encoder is None else _space(encoder)
    with Progress(len(recipes), quiet=quiet) as progress:
        ranking = rank_views(
            samples, recipes, per_class=per_class, views=view_count, resamples=resamples, seed=seed, **where,
            progress=lambda name: progress.advance(per_class),
        )  # fmt: skip
    survey = survey_views(samples, recipes[ranking.sets[0].name], per_class=per_class, seed=seed) if graph else None
    lines = [ranking.table(), *([survey.summary()] if survey else [])]
    if output is not None:
        command = f"vergence views --data {data} --per-class {per_class} --view-count {view_count}"
        write_bytes(Path(output), ranking_page(ranking, samples, survey=survey, command=command).encode())
        lines.append(f"Page: {output}")
    return Answer(tuple(lines), {**ranking.to_dict(), **({"graph": survey.to_dict()} if survey else {})})


def _space(run: Path) -> dict[str, Any]:
    """The space of a run's representations, for distances."""
    backbone = assembly.trained(Run(run)).learner.encoder
    return {"embed": lambda batch: features.encoded(backbone, batch), "space": f"representations of {run}"}
