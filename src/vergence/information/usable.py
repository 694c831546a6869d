"""Alternatives to mutual information: what predictors can use, and how far a joint law is from independence."""

import math
from typing import Any

import numpy as np

from vergence.information.preprocessing import Rows, Variable, categorical, checked, codes
from vergence.tables import Table


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def _neighbors() -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(20)


def _perceptron() -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((64,), early_stopping=True, random_state=0)


FAMILIES = Table("family", {"linear": _linear, "neighbors": _neighbors, "perceptron": _perceptron})
# Names of version 0.1, in British spelling.
OLD_NAMES = {"neighbors": "neighbors"}
# An assignment of n pairs to n pairs costs n^3: at this n about a second.
MOST_PAIRS = 1000


def usable_information(x: Variable, y: Variable, *, family: str = "linear", folds: int = 5, seed: int = 0) -> float:
    r"""V-information: by how much predictors of one family predict y better when they see x, in nats on unseen pairs.

    :math:`H_V(Y) - H_V(Y \mid X)`, between zero (no predictor of the family can use x) and, up to sampling, the mutual
    information. Unlike that, computation can create it: decrypting a message adds usable information. A categorical y
    is predicted by the family, a continuous one by a linear Gaussian model.

    References:
        Xu et al. (2020), Definition 2. https://arxiv.org/abs/2002.10689
    """
    from sklearn.model_selection import KFold

    rows, targets = checked(x, y)
    parts = KFold(folds, shuffle=True, random_state=seed).split(rows)
    if categorical(targets):
        return float(np.mean([_label_gain(rows, codes(targets), train, test, family) for train, test in parts]))
    if family != "linear":
        raise ValueError(f"Family {family!r} predicts categories, and y is continuous; use 'linear'.")
    return float(np.mean([_number_gain(rows, targets, train, test) for train, test in parts]))


def wasserstein_dependency(x: Variable, y: Variable, *, seed: int = 0) -> float:
    """How far pairs must move to become independent ones: the earth mover's distance, in units of the columns.

    Less the same distance between two independent shuffles, which is what sampling alone costs; so it is near zero for
    independent variables and can be slightly negative. It does not grow with the precision of x and y as mutual
    information does, and has no ceiling of log n. At most 1000 pairs are used.

    References:
        Ozair et al. (2019), Sec. 4. https://arxiv.org/abs/1903.11780
    """
    rows, targets = checked(x, y)
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(rows))[:MOST_PAIRS]
    rows, targets = rows[chosen], targets[chosen]
    first, second = (np.concatenate([rows, random.permutation(targets)], axis=1) for _ in range(2))
    return _earth_mover(np.concatenate([rows, targets], axis=1), first) - _earth_mover(first, second)


def _earth_mover(a: Rows, b: Rows) -> float:
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    cost = cdist(a, b)
    return float(cost[linear_sum_assignment(cost)].mean())


def _label_gain(x: Rows, labels: np.ndarray, train: np.ndarray, test: np.ndarray, family: str) -> float:
    model = FAMILIES[OLD_NAMES.get(family, family)]().fit(x[train], labels[train])
    known = np.isin(labels[test], model.classes_)
    column = np.searchsorted(model.classes_, labels[test][known])
    with_x = model.predict_proba(x[test][known])[np.arange(known.sum()), column]
    without = np.bincount(labels[train], minlength=labels.max() + 1)[labels[test][known]] / len(train)
    # Neighbors may give a label no vote at all, and one vote fewer than one costs no more than this.
    return float(np.log(np.maximum(with_x, 1 / len(train)) / without).mean())


def _number_gain(x: Rows, y: Rows, train: np.ndarray, test: np.ndarray) -> float:
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(np.logspace(-3, 3, 7)).fit(x[train], y[train])
    before, after = ((y - y[train].mean(0)), y - model.predict(x).reshape(y.shape))
    return float(sum(_gaussian_gain(before[:, i], after[:, i], train, test) for i in range(y.shape[1])))


def _gaussian_gain(before: np.ndarray, after: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    variances = before[train].var(), after[train].var()
    costs = [0.5 * (math.log(v) + (e[test] ** 2).mean() / v) for v, e in zip(variances, (before, after), strict=True)]
    return costs[0] - costs[1]
