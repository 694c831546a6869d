"""Second views on trial: is row i of both the same sample, or do rows match at another distance, or not at all?"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import estimate, trials
from vergence.diagnostics.arrays import Array, rows_at, shape, unit
from vergence.diagnostics.estimate import Estimate

WINDOW = 1500  # consecutive rows that are compared, so that a shift can be seen
CLOSE = 0.7  # mean chance of winning a comparison at the shift where the partner is
SHIFTS = 50  # rows that the partner is looked for in either direction


@dataclass(frozen=True)
class Matched:
    """``own`` is the chance that a sample's own other view is closer than another's: 0.5 by luck, 1 at best.

    ``best`` is the shift at which rows match better than at 0 (0 where none does), ``gain`` by how much; ``lost`` the
    share of rows whose partner seems to be elsewhere; ``retrieved`` the share whose nearest second view is their own.
    """

    own: Estimate
    best: int
    gain: Estimate
    lost: Estimate
    close: float
    retrieved: Estimate
    retrieved_at_best: Estimate
    mapped: bool = False
    part: tuple[float, float] = (0.0, 1.0)  # where in the window the better shift holds
    # of partners far and halfway down: 1 where they are drawn at random, less where views are weak
    evenness: float = 0.0
    identical: bool = False


def matched(z1: Array, z2: Array, seed: int = 0, compared: bool = True) -> Matched:
    """How views match as they stand, and shifted; through a linear map where the spaces are not the same."""
    first, second = _windows(z1, z2, seed)
    if first.shape[1] == second.shape[1]:
        found = replace(_matched(first, second), identical=torch.equal(first, second))
        if found.own.value > 0.6 or found.best or not compared:
            return found
    through = _through_a_map(first, second)
    if first.shape[1] != second.shape[1] or through.own.low > 0.55 or through.best:
        return through
    return found


def matching(first: Tensor, second: Tensor) -> Estimate:
    """The chance that a sample's own other view is closer than another's: 0.5 when pairs are shuffled, 1 at best."""
    scores = unit(first).float() @ unit(second).float().T
    own = scores.diagonal()[:, None]
    farther = (scores < own).sum(dim=1) + ((scores == own).sum(dim=1) - 1) / 2
    return estimate.mean((farther / max(1, len(scores) - 1)).double().cpu().numpy())


def _windows(z1: Array, z2: Array, seed: int) -> tuple[Tensor, Tensor]:
    n, _ = shape(z1, "z1")
    start = int(np.random.default_rng(seed).integers(0, max(1, n - WINDOW + 1)))
    index = np.arange(start, min(n, start + WINDOW))
    return tuple(trials.centered(unit(rows_at(z, index).double().cpu())) for z in (z1, z2))  # type: ignore[return-value]


def _percentiles(first: Tensor, second: Tensor) -> Tensor:
    """For row i and partner j the share of other partners that are farther; ties count half."""
    scores = unit(first).float() @ unit(second).float().T
    n = len(scores)
    ordered, places = scores.sort(dim=1)
    # Ranks of equal scores are averaged: the first and the last of a run of them.
    rank, edge = torch.arange(n, device=scores.device).expand_as(places), ordered[:, 1:] != ordered[:, :-1]
    ends = torch.ones(n, 1, dtype=torch.bool, device=scores.device)
    below = torch.where(torch.cat([ends, edge], 1), rank, 0).cummax(dim=1).values
    upto = torch.where(torch.cat([edge, ends], 1), rank, n).flip(1).cummin(dim=1).values.flip(1)
    shares = ((below + upto) / 2) / max(1, n - 1)
    return torch.empty_like(shares).scatter_(1, places, shares)


def _matched(first: Tensor, second: Tensor, *, mapped: bool = False) -> Matched:
    percentile = _percentiles(first, second)
    own = percentile.diagonal()
    n = len(own)
    shift, gain, part = _best_shift(percentile)
    low, middle = (own < 0.2).double().mean() / 0.2, ((own >= 0.5) & (own < 0.7)).double().mean() / 0.2
    nearest = 1 - 0.5 / max(1, n - 1)
    return Matched(
        own=estimate.mean(own.double().numpy()),
        best=shift,
        gain=gain,
        lost=estimate.share(min(1.0, float(low)), n=n),
        close=float((own > 0.95).double().mean()),
        retrieved=trials.accuracy(own >= nearest),
        retrieved_at_best=trials.accuracy(_diagonal(percentile, shift) >= nearest),
        mapped=mapped,
        part=part,
        evenness=float(low / middle.clamp(min=1e-9)),
    )


def _diagonal(percentile: Tensor, shift: int) -> Tensor:
    """How row i matches the partner ``shift`` rows later, the ends of the window joined."""
    index = torch.arange(len(percentile))
    return percentile[index, (index + shift) % len(percentile)]


def _best_shift(percentile: Tensor) -> tuple[int, Estimate, tuple[float, float]]:
    """The shift that beats 0 by the most standard errors, over the whole window and from each quarter of it on."""
    n = len(percentile)
    own = percentile.diagonal()
    nothing = trials.Estimate(0.0, 0.0, 0.0, n, "paired difference over rows")
    best = (4.5, 0, nothing, (0.0, 1.0))  # of 100 shifts and 4 parts chance reaches four standard errors
    reach = min(SHIFTS, n // 4)
    for shift in [s for s in range(-reach, reach + 1) if s]:
        moved = _diagonal(percentile, shift)
        change = moved - own
        for start, stop in ((0.0, 1.0), (0.25, 1.0), (0.5, 1.0), (0.75, 1.0)):
            part = change[int(start * n) : int(stop * n)].double()
            error = float(part.std(correction=min(1, len(part) - 1))) / max(1, len(part)) ** 0.5 + 1e-6
            ratio = float(part.mean()) / error
            # Rows that match nothing agree by classes here and there: a partner is found where most rows are close.
            close = float(moved[int(start * n) : int(stop * n)].mean()) > CLOSE
            if ratio > best[0] and float(part.mean()) > 0.01 and close:
                value = float(part.mean())
                found = trials.Estimate(
                    value, value - 1.96 * error, value + 1.96 * error, len(part), "paired difference over rows"
                )
                best = (ratio, shift, found, (start, stop))
    return best[1], best[2], best[3]


def _through_a_map(first: Tensor, second: Tensor) -> Matched:
    """Views of two encoders: a ridge map learned on half of the rows, judged on the others, at a few shifts."""
    found = {
        shift: _matched(*_mapped(first, second.roll(-shift, 0)), mapped=True) for shift in (0, 1, -1, 2, -2, 3, -3)
    }
    best = max(found, key=lambda shift: found[shift].own.value)
    plain = found[0]
    if best and found[best].own.low > plain.own.high:
        value = found[best].own.value - plain.own.value
        gain = trials.Estimate(value, found[best].own.low - plain.own.high, value, len(first), "difference of matches")
        return Matched(
            plain.own, best, gain, plain.lost, plain.close, plain.retrieved, found[best].retrieved, True, plain.part
        )
    return Matched(
        plain.own, 0, plain.gain, plain.lost, plain.close, plain.retrieved, plain.retrieved, True, plain.part
    )


def _mapped(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Half of the rows, the first side carried into the second's space by a linear map learned on the other half.

    Encoders that share no weights need share no directions either: a critic may stand between them.
    """
    learned, judged = slice(0, None, 2), slice(1, None, 2)
    x, y = (rows - rows[learned].mean(dim=0) for rows in (first, second))
    known = x[learned]
    # As much penalty as a tenth of a direction of mean strength: half the rows may be fewer than the columns.
    penalty = 0.1 * known.square().sum() / known.shape[1] + 1e-12
    # (X'X + p)^-1 X' = X' (XX' + p)^-1: whichever of rows and columns are fewer.
    if len(known) < known.shape[1]:
        products = known @ known.T
        products.diagonal().add_(penalty)
        return x[judged] @ known.T @ torch.linalg.solve(products, y[learned]), y[judged]
    moments = known.T @ known
    moments.diagonal().add_(penalty)
    return x[judged] @ torch.linalg.solve(moments, known.T @ y[learned]), y[judged]
