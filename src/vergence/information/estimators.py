"""The estimators behind ``estimate``: rows of ESTIMATORS, each from two sets of rows to an ``Information``."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from vergence.information.answers import ABOVE, BELOW, Doubt, Information, Trust, answer
from vergence.information.composite import Composite
from vergence.information.copula import copula_information, departures
from vergence.information.crossfit import judged, splits
from vergence.information.entropies import entropy_difference
from vergence.information.labels import label_entropy, label_information
from vergence.information.limits import information_ceiling, kl_ceiling
from vergence.information.neighbors import ksg_terms
from vergence.information.order import inflation
from vergence.information.preprocessing import Rows, categorical, codes, described, evenly, gaussianized

# Neighbors share neighbors: over 150 draws of 400 Gaussian pairs KSG varied 1.25 times as much as its terms suggest.
NEIGHBOR_SPREAD = 1.25
# In more joint dimensions KSG falls short of 10,000 Gaussian pairs by more than 0.02 nats.
NEIGHBOR_DIMENSIONS = 3
# All distances of so many rows take about two seconds; on two lines trees take as long for five times as many.
MOST_NEIGHBORS, MOST_ON_LINES = 10_000, 100_000
# A critic of so many pairs takes about ten seconds; more change its answer by less than its interval.
MOST_PAIRS = 10_000
# So far below ln n the exponential of the critic is averaged reliably: its relative error there is a few per cent.
RELIABLE = 4.0
# A fitted critic flatters the pairs it saw as much as it is too modest on the others (to first order, as in Akaike's
# criterion), which would put the truth at half of the gap; what it cannot express puts it higher. On development
# pairs, Gaussian variates in 25 dimensions asked for half, Student-t and spirals in few dimensions for all of it.
SHARE_OF_GAP = 0.75
# What no model expresses is not in any gap: intervals are longer above by this many nats and this share of the answer,
# and below by half of it. Chosen on the development kinds of benchmarks/information_trust.py.
UNEXPRESSED = (0.01, 0.03)
# What a critic misses in a shape that none of its models has: the square of a direction in ten columns cost 15 %.
UNEXPRESSED_BY_CRITICS = (0.01, 0.05)
# A dependence that needs so many pairs to be noticed, divided by their number, is added above for critics and copulas:
# with 200 pairs the product of two among five columns was not seen.
UNNOTICED = 60.0
# A critic or a copula with fewer pairs, in all or for each column of x and y, has intervals that are too short.
FEWEST_PAIRS, PAIRS_PER_COLUMN = 400, 20
# With fewer for each product of two columns, of which there are about d^2 / 4, a dependence through products (such as a
# random sign) is seen only if it is strong.
PAIRS_PER_PRODUCT = 20
# Below this, which classifier has the weight is chance.
LITTLE_SEEN = 0.02
# A copula that is not Gaussian misses a share of what it says: of much, it misses much.
LITTLE = 0.3


class CrossFitted(NamedTuple):
    """What a composite critic says: on unseen and on seen pairs, the standard error, and what it found."""

    unseen: float
    seen: float
    error: float
    learned: bool
    models: tuple[str, ...]

    @property
    def gap(self) -> float:
        return max(0.0, self.seen - self.unseen)

    @property
    def nats(self) -> float:
        return self.unseen + SHARE_OF_GAP * self.gap

    @property
    def interval(self) -> tuple[float, float]:
        # The upper end allows for what the critic cannot express: with one gap it missed three spirals of six.
        return self.unseen - BELOW * self.error, self.seen + 2 * self.gap + ABOVE * self.error


def cross_fitted(
    x: Rows, y: Rows, *, folds: int = 3, seed: int = 0, memory: int = 0, network: bool = True
) -> CrossFitted:
    """A model of the pairs with a network on top, trained, stopped and judged on three parts, over all folds.

    ``memory`` rows that follow each other in time stay together; without ``network`` the model stands alone.
    """
    pair = described(x), described(y)
    parts, influence, critics = [], np.empty(len(x)), []
    for split in splits(len(x), folds=folds, seed=seed, block=max(1, 2 * memory)):
        critics.append(Composite(*pair, split, network=network, seed=seed))
        parts.append(judged(critics[-1], split))
        influence[split.test.numpy()] = parts[-1].influence
    error = float(influence.std()) * math.sqrt(inflation(influence, memory) / len(x))
    unseen, seen = (float(np.mean([getattr(part, side) for part in parts])) for side in ("unseen", "seen"))
    learned = sum(critic.learned for critic in critics) > folds / 2
    return CrossFitted(unseen, seen, error, learned, tuple(critic.name for critic in critics))


def neural(
    x: Rows, y: Rows, *, folds: int = 3, seed: int = 0, memory: int = 0, doubts: tuple[Doubt, ...] = (),
    reasons: tuple[str, ...] = (),
) -> Information:  # fmt: skip
    """A model of the pairs with a network on top, cross-fitted; nats between what unseen and seen pairs say."""
    rows = evenly(len(x), MOST_PAIRS)
    found = cross_fitted(x[rows], y[rows], folds=folds, seed=seed, memory=memory)
    return critic_answer(found, x, y, opinion=copula_information(x, y)[0], doubts=doubts, reasons=reasons)


def critic_answer(
    found: CrossFitted, x: Rows, y: Rows, *, opinion: float, doubts: tuple[Doubt, ...] = (),
    reasons: tuple[str, ...] = (),
) -> Information:  # fmt: skip
    """The answer of a cross-fitted critic, with what the number of pairs for each column allows."""
    used, d = min(len(x), MOST_PAIRS), x.shape[1] + y.shape[1]
    models = ", ".join(dict.fromkeys(found.models))
    reasons = (*reasons, f"A critic, cross-fitted over {len(found.models)} folds, found: {models}.")
    if used < len(x):
        reasons = (*reasons, f"{used} of the {len(x)} pairs were used, evenly spread: the critic needs no more.")
    interval = widened(found.nats, found.interval, unnoticed=UNNOTICED / used, unexpressed=UNEXPRESSED_BY_CRITICS)
    return answer(
        found.nats, interval, ceiling=kl_ceiling(used), estimator="neural", n=len(x),
        second_opinion=opinion, doubts=(*doubts, *few_pairs(used, d)), reasons=reasons,
    )  # fmt: skip


def few_pairs(n: int, d: int) -> tuple[Doubt, ...]:
    """A doubt where the pairs are too few for the columns of x and y."""
    enough = max(PAIRS_PER_COLUMN * d, FEWEST_PAIRS if d > NEIGHBOR_DIMENSIONS else 0)
    if n < enough:
        return (Doubt("low", f"{n} pairs are few for {d} columns: at least {enough} are needed."),)
    if n < PAIRS_PER_PRODUCT * d**2 / 4:
        sentence = f"{n} pairs are few to see dependence through products of {d} columns."
        return (Doubt("moderate", sentence),)
    return ()


def widened(
    nats: float,
    interval: tuple[float, float],
    *,
    unnoticed: float = 0.0,
    unexpressed: tuple[float, float] = UNEXPRESSED,
) -> tuple[float, float]:
    """An interval with room for what no model expresses, and above for what so few pairs do not show."""
    room = unexpressed[0] + unexpressed[1] * abs(nats)
    return interval[0] - room / 2, interval[1] + room + unnoticed


def neighbors(
    x: Rows, y: Rows, *, k: int = 3, memory: int = 0, doubts: tuple[Doubt, ...] = (), reasons: tuple[str, ...] = ()
) -> Information:
    """KSG on Gaussianized columns; the interval adds what the choice of k changes to the sampling error."""
    on_lines = x.shape[1] == y.shape[1] == 1
    rows = evenly(len(x), MOST_ON_LINES if on_lines else MOST_NEIGHBORS)
    if len(rows) < len(x):
        reasons = (*reasons, f"{len(rows)} of the {len(x)} pairs were used, evenly spread.")
    numbers = [part[rows] if categorical(part) else gaussianized(part[rows]) for part in (x, y)]
    terms = ksg_terms(*numbers, k=k)
    nats = float(terms.mean())
    error = NEIGHBOR_SPREAD * float(terms.std()) * math.sqrt(inflation(terms, memory) / len(rows))
    # A hard edge costs KSG about the root of k, so with four times the neighbors it costs as much again.
    drift = nats - float(ksg_terms(*numbers, k=min(4 * k, len(rows) - 1)).mean())
    interval = nats - BELOW * error + min(0.0, drift), nats + ABOVE * error + max(0.0, drift)
    labeled = any(categorical(part) for part in (x, y))
    d = sum(part.shape[1] for part in (x, y) if not categorical(part))
    if d > NEIGHBOR_DIMENSIONS:
        doubts = (*doubts, Doubt("low", f"In {d} dimensions the estimate of neighbors is too small."))
    return answer(
        nats, widened(nats, interval), ceiling=float(digamma(len(rows)) - digamma(k)), estimator="neighbors", n=len(x),
        second_opinion=-math.inf if labeled else copula_information(x, y)[0], doubts=doubts, reasons=reasons,
    )  # fmt: skip


def added_neighbors(pairs: list[tuple[np.ndarray, np.ndarray]], *, k: int = 3) -> Information:
    """KSG of several pairs of columns, added up pair by pair: what they share if no pair repeats another."""
    columns = [(gaussianized(u), gaussianized(v)) for u, v in pairs]
    terms, more = (np.sum([ksg_terms(u, v, k=neighbors) for u, v in columns], axis=0) for neighbors in (k, 4 * k))
    nats, error = float(terms.mean()), NEIGHBOR_SPREAD * float(terms.std()) / math.sqrt(len(terms))
    drift = nats - float(more.mean())
    interval = nats - BELOW * error + min(0.0, drift), nats + ABOVE * error + max(0.0, drift)
    return answer(nats, widened(nats, interval), ceiling=math.inf, estimator="neighbors", n=len(terms))


def copula(
    x: Rows, y: Rows, *, memory: int = 0, doubts: tuple[Doubt, ...] = (), reasons: tuple[str, ...] = ()
) -> Information:
    """The Gaussian copula in closed form: no ceiling, but only as right as the Gaussian."""
    nats, error = copula_information(x, y)
    error = error * math.sqrt(max(1, memory))
    failed = departures(x, y) if math.isfinite(nats) else []
    if failed:
        sentence = f"The pairs are not jointly Gaussian, which the copula assumes ({'; '.join(failed)})."
        doubts = (*doubts, Doubt("low" if nats > LITTLE else "moderate", sentence))
    elif nats > kl_ceiling(len(x)) - RELIABLE:
        doubts = (*doubts, Doubt("moderate", "The pairs pass for Gaussian; no bound could check so much."))
    interval = widened(nats, (nats - BELOW * error, nats + ABOVE * error), unnoticed=UNNOTICED / len(x))
    return answer(
        nats, interval, ceiling=math.inf, estimator="copula", n=len(x),
        doubts=(*doubts, *few_pairs(len(x), x.shape[1] + y.shape[1])), reasons=reasons,
    )  # fmt: skip


def table(
    x: Rows, y: Rows, *, memory: int = 0, doubts: tuple[Doubt, ...] = (), reasons: tuple[str, ...] = ()
) -> Information:
    """The information of the counted table of two categories, less the bias (r - 1)(c - 1) / 2n of its cells.

    References:
        Miller (1955), on the bias of information estimates; Roulston (1999) for the error.
    """
    rows, columns = codes(x), codes(y)
    for name, count in (("x", rows.max() + 1), ("y", columns.max() + 1)):
        if count > len(x) / 2:
            raise ValueError(f"A table needs values that repeat; {name} has {count:,} in {len(x):,} pairs. Try 'auto'.")
    counts = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(counts, (rows, columns), 1)
    joint = counts / len(x)
    ratio = np.log(joint[rows, columns] / (joint.sum(1)[rows] * joint.sum(0)[columns]))
    bias = (counts.shape[0] - 1) * (counts.shape[1] - 1) / (2 * len(x))
    nats = float(ratio.mean()) - bias
    error = float(ratio.std()) * math.sqrt(inflation(ratio, memory) / len(x))
    interval = nats - BELOW * error - bias, nats + ABOVE * error + bias
    return answer(
        nats, interval, ceiling=kl_ceiling(len(x)), estimator="table", n=len(x), doubts=doubts, reasons=reasons
    )


def labels(
    x: Rows, y: Rows, *, seed: int = 0, memory: int = 0, doubts: tuple[Doubt, ...] = (), reasons: tuple[str, ...] = ()
) -> Information:
    """How much better classifiers, cross-fitted and pooled, predict the label among x and y than its frequency does."""
    if not any(map(categorical, (x, y))):
        raise ValueError("Neither variable is a label: one of them should take few values, ten pairs for each or more.")
    numbers, label = (y, codes(x)) if len(np.unique(x, axis=0)) < len(np.unique(y, axis=0)) else (x, codes(y))
    rows = evenly(len(label), MOST_PAIRS)
    curve = label_information(gaussianized(numbers[rows]), label[rows], seed=seed)
    error = float(curve.terms.std()) * math.sqrt(inflation(curve.terms, memory) / len(rows))
    unseen = float(curve.terms.mean())
    nats = unseen + SHARE_OF_GAP * curve.missed
    low, high = widened(nats, (unseen - BELOW * error, unseen + 2 * curve.missed + ABOVE * error))
    high = min(high, max(label_entropy(label) + ABOVE * error, nats))
    used = ", ".join(f"{name} {weight:.2f}" for name, weight in curve.weights.items() if weight > 0.05)
    reasons = (*reasons, f"Classifiers predict the label on unseen pairs, pooled with the weights {used}.")
    if curve.free > 0.5 and unseen > LITTLE_SEEN:
        doubts = (*doubts, Doubt("moderate", "No model carries the answer, so more pairs may find more."))
    return answer(
        nats, (low, high), ceiling=kl_ceiling(len(rows)), estimator="labels", n=len(x),
        doubts=(*doubts, *few_pairs(len(rows), numbers.shape[1])), reasons=reasons,
    )  # fmt: skip


def entropies(x: Rows, y: Rows, *, reasons: tuple[str, ...] = ()) -> Information:
    """The difference of two cross-entropies on unseen pairs: no ceiling, and neither a lower nor an upper bound."""
    nats, error = entropy_difference(gaussianized(x), gaussianized(y))
    interval = nats - BELOW * error, nats + ABOVE * error
    sentence = "A difference of entropies may err either way: each of its two models has its own error."
    word = "low" if departures(x, y) else "moderate"
    return Information(nats, interval, math.inf, False, Trust(word, sentence), "entropies", len(x), reasons)


def infinite(x: Rows, y: Rows, sentence: str, *, reasons: tuple[str, ...] = ()) -> Information:
    """The answer for a relation without noise between continuous variables; the sentence says how it was noticed."""
    rows = evenly(len(x), MOST_NEIGHBORS)
    low = float(ksg_terms(gaussianized(x[rows]), gaussianized(y[rows])).mean())
    trust = Trust("low", f"{sentence} Any finite answer would be an artifact of the number of pairs.")
    return Information(math.inf, (low, math.inf), information_ceiling(len(x)), True, trust, "none", len(x), reasons)
