"""How much numbers say about a label: classifiers of several kinds, cross-fitted and pooled."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from vergence.information.preprocessing import Rows, evenly

# A classifier that gives a label no chance loses no more than one that mixes in the prior with this weight.
PRIOR = 0.01
# Trees of so many rows and labels cost about five seconds for all folds; beyond, they see fewer rows.
MOST_CELLS = 16_000
MOST_TREES = 200
FOLDS = 5
# The gain of a doubling as a share of the one before: a half where the loss falls as one over the pairs, as with a
# model; the root of it where it falls as one over their root, as without; and at most so much, where four more gains
# are still to come.
RATIOS = (0.5, 0.71, 0.8)
FREE = ("neighbors", "trees", "network")  # classifiers that follow no model


def _quadratic_columns(x: Rows) -> Rows:
    """The columns with all their products, if they are few, else with their squares and the mean square."""
    if x.shape[1] <= 12:
        i, j = np.triu_indices(x.shape[1])
        return np.hstack([x, x[:, i] * x[:, j]])
    return np.hstack([x, x**2, (x**2).mean(1, keepdims=True)])


class _Quadratic:
    """Logistic regression on products of columns: classes that differ in shape, or by a sign."""

    def fit(self, x: Rows, y: np.ndarray) -> "_Quadratic":
        from sklearn.linear_model import LogisticRegression

        columns = _quadratic_columns(x)
        self.mean, self.scale = columns.mean(0), columns.std(0) + 1e-9
        self.model = LogisticRegression(C=0.1, max_iter=200).fit((columns - self.mean) / self.scale, y)
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, x: Rows) -> np.ndarray:
        return self.model.predict_proba((_quadratic_columns(x) - self.mean) / self.scale)


class _Ordered:
    """A normal variable that columns and their squares predict, cut into the labels: for counts and grades."""

    def fit(self, x: Rows, y: np.ndarray) -> "_Ordered":
        from sklearn.linear_model import RidgeCV

        self.classes_, codes = np.unique(y, return_inverse=True)
        below = np.cumsum(np.bincount(codes)) / len(y)
        middle = below - np.diff(below, prepend=0) / 2
        self.cuts = np.r_[-np.inf, ndtri(below[:-1]), np.inf]
        columns = self._columns(x)
        self.model = RidgeCV(np.logspace(-1, 4, 11)).fit(columns, ndtri(middle)[codes])
        rest = ndtri(middle)[codes] - self.model.predict(columns)
        self.scale = max(1e-3, rest.std())
        return self

    def predict_proba(self, x: Rows) -> np.ndarray:
        away = (self.cuts - self.model.predict(self._columns(x))[:, None]) / self.scale
        return np.diff(ndtr(away), axis=1)

    def _columns(self, x: Rows) -> Rows:
        return np.hstack([x, x**2 - 1])


def _network(n: int) -> Any:
    """Two small layers: they see a parity of three columns, which neither products nor trees do."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        (64, 32), learning_rate_init=5e-3, alpha=1e-3, batch_size=max(1, min(128, n // 4)), max_iter=40,
        early_stopping=True, n_iter_no_change=6, random_state=0,
    )  # fmt: skip


def _neighbors(n: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(max(5, round(n**0.5 / 2)), weights="distance")


def _linear(n: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


def _quadratic(n: int) -> Any:
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    return QuadraticDiscriminantAnalysis(reg_param=0.05)


def _trees(n: int, classes: int = 2) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    rounds = max(10, min(60, MOST_TREES // classes))  # every round has a tree for each label
    return HistGradientBoostingClassifier(
        max_iter=rounds, learning_rate=0.1, max_leaf_nodes=12, min_samples_leaf=max(5, min(20, n // 50)), random_state=0
    )


CLASSIFIERS: dict[str, Callable[[int], object]] = {
    "linear": _linear,
    "quadratic": _quadratic,
    "products": lambda n: _Quadratic(),
    "neighbors": _neighbors,
    "trees": _trees,
    "network": _network,
    "ordered": lambda n: _Ordered(),
}


def pooled_terms(
    x: Rows, labels: np.ndarray, *, share: float = 1.0, folds: int = FOLDS, seed: int = 0
) -> tuple[np.ndarray, dict[str, float]]:
    """Each pair's log q(label | x) / p(label) on unseen pairs, for the best pool of classifiers, and its weights.

    Classifiers learn from this ``share`` of the pairs outside a fold.

    A pool is the mean of the classifiers' probabilities with weights that maximize the likelihood of unseen labels;
    seven numbers are fitted to all pairs, so what they flatter is below 7 / n nats.
    """
    prior = (np.bincount(labels) / len(labels))[labels]
    chances = {"prior": prior}
    for name, make in CLASSIFIERS.items():
        found = np.empty(len(labels))
        for train, test in _parts(labels, folds, share, seed):
            found[test] = _chances(make, x[train], labels[train], x[test], labels[test])
        chances[name] = (1 - PRIOR) * found + PRIOR * prior
    names, table = list(chances), np.stack(list(chances.values()), axis=1)
    weights = _pool(table)
    return np.log(table @ weights / prior), dict(zip(names, weights.tolist(), strict=True))


def still_missed(quarter: float, half: float, full: float, *, free: float = 0.0) -> float:
    """What all pairs still miss: the rest of a geometric series of gains from doubling the pairs.

    If the loss falls as one over the number of pairs, every doubling gains half as much as the one before, and what
    all pairs miss is the last gain. Classifiers that follow no model (``free`` is their share) gain more slowly, and a
    dependence that few pairs do not show at all, such as a parity, gains ever more.
    """
    gain, before = max(0.0, full - half), max(1e-9, half - quarter)
    least = (1 - free) * RATIOS[0] + free * RATIOS[1]
    ratio = min(max(gain / before, least), RATIOS[2])
    return gain * ratio / (1 - ratio)


class Curve(NamedTuple):
    """What classifiers say of every pair, what all pairs still miss, and the weight of those that follow no model."""

    terms: np.ndarray
    missed: float
    free: float
    weights: dict[str, float]


def label_information(x: Rows, labels: np.ndarray, *, seed: int = 0) -> Curve:
    """The terms of all pairs for the pool of classifiers, and what they miss, by training on fewer."""
    terms, weights = pooled_terms(x, labels, seed=seed)
    quarter, half = (float(pooled_terms(x, labels, share=share, seed=seed)[0].mean()) for share in (0.25, 0.5))
    free = sum(weights[name] for name in FREE)
    return Curve(terms, still_missed(quarter, half, float(terms.mean()), free=free), free, weights)


def label_entropy(labels: np.ndarray) -> float:
    from scipy.stats import entropy

    return float(entropy(np.bincount(labels)))


def _parts(labels: np.ndarray, folds: int, share: float, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds, and a share of the rest of each for training."""
    from sklearn.model_selection import StratifiedKFold

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a label rarer than the folds is merely unevenly spread
        for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels):
            yield train[evenly(len(train), int(share * len(train)))], test


def _chances(make: Callable[[int], Any], x: np.ndarray, y: np.ndarray, to: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The probability of each asked label, or zero if the classifier never saw it."""
    if make is _trees:
        some = evenly(len(x), MOST_CELLS // len(np.unique(y)))
        x, y = x[some], y[some]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # collinear columns and classes of one row are what regularization is for
        try:
            model = _trees(len(x), len(np.unique(y))) if make is _trees else make(len(x))
            model.fit(x, y)
            table = np.nan_to_num(model.predict_proba(to))
        except (ValueError, np.linalg.LinAlgError):  # a class with one row has no covariance
            return np.zeros(len(asked))
    place = np.searchsorted(model.classes_, asked).clip(max=len(model.classes_) - 1)
    return np.where(model.classes_[place] == asked, table[np.arange(len(asked)), place], 0.0)


def _pool(table: Float[np.ndarray, "n k"], *, steps: int = 200) -> np.ndarray:
    weights = np.full(table.shape[1], 1 / table.shape[1])
    for _ in range(steps):
        share = table * weights
        weights = (share / share.sum(1, keepdims=True)).mean(0)
    return weights
