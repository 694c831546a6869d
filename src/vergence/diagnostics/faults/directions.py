"""A constant in all rows, and one strong direction. The remedy is tried; only where it gives accuracy is it a fault."""

import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.faults.lengths import UNEXPLAINED
from vergence.diagnostics.faults.rows import gained
from vergence.diagnostics.findings import Finding, fault
from vergence.diagnostics.removal import DOMINANT, Removed, top_share, variances_of
from vergence.diagnostics.trials import Bench, Tried

CONE = 0.5  # mean cosine above which centering is tried
OFFSET = 0.9  # mean cosine above which a constant offset is noted even where it costs nothing
# A constant that was added knows nothing of the columns: rows vary along it as along any direction, and columns where
# it is large vary no more than others. Of rectified, positive or scaled features the mean has one sign or varies most.
ALONG, SHAPED, SIGNED = 2.5, 0.3, 0.6


@fault("rows", order=110)
def constant_offset(body: Bench, centered: Tried | None = None) -> Finding | None:
    """One vector added to every row. Cosines are then near 1, which is not collapse: rows differ as before."""
    mean_cosine = float(body.unit.double().mean(dim=0).square().sum())
    if mean_cosine < CONE:
        return None
    serious = centered is not None and _serious(centered, strange=added(body.rows), plain=mean_cosine > OFFSET)
    if not serious and mean_cosine < OFFSET:
        return None
    gain = None if centered is None else centered.gain
    sentence = f"Rows share a constant: their mean cosine is {mean_cosine:.3f}{gained(gain, 'centering')}."
    advice = "Subtract the mean row before cosines are compared or thresholded."
    level = "fault" if serious else "note"
    return Finding("constant offset", "rows", sentence, "uniformity", advice, level, gain, "center", gain)


@fault("rows", order=100)
def dominant_direction(
    body: Bench, unexplained_lengths: float, without_top: Removed | None = None, scaled_columns: Tensor | None = None,
    trained: bool = False,
) -> Finding | None:  # fmt: skip
    """One direction, or up to three, holds most of the variance and little of what tells classes apart.

    Heavy-tailed lengths make a direction of the mean, which is gone once rows are divided by their lengths. In a
    training run that has just begun the strongest direction is what an untrained network has, which the rest of the
    row knows too: a note.
    """
    if without_top is None or scaled_columns is not None or not without_top.pays:
        return None
    if unexplained_lengths > UNEXPLAINED and top_share(variances_of(trials.unit(body.rows))) < DOMINANT:
        return None
    which = "direction" if without_top.count == 1 else "three directions"
    gain = without_top.tried.gain
    told = gained(gain, "removal", without_top.measure)
    sentence = f"The strongest direction holds {100 * without_top.share:.0f} % of the variance{told}."
    advice = f"Remove the top {which} after centering; centering alone does not help."
    level = "note" if trained and not without_top.strange else "fault"
    return Finding(
        "dominant direction", "rows", sentence, "spectrum", advice, level, gain, f"remove the top {which}", gain
    )


def centered(body: Bench) -> Tried | None:
    """What centering gives, where rows lie in a cone."""
    if body.labels is None or float(body.unit.double().mean(dim=0).square().sum()) < CONE:
        return None
    after = trials.votes(trials.cosine(trials.centered(trials.clipped(body.rows))), body.labels)
    return trials.tried(after, body.votes)


def _serious(found: Tried, *, strange: bool, plain: bool) -> bool:
    if strange:
        return found.pays(errors=trials.PLAIN if plain else trials.SURE)
    return found.pays(errors=trials.SURE, certain=trials.CERTAIN)


def added(rows: Tensor) -> bool:
    """Whether the mean row looks like a constant that was added, not like what such features have by nature."""
    mean, spread = rows.mean(dim=0), rows.std(dim=0)
    along = (rows @ (mean / mean.norm().clamp(min=1e-300))).var() / spread.square().mean().clamp(min=1e-300)
    ranks = torch.stack([values.argsort().argsort().double() for values in (mean.abs(), spread)])
    shaped = float(torch.corrcoef(ranks)[0, 1]) if rows.shape[1] > 2 else 1.0
    signed = abs(float(mean.sign().mean()))
    return float(along) < ALONG and shaped < SHAPED and signed < SIGNED
