"""Columns in other units than the rest: they alone decide who is near. Standardizing is tried on these rows."""

import math

import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.faults.lengths import UNEXPLAINED
from vergence.diagnostics.faults.rows import gained
from vergence.diagnostics.findings import Finding, fault
from vergence.diagnostics.trials import Bench, Tried

OUTLYING_COLUMN, COLUMN_SPREADS = 5.0, 4.0  # a column's deviation over the median column's, and in robust spreads
OWNED, OWNED_SPREADS = 0.97, 2.5  # fewer spreads will do where the outlying columns own so much of the variance
GAP = 3.0  # least deviation of columns that stand out over the largest of the others, from which they are plain


@fault("rows", order=105)
def column_scales(
    body: Bench, scaled_columns: Tensor | None = None, owning_columns: Tensor | None = None
) -> Finding | None:
    """Some columns in other units than the rest: they alone decide who is near.

    Columns that a gap parts from all others need less evidence that the remedy pays than those that only stand out;
    where all columns differ much, those that own most of the variance need most.
    """
    columns = owning_columns if scaled_columns is None else scaled_columns
    if columns is None or (scaled_columns is None and body.labels is None):
        return None
    spread = body.rows.std(dim=0)
    measure, found = ("", None) if body.labels is None else _standardizing(body, columns)
    serious = found is not None and _serious(found, scaled_columns is not None, _gap(spread, columns))
    serious = serious and not _principal(body.rows, columns)
    if not serious and scaled_columns is None:
        return None
    level, gain = "fault" if serious else "note", None if found is None else found.gain
    times = float(spread[columns].max() / spread[spread > 0].median())
    sentence = f"{len(columns)} of {len(spread)} columns vary up to {times:.0f} times as much as the median one"
    advice = "Standardize the columns."
    return Finding(
        "column scales", "rows", f"{sentence}{gained(gain, 'standardizing', measure)}.", "spectrum", advice, level,
        gain, "standardize the columns", gain,
    )  # fmt: skip


def _serious(found: Tried, outlying: bool, gap: float) -> bool:
    if not outlying:
        return found.pays(errors=trials.SURE, certain=trials.CERTAIN)
    return found.pays(errors=trials.PLAIN if gap > GAP else trials.SURE)


def scaled_columns(body: Bench, unexplained_lengths: float) -> Tensor | None:
    """Columns whose deviation stands out from the others' by a factor and by robust spreads; None where none does.

    Rows of a cone that were multiplied by numbers of their own vary most where the cone points: then lengths are the
    cause, and no column stands out once rows are divided by them.
    """
    found = _standing_out(body.rows.std(dim=0))
    by_lengths = found is not None and unexplained_lengths > UNEXPLAINED
    return None if by_lengths and _standing_out(trials.unit(body.rows).std(dim=0)) is None else found


def _standing_out(spread: Tensor) -> Tensor | None:
    live = spread > 1e-9 * spread.max()
    if int(live.sum()) < 3:
        return None
    logs = spread.clamp(min=1e-300).log()
    middle = logs[live].median()
    unit = max(0.15, 1.4826 * float((logs[live] - middle).abs().median()))
    variance = spread.square()
    for spreads, owned in ((COLUMN_SPREADS, 0.0), (OWNED_SPREADS, OWNED)):
        found = (live & (logs - middle > max(math.log(OUTLYING_COLUMN), spreads * unit))).nonzero().squeeze(1)
        if 0 < len(found) <= 0.34 * int(live.sum()) and float(variance[found].sum()) > owned * float(variance.sum()):
            return found
    return None


def owning_columns(body: Bench, unexplained_lengths: float) -> Tensor | None:
    """A third of the columns at most that vary five times as much as the median one and own half of the variance."""
    found = _owning(body.rows.std(dim=0))
    by_lengths = found is not None and unexplained_lengths > UNEXPLAINED
    return None if by_lengths and _owning(trials.unit(body.rows).std(dim=0)) is None else found


def _owning(spread: Tensor) -> Tensor | None:
    live = spread > 1e-9 * spread.max()
    if int(live.sum()) < 3:
        return None
    found = (live & (spread > OUTLYING_COLUMN * spread[live].median())).nonzero().squeeze(1)
    owned = float(spread[found].square().sum() / spread.square().sum())
    return found if 0 < len(found) <= 0.34 * int(live.sum()) and owned > 0.5 else None


def _principal(rows: Tensor, columns: Tensor) -> bool:
    """Whether columns fall in variance from the first to the last and are uncorrelated: unequal by design.

    Then those that stand out are the first. Of a part of the rows that components were fitted to, order and
    correlations hold nearly: the rank correlation of place and variance was below -.99 there, and above -.93 with three
    of 64 columns in other units.
    """
    spread = rows.std(dim=0)
    n, d = rows.shape
    if d < 4 or not bool((spread > 0).all()) or int(columns.max()) >= len(columns):
        return False
    ranks = spread.argsort(descending=True).argsort().double()
    gaps = float((ranks - torch.arange(d, dtype=torch.float64)).square().sum())
    correlations = (trials.standardized(rows).T @ trials.standardized(rows) / (n - 1)).abs()
    mean = float((correlations.sum() - correlations.trace()) / (d * (d - 1)))
    return 1 - 6 * gaps / (d * (d**2 - 1)) > 0.97 and mean < 2 / math.sqrt(n)


def _gap(spread: Tensor, columns: Tensor) -> float:
    """The least deviation of some columns over the largest of all others."""
    others = torch.ones_like(spread, dtype=torch.bool).index_fill_(0, columns, False)
    return float(spread[columns].min() / spread[others].max().clamp(min=1e-300)) if bool(others.any()) else 0.0


def _standardizing(body: Bench, columns: Tensor) -> tuple[str, Tried]:
    """How neighbors are sought, and what standardizing then gives, of all columns or of those that stand out."""
    before = trials.votes(trials.cosine(trials.centered(body.rows)), body.labels)
    far_before = trials.votes(trials.euclidean(body.rows), body.labels)
    spread = body.rows.std(dim=0)
    factor = torch.ones_like(spread)
    factor[columns] = spread[spread > 0].median() / spread[columns]
    changes, measures = [], []
    for rows in (trials.standardized(body.rows), trials.centered(body.rows) * factor):
        after = trials.votes(trials.cosine(rows), body.labels)
        far = trials.votes(trials.euclidean(rows), body.labels)
        changes += [(after, before), (after, body.votes), (far, far_before)]
        measures += ["cosine of centered rows", "cosine", "distance"]
    chosen, found = trials.cross_fitted(changes)
    return measures[chosen], found
