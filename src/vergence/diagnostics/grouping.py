"""Grouping: whether rows fall into two groups that know nothing of each other although both hold every class."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import splitting, trials
from vergence.diagnostics.arrays import unit
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.trials import Bench, K

# Neighbors across two groups over those of chance: below, centering each may be a remedy. Groups of clean sets that cut
# across classes have .1 at least; so severed groups that share no directions are two models, whatever labels say.
SEVERED = 0.05
STRANGE = 0.1  # shared directions below which severed groups are two models
APART = 0.5  # crossing above which groups are hardly parted, and neighbors across must be useless beyond doubt
SMALLEST = 0.04  # share of the rows in the smaller group
FEWEST = 20  # rows in the smaller group
INDEPENDENT = 0.35  # Cramer's V of group and class: 1 where groups are classes
# What neighbors from the other group know of classes, over what those of the own group know: -.6 to .1 between two
# models, .16 and more between groups of one (24 sets of benchmarks/foreign/fresh.py). With its error it must be below
# SURELY: of twenty splits of rows that know little, one has useless neighbors by chance.
USELESS, SURELY = 0.1, 0.4
STARTS = 8  # of two models of all classes: one in four finds a tenth of the rows
COLUMNS = 6  # of the rows, below which classes of two models lie on each other by chance
MEMBERS = 8  # rows a class on average, below which two models of all classes cannot be fitted


@dataclass(frozen=True)
class Grouping:
    """``part`` of the rows is in the smaller group; ``crossing`` of the neighbors that chance puts across are there."""

    member: Tensor
    part: float
    crossing: float
    within: float = float("nan")
    across: float = float("nan")
    cost: Estimate | None = None
    gain: Estimate | None = None
    shared: float = float("nan")  # variance of a group along the other group's main directions, over its own


def groups(body: Bench, seed: int = 0) -> Grouping | None:
    """Two groups of rows whose neighbors in the other group know nothing of classes, as between two models; else None.

    Tried: halves of the file, two means, slow vibrations of the neighbor graph, what a row shows by itself, and two
    models of all classes. Groups must cut across classes. Without labels only a split with almost no neighbors across
    is worth a word.
    """
    if body.n < 60 or body.rows.shape[1] < COLUMNS or float(body.rows.var(dim=0).sum()) < 1e-12:
        return None
    found = [Grouping(member, *_parted(member, body)) for member in _candidates(body, seed)]
    found = [group for group in found if group.part >= max(SMALLEST, FEWEST / body.n)]
    if body.labels is None:
        best = min(found, key=lambda group: group.crossing, default=None)
        return best if best is not None and best.crossing < 0.01 else None
    found = [group for group in found if association(group.member, body.labels) < INDEPENDENT]
    measured = [_measured(group, body) for group in found if group.crossing < SEVERED or _useless(group, body)]
    strange = [group for group in measured if _severed(group) or (_useless(group, body) and _tells(group))]
    # Clusters of the data may be strange to each other too; two models are those that share no directions.
    return min(strange, key=lambda group: group.shared, default=None)


def _severed(group: Grouping) -> bool:
    return group.crossing < SEVERED and group.shared < STRANGE


def _tells(group: Grouping) -> bool:
    return group.cost is not None and trials.costly(group.cost, least=0.05)


def _useless(group: Grouping, body: Bench) -> bool:
    """Whether neighbors from the other group know less than a tenth of what those of the own group know.

    Asked of all rows and of the smaller group alone: a small group offers few neighbors to the others, but has many.
    """
    within, across = _by_side(group, body)
    few = group.member if float(group.member.double().mean()) < 0.5 else ~group.member
    known = _known(within, body.labels)[0]
    most, errors = (SURELY, 1.64) if group.crossing < APART else (USELESS, 3.0)
    others = (_known(across, body.labels), _known(across[few], body.labels[few]))
    return all(other < USELESS * known and other + errors * error < most * known for other, error in others)


def _known(correct: Tensor, labels: Tensor) -> tuple[float, float]:
    """Accuracy beyond chance and its standard error, every class counting alike: the commonest one is no knowledge."""
    counts = torch.bincount(labels).double()
    present = counts > 0
    sums = torch.zeros_like(counts).index_add_(0, labels, correct.double())[present]
    rates, likely = sums / counts[present], (sums + 1) / (counts[present] + 2)
    error = float((likely * (1 - likely) / counts[present]).sum().sqrt() / len(rates))
    return float(rates.mean()) - 1 / len(rates), error


def _by_side(group: Grouping, body: Bench) -> tuple[Tensor, Tensor]:
    """Which rows their neighbors in the own group, and those in the other, classify correctly."""
    same = group.member[:, None] == group.member[None, :]
    within, across = (
        trials.correct(body.similarity.masked_fill(~allowed, -torch.inf), body.labels) for allowed in (same, ~same)
    )
    return within, across


def association(member: Tensor, labels: Tensor) -> float:
    """Cramer's V of two groups and the classes: 0 when independent, 1 when a class is in one group only."""
    table = torch.zeros(2, int(labels.max()) + 1, dtype=torch.float64)
    table.index_put_((member.long(), labels), torch.ones(len(labels), dtype=torch.float64), accumulate=True)
    table = table[:, table.sum(dim=0) > 0]
    expected = table.sum(dim=1, keepdim=True) * table.sum(dim=0) / table.sum()
    return float(((table - expected).square() / expected.clamp(min=1e-12)).sum() / table.sum()) ** 0.5


def _parted(member: Tensor, body: Bench) -> tuple[float, float]:
    share = float(member.double().mean())
    share = min(share, 1 - share)
    nearest = body.nearest[1][:, :K]
    crossing = float((member[nearest] != member[:, None]).double().mean())
    return share, crossing / max(2 * share * (1 - share), 1e-9)


def _candidates(body: Bench, seed: int) -> Iterator[Tensor]:
    reduced = _reduced(body.rows)
    yield torch.arange(body.n) < body.n // 2
    yield _two_means(reduced, seed)
    yield from _vibrations(body, seed)
    for facts in _of_rows(body):
        if float(facts.std()) > 1e-3:
            yield _two_means(facts.numpy()[:, None], seed)
    if body.labels is not None:
        yield from _two_models(reduced, body.labels, seed)


def _of_rows(body: Bench) -> Iterator[Tensor]:
    """What a row shows by itself: its length, the part of it below 0, the part along the diagonal, its peakedness.

    Rectified, counted or sparse rows have all of these in common, and rows of another model need not.
    """
    directions = unit(body.rows)
    yield body.lengths.clamp(min=1e-300).log()
    yield directions.clamp(max=0).square().sum(dim=1)
    yield directions.sum(dim=1) / directions.shape[1] ** 0.5
    yield directions.pow(4).sum(dim=1).clamp(min=1e-300).log()


def _reduced(rows: Tensor, columns: int = 16) -> np.ndarray:
    middle = trials.centered(trials.clipped(rows))
    directions = trials.top_directions(middle, min(columns, *middle.shape))
    found = (middle @ directions).numpy()
    return found / max(found.std(), 1e-12)


def _two_means(rows: np.ndarray, seed: int) -> Tensor:
    return torch.from_numpy(splitting.two_means(rows, seed))


def _two_models(rows: np.ndarray, labels: Tensor, seed: int) -> Iterator[Tensor]:
    """Two models of all classes, from several starts, of rows with unit variance in each direction."""
    known = torch.unique(labels, return_inverse=True)[1].numpy()
    if len(rows) < MEMBERS * (known.max() + 1):
        return
    spread = rows.std(axis=0)
    rows = rows[:, spread > 1e-3 * spread.max()] / spread[spread > 1e-3 * spread.max()]
    for start in range(STARTS):
        yield torch.from_numpy(splitting.two_gaussians(rows, known, STARTS * seed + start))


def _vibrations(body: Bench, seed: int) -> Iterator[Tensor]:
    """Signs of the slowest eigenvectors of the neighbor graph: the cut that severs the fewest neighbors."""
    from scipy.sparse import coo_matrix, diags
    from scipy.sparse.linalg import ArpackError, eigsh

    nearest = body.nearest[1][:, :K].numpy()
    n = body.n
    graph = coo_matrix((np.ones(nearest.size), (np.repeat(np.arange(n), nearest.shape[1]), nearest.ravel())), (n, n))
    graph = ((graph + graph.T) > 0).astype(float)
    scale = diags(1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
    start = np.random.default_rng(seed).standard_normal(n)
    try:
        _, vectors = eigsh(scale @ graph @ scale, k=min(4, n - 2), which="LA", v0=start, maxiter=300, tol=1e-3)
    except ArpackError:
        return
    vectors = scale @ vectors
    for column in vectors.T:
        yield _two_means(column[:, None] / max(np.abs(column).max(), 1e-12), seed)
    yield _two_means(vectors / np.linalg.norm(vectors, axis=0), seed)


def _measured(group: Grouping, body: Bench) -> Grouping:
    """Accuracy of neighbors from the own group and from the other one, and what centering each group gives."""
    within, across = _by_side(group, body)
    rows = body.rows.clone()
    for side in (group.member, ~group.member):
        rows[side] = rows[side] - rows[side].mean(dim=0)
    gain = trials.difference(trials.correct(trials.cosine(rows), body.labels), body.correct)
    return Grouping(
        group.member, group.part, group.crossing, float(within.double().mean()), float(across.double().mean()),
        trials.difference(within, across), gain, shared_directions(group.member, body.rows),
    )  # fmt: skip


def shared_directions(member: Tensor, rows: Tensor, count: int = 8) -> float:
    """How much of a group's variance lies along the other group's main directions, over that along its own.

    Both counted beyond what directions drawn at random hold: 0 between two models, 1 for two halves of one cloud. Two
    sources seen by one model vary in the same directions. The larger of the two ways round.
    """
    parts = [trials.centered(rows[side]) for side in (member, ~member)]
    count = max(1, min(count, rows.shape[1] // 3, *(len(part) // 3 for part in parts)))
    directions = [trials.top_directions(part, count) for part in parts]
    luck = count / rows.shape[1]
    held = [[_held(part, found) - luck for found in directions] for part in parts]
    return max(held[0][1] / max(held[0][0], 1e-9), held[1][0] / max(held[1][1], 1e-9))


def _held(part: Tensor, directions: Tensor) -> float:
    """The share of centered rows' variance along directions."""
    return float((part @ directions).square().sum() / part.square().sum().clamp(min=1e-300))
