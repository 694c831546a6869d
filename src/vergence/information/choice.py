"""``estimate``: chooses an estimator, compares it with others of another kind, and says why."""

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from vergence.information.agreement import checked_from_below, nearby, not_below, reconciled
from vergence.information.answers import Doubt, Information, Trust
from vergence.information.copula import copula_information, looks_gaussian
from vergence.information.critics import Critic
from vergence.information.estimators import (
    MOST_NEIGHBORS,
    MOST_PAIRS,
    NEIGHBOR_DIMENSIONS,
    RELIABLE,
    CrossFitted,
    copula,
    critic_answer,
    cross_fitted,
    infinite,
    labels,
    neighbors,
    table,
)
from vergence.information.limits import kl_ceiling
from vergence.information.neighbors import MOST_GROWN, duplicates, growth
from vergence.information.order import order
from vergence.information.preprocessing import (
    Rows,
    Variable,
    categorical,
    checked,
    dithered,
    evenly,
    gaussianized,
    one_hot,
    reduced,
    varying,
)
from vergence.information.screening import dependence, matched
from vergence.information.trained import trained_bound
from vergence.information.unmixing import unmixed
from vergence.tables import UnknownName, outside

# KSG gains about one nat per e-fold of samples if the truth is infinite and none once it has settled. Finite truths
# more than 2.5 nats below ln n gain at most .72 (two to four signs and Gaussians in 1 to 5 dimensions, 500 to 8,000
# pairs), sines, squares and signs without noise .77 and more in the dimensions in which KSG sees them.
GROWING, ENDLESS = 0.5, 0.75
MOST_TRIED = 3  # pairs of columns that may be functions of each other
# In more joint dimensions KSG has not settled at 2000 pairs, whatever the relation.
GROWTH_DIMENSIONS = 10
# A table with fewer pairs per cell is mostly bias.
PAIRS_PER_CELL = 5
# More repeated rows than this are a discrete part, which breaks estimators for densities.
FEW_DUPLICATES = 0.01
# More labels than this are values rather than classes.
MOST_LABELS = 64
# More values of a single column than this are grades or counts as likely as names.
FEW_GRADES = 5
# Names of version 0.1, in British spelling.
FEWEST_IN_A_FOLD = 10  # pairs, for a test part to say anything
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
    x: Variable,
    y: Variable,
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
    if batch < 2 or not 2 <= folds <= len(pair[0]) // FEWEST_IN_A_FOLD:
        most = len(pair[0]) // FEWEST_IN_A_FOLD
        raise ValueError(f"batch must be at least 2, and folds from 2 to {most} here, got {batch} and {folds}.")
    bound = OLD_NAMES.get(bound, bound) if isinstance(bound, str) else bound
    if bound == "jensen_shannon":
        raise ValueError("jensen_shannon trains a critic but is not in nats; smile reports nats from that critic.")
    if bound == "auto" and critic != "auto":
        bound = "info_nce"
    if bound in BOUNDS or (callable(bound) and len(_positional(bound)) == 1):
        return trained_bound(*pair, bound=bound, critic=critic, batch=batch, folds=folds, seed=seed)
    if isinstance(bound, str) and bound not in ESTIMATORS and outside("estimators", bound) is None:
        raise UnknownName("bound", bound, [*ESTIMATORS, *BOUNDS])
    row = ESTIMATORS[bound] if isinstance(bound, str) else bound
    known = inspect.signature(row).parameters
    options = {name: value for name, value in {"folds": folds, "seed": seed}.items() if name in known}
    found = row(*pair, **options)
    return found if isinstance(found, Information) else _stated(float(found), row, len(pair[0]))


def _stated(nats: float, row: Callable[..., Any], n: int) -> Information:
    """The bare number of an estimator from outside: nothing is known of its error."""
    name = getattr(row, "__name__", type(row).__name__)
    trust = Trust("low", f"{name} gives a number without an interval.")
    return Information(nats, (-math.inf, math.inf), math.inf, False, trust, name, n, ())


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
    return _numbers(x, y, situation)


def _numbers(x: Rows, y: Rows, situation: Situation) -> Information:
    """Rows with a density: with no more columns than the pairs allow, and separated where that helps."""
    (x, lost_x), (y, lost_y) = reduced("x", x), reduced("y", y)
    x, y, notes = unmixed(x, y)
    found = _continuous(x, y, situation._replace(notes=(*situation.notes, *notes)))
    return _at_least(found, *lost_x, *lost_y) if lost_x or lost_y else found


def _at_least(found: Information, *sentences: str) -> Information:
    """The same answer when some of the data were left out: nothing limits it from above."""
    trust = Trust("low", " ".join(sentences))
    return replace(found, interval=(found.interval[0], math.inf), trust=trust, reasons=(*found.reasons, *sentences))


def _discrete(x: Rows, y: Rows, situation: Situation) -> Information:
    """Categories, or numbers with ties: a table, classifiers, neighbors counted with ties, or ties broken at random."""
    values = [len(np.unique(rows, axis=0)) for rows in (x, y)]
    kinds = categorical(x), categorical(y)
    if all(kinds) and values[0] * values[1] * PAIRS_PER_CELL <= len(x):
        return table(x, y, **situation.options("Both variables are categories: their table is counted."))
    label, numbers = (x, y) if values[0] <= values[1] else (y, x)
    if categorical(label) and min(values) <= MOST_LABELS:
        found = _labeled(numbers, label, situation)
        graded = label.shape[1] == 1 and min(values) > FEW_GRADES
        return _surer(found, _untied(x, y, situation)) if graded else found
    corners = one_hot(x) if kinds[0] and not kinds[1] else x, one_hot(y) if kinds[1] and not kinds[0] else y
    tied = Doubt("moderate", "Rows repeat, so that neighbors are counted with ties.")
    if x.shape[1] + y.shape[1] <= NEIGHBOR_DIMENSIONS:
        return neighbors(*corners, **situation._replace(doubts=(*situation.doubts, tied)).options())
    return _untied(x, y, situation)


def _untied(x: Rows, y: Rows, situation: Situation) -> Information:
    """The answer for ranks whose ties are broken at random, as for numbers with a density."""
    doubt = Doubt("moderate", "Values repeat, so that their densities have steps.")
    situation = situation._replace(
        notes=(*situation.notes, "Ties were broken at random, which loses nothing."), doubts=(*situation.doubts, doubt)
    )
    x, y = dithered(x, seed=1), dithered(y, seed=2)
    found = _numbers(x, y, situation)
    for near in nearby(x, y) if found.estimator == "copula" else ():  # a Gaussian has no steps
        found = not_below(found, near)
    return found


def _surer(first: Information, second: Information) -> Information:
    """Of two answers that can miss but hardly invent, the one sure of more; of equally sure ones the narrower."""
    pair = sorted((first, second), key=lambda found: -found.interval[0])
    if pair[0].interval[0] - pair[1].interval[0] <= max(0.05, 0.1 * abs(pair[0].interval[0])):
        pair = sorted(pair, key=lambda found: found.interval[1] - found.interval[0])
    return replace(pair[0], reasons=(*pair[0].reasons, f"{pair[1].estimator} found {pair[1].nats:.3f} nats."))


def _labeled(numbers: Rows, label: Rows, situation: Situation) -> Information:
    """Classifiers, and where the numbers are few, neighbors: the two must agree."""
    found = labels(
        numbers, label, seed=situation.seed, **situation.options("One variable has few values, its categories.")
    )
    if numbers.shape[1] >= NEIGHBOR_DIMENSIONS or categorical(numbers):
        return found
    reason = "One variable is a label, the other few numbers: the nearest of the same label are counted."
    return reconciled(neighbors(numbers, one_hot(label), **situation.options(reason)), found)


def _continuous(x: Rows, y: Rows, situation: Situation) -> Information:
    opinion, _ = copula_information(x, y)
    d = x.shape[1] + y.shape[1]
    if math.isinf(opinion):
        sentence = (
            "Some direction of y is a function of x, linear in values or ranks: then the information is infinite."
        )
        return infinite(x, y, sentence, reasons=situation.notes)
    if opinion > kl_ceiling(len(x)) - RELIABLE and looks_gaussian(x, y):
        return copula(x, y, **situation.options("Beyond the reach of bounds; the pairs pass for Gaussian."))
    pace = _pace(x, y) if d <= GROWTH_DIMENSIONS else 0.0
    if pace > ENDLESS:
        sentence = (
            f"The estimate of neighbors grows by {pace:.2f} nats with every e-fold of pairs, as that of a relation "
            "without noise, whose information is infinite; or there is more than so many pairs can show."
        )
        return infinite(x, y, sentence, reasons=situation.notes)
    found = _settled(x, y, opinion, situation)
    return _growing(found, pace) if pace > GROWING else found


def _pace(x: Rows, y: Rows) -> float:
    """How fast the estimate of neighbors grows: of all columns, or of the strongest pairs of columns, if that is more.

    With few pairs every estimate of much information grows; whether it still does is asked again of all of them.
    """
    strongest = matched(dependence(x, y), most=MOST_TRIED) if x.shape[1] + y.shape[1] > 2 else []
    x, y = gaussianized(x), gaussianized(y)
    pace = 0.0
    for one, other in ((x, y), *((x[:, [i]], y[:, [j]]) for i, j in strongest)):
        own = growth(one, other)
        if own > GROWING and len(x) > MOST_GROWN:
            own = growth(one, other, most=MOST_NEIGHBORS)
        pace = max(pace, own)
    return pace


def _growing(found: Information, pace: float) -> Information:
    """The same answer, read as at least, since neighbors find more with more pairs."""
    sentence = f"The estimate of neighbors grows by {pace:.2f} nats with every e-fold of pairs: read this as at least."
    return replace(_at_least(found, sentence), saturated=True)


def _settled(x: Rows, y: Rows, opinion: float, situation: Situation) -> Information:
    """Neighbors in few dimensions, checked by a model of the density; else a critic, checked by neighbors."""
    few = x.shape[1] + y.shape[1] <= NEIGHBOR_DIMENSIONS
    rows = evenly(len(x), MOST_PAIRS)
    fit = cross_fitted(
        x[rows], y[rows], folds=situation.folds, seed=situation.seed, memory=situation.memory, network=not few
    )
    if few:
        near = neighbors(x, y, **situation.options("Few dimensions: neighbors need no training."))
        return checked_from_below(near, critic_answer(fit, x, y, opinion=opinion, **_without_memory(situation)))
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
    for near in nearby(x, y):
        critic = not_below(critic, near)
    return critic
