"""Removal: the strongest directions taken out on trial, and whether the rest of a row knows its place along them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.trials import Bench, Tried

DOMINANT = 0.35  # share of the variance in one direction above which its removal is tried
# Correlation of a row's place along the direction with that of its neighbors in all others. A direction that the rest
# of the row does not know is noise that was put in: -.5 to .3 in 302 of 323 spoiled development sets, and .37 or more
# in 21 of 22 clean ones with a dominant direction. There less evidence will do.
STRANGE = 0.3


@dataclass(frozen=True)
class Removed:
    """``count`` top directions were removed on trial; how well the rest of a row knows its place along the first.

    ``measure`` says how neighbors were sought.
    """

    count: int
    share: float
    tried: Tried
    explained: float
    measure: str = "cosine of centered rows"

    @property
    def strange(self) -> bool:
        return self.explained < STRANGE

    @property
    def pays(self) -> bool:
        """Chosen on the development sets of ``benchmarks/foreign``."""
        return self.tried.pays(least=0.01, errors=trials.PLAIN) if self.strange else self.tried.pays(errors=trials.SURE)


def variances(body: Bench) -> Tensor:
    """Variances along the principal directions of the clipped rows, largest first."""
    return variances_of(trials.clipped(body.rows))


def variances_of(rows: Tensor) -> Tensor:
    middle = trials.centered(rows)
    n, d = middle.shape
    gram = middle.T @ middle if d <= n else middle @ middle.T
    return torch.linalg.eigvalsh(gram).clamp(min=0).flip(0) / n


def top_share(variances: Tensor) -> float:
    return float(variances[0] / variances.sum()) if float(variances.sum()) else 1.0


def without_top(body: Bench, top_share: float) -> Removed | None:
    """What removing one or three directions gives beyond centering, by cosine or by distance, whichever is surer.

    Tried where one direction dominates.
    """
    if body.labels is None or top_share < DOMINANT or min(body.rows.shape) < 3:
        return None
    rows = trials.clipped(body.rows)
    middle = trials.centered(rows)
    counts, changes = [], []
    for measure, scores in (("cosine of centered rows", trials.cosine), ("distance", trials.euclidean)):
        before = trials.votes(scores(middle), body.labels)
        for count in (1, 3) if body.rows.shape[1] > 6 else (1,):
            counts.append((count, measure))
            changes.append((trials.votes(scores(trials.without_top(rows, count)), body.labels), before))
    chosen, found = trials.cross_fitted(changes)
    return Removed(counts[chosen][0], top_share, found, _explained(middle), counts[chosen][1])


def _explained(middle: Tensor) -> float:
    """How well neighbors in all other directions know a row's place along the strongest: their mean's correlation."""
    place = (middle @ trials.top_directions(middle, 1)).squeeze(1)
    rest = trials.without_top(middle)
    found = []
    for scores in (trials.cosine, trials.euclidean):
        nearest = scores(rest).topk(min(trials.K, len(rest) - 1), dim=1).indices
        around = torch.corrcoef(torch.stack([place, place[nearest].mean(dim=1)]))[0, 1]
        found.append(float(torch.nan_to_num(around, nan=1.0)))
    return max(found)
