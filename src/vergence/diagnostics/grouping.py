"""Grouping: whether rows fall into two groups that share no neighbors although both hold every class."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import splitting, trials
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.trials import Bench, K

SEVERED = 0.05  # neighbors across two groups over those of chance: below .02 in mixtures of two models
APART = 0.15  # neighbors across groups over those of a random grouping
SMALLEST = 0.04  # share of the rows in the smaller group
INDEPENDENT = 0.35  # Cramer's V of group and class: 1 where groups are classes
USELESS = 0.1  # of what the own group's neighbors know beyond the commonest class: .16 and more between real clusters


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
    """The best of several ways to split rows in two, if it separates neighbors and not classes; else None.

    Tried: halves of the file, two means, two Gaussians, the slowest vibration of the neighbor graph, two lengths. With
    labels, groups must cut across classes; without, only a split with almost no neighbors across is worth a word.
    """
    if body.n < 60 or float(body.rows.var(dim=0).sum()) < 1e-12:
        return None
    found = [Grouping(member, *_parted(member, body)) for member in _candidates(body, seed)]
    found = [group for group in found if group.part >= SMALLEST and group.crossing < APART]
    if body.labels is not None:
        found = [group for group in found if association(group.member, body.labels) < INDEPENDENT]
    severed = [group for group in found if group.crossing < SEVERED] if body.labels is not None else []
    if severed:  # clusters of the data are severed too; two models are those that share no directions
        best: Grouping | None = min(severed, key=lambda group: shared_directions(group.member, body.rows))
    else:
        best = min(found, key=lambda group: group.crossing, default=None)
    if best is None or body.labels is None:
        return best if best is not None and best.crossing < 0.01 else None
    measured = _measured(best, body)
    commonest = float(torch.bincount(body.labels).max()) / body.n
    knows = (measured.across - commonest) < USELESS * (measured.within - commonest)
    costs = measured.cost is not None and trials.costly(measured.cost, least=0.05)
    return measured if knows and costs else None


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
    yield from _two_gaussians(reduced, seed)
    yield from _vibrations(body, seed)
    logs = body.lengths.clamp(min=1e-300).log().numpy()[:, None]
    if logs.std() > 1e-3:
        yield _two_means(logs, seed)


def _reduced(rows: Tensor, columns: int = 16) -> np.ndarray:
    middle = trials.centered(trials.clipped(rows))
    directions = trials.top_directions(middle, min(columns, *middle.shape))
    found = (middle @ directions).numpy()
    return found / max(found.std(), 1e-12)


def _two_means(rows: np.ndarray, seed: int) -> Tensor:
    return torch.from_numpy(splitting.two_means(rows, seed))


def _two_gaussians(rows: np.ndarray, seed: int) -> Iterator[Tensor]:
    for start in range(2):
        yield torch.from_numpy(splitting.two_gaussians(rows, seed + start))


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
