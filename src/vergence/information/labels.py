"""How much numbers say about a label: classifiers of several kinds, cross-fitted and pooled."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from vergence.information.preprocessing import Rows, evenly

# A classifier that gives a label no chance loses no more than one that mixes in the prior with this weight.
PRIOR = 0.01
# Trees of so many rows and labels cost about five seconds for all folds; beyond, they see fewer rows.
MOST_CELLS = 16_000
MOST_TREES = 200
FOLDS = 5


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
}


def pooled_terms(
    x: Rows, labels: np.ndarray, *, folds: int = FOLDS, seed: int = 0
) -> tuple[np.ndarray, dict[str, float]]:
    """Each pair's log q(label | x) / p(label) on unseen pairs, for the best pool of classifiers, and its weights.

    A pool is the mean of the classifiers' probabilities with weights that maximize the likelihood of unseen labels;
    four numbers are fitted to all pairs, so what they flatter is below 4 / n nats.
    """
    prior = (np.bincount(labels) / len(labels))[labels]
    chances = {"prior": prior}
    for name, make in CLASSIFIERS.items():
        found = np.empty(len(labels))
        for train, test in _parts(labels, folds, seed):
            found[test] = _chances(make, x[train], labels[train], x[test], labels[test])
        chances[name] = (1 - PRIOR) * found + PRIOR * prior
    names, table = list(chances), np.stack(list(chances.values()), axis=1)
    weights = _pool(table)
    return np.log(table @ weights / prior), dict(zip(names, weights.tolist(), strict=True))


def label_information(x: Rows, labels: np.ndarray, *, seed: int = 0) -> tuple[np.ndarray, float, dict[str, float]]:
    """The terms of all pairs with four fifths for training, what half as much training loses, and the weights.

    If the loss falls as one over the number of pairs, what half of them lose is what all of them still miss.
    """
    terms, weights = pooled_terms(x, labels, seed=seed)
    half, _ = pooled_terms(x, labels, folds=-FOLDS, seed=seed)
    return terms, float(terms.mean() - half.mean()), weights


def label_entropy(labels: np.ndarray) -> float:
    from scipy.stats import entropy

    return float(entropy(np.bincount(labels)))


def _parts(labels: np.ndarray, folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds; with negative folds, only half of the rest is for training."""
    from sklearn.model_selection import StratifiedKFold

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a label rarer than the folds is merely unevenly spread
        splitter = StratifiedKFold(abs(folds), shuffle=True, random_state=seed)
        for train, test in splitter.split(labels, labels):
            yield (train if folds > 0 else train[evenly(len(train), len(train) // 2)]), test


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
