"""Collapse: whether rows coincide, fill few directions, or sit on few points; numbers first, then which kind."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from vergence.diagnostics.arrays import CHUNK, Array, as_tensor, chosen_rows, sampled, unit
from vergence.diagnostics.geometry import ANCHORS, neighbors
from vergence.diagnostics.spectrum import dead_directions, entropy_rank

Kind = Literal["complete", "dimensional", "cluster", "none"]

# Thresholds were set between the healthy and the injected cases of benchmarks/faults_of_learning.py.
COMPLETE = 5e-3  # variance of unit rows, of at most 1: two rows have a mean cosine of .995
DEAD_SHARE = 0.5  # of the directions there is room for
FEW_DIRECTIONS = 0.02  # effective directions over the room there is
ROOM = 128  # that is ever asked to be filled: the 2048 columns of a healthy SimSiam amount to four directions
TIGHT = 1e-3  # distance to the tenth nearest row over what n points in so many directions have
NEIGHBOR = 10  # a row and its copies are not a cluster


@dataclass(frozen=True, eq=False)
class Collapse:
    """``variance`` of the unit rows (0 when they coincide, 1 when they cancel), ``rank`` the effective number of
    directions around their mean, ``dead`` how many of ``room`` directions have no variance, ``tightness`` the median
    squared distance to the tenth nearest row over the mean one.
    """

    kind: Kind
    evidence: tuple[str, ...]
    variance: float
    rank: float
    dead: int
    room: int
    tightness: float
    n: int

    @property
    def spent(self) -> str:
        return f"{self.dead} of {self.room} directions carry nothing; the others amount to {self.rank:.1f}."

    def within(self, most: float) -> "Collapse":
        """The same where no more than ``most`` directions could be filled: those beyond are not missed."""
        if self.kind != "dimensional" or most >= self.room:
            return self
        room = max(2, int(most))
        dead = max(0, self.dead - (self.room - room))
        kind, evidence = _judged(self.variance, self.rank, dead, room, 1.0, 0.0)
        return replace(self, kind=kind, evidence=evidence, dead=dead, room=room)

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "evidence": list(self.evidence)}


def collapse(h: Array, *, seed: int = 0) -> Collapse:
    """Complete (rows coincide), dimensional (few directions), cluster (few points) or none.

    Of the rows on the unit sphere, around their mean, so that non-negative features are not taken for a cone. At most
    50,000 rows are looked at; nearest rows are those of 4096 of them. The kind is geometry only: rows with a large
    constant offset coincide to a cosine and may tell classes apart all the same.

    References:
        Jing et al. (2022), dimensional collapse. https://arxiv.org/abs/2110.09348
    """
    rows = _scaled(sampled(h, 50_000, seed=seed))
    n, d = rows.shape
    room = min(d, n - 1)
    values = _centered_values(rows)
    variance = float(values.square().sum() / n)
    dead = dead_directions(values[:room])
    rank = entropy_rank(values.square())
    tightness = _tightness(rows, seed=seed) if d > 1 else 1.0
    # The tenth of n points in r directions is (10 / n)^(1/r) away, and distances here are squared.
    crowding = (min(NEIGHBOR, n - 1) / n) ** (2 / max(1.0, rank - 1))
    kind, evidence = _judged(variance, rank, dead, room, tightness, crowding)
    return Collapse(kind, evidence, variance, rank, dead, room, tightness, n)


def _scaled(rows: Tensor) -> Tensor:
    """Rows of length 1; one column as it is, by its root mean square: of its rows a sign alone would be left."""
    if rows.shape[1] > 1:
        return unit(rows)
    largest = rows.abs().max().clamp(min=torch.finfo(rows.dtype).tiny)
    scaled = rows / largest
    return scaled / scaled.square().mean().sqrt().clamp(min=torch.finfo(rows.dtype).tiny)


def silent_directions(h: Array, found: Collapse) -> Tensor:
    """The directions of unit rows without variance, as columns: those after the live ones."""
    rows = unit(as_tensor(h)).double()
    _, _, directions = torch.linalg.svd(rows - rows.mean(dim=0), full_matrices=False)
    live = found.room - found.dead
    return directions[live : live + found.dead].T


def _judged(
    variance: float, rank: float, dead: int, room: int, tightness: float, crowding: float
) -> tuple[Kind, tuple[str, ...]]:
    if variance < COMPLETE:
        return "complete", (f"The unit rows have a variance of {variance:.2g} of at most 1.",)
    spent = f"{dead} of {room} directions carry nothing; the others amount to {rank:.1f}."
    if room > 2 and (dead >= DEAD_SHARE * room or rank < max(1.5, FEW_DIRECTIONS * min(room, ROOM))):
        return "dimensional", (spent,)
    if tightness < TIGHT * crowding:
        return "cluster", (
            f"Rows sit on a few points: the tenth nearest is {tightness:.2g} of the mean squared distance away.",
        )
    return "none", (f"The unit rows have a variance of {variance:.2g}.", spent)


def _centered_values(rows: Tensor) -> Tensor:
    """Singular values around the mean, largest first, from the smaller of the two products."""
    n, d = rows.shape
    if n <= d:
        centered = rows.double() - rows.double().mean(dim=0)
        gram = centered @ centered.T
    else:
        mean = rows.mean(dim=0, dtype=torch.float64)
        gram = torch.zeros(d, d, dtype=torch.float64, device=rows.device)
        for part in rows.split(CHUNK):  # all rows in float64 would be twice their memory
            centered = part.double() - mean
            gram.addmm_(centered.T, centered)
    return torch.linalg.eigvalsh(gram).clamp(min=0).flip(0).sqrt()


def _tightness(rows: Tensor, *, seed: int) -> float:
    anchors = torch.from_numpy(chosen_rows(len(rows), ANCHORS, seed=seed)).to(rows.device)
    nearest, _ = neighbors(rows, anchors, k=min(NEIGHBOR, len(rows) - 1))
    typical = (
        1 - rows.mean(dim=0, dtype=torch.float64).square().sum() * len(rows) / (len(rows) - 1) + 1 / (len(rows) - 1)
    )
    return float((1 - nearest[:, -1].double().median()).clamp(min=0) / typical.clamp(min=1e-12))
