"""Estimators of mutual information, and ``estimate``, which chooses one and says why."""

import math
from dataclasses import replace

import numpy as np
from scipy.special import digamma

from vergence.information.answers import ABOVE, BELOW, Estimate, Trust, answer
from vergence.information.composite import Composite
from vergence.information.copula import copula_information, looks_gaussian
from vergence.information.critics import Critic
from vergence.information.crossfit import fit, hear, splits
from vergence.information.entropies import entropy_difference
from vergence.information.limits import information_ceiling, kl_ceiling
from vergence.information.neighbors import duplicates, growth, ksg_terms
from vergence.information.preprocessing import (
    Rows,
    Samples,
    categorical,
    checked,
    codes,
    described,
    gaussianized,
    one_hot,
    reduced,
    varying,
)
from vergence.information.trained import trained_bound
from vergence.tables import UnknownName

# KSG gains one nat per e-fold of samples if the truth is infinite and none once it has settled.
GROWING = 0.5
# In more joint dimensions KSG has not settled at 2000 pairs, whatever the relation.
GROWTH_DIMENSIONS = 10
# Neighbors share neighbors: over 150 draws of 400 Gaussian pairs KSG varied 1.25 times as much as its terms suggest.
NEIGHBOR_SPREAD = 1.25
# In more joint dimensions KSG falls short of 10,000 Gaussian pairs by more than 0.02 nats.
NEIGHBOR_DIMENSIONS = 3
# So far below ln n the exponential of the critic is averaged reliably: its relative error there is a few per cent.
RELIABLE = 4.0
# A fitted critic flatters the pairs it saw as much as it is too modest on the others (to first order, as in Akaike's
# criterion), which would put the truth at half of the gap; what it cannot express puts it higher. On development
# pairs, Gaussian variates in 25 dimensions asked for half, Student-t and spirals in few dimensions for all of it.
SHARE_OF_GAP = 0.75
# A table with fewer pairs per cell is mostly bias.
PAIRS_PER_CELL = 5
# More repeated rows than this are a discrete part, which breaks estimators for densities.
FEW_DUPLICATES = 0.01


def estimate(
    x: Samples,
    y: Samples,
    *,
    bound: str = "auto",
    critic: str | Critic = "auto",
    batch: int = 256,
    folds: int = 3,
    seed: int = 0,
) -> Estimate:
    """How many nats x and y share, with an interval, the estimator's ceiling, and a verdict on trust.

    ``bound`` is ``auto``, a row of ESTIMATORS, or a row of BOUNDS, which is then raised by ``critic`` (``bilinear``,
    ``separable``, ``concat`` or a module of yours) and reported on pairs that the critic never saw. Rows of x and y are
    pairs, independent of each other: pairs that share a batch effect look more informative than they are.
    """
    from vergence.information import BOUNDS, ESTIMATORS  # the front door imports this file

    pair = checked(x, y)
    if bound == "jensen_shannon":
        raise ValueError("jensen_shannon trains a critic but is not in nats; smile reports nats from that critic.")
    if bound == "auto" and critic != "auto":
        bound = "info_nce"
    if bound in BOUNDS:
        return trained_bound(*pair, bound=bound, critic=critic, batch=batch, folds=folds, seed=seed)
    if bound not in ESTIMATORS:
        raise UnknownName("bound", bound, [*ESTIMATORS, *BOUNDS])
    trains = bound in ("auto", "neural")
    return ESTIMATORS[bound](*pair, folds=folds, seed=seed) if trains else ESTIMATORS[bound](*pair)


def automatic(x: Rows, y: Rows, *, folds: int = 3, seed: int = 0) -> Estimate:
    """The estimator that suits the data: a table, neighbors, the Gaussian copula or a trained critic."""
    x, notes_x = varying("x", x)
    y, notes_y = varying("y", y)
    notes = tuple(notes_x + notes_y)
    if not x.shape[1] or not y.shape[1]:
        return Estimate(0.0, (0.0, 0.0), 0.0, False, Trust("high", "A constant shares nothing."), "none", len(x), notes)
    kinds = categorical(x), categorical(y)
    if all(kinds) and len(np.unique(x, axis=0)) * len(np.unique(y, axis=0)) * PAIRS_PER_CELL <= len(x):
        return table(x, y, reasons=(*notes, "Both variables are categories: their table is counted."))
    if any(kinds) or max(duplicates(x), duplicates(y)) > FEW_DUPLICATES:
        corners = one_hot(x) if kinds[0] and not kinds[1] else x, one_hot(y) if kinds[1] and not kinds[0] else y
        return neighbors(*corners, reasons=(*notes, "Rows repeat: neighbors are counted with ties."))
    (x, lost_x), (y, lost_y) = reduced("x", x), reduced("y", y)
    return _continuous(x, y, (*notes, *lost_x, *lost_y), folds, seed)


def _continuous(x: Rows, y: Rows, notes: tuple[str, ...], folds: int, seed: int) -> Estimate:
    opinion, _ = copula_information(x, y)
    if math.isinf(opinion):
        return infinite(x, y, reasons=(*notes, "Some direction of y is a function of x, linear in values or ranks."))
    out_of_reach = opinion > kl_ceiling(len(x)) - RELIABLE
    if out_of_reach and looks_gaussian(x, y):
        return copula(x, y, reasons=(*notes, "Beyond the reach of bounds; the pairs pass for Gaussian."))
    low_dimension = x.shape[1] + y.shape[1] <= NEIGHBOR_DIMENSIONS
    few_columns = x.shape[1] + y.shape[1] <= GROWTH_DIMENSIONS
    if few_columns and growth(gaussianized(x), gaussianized(y)) > GROWING:
        return infinite(x, y, reasons=(*notes, "The estimate of neighbors grows with every sample."))
    if low_dimension:
        return neighbors(x, y, reasons=(*notes, "Few dimensions: neighbors need no training."))
    found, learned = _cross_fitted(x, y, folds, seed, opinion, notes)
    if not learned:
        return copula(x, y, reasons=(*notes, "The critic found nothing beyond the Gaussian copula on unseen pairs."))
    if opinion > found.nats and looks_gaussian(x, y):
        return copula(x, y, reasons=(*notes, "The pairs pass for Gaussian, and a critic needs more of them to follow."))
    return found


def neural(x: Rows, y: Rows, *, folds: int = 3, seed: int = 0, reasons: tuple[str, ...] = ()) -> Estimate:
    """A Gaussian copula with a separable network on top, cross-fitted; nats between what unseen and seen pairs say."""
    return _cross_fitted(x, y, folds, seed, copula_information(x, y)[0], reasons)[0]


def _cross_fitted(
    x: Rows, y: Rows, folds: int, seed: int, opinion: float, reasons: tuple[str, ...]
) -> tuple[Estimate, bool]:
    pair = described(x), described(y)
    heard, epochs = [], []
    for split in splits(len(x), folds=folds, seed=seed):
        composite = Composite(*pair, split, seed=seed)
        epochs.append(fit(composite.critic, composite, split, seed=seed))
        heard.append(hear(composite, split))
        turned = composite.turned
    error = float(np.concatenate([fold.influence for fold in heard]).std()) / math.sqrt(len(x))
    unseen, seen = (float(np.mean([getattr(fold, side) for fold in heard])) for side in ("unseen", "seen"))
    gap = max(0.0, seen - unseen)
    # The upper end allows for what the critic cannot express: with one gap it missed three spirals of six.
    interval = unseen - BELOW * error, seen + 2 * gap + ABOVE * error
    said = answer(
        unseen + SHARE_OF_GAP * gap, interval, ceiling=kl_ceiling(len(x)), estimator="neural", n=len(x),
        second_opinion=opinion,
        reasons=(*reasons, f"A critic, cross-fitted over {folds} folds, found more than the Gaussian copula."),
    )  # fmt: skip
    return said, turned or sorted(epochs)[folds // 2] > 0


def neighbors(x: Rows, y: Rows, *, k: int = 3, reasons: tuple[str, ...] = ()) -> Estimate:
    """KSG on Gaussianized columns; the interval adds what the choice of k changes to the sampling error."""
    continuous = [rows if categorical(rows) else gaussianized(rows) for rows in (x, y)]
    terms = ksg_terms(*continuous, k=k)
    nats = float(terms.mean())
    error = NEIGHBOR_SPREAD * float(terms.std()) / math.sqrt(len(x))
    # A hard edge costs KSG about the root of k, so with four times the neighbors it costs as much again.
    drift = nats - float(ksg_terms(*continuous, k=4 * k).mean())
    interval = nats - BELOW * error + min(0.0, drift), nats + ABOVE * error + max(0.0, drift)
    ceiling = float(digamma(len(x)) - digamma(k))
    opinion = -math.inf if any(categorical(rows) for rows in (x, y)) else copula_information(x, y)[0]
    return answer(
        nats, interval, ceiling=ceiling, estimator="neighbors", n=len(x), second_opinion=opinion, reasons=reasons
    )


def copula(x: Rows, y: Rows, *, reasons: tuple[str, ...] = ()) -> Estimate:
    """The Gaussian copula in closed form: no ceiling, but only as right as the Gaussian."""
    nats, error = copula_information(x, y)
    interval = nats - BELOW * error, nats + ABOVE * error
    said = answer(nats, interval, ceiling=math.inf, estimator="copula", n=len(x), reasons=reasons)
    if nats <= kl_ceiling(len(x)) - RELIABLE:
        return said
    if looks_gaussian(x, y):
        return replace(said, trust=Trust("moderate", "The pairs pass for Gaussian; no bound could check so much."))
    return replace(said, trust=Trust("low", "The pairs are not jointly Gaussian, and no bound could check so much."))


def table(x: Rows, y: Rows, *, reasons: tuple[str, ...] = ()) -> Estimate:
    """The information of the counted table of two categories, less the bias (r - 1)(c - 1) / 2n of its cells.

    References:
        Miller (1955), on the bias of information estimates; Roulston (1999) for the error.
    """
    rows, columns = codes(x), codes(y)
    counts = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(counts, (rows, columns), 1)
    joint = counts / len(x)
    ratio = np.log(joint[rows, columns] / (joint.sum(1)[rows] * joint.sum(0)[columns]))
    bias = (counts.shape[0] - 1) * (counts.shape[1] - 1) / (2 * len(x))
    nats, error = float(ratio.mean()) - bias, float(ratio.std()) / math.sqrt(len(x))
    interval = nats - BELOW * error - bias, nats + ABOVE * error + bias
    return answer(nats, interval, ceiling=kl_ceiling(len(x)), estimator="table", n=len(x), reasons=reasons)


def entropies(x: Rows, y: Rows, *, reasons: tuple[str, ...] = ()) -> Estimate:
    """The difference of two cross-entropies on unseen pairs: no ceiling, and neither a lower nor an upper bound."""
    nats, error = entropy_difference(gaussianized(x), gaussianized(y))
    interval = nats - BELOW * error, nats + ABOVE * error
    trust = Trust("moderate", "A difference of entropies may err either way: each of its two models has its own error.")
    return Estimate(nats, interval, math.inf, False, trust, "entropies", len(x), reasons)


def infinite(x: Rows, y: Rows, *, reasons: tuple[str, ...] = ()) -> Estimate:
    """The answer for a deterministic relation between continuous variables, whose information is infinite."""
    low = float(ksg_terms(gaussianized(x), gaussianized(y)).mean())
    sentence = "The relation looks deterministic: then the information is infinite, and any finite answer an artefact."
    ceiling = information_ceiling(len(x))
    return Estimate(math.inf, (low, math.inf), ceiling, True, Trust("none", sentence), "none", len(x), reasons)
