"""What can be wrong with the scales of rows: lengths, a constant, one strong direction, columns in other units.

Each is a signature and a remedy that is tried on these rows; only where the remedy gives back accuracy is it a fault.
"""

import math

import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.faults.rows import lost
from vergence.diagnostics.findings import Finding, fault
from vergence.diagnostics.trials import Bench, best_difference, costly, difference

UNEVEN = 0.45  # spread of log-lengths: .43 at most in clean sets where it costs, .7 in the weakest injected
HEAVY = 1.0  # spread of log-lengths from which 1.5 standard errors will do: one row in six is e times longer
# Spread of a row's log-length around its neighbors' by direction: .43 at most in clean sets, whose lengths say
# something of the content; .67 at least where rows were multiplied by log-normal numbers. Beyond, one error will do.
UNEXPLAINED = 0.55
CONE = 0.5  # mean cosine above which centering is tried
OFFSET = 0.9  # mean cosine above which a constant offset is noted even where it costs nothing
DOMINANT = 0.35  # share of the variance in one direction above which its removal is tried
OUTLYING_COLUMN, COLUMN_SPREADS = 5.0, 4.0  # a column's deviation over the median column's, and in robust spreads
OWNED, OWNED_SPREADS = 0.97, 2.5  # fewer spreads will do where the outlying columns own so much of the variance
GAP = 3.0  # least deviation of columns that stand out over the largest of the others, from which they are plain
PLAIN = 0.6  # share of the variance in one direction from which two standard errors of a gain will do


@fault("rows", order=90)
def heavy_tailed_lengths(
    body: Bench, unexplained_lengths: float, top_share: float, without_top: tuple[int, Estimate] | None = None,
    scaled_columns: Tensor | None = None,
) -> Finding | None:  # fmt: skip
    """Lengths that differ by orders of magnitude: distances and products then rank by length, cosines do not.

    Lengths that follow from the content are shared by rows of like directions; those that do not are the plain case. A
    dominant direction stretches rows too, and so does a column in other units; where one is found, lengths are asked of
    what is left without it (``scaled_columns`` are none where dividing by the lengths puts them right).
    """
    spread = log_spread(body.lengths[body.lengths > 0])
    if spread < UNEVEN or body.labels is None:
        return None
    if scaled_columns is not None and log_spread(trials.lengths(trials.standardized(body.rows))) < UNEVEN:
        return None
    plain = unexplained_lengths > UNEXPLAINED
    if not plain and without_top is not None and plainly(top_share, without_top[1]):
        rest = trials.lengths(trials.without_top(body.rows, without_top[0]))
        if log_spread(rest[rest > 0]) < UNEVEN:
            return None
    by_distance = trials.correct(trials.euclidean(body.rows), body.labels)
    centered = trials.correct(trials.cosine(trials.centered(trials.unit(body.rows))), body.labels)
    cost = best_difference([(after, by_distance) for after in (body.correct, centered)])
    longest = float(torch.quantile(body.lengths, 0.99) / body.lengths.median())
    sentence = f"One row in a hundred is {longest:.1f} times as long as the median row{lost(cost, 'by distance')}."
    advice = "Divide rows by their length, or clip it, before centering, distances or products. Do not only center."
    level = "fault" if costly(cost, certain=1.0 if plain else 1.5 if spread > HEAVY else trials.CERTAIN) else "note"
    return Finding(
        "heavy-tailed lengths", "rows", sentence, "norms", advice, level, cost, "divide by the lengths", cost
    )


@fault("rows", order=110)
def constant_offset(body: Bench, centered: Estimate | None = None) -> Finding | None:
    """One vector added to every row. Cosines are then near 1, which is not collapse: rows differ as before."""
    mean_cosine = float(body.unit.double().mean(dim=0).square().sum())
    if mean_cosine < CONE:
        return None
    serious = centered is not None and costly(centered)
    if not serious and mean_cosine < OFFSET:
        return None
    sentence = f"Rows share a constant: their mean cosine is {mean_cosine:.3f}{_gained(centered, 'centering')}."
    advice = "Subtract the mean row before cosines are compared or thresholded."
    level = "fault" if serious else "note"
    return Finding("constant offset", "rows", sentence, "uniformity", advice, level, centered, "center", centered)


@fault("rows", order=100)
def dominant_direction(
    body: Bench, top_share: float, unexplained_lengths: float, without_top: tuple[int, Estimate] | None = None,
    scaled_columns: Tensor | None = None,
) -> Finding | None:  # fmt: skip
    """One direction, or up to three, holds most of the variance and none of what tells classes apart.

    Heavy-tailed lengths make a direction of the mean, which is gone once rows are divided by their lengths.
    """
    if without_top is None or scaled_columns is not None:
        return None
    if unexplained_lengths > UNEXPLAINED and _top_share(trials.unit(body.rows)) < DOMINANT:
        return None
    count, gain = without_top
    if not plainly(top_share, gain):
        return None
    which = "direction" if count == 1 else "three directions"
    sentence = f"The strongest direction holds {100 * top_share:.0f} % of the variance{_gained(gain, 'removal')}."
    advice = f"Remove the top {which} after centering; centering alone does not help."
    return Finding(
        "dominant direction", "rows", sentence, "spectrum", advice, "fault", gain, f"remove the top {which}", gain
    )


@fault("rows", order=105)
def column_scales(
    body: Bench, scaled_columns: Tensor | None = None, owning_columns: Tensor | None = None
) -> Finding | None:
    """Some columns in other units than the rest: they alone decide who is near.

    Columns that a gap parts from all others need 1.5 standard errors of what the remedy gives, those that only
    stand out two; where all columns differ much, those that own most of the variance need three.
    """
    columns = owning_columns if scaled_columns is None else scaled_columns
    if columns is None or (scaled_columns is None and body.labels is None):
        return None
    spread = body.rows.std(dim=0)
    gain = None if body.labels is None else _standardizing(body, columns)
    certain = trials.CERTAIN if scaled_columns is None else 1.5 if _gap(spread, columns) > GAP else 2.0
    serious = gain is not None and costly(gain, certain=certain) and not _principal(body.rows)
    if not serious and scaled_columns is None:
        return None
    level = "fault" if serious else "note"
    times = float(spread[columns].max() / spread[spread > 0].median())
    sentence = f"{len(columns)} of {len(spread)} columns vary up to {times:.0f} times as much as the median one"
    advice = "Standardize the columns."
    return Finding(
        "column scales", "rows", f"{sentence}{_gained(gain, 'standardizing')}.", "spectrum", advice, level, gain,
        "standardize the columns", gain,
    )  # fmt: skip


def centered(body: Bench) -> Estimate | None:
    """What centering gives, where rows lie in a cone."""
    if body.labels is None or float(body.unit.double().mean(dim=0).square().sum()) < CONE:
        return None
    after = trials.correct(trials.cosine(trials.centered(trials.clipped(body.rows))), body.labels)
    return difference(after, body.correct)


def variances(body: Bench) -> Tensor:
    """Variances along the principal directions of the clipped rows, largest first."""
    return _variances(trials.clipped(body.rows))


def _variances(rows: Tensor) -> Tensor:
    middle = trials.centered(rows)
    n, d = middle.shape
    gram = middle.T @ middle if d <= n else middle @ middle.T
    return torch.linalg.eigvalsh(gram).clamp(min=0).flip(0) / n


def _top_share(rows: Tensor) -> float:
    return top_share(_variances(rows))


def top_share(variances: Tensor) -> float:
    return float(variances[0] / variances.sum()) if float(variances.sum()) else 1.0


def without_top(body: Bench, top_share: float) -> tuple[int, Estimate] | None:
    """What removing one or three directions gives beyond centering, by cosine or by distance, whichever is more.

    Tried where one direction dominates.
    """
    if body.labels is None or top_share < DOMINANT or min(body.rows.shape) < 3:
        return None
    rows = trials.clipped(body.rows)
    found: dict[int, list[tuple[Tensor, Tensor]]] = {1: [], 3: []}
    for scores in (trials.cosine, trials.euclidean):
        before = trials.correct(scores(trials.centered(rows)), body.labels)
        for count in (1, 3) if body.rows.shape[1] > 6 else (1,):
            found[count].append((trials.correct(scores(trials.without_top(rows, count)), body.labels), before))
    gains = {count: best_difference(changes) for count, changes in found.items() if changes}
    best = max(gains, key=lambda count: gains[count].value)
    return (1, gains[1]) if gains[best].value < gains[1].value + 0.01 else (best, gains[best])


def plainly(top_share: float, gain: Estimate) -> bool:
    """Whether removing the top directions pays; where one holds most of the variance, two standard errors will do."""
    return costly(gain, certain=2.0 if top_share > PLAIN else trials.CERTAIN)


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


def unexplained_lengths(body: Bench) -> float:
    """The spread of a row's log-length around the median of its ten neighbors' by direction."""
    logs = body.lengths.clamp(min=1e-300).log()
    rest = logs - logs[body.nearest[1][:, : trials.K]].median(dim=1).values
    return log_spread(rest.exp())


def log_spread(lengths: Tensor) -> float:
    """Half the distance between the 16th and the 84th percentile of log-lengths: the sigma of a log-normal law."""
    if len(lengths) < 10:
        return 0.0
    low, high = torch.quantile(lengths.log(), torch.tensor([0.16, 0.84], dtype=lengths.dtype))
    return float(high - low) / 2


def _principal(rows: Tensor) -> bool:
    """Whether columns fall in variance from the first to the last and are uncorrelated: unequal by design.

    Of a part of the rows that components were fitted to, order and correlations hold nearly: the rank correlation of
    place and variance was below -.99 there, and above -.93 with three of 64 columns in other units.
    """
    spread = rows.std(dim=0)
    n, d = rows.shape
    if d < 4 or not bool((spread > 0).all()):
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


def _standardizing(body: Bench, columns: Tensor) -> Estimate:
    """What standardizing gives, of all columns or of those that stand out, by cosine, centered cosine or distance."""
    before = trials.correct(trials.cosine(trials.centered(body.rows)), body.labels)
    far_before = trials.correct(trials.euclidean(body.rows), body.labels)
    spread = body.rows.std(dim=0)
    factor = torch.ones_like(spread)
    factor[columns] = spread[spread > 0].median() / spread[columns]
    changes = []
    for rows in (trials.standardized(body.rows), trials.centered(body.rows) * factor):
        after = trials.correct(trials.cosine(rows), body.labels)
        far = trials.correct(trials.euclidean(rows), body.labels)
        changes += [(after, before), (after, body.correct), (far, far_before)]
    return best_difference(changes)


def _gained(gain: Estimate | None, what: str) -> str:
    return "" if gain is None else f"; {what} changes neighbors' accuracy by {gain.value:+.3f}"
