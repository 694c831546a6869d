"""Grouping: whether rows fall into two groups that share no directions although both hold every class."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import splitting, trials
from vergence.diagnostics.arrays import unit
from vergence.diagnostics.class_directions import ClassDirections, class_directions
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.trials import Bench, K

SEVERED = 0.05  # neighbors across two groups over those of chance: below, centering each may be a remedy
SMALLEST = 0.04  # share of the rows in the smaller group
FEWEST = 18  # rows in the smaller group
INDEPENDENT = 0.2  # Cramer's V of group and class, 1 where groups are classes: models are given rows of any class
# Two models have nothing in common: three correlations of groups are 0 between them and 1 within one model, that of
# class directions, that of the scatter within classes, and that of the main directions. The first must be below
# STRANGE for certain, and so must the last; the mean of all, each at least 0, below KIN.
STRANGE, KIN = 0.35, 0.27
FOUND_AGAIN = 0.6  # correlation of a group with what other rows make of it: .7 and more for two models
CERTAIN = 2.6  # standard errors: of one model no more than one in 200
# Where class means do not show, or are fewer than MANY, which clusters of one model may put in different directions:
# hardly a neighbor across (SEVERED), hardly a common direction, and no row in doubt.
MANY, ALIEN, NO_DOUBT = 4, 0.1, 0.9
OF_CLASSES = 0.8  # Cramer's V of a split and the classes, from which rows have fallen into their classes
OPPOSED = -0.2  # shared directions, below which the groups are one cloud that was cut where it is wide in two ways
LESS = 0.5  # what neighbors from the other group know of classes, over what those of the own group know
WIDE = 128  # strongest directions that are compared: covariances of more columns would take seconds
PLACES = 8  # parts of the file: a second model may begin after each
STARTS = 12  # of two models of all classes
COLUMNS, ROWS = 4, 40  # below which classes of two models lie on each other by chance
FITTED = 100  # rows, below which two models of all classes fit by chance
MEMBERS = 6  # rows a class on average, below which two models of all classes cannot be fitted


@dataclass(frozen=True)
class Grouping:
    """``part`` of the rows is in the smaller group; ``crossing`` of the neighbors that chance puts across are there."""

    member: Tensor
    part: float
    crossing: float
    aligned: ClassDirections | None = None
    again: ClassDirections | None = None  # of the groups that the other rows tell
    found_again: float = 0.0
    placed: bool = False  # a part of the file, which was not sought by what its rows are
    shared: float = float("nan")  # variance of a group along the other group's main directions, over its own
    within: float = float("nan")
    across: float = float("nan")
    cost: Estimate | None = None
    gain: Estimate | None = None

    @property
    def hopeful(self) -> bool:
        """Whether classes of the groups as they were found lie in different directions, or do not show."""
        found = self.aligned
        if found is None or not found.signal:
            return self.crossing < SEVERED
        return found.classes < STRANGE

    @property
    def in_doubt(self) -> bool:
        """Whether classes do not show in both groups, or are too few to tell two models from clusters of one."""
        few = self.again is None or self.again.classes_in_both < MANY
        return self.aligned is None or not self.aligned.signal or (few and not self.placed)

    @property
    def strange(self) -> bool:
        """Whether classes of the two groups lie in different directions, and so do other rows: tested, not searched.

        Groups were sought to be unlike, with labels; so each row is put where all other rows would put it, without its
        label, and the classes of those groups are compared.
        """
        again = self.again
        if again is None or self.aligned is None or self.found_again < FOUND_AGAIN or self.shared < OPPOSED:
            return False
        kin = [max(0.0, self.aligned.scatter), max(0.0, self.shared)]
        if self.in_doubt:
            return self.crossing < SEVERED and sum(kin) / 2 < ALIEN and self.found_again > NO_DOUBT
        alike = again.classes + CERTAIN * again.error
        return max(alike, self.shared) < STRANGE and (sum(kin) + max(0.0, alike)) / 3 < KIN


def groups(body: Bench, bench: Bench, outlying: Tensor, seed: int = 0) -> Grouping | None:
    """Two groups of rows that share no directions although both hold every class, as two models do; else None.

    Tried: parts of the file, two means, slow vibrations of the neighbor graph, what a row shows by itself, and two
    models of all classes. Groups must cut across classes. Groups of one model that have almost no neighbors across are
    given too, for they may be two sources. Without labels only a split without neighbors across is worth a word.
    """
    if body.n < ROWS or body.rows.shape[1] < COLUMNS or float(body.rows.var(dim=0).sum()) < 1e-12:
        return None
    if body.labels is None:
        found = _large(_candidates(body, seed), body)
        best = min(found, key=lambda group: group.crossing, default=None)
        return best if best is not None and best.crossing < 0.01 else None
    # Rows of another model may be so far away that they are outliers.
    strange, _ = _sought([outlying], bench)
    found, severed = ([], []) if strange else _sought(_candidates(body, seed), body)
    found = [group for group in found if not (group.in_doubt and _of_clusters(group, body, seed))]
    return min(strange or found or severed, key=_unlike, default=None)


def _of_clusters(group: Grouping, body: Bench, seed: int) -> bool:
    """Whether a group falls apart again, not into its classes but into parts that share no directions either.

    Then both groups are clusters of one model: they have no directions in common whichever way they are cut in two.
    Parts of what one model makes of two sources share .5 and more.
    """
    parts = [body.of(side) for side in (group.member, ~group.member)]
    return any(
        inner.crossing < SEVERED
        and association(inner.member, part.labels) < OF_CLASSES
        and shared_directions(inner.member, part.rows) < STRANGE
        for part in parts
        if part.n >= ROWS
        for inner in _large(_clusters(part, seed), part)
    )


def _sought(candidates: Iterable[Tensor], body: Bench) -> tuple[list[Grouping], list[Grouping]]:
    """Groups that are strange to each other, and those that only have almost no neighbors across."""
    found = [group for group in _large(candidates, body) if association(group.member, body.labels) < INDEPENDENT]
    directions = trials.centered(unit(body.rows))
    if directions.shape[1] > WIDE:
        directions = directions @ trials.top_directions(directions, WIDE)
    found = [replace(group, aligned=class_directions(directions, body.labels, group.member)) for group in found]
    found = [_told_again(group, directions, body) if group.hopeful else group for group in found]
    measured = [_measured(group, body) for group in found if group.strange or group.crossing < SEVERED]
    strange = [group for group in measured if group.strange and _tells(group, body)]
    return strange, [group for group in measured if group.crossing < SEVERED and not group.strange]


def _told_again(group: Grouping, directions: Tensor, body: Bench) -> Grouping:
    """The group with the class directions of what other rows make of it, and with what it shares of main directions.

    Parts of the file were not sought by what their rows are, and stay as they are.
    """
    group = replace(group, shared=shared_directions(group.member, body.rows))
    if int((group.member[1:] != group.member[:-1]).sum()) == 1:
        return replace(group, again=group.aligned, found_again=1.0, placed=True)
    labels = torch.unique(body.labels, return_inverse=True)[1]
    found = splitting.told_by_others(_white(_reduced(body.rows)), labels.numpy(), group.member.numpy())
    member = torch.from_numpy(found)
    same = torch.corrcoef(torch.stack([member, group.member]).double())[0, 1]
    again = class_directions(directions, body.labels, member)
    return replace(group, again=again, found_again=float(torch.nan_to_num(same)))


def _large(candidates: Iterable[Tensor], body: Bench) -> list[Grouping]:
    found = [Grouping(member, *_parted(member, body)) for member in candidates]
    return [group for group in found if group.part >= max(SMALLEST, FEWEST / body.n)]


def _unlike(group: Grouping) -> float:
    return group.aligned.classes if group.aligned is not None and group.aligned.signal else group.crossing


def _tells(group: Grouping, body: Bench) -> bool:
    """Whether neighbors from the other group know less than half of what those of the own group know, beyond luck."""
    chance = float(torch.bincount(body.labels).max()) / body.n
    less = group.across - chance < LESS * (group.within - chance)
    return less and group.cost is not None and trials.costly(group.cost, least=0.03)


def association(member: Tensor, labels: Tensor) -> float:
    """Cramer's V of two groups and the classes: 0 when independent, 1 when a class is in one group only.

    Less what luck gives to many small classes.

    References:
        Bergsma (2013), a bias-correction for Cramer's V.
    """
    table = torch.zeros(2, int(labels.max()) + 1, dtype=torch.float64)
    table.index_put_((member.long(), labels), torch.ones(len(labels), dtype=torch.float64), accumulate=True)
    table = table[:, table.sum(dim=0) > 0]
    expected = table.sum(dim=1, keepdim=True) * table.sum(dim=0) / table.sum()
    square = float(((table - expected).square() / expected.clamp(min=1e-12)).sum() / table.sum())
    return max(0.0, square - (table.shape[1] - 1) / max(1, len(labels) - 1)) ** 0.5


def _parted(member: Tensor, body: Bench) -> tuple[float, float]:
    share = float(member.double().mean())
    share = min(share, 1 - share)
    nearest = body.nearest[1][:, :K]
    crossing = float((member[nearest] != member[:, None]).double().mean())
    return share, crossing / max(2 * share * (1 - share), 1e-9)


def _candidates(body: Bench, seed: int) -> Iterator[Tensor]:
    for place in range(1, PLACES):
        yield torch.arange(body.n) < place * body.n // PLACES
    yield from _clusters(body, seed)
    for facts in _of_rows(body):
        if float(facts.std()) > 1e-3:
            yield _two_means(facts.numpy()[:, None], seed)
    if body.labels is not None and body.n >= FITTED:
        yield from _two_models(_reduced(body.rows), body.labels, seed)


def _clusters(body: Bench, seed: int) -> Iterator[Tensor]:
    """Two groups by what is near to what: by means and by the neighbor graph."""
    yield _two_means(_reduced(body.rows), seed)
    yield from _vibrations(body, seed)


def _of_rows(body: Bench) -> Iterator[Tensor]:
    """What a row shows by itself: its length, the part of it below 0, the part along the diagonal, its peakedness.

    Rectified, counted or sparse rows have all of these in common, and rows of another model need not.
    """
    directions = unit(body.rows)
    yield body.lengths.clamp(min=1e-300).log()
    yield directions.clamp(max=0).square().sum(dim=1)
    yield directions.sum(dim=1) / directions.shape[1] ** 0.5
    yield directions.pow(4).sum(dim=1).clamp(min=1e-300).log()


def _reduced(rows: Tensor, columns: int = 32) -> np.ndarray:
    middle = trials.centered(trials.clipped(rows))
    directions = trials.top_directions(middle, min(columns, max(8, len(rows) // 12), *middle.shape))
    found = (middle @ directions).numpy()
    return found / max(found.std(), 1e-12)


def _two_means(rows: np.ndarray, seed: int) -> Tensor:
    return torch.from_numpy(splitting.two_means(rows, seed))


def _two_models(rows: np.ndarray, labels: Tensor, seed: int) -> Iterator[Tensor]:
    """Two models of all classes, from several starts, of rows with unit variance in each direction."""
    known = torch.unique(labels, return_inverse=True)[1].numpy()
    if len(rows) < MEMBERS * (known.max() + 1):
        return
    rows = _white(rows)
    for start in range(STARTS):
        yield torch.from_numpy(splitting.two_gaussians(rows, known, STARTS * seed + start))


def _white(rows: np.ndarray) -> np.ndarray:
    """Principal components with unit variance each."""
    spread = rows.std(axis=0)
    return rows[:, spread > 1e-3 * spread.max()] / spread[spread > 1e-3 * spread.max()]


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
    same = group.member[:, None] == group.member[None, :]
    within, across = (
        trials.correct(body.similarity.masked_fill(~allowed, -torch.inf), body.labels) for allowed in (same, ~same)
    )
    rows = body.rows.clone()
    for side in (group.member, ~group.member):
        rows[side] = rows[side] - rows[side].mean(dim=0)
    gain = trials.difference(trials.correct(trials.cosine(rows), body.labels), body.correct)
    shares = float(within.double().mean()), float(across.double().mean())
    cost = trials.difference(within, across)
    return replace(group, within=shares[0], across=shares[1], cost=cost, gain=gain)


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
