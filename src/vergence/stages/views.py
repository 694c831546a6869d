"""``vergence views``: which views suit the data? Decided by short trials, described by theory."""

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence import data as sources
from vergence.config import Config, Watching
from vergence.data import Samples
from vergence.data.drawing import GROUP, evenly, grouped, labeled, of_each_class, read_part
from vergence.data.files import label_file
from vergence.learning import trials
from vergence.learning.ranking import EXPERIMENTAL, RankedSet, ViewRanking
from vergence.learning.trials import Trial, Tried
from vergence.runs.progress import Progress
from vergence.runs.run import file_to_write, write_bytes
from vergence.theory import Certificate, generalization_bound
from vergence.views import Recipe
from vergence.views.candidates import ViewSet, candidates, named
from vergence.views.concentration import Concentrated, concentrations, graph_of_views, stacked_views

Array = Any  # a data source written as for train, a numpy array or a tensor

CLASSES = 20  # at most, of which theory looks at a few samples each
VIEWS_OF_CERTIFICATE = 8
TWO_PARTS = ("captions", "columns", "halves")  # views that are not two of one kind
FEWEST = 32  # samples below which a trial means nothing


@dataclass(frozen=True)
class Material:
    """What is looked at: samples as they are read, ``x`` as trials see them, and the ``few`` that theory describes."""

    samples: Samples
    x: Tensor
    labels: Tensor | None
    few: Tensor
    total: int
    notes: tuple[str, ...]

    @property
    def few_labels(self) -> Tensor | None:
        return None if self.labels is None else self.labels[self.few]

    @property
    def groups(self) -> Tensor | None:
        return self.samples.beside.get(GROUP)


def views(
    *,
    data: Array = "digits",
    labels: Array | None = None,
    groups: Array | None = None,
    sets: tuple[str, ...] = (),
    samples: int = 3000,
    steps: int = 80,
    side: int = 32,
    per_class: int = 15,
    view_count: int = 8,
    resamples: int = 2,
    graph: bool = False,
    seed: int = 0,
    output: Path | None = None,
    quiet: bool = False,
) -> ViewRanking:
    """Rank sets of views by short trials on your data: ties are called ties, and theory describes without deciding.

    Every set is trained for ``steps`` steps, the best third for as many more, and the best third of those again; the
    score is the leave-one-out accuracy of nearest neighbors among plain samples. ``data`` is a source as for train,
    an array or a Samples; ``sets`` are names (see ``candidates``). Without labels the order is experimental.
    ``groups`` (a file with one a sample, or an array) say which samples belong together, such as the windows of one
    person: neighbors of a sample's own group do not vote, so that the score is that of people who were not seen.
    """
    began = time.monotonic()
    _check(samples=(samples, FEWEST), steps=(steps, 2), side=(side, 8), per_class=(per_class, 3))
    _check(view_count=(view_count, 2), resamples=(resamples, 1))
    output = None if output is None else file_to_write(output)
    material = _material(data, labels, groups, samples, side=side, per_class=per_class, seed=seed)
    chosen = _sets(sets, material.samples)
    recipes = {name: one.recipe().fitted(material.x) for name, one in chosen.items()}
    runners = {name: Trial(material.x, recipe, material.samples.kind, seed=seed) for name, recipe in recipes.items()}
    rungs = trials.laps(steps)
    with Progress(trials.planned_steps(len(runners), rungs), quiet=quiet) as progress:
        tried = _raced(material, recipes, runners, rungs=rungs, seed=seed, progress=progress)
        progress.say("describing the sets")
        described, silence = _described(material, recipes, views=view_count, resamples=resamples, seed=seed)
    best = tried[0].name
    ranking = ViewRanking(
        sets=tuple(RankedSet(chosen[row.name], row, described.get(row.name)) for row in tried),
        source=material.samples.source,
        labeled=material.labels is not None,
        grouped=material.groups is not None,
        samples=len(material.x),
        total=material.total,
        chance=_chance(material.labels),
        raw=_raw(material, recipes[best]),
        rungs=rungs,
        command="",
        notes=(*material.notes, *silence),
        certificate=_certificate(material, runners[best], seed=seed),
        graph=_graph(material, recipes[best], seed=seed) if graph else None,
        seconds=time.monotonic() - began,
        asked=_asked(
            data,
            {"--labels": labels, "--groups": groups},
            sets,
            samples=samples,
            steps=steps,
            side=side,
            per_class=per_class,
            view_count=view_count,
            resamples=resamples,
            seed=seed,
        ),
    )
    ranking = replace(ranking, command=_command(data, labels, ranking.taken.view_set, total=material.total))
    return ranking if output is None else _written(ranking, material, output, seed=seed)


def _material(
    data: Array, labels: Array | None, groups: Array | None, count: int, *, side: int, per_class: int, seed: int
) -> Material:
    """The samples that are drawn, evenly and by class; what was left out or changed is noted."""
    given, together = (label_file(str(one)) if isinstance(one, str | Path) else one for one in (labels, groups))
    if isinstance(data, str | Path):
        samples, total = read_part(str(data), count, given, together, seed=seed)
    else:
        whole = data if isinstance(data, Samples) else sources.from_arrays(data)
        whole = grouped(whole if given is None else labeled(whole, given), together)
        samples, total = whole.take(evenly(len(whole), count, whole.labels, seed=seed)), len(whole)
    if len(samples) < FEWEST:
        raise ValueError(f"{samples.source} gives {len(samples)} samples; trials need at least {FEWEST}.")
    if GROUP in samples.beside and len(samples.beside[GROUP].unique()) < 2:
        raise ValueError(f"The {len(samples)} samples that were drawn are of one group; take more of them (--samples).")
    known, doubts = _usable(samples)
    x = trials.reduced(samples.x[torch.arange(len(samples))], samples.kind, side=side)
    if (x == x[:1]).all():
        raise ValueError(f"All {len(x)} samples of {samples.source} are equal: no views could tell them apart.")
    few = evenly(len(x), CLASSES // 2 * per_class, seed=seed) if known is None else _few(known, per_class, seed)
    return Material(samples, x, known, few, total, (*doubts, *_changes(samples, x, total)))


def _few(labels: Tensor, per_class: int, seed: int) -> Tensor:
    """A few samples of each class, of at most so many classes; a class needs three to have a main part."""
    common = (labels.bincount()[labels] > 2).nonzero()[:, 0]
    return common[of_each_class(labels[common], per_class, classes=CLASSES, seed=seed)]


def _usable(samples: Samples) -> tuple[Tensor | None, tuple[str, ...]]:
    """The labels, if they can decide: two classes or more with samples to spare."""
    if samples.labels is None:
        return None, (EXPERIMENTAL,)
    if int((samples.labels.bincount() > 2).sum()) < 2:
        return None, ("The labels hold no two classes of three samples or more, so they are left aside.", EXPERIMENTAL)
    return samples.labels, ()


def _changes(samples: Samples, x: Tensor, total: int) -> tuple[str, ...]:
    notes = []
    if GROUP in samples.beside:
        count = len(samples.beside[GROUP].unique())
        notes.append(
            f"Neighbors of a sample's own group, one of {count}, do not vote; intervals are those of drawing groups."
        )
    if total > len(samples) + len(samples.skipped):
        among = "" if samples.labels is None else " from all classes"
        notes.append(f"{len(samples):,} of {total:,} training samples, drawn evenly{among}.")
    if samples.skipped and samples.kind == "text":
        notes.append("; ".join(f"{lines} skipped: {why}." for lines, why in samples.skipped).capitalize())
    elif samples.skipped:
        notes.append(f"{len(samples.skipped)} files could not be read, the first: {': '.join(samples.skipped[0])}.")
    if samples.remarks:
        notes.append(samples.remarks)
    if tuple(x.shape[1:]) != samples.shape:
        before, after = (" x ".join(map(str, shape)) for shape in (samples.shape, x.shape[1:]))
        notes.append(f"Trials saw samples of {after} instead of {before}: what only shows in detail was not judged.")
    return tuple(notes)


def _sets(names: Sequence[str], samples: Samples) -> dict[str, ViewSet]:
    """The sets to compare, by name; every recipe is made once, so that what does not suit the data is said early."""
    known = candidates(samples.kind, samples.shape)
    chosen = {one.name: one for one in ([named(name, known) for name in names] or known)}
    if len(chosen) < 2:
        raise ValueError(f"Give two sets or more to compare, such as {known[0].name} {known[1].name}; got one.")
    for one in chosen.values():
        if one.recipe().kind not in (samples.kind, "any") or one.views in TWO_PARTS:
            raise ValueError(f"The set {one.name!r} ({one.views}) does not make two like views of a {samples.kind}.")
    return chosen


def _raced(
    material: Material,
    recipes: Mapping[str, Recipe],
    runners: Mapping[str, Trial],
    *,
    rungs: Sequence[int],
    seed: int,
    progress: Progress,
) -> list[Tried]:
    """The race: by accuracy where there are labels, by the experimental score where there are none."""
    if material.labels is not None:
        measure = trials.by_labels(material.x, material.labels, material.groups)
        return trials.race(runners, measure, rungs=rungs, groups=material.groups, stepped=progress.advance)
    measure = trials.without_labels(material.x, list(recipes.values()), seed=seed)
    options: dict[str, Any] = {"spread": trials.LABEL_FREE_SPREAD, "limits": (-math.inf, 0.0)}
    return trials.race(runners, measure, rungs=rungs, stepped=progress.advance, **options)


def _described(
    material: Material, recipes: Mapping[str, Recipe], *, views: int, resamples: int, seed: int
) -> tuple[dict[str, Concentrated], tuple[str, ...]]:
    """What theory says of every set, or why it says nothing: a description never stands in the way of a decision."""
    if material.samples.kind == "text":
        return {}, ("Theory says nothing of texts: there is no distance between tokens.",)
    x = material.x[material.few]
    try:
        found = concentrations(x, material.few_labels, recipes, views=views, resamples=resamples, seed=seed)
    except ValueError as error:
        return {}, (f"Theory says nothing of this data: {error}",)
    return {row.name: row for row in found}, ()


def _certificate(material: Material, trial: Trial, *, seed: int) -> Certificate | None:
    """The bound on the error of the winner's short training, on the few samples; None where it cannot be computed."""
    if material.few_labels is None:
        return None
    stacks = stacked_views(trial.recipe, material.x[material.few], VIEWS_OF_CERTIFICATE, seed=seed, embed=trial.embed)
    try:
        return generalization_bound(stacks, material.few_labels)
    except ValueError:  # rows of zeros, say
        return None


def _graph(material: Material, recipe: Recipe, *, seed: int) -> Any:
    classes = material.samples.classes
    return graph_of_views(material.x[material.few], material.few_labels, recipe, classes=classes, seed=seed)


def _chance(labels: Tensor | None) -> float | None:
    return None if labels is None else labels.bincount().max().item() / len(labels)


def _raw(material: Material, recipe: Recipe) -> float | None:
    """The accuracy of neighbors among the inputs themselves, which a training should exceed in the end."""
    if material.labels is None or material.samples.kind == "text":
        return None
    rows = recipe.plain(material.x).flatten(1)
    rows = (rows - rows.mean(0)) / rows.std(0).mean().clamp(min=1e-6)
    return trials.neighbor_votes(rows, material.labels, material.groups).mean().item()


def _command(data: Array, labels: Array | None, best: ViewSet, *, total: int) -> str:
    """What trains with a set: a line for the terminal, or Python for arrays in memory; small data get small batches."""
    if not isinstance(data, str | Path):
        return f"vergence.ContrastiveEncoder(views={best.views!r}, view={dict(best.options)!r}).fit(x)"
    source = str(data)
    if isinstance(labels, str | Path) and source.startswith("array:") and "labels=" not in source:
        source = f"{source},labels={labels}"
    words = ["vergence", "train", "--data", source, *best.arguments()]
    trained = int(total * (1 - Watching.share))
    words += ["--batch", str(max(2, trained // 4))] if trained < Config.batch else []
    return shlex.join([*words, "--run", f"runs/{_plain_name(best.name)}"])


def _asked(data: Array, files: Mapping[str, Array | None], sets: Sequence[str], **numbers: int) -> str:
    """The command that asked for this ranking, or what it was asked about."""
    if not isinstance(data, str | Path):
        return "from Python, about an array in memory"
    words = ["vergence", "views", "--data", str(data)]
    words += [word for option, file in files.items() if file is not None for word in (option, str(file))]
    words += ["--sets", *sets] if sets else []
    options = {f"--{name.replace('_', '-')}": str(value) for name, value in numbers.items()}
    return shlex.join([*words, *(word for pair in options.items() for word in pair)])


def _plain_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name).strip("-")


def _written(ranking: ViewRanking, material: Material, path: Path, *, seed: int) -> ViewRanking:
    from vergence.report.ranking import ranking_page

    html = ranking_page(ranking, material.samples, material.few, seed=seed)
    return replace(ranking, page=write_bytes(path, html.encode()))


def _check(**options: tuple[int, int]) -> None:
    for name, (value, least) in options.items():
        if value < least:
            raise ValueError(f"{name.replace('_', '-')} must be at least {least}, got {value}.")
