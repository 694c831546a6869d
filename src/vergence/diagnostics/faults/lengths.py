"""What can be wrong with the lengths of rows. Dividing by them is tried; only where it gives accuracy is it a fault."""

import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.faults.rows import lost
from vergence.diagnostics.findings import Finding, fault
from vergence.diagnostics.removal import Removed
from vergence.diagnostics.trials import Bench

UNEVEN = 0.45  # spread of log-lengths: .43 at most in clean sets where it costs, .7 in the weakest injected
HEAVY = 1.0  # spread of log-lengths from which fewer standard errors will do: one row in six is e times longer
# Spread of a row's log-length around its neighbors' by direction: .43 at most in clean sets, whose lengths say
# something of the content; .67 at least where rows were multiplied by log-normal numbers. Beyond, one error will do.
UNEXPLAINED = 0.55


@fault("rows", order=90)
def heavy_tailed_lengths(
    body: Bench, unexplained_lengths: float, without_top: Removed | None = None, scaled_columns: Tensor | None = None
) -> Finding | None:
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
    if not plain and without_top is not None and without_top.pays:
        rest = trials.lengths(trials.without_top(body.rows, without_top.count))
        if log_spread(rest[rest > 0]) < UNEVEN:
            return None
    by_distance = trials.votes(trials.euclidean(body.rows), body.labels)
    centered = trials.votes(trials.cosine(trials.centered(trials.unit(body.rows))), body.labels)
    _, found = trials.cross_fitted([(after, by_distance) for after in (body.votes, centered)])
    longest = float(torch.quantile(body.lengths, 0.99) / body.lengths.median())
    sentence = (
        f"One row in a hundred is {longest:.1f} times as long as the median row{lost(found.gain, 'by distance')}."
    )
    advice = "Divide rows by their length, or clip it, before centering, distances or products. Do not only center."
    certain = 1.5 if spread > HEAVY else trials.CERTAIN
    serious = found.pays(errors=trials.PLAIN) if plain else found.pays(errors=trials.SURE, certain=certain)
    level = "fault" if serious else "note"
    return Finding(
        "heavy-tailed lengths", "rows", sentence, "norms", advice, level, found.gain, "divide by the lengths",
        found.gain,
    )  # fmt: skip


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
