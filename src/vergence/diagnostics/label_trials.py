"""Shifted labels on trial: would rows fit their labels better some places earlier or later?"""

from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.arrays import unit
from vergence.diagnostics.trials import K

PENALTY = 1e-2  # of the ridge, in units of the strongest direction
SHIFTS = 20  # rows that labels or views are looked for in either direction
DRAWS, BEYOND = 100, 4.5  # permutations that a shift is compared with, and by how many of their deviations it must win


@dataclass(frozen=True)
class Shifted:
    """Rows on trial for a shift of their labels: neighbors by cosine and the basis of a ridge, made once."""

    nearest: Tensor
    basis: tuple[Tensor, Tensor]
    labels: Tensor

    def moved(self, shift: int, place: float = 0.0) -> Tensor:
        """Labels if, from a place of the file on, row i has the label ``shift`` rows later."""
        start = int(place * len(self.labels))
        return torch.cat([self.labels[:start], self.labels[start:].roll(-shift)])

    def beyond_luck(self, shift: int, place: float = 0.0) -> bool:
        """Whether moved labels fit better than permuted ones: the normal law knows nothing of rows that vote alike.

        From the place on labels are permuted; before it they stay where they are, as they do when moved.
        """
        generator = torch.Generator().manual_seed(0)
        start, moved = int(place * len(self.labels)), self.moved(shift, place)
        drawn = []
        for _ in range(DRAWS):
            order = torch.randperm(len(moved) - start, generator=generator)
            drawn.append(self._fit(torch.cat([moved[:start], moved[start:][order]])))
        luck = torch.tensor(drawn, dtype=torch.float64)
        return self._fit(moved) - float(luck.mean()) > BEYOND * float(luck.std())

    def _fit(self, labels: Tensor) -> float:
        return float((self.votes(labels) + self.fitted(labels)).mean())

    def right(self, labels: Tensor) -> Tensor:
        """Which rows their neighbors classify correctly."""
        return trials.voted(self.nearest, labels, K) == labels

    def votes(self, labels: Tensor) -> Tensor:
        """The share of a row's neighbors that have its label: less noisy than whether most have it."""
        return (labels[self.nearest] == labels[:, None]).double().mean(dim=1)

    def fitted(self, labels: Tensor) -> Tensor:
        """What a leave-one-out ridge with one penalty gives a row's own label."""
        u, values = self.basis
        shrink = values**2 / (values**2 + PENALTY * values.max() ** 2)
        leverage = (u.square() * shrink).sum(dim=1) + 1 / len(labels)
        targets = torch.nn.functional.one_hot(labels, int(self.labels.max()) + 1).double()
        targets = targets - targets.mean(dim=0)
        fit = ((u * shrink) * (u.T @ targets).T[labels]).sum(dim=1)
        own = targets.gather(1, labels[:, None]).squeeze(1)
        return (fit - leverage * own) / (1 - leverage).clamp(min=1e-6)


def shifted(rows: Tensor, labels: Tensor) -> Shifted:
    """The trial of consecutive rows, with labels 0 ... K - 1."""
    clipped = trials.clipped(rows)
    nearest = trials.cosine(trials.centered(clipped)).topk(min(2 * K, len(rows) - 1), dim=1).indices
    return Shifted(nearest, _basis(clipped), labels)


def _basis(rows: Tensor, columns: int = 100) -> tuple[Tensor, Tensor]:
    """Left singular vectors and values of the centered directions of the rows, the strongest hundred."""
    middle = trials.centered(unit(trials.centered(trials.clipped(rows))))
    u, values, _ = trials.strongest(middle, max(1, min(columns, len(rows) // 5, rows.shape[1])))
    kept = values > 1e-5 * values[0]
    return (u[:, kept], values[kept]) if bool(kept.any()) else (u[:, :1], values[:1] + 1.0)
