"""Trials: short trainings that tell sets of views apart, in a race from which the worse ones drop out.

A trial is SimCLR on a small encoder. Trials of one race share the first weights, the order of the batches and the
samples they are judged on, so that their difference is measured better than either of them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from scipy.special import stdtrit
from torch import Tensor, nn
from torch.optim import Optimizer

from vergence import encoders
from vergence.learning.eager import eager
from vergence.learning.rows import WithRows, token_vectors
from vergence.objectives import nt_xent
from vergence.views import Recipe, sample_keys

# Chosen on CIFAR-10 and digits (benchmarks/views_trials.py); the other data sets were looked at afterwards.
BATCH, RATE, WARMUP, TEMPERATURE = 128, 2e-3, 10, 0.2
STEPS, LAPS, FACTOR = 80, 3, 3  # every trial takes 80 steps, the best third 80 more, the best third of those 80 more
NEIGHBORS, VOTE = 10, 0.07  # votes of a sample's neighbors, weighted by exp(cosine / 0.07) as in Wu et al. (2018)
SPREAD = 0.008  # deviation of a trial's accuracy over seeds, less what its race shares: .006 to .009 up to 160 steps
LABEL_FREE_SPREAD = 0.05  # the same of the label-free score, in nats
CERTAIN, SURE = 0.95, 1.96  # how certain an interval is, and its standard errors where there are many units
CHUNK = 512  # samples encoded at once
SIDE = 32  # pixels of a trial's images: there trials agreed with longer training (docs/measured/views.md)
MOMENTS, TOKENS = 256, 64  # longest series and texts of a trial; longer ones are averaged, or cut

# Small on purpose: a trial has to tell sets apart, not to be good.
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "image": ("convnet", {"channels": (16, 32, 64)}),
    "series": ("temporal_convnet", {"channels": (32, 64, 64)}),
    "vector": ("mlp", {"hidden": (128, 128)}),
    "text": ("bigru", {"embedding": 64, "hidden": 64}),
}


Objective = Callable[[Tensor, Tensor], Tensor]


def contrast(z1: Tensor, z2: Tensor) -> Tensor:
    """The objective of trials, that of SimCLR."""
    return nt_xent(z1, z2, temperature=TEMPERATURE)


class Trial:
    """A short training with one recipe; ``advance`` continues it, ``represent`` gives what it has learned.

    The rate is constant after warm-up, so that a trial can go on; with a ``horizon`` it falls to 0 there, as a cosine.
    """

    def __init__(
        self,
        x: Tensor,
        recipe: Recipe,
        kind: str,
        *,
        seed: int = 0,
        objective: Objective = contrast,
        network: Mapping[str, Any] | None = None,
        horizon: int = 0,
    ):
        self.x, self.recipe, self.seed, self.step = x, recipe.fitted(x), seed, 0
        self.objective, self.horizon = objective, horizon
        self.last_channels = torch.channels_last if kind == "image" else torch.contiguous_format
        plain = self.recipe.plain(x[: min(len(x), CHUNK)] if kind == "text" else x)
        torch.manual_seed(seed)
        self.encoder, self.projector = _network(kind, plain, network)
        both: Any = nn.Sequential(self.encoder, self.projector)
        self.network = both.to(memory_format=self.last_channels)
        self.optimizer = _optimizer(self.network)

    def advance(self, steps: int, stepped: Callable[[int], None] = lambda samples: None) -> None:
        """Train on for some steps; ``stepped`` is told the samples of each."""
        self.network.train()
        for _ in range(steps):
            indices, epoch = batch_of(len(self.x), self.step, seed=self.seed)
            views = self.recipe(self.x[indices], sample_keys(self.seed, epoch, indices))
            z1, z2 = self._embedded(torch.cat(views)).chunk(2)
            for group in self.optimizer.param_groups:
                group["lr"] = self._rate()
            self.optimizer.zero_grad()
            self.objective(z1, z2).backward()
            self.optimizer.step()
            self.step += 1
            stepped(len(indices))

    @torch.no_grad()
    def represent(self, x: Tensor) -> Tensor:
        """The representations of plain samples."""
        self.network.eval()
        plain = (self.recipe.plain(part) for part in x.split(CHUNK))
        return torch.cat([self.encoder(part.contiguous(memory_format=self.last_channels)) for part in plain])

    @torch.no_grad()
    def embed(self, views: Tensor) -> Tensor:
        """The embeddings of views, whoever made them."""
        self.network.eval()
        return torch.cat([self._embedded(part) for part in views.split(CHUNK)])

    def _rate(self) -> float:
        after = (self.step - WARMUP) / max(1, self.horizon - WARMUP) if self.horizon else 0.0
        return RATE * min(1.0, (self.step + 1) / WARMUP) * 0.5 * (1 + math.cos(math.pi * max(0.0, after)))

    def _embedded(self, views: Tensor) -> Tensor:
        return self.network(views.contiguous(memory_format=self.last_channels))


@dataclass(frozen=True)
class Reading:
    """A trial after some steps: its score, a 95 % interval, and the units (samples or batches) it is the mean of."""

    steps: int
    score: float
    interval: tuple[float, float]
    units: Tensor = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "score": self.score, "interval": list(self.interval)}


@dataclass(frozen=True)
class Tried:
    """A set's readings along the race. ``behind`` the best after the last rung that both reached, with its interval;
    ``tied`` says that the interval holds 0: these trials do not tell the two apart."""

    name: str
    readings: tuple[Reading, ...]
    behind: float
    interval: tuple[float, float]
    tied: bool
    best: bool

    @property
    def last(self) -> Reading:
        return self.readings[-1]

    def to_dict(self) -> dict[str, Any]:
        found = {"behind": self.behind, "behind_interval": list(self.interval), "tied": self.tied}
        return {"name": self.name, **found, "readings": [reading.to_dict() for reading in self.readings]}


Measure = Callable[[Trial], Tensor]


def race(
    trials: Mapping[str, Trial],
    measure: Measure,
    *,
    rungs: Sequence[int],
    spread: float = SPREAD,
    limits: tuple[float, float] = (0.0, 1.0),
    groups: Tensor | None = None,
    stepped: Callable[[int], None] = lambda samples: None,
) -> list[Tried]:
    """Successive halving, by thirds: all trials to the first rung, the best third to the next, and so on; best first.

    ``measure`` gives a trial's units, whose mean is its score, between ``limits``; higher is better. A set that stops
    early ranks below all that went on, whatever its score. Where units come in ``groups``, intervals are those of
    drawing groups, not units: a thousand windows of seven people are seven draws.

    References:
        Jamieson & Talwalkar (2016), Non-stochastic best arm identification. https://arxiv.org/abs/1502.07943
    """
    readings: dict[str, list[Reading]] = {name: [] for name in trials}
    racing = list(trials)
    for rung in rungs:
        for name in racing:
            trials[name].advance(rung - trials[name].step, stepped)
            readings[name].append(_reading(rung, measure(trials[name]), spread, limits, groups))
        racing = sorted(racing, key=lambda name: -readings[name][-1].score)[: going_on(len(racing))]
    order = sorted(trials, key=lambda name: (-len(readings[name]), -readings[name][-1].score))
    return [_placed(name, readings, order[0], spread, groups) for name in order]


def going_on(count: int) -> int:
    """How many of so many trials go on: a third of them, rounded up; never fewer than two."""
    return min(count, max(2, -(-count // FACTOR)))


def laps(steps: int = STEPS) -> tuple[int, ...]:
    """The rungs of a race whose trials take so many steps from one to the next."""
    return tuple(steps * lap for lap in range(1, LAPS + 1))


def planned_steps(sets: int, rungs: Sequence[int]) -> int:
    """The steps of a whole race."""
    total, before = 0, 0
    for rung in rungs:
        total, before, sets = total + sets * (rung - before), rung, going_on(sets)
    return total


def reduced(x: Tensor, kind: str, *, side: int = SIDE) -> Tensor:
    """The samples as trials see them: images of at most side x side pixels, shorter series and texts.

    The aspect of an image stays as it is.
    """
    if kind == "text":
        return x[:, :TOKENS]
    if kind == "series" and x.shape[2] > MOMENTS:
        return F.interpolate(x, size=MOMENTS, mode="area")
    if kind != "image" or math.prod(x.shape[2:]) <= side * side:
        return x
    scale = side / math.sqrt(math.prod(x.shape[2:]))
    size = [max(1, round(length * scale)) for length in x.shape[2:]]
    parts = [F.interpolate(part.float(), size=size, mode="bilinear", antialias=True) for part in x.split(CHUNK)]
    return torch.cat([part.round().clamp(0, 255).to(x.dtype) for part in parts])


def batch_of(n: int, step: int, *, seed: int) -> tuple[Tensor, int]:
    """The samples of a step, and its epoch: every epoch is a permutation, a fixed function of seed and epoch."""
    size = min(BATCH, n)
    epoch, place = divmod(step, n // size)
    order = sample_keys(seed, -1 - epoch, torch.arange(n)).argsort()
    return order[place * size : (place + 1) * size], epoch


def neighbor_votes(h: Tensor, labels: Tensor, groups: Tensor | None = None, *, k: int = NEIGHBORS) -> Tensor:
    """For each sample, whether its k nearest others by cosine vote for its own class: leave-one-out, 1 or 0.

    With ``groups``, such as the people that samples are of, no vote comes from a sample's own group: what only tells
    people apart does not count as knowing the class.
    """
    h = F.normalize(h.float(), dim=1)
    classes, codes = labels.unique(return_inverse=True)
    right = []
    for start in range(0, len(h), CHUNK):
        scores = h[start : start + CHUNK] @ h.T
        own = torch.arange(len(scores))
        scores[own, own + start] = -math.inf
        if groups is not None:
            scores[groups[start : start + CHUNK, None] == groups] = -math.inf
        near = scores.topk(min(k, len(h) - 1), dim=1)
        weights = (near.values / VOTE).softmax(dim=1).nan_to_num()  # a sample whose group is all has no neighbors
        votes = torch.zeros(len(scores), len(classes)).scatter_add_(1, codes[near.indices], weights)
        right.append(votes.argmax(dim=1) == codes[start : start + CHUNK])
    return torch.cat(right).float()


def by_labels(x: Tensor, labels: Tensor, groups: Tensor | None = None) -> Measure:
    """The score with labels: leave-one-out, or leave-one-group-out, accuracy of neighbors among plain samples."""
    return lambda trial: neighbor_votes(trial.represent(x), labels, groups)


def without_labels(x: Tensor, recipes: Sequence[Recipe], *, batches: int = 4, seed: int = 0) -> Measure:
    """The experimental score without labels: minus the InfoNCE loss under the views of every set, its median over sets.

    A set that only its own views flatter does badly under the others'. It decides nothing: rank correlation with
    accuracy was .8 on CIFAR-10, .3 on MNIST and -.6 on a table (docs/measured/views.md).
    """
    size = min(BATCH, len(x))
    drawn = [batch_of(len(x), number, seed=seed + 1)[0] for number in range(batches)]
    pairs = [[recipe.fitted(x)(x[own], sample_keys(seed + 1, 0, own)) for own in drawn] for recipe in recipes]

    def measure(trial: Trial) -> Tensor:
        losses = torch.empty(len(pairs), len(drawn))
        for row, own in enumerate(pairs):
            for column, views in enumerate(own):
                z1, z2 = trial.embed(torch.cat(views)).split(size)
                losses[row, column] = contrast(z1, z2)
        return -losses.median(dim=0).values

    return measure


def _network(kind: str, plain: Tensor, other: Mapping[str, Any] | None) -> tuple[nn.Module, nn.Module]:
    name, own = NETWORKS[kind]
    options = own if other is None else other
    shape = tuple(plain.shape[1:])
    backbone: Any = encoders.build(name, shape, **options)
    projector = encoders.mlp([backbone.width, 128, 128])
    if not plain.is_floating_point():
        return backbone, projector
    return nn.Sequential(encoders.Standardize(shape).measure(plain), backbone), projector


def _optimizer(network: nn.Module) -> Optimizer:
    """AdamW; token vectors with sparse gradients take SparseAdam beside it."""
    vectors = token_vectors(network)
    apart = {id(part) for part in vectors}
    others = [part for part in network.parameters() if id(part) not in apart]
    main = eager(torch.optim.AdamW)(others, lr=RATE, weight_decay=1e-4)
    return WithRows(main, vectors, lr=RATE, betas=(0.9, 0.999)) if vectors else main


def _reading(steps: int, units: Tensor, spread: float, limits: tuple[float, float], groups: Tensor | None) -> Reading:
    score = units.mean().item()
    half = math.hypot(_half_width(units, groups), SURE * spread)
    return Reading(steps, score, (max(limits[0], score - half), min(limits[1], score + half)), units)


def _placed(
    name: str, readings: Mapping[str, Sequence[Reading]], best: str, spread: float, groups: Tensor | None
) -> Tried:
    """A set beside the best one, after the last rung that both reached: samples pair up, seeds do not."""
    mine, other = readings[name][-1], readings[best][len(readings[name]) - 1]
    gaps = other.units - mine.units
    behind = gaps.mean().item()
    half = 0.0 if name == best else math.hypot(_half_width(gaps, groups), SURE * math.sqrt(2) * spread)
    return Tried(name, tuple(readings[name]), behind, (behind - half, behind + half), behind <= half, name == best)


def _half_width(units: Tensor, groups: Tensor | None) -> float:
    """Half of the 95 % interval of the mean: normal over units, or Student's t over the sums of groups.

    With G groups the squared error is G / (G - 1) times the sum over groups of (the sum of the group's deviations / n)
    squared (Liang & Zeger, 1986); with every unit a group of its own it is the usual one.
    """
    if len(units) < 2:
        return 0.0
    if groups is None:
        return SURE * math.sqrt((units.var() / len(units)).item())
    codes = groups.unique(return_inverse=True)[1]
    count = int(codes.max()) + 1
    sums = torch.zeros(count).index_add_(0, codes, units.float() - units.float().mean())
    squared = (sums / len(units)).square().sum().item() * count / (count - 1)
    return float(stdtrit(count - 1, 0.5 + CERTAIN / 2)) * math.sqrt(squared)
