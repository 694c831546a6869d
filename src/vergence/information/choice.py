"""``estimate``: chooses an estimator, compares it with others of another kind, and says why."""

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from vergence.information.answers import WORDS, Doubt, Information, Trust, word_of_width
from vergence.information.copula import copula_information, looks_gaussian
from vergence.information.critics import Critic
from vergence.information.estimators import (
    MOST_PAIRS,
    NEIGHBOR_DIMENSIONS,
    RELIABLE,
    CrossFitted,
    added_neighbors,
    copula,
    critic_answer,
    cross_fitted,
    infinite,
    labels,
    neighbors,
    table,
)
from vergence.information.limits import kl_ceiling
from vergence.information.neighbors import duplicates, growth
from vergence.information.order import order
from vergence.information.preprocessing import (
    Rows,
    Samples,
    categorical,
    checked,
    evenly,
    gaussianized,
    one_hot,
    reduced,
    varying,
)
from vergence.information.screening import dependence, matched, relevant, threshold
from vergence.information.trained import trained_bound
from vergence.information.unmixing import unmixed
from vergence.tables import UnknownName

# KSG gains one nat per e-fold of samples if the truth is infinite and none once it has settled.
GROWING = 0.5
# In more joint dimensions KSG has not settled at 2000 pairs, whatever the relation.
GROWTH_DIMENSIONS = 10
# In so many joint dimensions neighbors still serve as a check from below.
NEAR_DIMENSIONS = 4
# So many pairs are enough for that check.
MOST_CHECKED = 5000
MOST_MATCHED = 12
# A model of few Gaussians misses this share of what neighbors find in curved relations without either being at fault.
SHORT_OF_NEIGHBORS = 0.1
# A table with fewer pairs per cell is mostly bias.
PAIRS_PER_CELL = 5
# More repeated rows than this are a discrete part, which breaks estimators for densities.
FEW_DUPLICATES = 0.01
# More labels than this are values rather than classes.
MOST_LABELS = 64
# Names of version 0.1, in British spelling.
OLD_NAMES = {"neighbours": "neighbors"}


class Situation(NamedTuple):
    """What is known about the pairs before any estimate: notes, doubts, memory between rows, folds and seed."""

    notes: tuple[str, ...]
    doubts: tuple[Doubt, ...]
    memory: int
    folds: int
    seed: int

    def options(self, *reasons: str) -> dict[str, Any]:
        return {"memory": self.memory, "doubts": self.doubts, "reasons": (*self.notes, *reasons)}


def estimate(
    x: Samples,
    y: Samples,
    *,
    bound: str | Callable[..., Any] = "auto",
    critic: str | Critic = "auto",
    batch: int = 256,
    folds: int = 3,
    seed: int = 0,
) -> Information:
    """How many nats x and y share, with an interval, the estimator's ceiling, and a verdict on trust.

    ``bound`` is ``auto``, a row of ESTIMATORS (or a function of yours from two arrays ``[n, d]`` to an
    ``Information``), or a row of BOUNDS (or a function of yours of a score matrix), which is then raised by ``critic``
    (``bilinear``, ``separable``, ``concat`` or a module of yours) and reported on pairs that the critic never saw.
    Rows of x and y are pairs, independent of each other: pairs that share a batch effect look more informative than
    they are. Rows of a series are noticed and said.
    """
    from vergence.information import BOUNDS, ESTIMATORS  # the front door imports this file

    pair = checked(x, y)
    bound = OLD_NAMES.get(bound, bound) if isinstance(bound, str) else bound
    if bound == "jensen_shannon":
        raise ValueError("jensen_shannon trains a critic but is not in nats; smile reports nats from that critic.")
    if bound == "auto" and critic != "auto":
        bound = "info_nce"
    if bound in BOUNDS or (callable(bound) and len(_positional(bound)) == 1):
        return trained_bound(*pair, bound=bound, critic=critic, batch=batch, folds=folds, seed=seed)
    if isinstance(bound, str) and bound not in ESTIMATORS:
        raise UnknownName("bound", bound, [*ESTIMATORS, *BOUNDS])
    row = ESTIMATORS[bound] if isinstance(bound, str) else bound
    known = inspect.signature(row).parameters
    options = {name: value for name, value in {"folds": folds, "seed": seed}.items() if name in known}
    return row(*pair, **options)


def _positional(function: Callable[..., Any]) -> list[str]:
    """The parameters without a default: an estimator has two, the variables; a bound has one, the scores."""
    parameters = inspect.signature(function).parameters.values()
    return [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]


def automatic(x: Rows, y: Rows, *, folds: int = 3, seed: int = 0) -> Information:
    """The estimator that suits the data: a table, classifiers, neighbors, the Gaussian copula or a trained critic."""
    x, notes_x = varying("x", x)
    y, notes_y = varying("y", y)
    notes = tuple(notes_x + notes_y)
    if not x.shape[1] or not y.shape[1]:
        certain = Trust("high", "A constant shares nothing.")
        return Information(0.0, (0.0, 0.0), 0.0, False, certain, "none", len(x), notes)
    memory, sentence = order(x, y)
    doubts = (Doubt("low", sentence),) if memory else ()
    situation = Situation(notes, doubts, memory, folds, seed)
    if any(map(categorical, (x, y))) or max(duplicates(x), duplicates(y)) > FEW_DUPLICATES:
        return _discrete(x, y, situation)
    (x, lost_x), (y, lost_y) = reduced("x", x), reduced("y", y)
    x, y, unmixed_notes = unmixed(x, y)
    found = _continuous(x, y, situation._replace(notes=(*notes, *unmixed_notes)))
    return _at_least(found, *lost_x, *lost_y) if lost_x or lost_y else found


def _at_least(found: Information, *sentences: str) -> Information:
    """The same answer when some of the data were left out: nothing limits it from above."""
    trust = Trust("low", " ".join(sentences))
    return replace(found, interval=(found.interval[0], math.inf), trust=trust, reasons=(*found.reasons, *sentences))


def _discrete(x: Rows, y: Rows, situation: Situation) -> Information:
    """Categories, or numbers with ties: a table, classifiers, or neighbors counted with ties."""
    values = [len(np.unique(rows, axis=0)) for rows in (x, y)]
    kinds = categorical(x), categorical(y)
    if all(kinds) and values[0] * values[1] * PAIRS_PER_CELL <= len(x):
        return table(x, y, **situation.options("Both variables are categories: their table is counted."))
    label_first = values[0] <= values[1]
    label, numbers = (x, y) if label_first else (y, x)
    if categorical(label) and min(values) <= MOST_LABELS:
        return _labelled(numbers, label, situation)
    corners = one_hot(x) if kinds[0] and not kinds[1] else x, one_hot(y) if kinds[1] and not kinds[0] else y
    tied = Doubt("moderate", "Rows repeat, so that neighbors are counted with ties.")
    return neighbors(*corners, **situation._replace(doubts=(*situation.doubts, tied)).options())


def _labelled(numbers: Rows, label: Rows, situation: Situation) -> Information:
    """Classifiers, and where the numbers are few, neighbors: the two must agree."""
    found = labels(
        numbers, label, seed=situation.seed, **situation.options("One variable has few values, its categories.")
    )
    if numbers.shape[1] >= NEIGHBOR_DIMENSIONS or categorical(numbers):
        return found
    reason = "One variable is a label, the other few numbers: the nearest of the same label are counted."
    return _reconciled(neighbors(numbers, one_hot(label), **situation.options(reason)), found)


def _continuous(x: Rows, y: Rows, situation: Situation) -> Information:
    opinion, _ = copula_information(x, y)
    d = x.shape[1] + y.shape[1]
    if math.isinf(opinion):
        return infinite(
            x, y, reasons=(*situation.notes, "Some direction of y is a function of x, linear in values or ranks.")
        )
    if opinion > kl_ceiling(len(x)) - RELIABLE and looks_gaussian(x, y):
        return copula(x, y, **situation.options("Beyond the reach of bounds; the pairs pass for Gaussian."))
    if d <= GROWTH_DIMENSIONS and growth(gaussianized(x), gaussianized(y)) > GROWING:
        return infinite(x, y, reasons=(*situation.notes, "The estimate of neighbors grows with every sample."))
    rows = evenly(len(x), MOST_PAIRS)
    few = d <= NEIGHBOR_DIMENSIONS
    fit = cross_fitted(
        x[rows], y[rows], folds=situation.folds, seed=situation.seed, memory=situation.memory, network=not few
    )
    if few:
        near = neighbors(x, y, **situation.options("Few dimensions: neighbors need no training."))
        return _checked_from_below(near, critic_answer(fit, x, y, opinion=opinion, **_without_memory(situation)))
    return _critic_or_copula(x, y, fit, opinion, situation)


def _without_memory(situation: Situation) -> dict[str, Any]:
    return {"doubts": situation.doubts, "reasons": situation.notes}


def _critic_or_copula(x: Rows, y: Rows, fit: CrossFitted, opinion: float, situation: Situation) -> Information:
    critic = critic_answer(fit, x, y, opinion=opinion, **_without_memory(situation))
    if not fit.learned:
        reason = "The critic found nothing beyond the Gaussian copula on unseen pairs."
        return copula(x, y, **situation.options(reason))
    if opinion > critic.nats and looks_gaussian(x, y):
        reason = "The pairs pass for Gaussian, and a critic needs more of them to follow."
        return copula(x, y, **situation.options(reason))
    for near in _nearby(x, y):
        critic = _not_below(critic, near)
    return critic


def _nearby(x: Rows, y: Rows) -> list[Information]:
    """What neighbors say of the columns that depend on the other side: never more than all share.

    Of a few of them together, and, if no two columns of x (or of y) depend on each other, of matched pairs of columns,
    added up: then I(x; y) is at least the sum of I(x_i; y_i).
    """
    rows = evenly(len(x), MOST_CHECKED)
    x, y = x[rows], y[rows]
    strength = dependence(x, y)
    pairs, found = matched(strength, most=MOST_MATCHED), []
    if len(pairs) > 1 and any(map(_independent, (x, y))):
        found.append(added_neighbors([(x[:, [i]], y[:, [j]]) for i, j in pairs]))
    if x.shape[1] + y.shape[1] > NEAR_DIMENSIONS:
        most = NEAR_DIMENSIONS // 2
        x, y = x[:, relevant(strength, 0, most=most)], y[:, relevant(strength, 1, most=most)]
    return [*found, neighbors(x, y)] if x.shape[1] and y.shape[1] else found


def _independent(rows: Rows) -> bool:
    """Whether no two columns depend on each other, as far as the smooth test sees."""
    strength = dependence(rows, rows)
    np.fill_diagonal(strength, 0)
    return bool(strength.max() <= threshold(strength.size // 2))


def _reconciled(first: Information, second: Information) -> Information:
    """The first answer, with an interval that holds the second as well where they disagree, and that said."""
    (low, high), (other_low, other_high) = first.interval, second.interval
    if other_low <= first.nats <= other_high or low <= second.nats <= high:
        return replace(first, reasons=(*first.reasons, f"{second.estimator} agrees: {second.nats:.3f} nats."))
    sentence = f"{first.estimator} says {first.nats:.3f} and {second.estimator} {second.nats:.3f} nats."
    both = replace(first, interval=(min(low, second.nats), max(high, second.nats)))
    return _at_most(both, "low" if max(other_low - high, low - other_high) > 0 else "moderate", sentence)


def _checked_from_below(near: Information, model: Information) -> Information:
    """The answer of neighbors beside a model of the density, which may say less but should not say much more."""
    if near.interval[0] <= model.interval[1] or model.nats > near.nats:
        return _reconciled(near, model)
    share = (near.nats - model.nats) / near.nats
    sentence = f"A model of the density finds {model.nats:.3f} nats, {share:.0%} less than neighbors."
    return _at_most(near, "high" if share < SHORT_OF_NEIGHBORS else "moderate", sentence)


def _not_below(critic: Information, near: Information) -> Information:
    """A critic's answer raised to that of neighbors of a few columns, which can only be too small, if that is more."""
    if near.nats <= critic.nats:
        return critic
    (low, high), (near_low, near_high) = critic.interval, near.interval
    raised = replace(critic, interval=(low, max(high, near_high)))
    if near_low <= critic.nats:
        return _at_most(raised, "high", "")
    sentence = f"The critic found {critic.nats:.3f} nats, neighbors of fewer columns {near.nats:.3f}."
    return _at_most(replace(raised, nats=near.nats), "low" if near_low > high else "moderate", sentence)


def _at_most(found: Information, most: str, sentence: str) -> Information:
    """The same answer with no more trust than this, and than the width of its interval allows."""
    width = found.interval[1] - found.interval[0]
    allowed = word_of_width(width, found.nats)
    word = min(found.trust.word, most, allowed, key=WORDS.index)
    if word == found.trust.word:
        return replace(found, reasons=(*found.reasons, sentence)) if sentence else found
    why = sentence if word == most else f"The interval is {width:.2f} nats wide."
    return replace(
        found, trust=Trust(word, why), reasons=(*found.reasons, *([sentence] if sentence and why != sentence else []))
    )
