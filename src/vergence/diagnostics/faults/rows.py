"""What can be wrong with rows, whoever made them. Each detector has a signature and, where labels are, a cost.

A signature alone is a note: rectified features have a mean, principal components have unequal columns. A fault is a
signature whose remedy, tried on these rows, gives back accuracy beyond luck; or one that is a fact (copies, zeros).
Thresholds lie between the clean and the spoiled sets of ``benchmarks/foreign``, development half.
"""

import math

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.copies import Copies
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.findings import Finding, fault
from vergence.diagnostics.grouping import SEVERED, Grouping
from vergence.diagnostics.trials import Bench, costly, difference

FEW_ROWS = 30  # below, intervals span half of what they measure
FAR, FAR_SPREADS = 5.0, 6.0  # an outlier is so many median distances, and so many spreads of log-distance, away
ABSURD = 20.0  # median distances: beyond, a row is a fault even where it costs nothing
REPEATED = 0.05  # share of rows that repeat another, above which it is a fault without labels
PLENTY = 0.1  # share of copies that is a fault of measured rows even where accuracy does not show it
SILENT = 0.45  # share of constant columns that is a fault of a dense embedding
COARSE, WIDE = 4, 16  # levels and columns: an embedding, not a table of codes, stored so coarsely is a fault
GAP = 3.0  # between an outlier's distance and the next, beside that of spreads
CODED = 0.2  # share of copies from which groups of rows may be points
GRID = 1 / 3  # distinct values over values of a column, below which the column is quantized
EXACTLY = 1e-3  # steadiness of blocks that were normalized to the digit: three blocks show it
EXTREME = 1e12  # lengths beyond, or below its inverse, leave float32's room for squares


@fault("rows", order=10)
def too_few_rows(n: int) -> Finding | None:
    """Fewer rows than anything can be told from."""
    if n >= FEW_ROWS:
        return None
    sentence = f"{n} rows are too few to tell anything but exact copies, zeros and constants; at least {FEW_ROWS} are."
    return Finding("too few rows", "rows", sentence, "n", "Give more rows.", level="unknown")


@fault("rows", order=20)
def empty_rows(bench: Bench, zeros: int, n: int) -> Finding | None:
    """Rows of zeros: failed extractions, or samples that nothing was written for."""
    if not zeros:
        return None
    kept = bench.lengths > 0
    cost = _without(bench, kept) if bool(kept.any()) else None
    serious = zeros >= 0.01 * n or n < 100
    sentence = f"{zeros:,} of {n:,} rows are all zeros{lost(cost)}."
    advice = "Leave them out, and find out why nothing was written for these samples."
    level = "fault" if serious else "note"
    return Finding("empty rows", "rows", sentence, "norms", advice, level, cost, "leave them out", cost)


@fault("rows", order=30)
def outliers(bench: Bench, outlying: Tensor) -> Finding | None:
    """A few rows many times farther from the middle than all others: they own every mean, variance and distance."""
    if not bool(outlying.any()):
        return None
    distance = trials.lengths(bench.rows - bench.rows.median(dim=0).values)
    times = float(distance[outlying].max() / distance[~outlying].median())
    cost = None
    if bench.labels is not None:
        kept = ~outlying
        before = trials.correct(trials.cosine(trials.centered(bench.rows)), bench.labels)[kept]
        inner = bench.of(kept)
        cost = difference(trials.correct(trials.cosine(trials.centered(inner.rows)), inner.labels), before)
    which = ", ".join(str(index) for index in bench.index[outlying.numpy()][:5])
    sentence = f"{int(outlying.sum())} of {bench.n} rows are up to {times:.2g} times as far from the middle as others"
    sentence = f"{sentence} (rows {which}){lost(cost, 'once rows are centered')}."
    level = "fault" if times > ABSURD or (cost and costly(cost)) or float(outlying.double().mean()) > 0.02 else "note"
    advice = "Leave these rows out, or shorten them to three times the median length."
    return Finding("outliers", "rows", sentence, "norms", advice, level, cost, "leave them out", cost)


@fault("rows", order=60)
def duplicates(
    copies: Copies, n: int, variances: Tensor, on_a_grid: Tensor | None = None, trained: bool = False
) -> Finding | None:
    """Rows that repeat others, exactly or nearly: a copy is its twin's nearest neighbor and lends it its label.

    In training with negatives copies repel each other, whatever their labels. Rows of few values in few directions
    (codes, counts, a table) coincide by chance, which is no fault.
    """
    share = max(copies.exact / n, copies.share.value)
    if share < 0.01 and not copies.exact:
        return None
    inflation = copies.inflation
    # Who is whose copy is a fact, not an estimate: the inflation needs no significance.
    costs = inflation is not None and inflation.value >= 0.015
    lucky = on_a_grid is not None and _nats(variances, on_a_grid) < 2 * math.log(n) + 5
    many = copies.share.low > REPEATED and not lucky
    plenty = max(copies.exact / n, copies.share.low) >= PLENTY and not lucky
    serious = costs or plenty or (many and (trained or inflation is None))
    if not serious and share < 0.01:
        return None
    kind = "exactly" if copies.exact >= 0.5 * share * n else "nearly"
    sentence = f"{100 * copies.superfluous:.0f} % of rows are superfluous, as they repeat another {kind} "
    sentence += f"({100 * share:.0f} % have a twin)"
    if inflation is not None and copies.accuracy is not None:
        sentence += (
            f": neighbors are right in {copies.accuracy.value:.3f} of rows with the copies' help and in "
            f"{copies.accuracy.value - inflation.value:.3f} without it"
        )
    else:
        sentence += ": the first answer to a search is then the row itself again"
    advice = "Remove copies before rows are split into training and test, and before accuracies are believed."
    level = "fault" if serious else "note"
    return Finding("duplicates", "rows", f"{sentence}.", "duplicates", advice, level, inflation, "deduplicate", None)


@fault("rows", order=70)
def quantization(body: Bench, on_a_grid: Tensor, seed: int = 0) -> Finding | None:
    """Few distinct values in most columns. What rounding cost is estimated by rounding's own error, added once more."""
    columns = len(on_a_grid)
    levels = int(on_a_grid.double().median())
    if body.labels is None:
        cost, level = None, "note"
    else:
        generator = torch.Generator().manual_seed(seed)
        again = [trials.votes(trials.cosine(_dithered(body.rows, generator)), body.labels) for _ in range(2)]
        cost = _negated(trials.mean_difference([votes.right for votes in again], body.correct))
        errors = trials.standard_score(body.votes.own - (again[0].own + again[1].own) / 2)
        costs = errors > trials.SURE and costly(cost, least=0.01, certain=0.0)
        coarse = levels <= COARSE and body.rows.shape[1] >= WIDE
        level = "fault" if (costs or coarse) and not _counts(body.rows) else "note"
    sentence = f"The {columns} columns hold about {levels} distinct values each"
    if cost is not None:
        sentence += f"; as much rounding again would cost {max(0.0, cost.value):.3f} of accuracy"
    advice = "Store rows with more bits, or compare them by a distance that was made for codes."
    return Finding("quantization", "rows", f"{sentence}.", "grid", advice, level, cost, None, None)


@fault("rows", order=80)
def dead_columns(bench: Bench, dead: int, seed: int = 0) -> Finding | None:
    """Columns without variance. What they cost is estimated by silencing as large a share of the others."""
    d = bench.rows.shape[1]
    if not dead:
        return None
    cost, level = None, "note"
    if bench.labels is not None and dead >= 0.1 * d and d - dead > 1:
        cost = _negated(_silenced(bench, dead / d, seed=seed))
        level = "fault" if costly(cost, least=0.01) else "note"
    level = "fault" if dead >= SILENT * d and not _counts(bench.rows) else level
    sentence = f"{dead} of {d} columns are constant"
    if cost is not None:
        sentence += f"; silencing as large a share of the others would cost {max(0.0, cost.value):.3f} of accuracy"
    return Finding(
        "dead columns", "rows", f"{sentence}.", "spectrum", "Find out what these columns were to hold.", level, cost
    )


@fault("rows", order=50)
def mixture(body: Bench, grouped: Grouping, exact: int, n: int) -> Finding | None:
    """Two groups of rows that know nothing of each other's classes, which are the same: two models, or two sources.

    Where many rows are copies, as codes are, every point is a group of its own.
    """
    if exact > CODED * n:
        return None
    sentence = (
        f"Rows fall into two groups ({100 * grouped.part:.0f} % and {100 - 100 * grouped.part:.0f} %) that have "
        f"{100 * grouped.crossing:.0f} % as many neighbors in each other as chance would give"
    )
    if body.labels is None:
        sentence += ": clusters of the data, or two models; rows alone cannot tell which."
        return Finding("mixture", "rows", sentence, "groups", "Compare the two groups' origin.", "unknown")
    sentence += (
        f", and the same classes are in both: sought in a row's own group, neighbors tell its class in "
        f"{grouped.within:.3f}, sought in the other in {grouped.across:.3f}."
    )
    advice = "Check that all rows come from one model and one preprocessing; embed the smaller group again."
    mends = grouped.crossing < SEVERED and grouped.gain is not None and costly(grouped.gain)
    level = "fault" if grouped.strange or mends else "note"
    if level == "note":  # what a search across two sources loses is no cost of this file, which neighbors do not cross
        advice = "One model does this where data come from two sources: nothing need be changed."
        return Finding("mixture", "rows", sentence, "groups", advice, level)
    return Finding(
        "mixture", "rows", sentence, "groups", advice, level, grouped.cost, "center each group", grouped.gain
    )


@fault("rows", order=40)
def batch_statistics_leak(
    steadiness: Estimate, block: int, steady_z1: tuple[Estimate, int] | None = None, trained: bool = False
) -> Finding | None:
    """Means of consecutive blocks that agree too well: every block was normalized by itself.

    In a file from anywhere the interval must agree, or the means be equal to the digit; a training run has batches, and
    there the ratio is enough, of representations or of embeddings.
    """
    if trained and steady_z1 is not None and steady_z1[1] and steady_z1[0].value < steadiness.value:
        steadiness, block = steady_z1
    sure = trained or steadiness.high < 0.5 or steadiness.value < EXACTLY
    if not block or steadiness.value > 0.1 or not sure:
        return None
    times = 1 / max(steadiness.value, 1e-9) ** 0.5
    sentence = f"The means of every {block} consecutive rows agree {times:.0f} times better than luck."
    advice = "Rows were normalized in blocks: extract them again in evaluation mode (model.eval())."
    return Finding("batch statistics leak", "rows", sentence, "steadiness", advice)


@fault("rows", order=120)
def extreme_scale(bench: Bench) -> Finding | None:
    """Numbers whose squares leave float32's range."""
    if 1 / EXTREME < bench.scale < EXTREME:
        return None
    sentence = f"The median row has the length {bench.scale:.2g}: squares of such numbers leave the range of float32."
    return Finding("extreme scale", "rows", sentence, "norms", "Divide all rows by one constant.", "note")


@fault("rows", order=130)
def no_structure(body: Bench, labels: Tensor | None = None, seed: int = 0) -> Finding | None:
    """Neighbors as far as if every column had been shuffled by itself: independent noise, or nothing that shows."""
    if labels is not None or body.n < 100:
        return None
    generator = torch.Generator().manual_seed(seed)
    standard = trials.standardized(body.rows)
    shuffled = torch.stack([column[torch.randperm(body.n, generator=generator)] for column in standard.T], dim=1)
    own, other = (trials.euclidean(rows).amax(dim=1).neg().clamp(min=0).sqrt() for rows in (standard, shuffled))
    error = float(torch.sqrt(own.var() / len(own) + other.var() / len(other)))
    if float((other - own).mean()) > 3 * error:
        return None
    sentence = "A row's nearest neighbor is as far as if every column were shuffled by itself: these rows look like "
    sentence += "independent noise, and rows alone cannot tell whether they mean anything."
    return Finding("no structure", "rows", sentence, "neighbors", "Give labels or second views.", "unknown")


# What several detectors need, derived once.
def outlying(bench: Bench) -> Tensor:
    """Rows five median distances and six spreads of log-distance away from the median row."""
    distance = trials.lengths(bench.rows - bench.rows.median(dim=0).values)
    logs = distance.clamp(min=torch.finfo(distance.dtype).tiny).log()
    present = distance > 0
    if int(present.sum()) < 10:
        return torch.zeros(bench.n, dtype=torch.bool)
    low, middle, high = torch.quantile(logs[present], torch.tensor([0.16, 0.5, 0.84], dtype=logs.dtype))
    spread = float(high - low) / 2
    far = (logs - middle > math.log(FAR)) & (logs - middle > min(FAR_SPREADS * spread, _gap(logs, spread)))
    return far if float(far.double().mean()) < 0.2 else torch.zeros_like(far)


def _gap(logs: Tensor, spread: float) -> float:
    """How far above the median the first large gap in the upper fifth of log-distances ends; infinite without one."""
    ordered = logs.sort().values
    upper = ordered[int(0.8 * len(ordered)) :]
    gaps = upper[1:] - upper[:-1]
    wide = (gaps > max(math.log(GAP), 1.2 * spread)).nonzero()
    return math.inf if not len(wide) else float(upper[int(wide[0]) + 1] - ordered[len(ordered) // 2]) - 1e-9


def body(bench: Bench, outlying: Tensor) -> Bench:
    """The sample without outliers and empty rows."""
    kept = ~outlying & (bench.lengths > 0)
    return bench if bool(kept.all()) or int(kept.sum()) < 10 else bench.of(kept)


def on_a_grid(body: Bench) -> Tensor | None:
    """Distinct values of each live column, where most columns are quantized; the commonest value does not count."""
    live = body.rows[:, body.rows.std(dim=0) > 0]
    counts = []
    for column in live.T[torch.linspace(0, live.shape[1] - 1, min(live.shape[1], 64)).long()] if live.shape[1] else []:
        values, times = column.unique(return_counts=True)
        rest = len(column) - int(times.max())
        if rest >= 10:
            counts.append((len(values), (len(values) - 1) <= GRID * rest))
        else:
            counts.append((len(values), len(values) <= 2 and len(column) > 20))
    if not counts or sum(grid for _, grid in counts) < 0.8 * len(counts):
        return None
    return torch.tensor([count for count, _ in counts])


def dead(bench: Bench) -> int:
    """Columns without variance, outside outlying rows."""
    spread = (bench.rows - bench.rows.median(dim=0).values).abs().amax(dim=0)
    return int((spread <= 1e-7 * spread.median().clamp(min=1e-300) if float(spread.median()) else spread == 0).sum())


def _nats(variances: Tensor, levels: Tensor) -> float:
    """What a row of so many levels a column can tell, in nats: log levels times the effective number of directions."""
    shares = variances / variances.sum().clamp(min=1e-300)
    return float(torch.special.entr(shares).sum().exp()) * math.log(max(2.0, float(levels.double().median())))


def _without(bench: Bench, kept: Tensor) -> Estimate | None:
    """What leaving rows out adds to the accuracy, as a mean over all rows: those left out count as wrong before."""
    if bench.labels is None or bool(kept.all()) or int(kept.sum()) < 10:
        return None
    inner = bench.of(kept)
    before = float(bench.correct.double().mean())
    after = inner.correct.double()
    value, n = float(after.mean()) - before, bench.n
    error = math.sqrt((float(after.var()) + float(bench.correct.double().var())) / n) / math.sqrt(2)
    return Estimate(value, value - 1.96 * error, value + 1.96 * error, n, "difference of leave-one-out accuracies")


def _silenced(bench: Bench, part: float, *, seed: int) -> Estimate:
    generator = np.random.default_rng(seed)
    live = bench.rows[:, (bench.rows - bench.rows.median(dim=0).values).abs().amax(dim=0) > 0]
    keep = max(1, round((1 - part) * live.shape[1]))
    draws = [
        trials.correct(trials.cosine(live[:, generator.permutation(live.shape[1])[:keep]]), bench.labels)
        for _ in range(3)
    ]
    return trials.mean_difference(draws, bench.correct)


def _dithered(rows: Tensor, generator: torch.Generator) -> Tensor:
    """Each value replaced by a random one of its cell: between the midpoints to the values next to it."""
    spoiled = rows.clone()
    for index in range(rows.shape[1]):
        values, place = rows[:, index].unique(return_inverse=True)
        if len(values) < 2:
            continue
        middles = (values[1:] + values[:-1]) / 2
        low = torch.cat([2 * values[:1] - middles[:1], middles])
        high = torch.cat([middles, 2 * values[-1:] - middles[-1:]])
        chance = torch.rand(len(rows), generator=generator, dtype=rows.dtype)
        spoiled[:, index] = low[place] + chance * (high - low)[place]
    return spoiled


def _counts(rows: Tensor) -> bool:
    """Whether rows look like counts, pixels or one-hot codes: multiples of one step, nothing below zero."""
    if bool((rows < 0).any()):
        return False
    values = rows.unique()
    step = float(values[values > 0].min()) if bool((values > 0).any()) else 1.0
    return float((values / step - (values / step).round()).abs().max()) < 1e-3


def _negated(change: Estimate) -> Estimate:
    return Estimate(-change.value, -change.high, -change.low, change.n, change.method)


def lost(cost: Estimate | None, where: str = "") -> str:
    """What rows cost, in words; a cost below 0 is none."""
    if cost is None:
        return ""
    amount = f"{cost.value:.3f} of neighbors' accuracy" if cost.value >= 0.0005 else "neighbors no accuracy"
    return f"; {where + ', ' if where else ''}they cost {amount}"


def gained(gain: Estimate | None, what: str, measure: str = "cosine") -> str:
    """What a remedy gives, and how neighbors were sought when it did."""
    return "" if gain is None else f"; {what} changes the accuracy of neighbors (by {measure}) by {gain.value:+.3f}"
