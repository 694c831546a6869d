"""Estimators of different kinds beside each other: a blind critic looks tight, so another kind must agree."""

from dataclasses import replace

import numpy as np

from vergence.information.answers import WORDS, Information, Trust, word_of_width
from vergence.information.estimators import added_neighbors, neighbors
from vergence.information.preprocessing import Rows, evenly, gaussianized, with_products
from vergence.information.screening import MOST_PRODUCTS, PAIRS_PER_PRODUCT, dependence, matched, relevant, threshold

# In so many joint dimensions neighbors still serve as a check from below.
NEAR_DIMENSIONS = 4
# So many pairs are enough for that check.
MOST_CHECKED = 5000
MOST_MATCHED = 12
# A model of few Gaussians misses this share of what neighbors find in curved relations without either being at fault.
SHORT_OF_NEIGHBORS = 0.1


def nearby(x: Rows, y: Rows) -> list[Information]:
    """What neighbors say of the columns that depend on the other side: never more than all share.

    Of a few of them together, and, if no two columns of x (or of y) depend on each other, of matched pairs of columns,
    added up: then I(x; y) is at least the sum of I(x_i; y_i). And of the strongest product of two columns, which may
    depend where no column does.
    """
    rows = evenly(len(x), MOST_CHECKED)
    x, y = x[rows], y[rows]
    strength = dependence(x, y)
    pairs, found = matched(strength, most=MOST_MATCHED), []
    if len(pairs) > 1 and any(map(_independent, (x, y))):
        found.append(added_neighbors([(x[:, [i]], y[:, [j]]) for i, j in pairs]))
    found += _of_a_product(gaussianized(x), gaussianized(y))
    d = x.shape[1] + y.shape[1]
    if d <= NEAR_DIMENSIONS:
        found.append(neighbors(x, y))
    most = d if d <= NEAR_DIMENSIONS else NEAR_DIMENSIONS // 2
    keep = relevant(strength, 0, most=most), relevant(strength, 1, most=most)
    if all(map(len, keep)) and len(keep[0]) + len(keep[1]) < d:  # inert columns cost neighbors much
        found.append(neighbors(x[:, keep[0]], y[:, keep[1]]))
    return found


def _of_a_product(x: Rows, y: Rows) -> list[Information]:
    left, right = with_products(x, y, min(MOST_PRODUCTS, len(x) // PAIRS_PER_PRODUCT))
    strongest = matched(dependence(left, right), most=1)
    return [neighbors(left[:, [i]], right[:, [j]]) for i, j in strongest if i >= x.shape[1] or j >= y.shape[1]]


def _independent(rows: Rows) -> bool:
    """Whether no two columns depend on each other, as far as the smooth test sees."""
    strength = dependence(rows, rows)
    np.fill_diagonal(strength, 0)
    return bool(strength.max() <= threshold(strength.size // 2))


def reconciled(first: Information, second: Information) -> Information:
    """The first answer, with an interval that holds the second as well where they disagree, and that said."""
    (low, high), (other_low, other_high) = first.interval, second.interval
    if other_low <= first.nats <= other_high or low <= second.nats <= high:
        return replace(first, reasons=(*first.reasons, f"{second.estimator} agrees: {second.nats:.3f} nats."))
    sentence = f"{first.estimator} says {first.nats:.3f} and {second.estimator} {second.nats:.3f} nats."
    both = replace(first, interval=(min(low, second.nats), max(high, second.nats)))
    return _at_most(both, "low" if max(other_low - high, low - other_high) > 0 else "moderate", sentence)


def checked_from_below(near: Information, model: Information) -> Information:
    """The answer of neighbors beside a model of the density, which may say less but should not say much more."""
    if near.interval[0] <= model.interval[1] or model.nats > near.nats:
        return reconciled(near, model)
    share = (near.nats - model.nats) / near.nats
    sentence = f"A model of the density finds {model.nats:.3f} nats, {share:.0%} less than neighbors."
    return _at_most(near, "high" if share < SHORT_OF_NEIGHBORS else "moderate", sentence)


def not_below(critic: Information, near: Information) -> Information:
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
