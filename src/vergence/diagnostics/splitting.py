"""Splitting: rows in two by two means, or by two models of all classes, and each row again by all others.

So the doctor starts without scikit-learn.
"""

from typing import NamedTuple

import numpy as np

STARTS = 3  # of two means; the tightest split wins
ROUNDS = 100  # of two means, at most
FOLDS = 5  # parts of the rows, each of which the others tell
FITS = 40  # rounds of two models, at most
RIDGE = 0.1  # part of a covariance that is a ball: a tenth of the rows must do for a model
STILL = 1e-3  # change of the mean log-likelihood that ends the rounds


def two_means(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Whether each row is in the second of two groups whose squared distances to their means are small in sum.

    Lloyd's rounds from starts that are drawn far apart; of one column, the best cut of the sorted values.

    References:
        Arthur & Vassilvitskii (2007), k-means++.
    """
    rows = np.asarray(rows, dtype=np.float64)
    if rows.shape[1] == 1:
        return rows[:, 0] > _best_cut(rows[:, 0])
    generator = np.random.default_rng(seed)
    found = [_lloyd(rows, generator) for _ in range(STARTS)]
    return min(found, key=lambda pair: pair[1])[0]


def two_gaussians(rows: np.ndarray, labels: np.ndarray, seed: int = 0) -> np.ndarray:
    """Whether each row is likelier under the second of two models of all classes, whatever its own label is.

    A model has a mean for each class and one covariance; both are fitted with labels by expectation and maximization,
    so that two models are told apart where their rows are one cloud. Which model a row belongs to is then asked of the
    row alone: with its label, rows that do not fit their class would be a group.
    """
    rows = np.asarray(rows, dtype=np.float64)
    known = np.eye(int(labels.max()) + 1)[labels]
    share, before = _start(rows, known, seed), -np.inf
    for _ in range(FITS):
        models = [_fitted(rows, known, weight) for weight in (1 - share, share)]
        logs = np.stack([_log_density(rows, known @ model.means, model) for model in models], axis=1)
        total = np.logaddexp(*logs.T)
        share = np.exp(logs[:, 1] - total)
        if total.mean() - before < STILL:
            break
        before = total.mean()
    first, second = (_log_density_of_any_class(rows, model) for model in models)
    return second > first


def told_by_others(rows: np.ndarray, labels: np.ndarray, second: np.ndarray, seed: int = 0) -> np.ndarray:
    """Whether each row is in the second group by what the other rows tell: five parts, each told by the other four.

    Two models of all classes are fitted to the groups of four parts and asked of the rows of the fifth, without labels.
    A group that follows the luck of its own rows is not found again.
    """
    known, found = np.eye(int(labels.max()) + 1)[labels], np.zeros(len(rows), dtype=bool)
    for part in np.array_split(np.random.default_rng(seed).permutation(len(rows)), FOLDS):
        rest = np.ones(len(rows), dtype=bool)
        rest[part] = False
        sides = ((rest & ~second).astype(float), (rest & second).astype(float))
        first, other = (_log_density_of_any_class(rows[part], _fitted(rows, known, side)) for side in sides)
        found[part] = other > first
    return found


class _Model(NamedTuple):
    """A share of the rows, that of each class in it, the means of classes, and what makes the common covariance round.

    ``white`` is the inverse of a root of the covariance, ``volume`` the logarithm of the root's determinant.
    """

    share: float
    classes: np.ndarray
    means: np.ndarray
    white: np.ndarray
    volume: float


def _start(rows: np.ndarray, known: np.ndarray, seed: int) -> np.ndarray:
    """A part of the rows: one of two groups of each class, farthest along a direction, like one row, or unlike any.

    A minority of another model is far from all in the metric of the majority: so two starts of twelve begin.
    """
    generator = np.random.default_rng(seed)
    if seed % 2 == 0:
        return _of_each_class(rows, known, generator)
    number = seed // 2 % 6
    if number >= 4:
        model = _fitted(rows, known, np.ones(len(rows)))
        far = -_log_density(rows, known @ model.means, model)
        return np.where(far > np.quantile(far, (0.85, 0.92)[number % 2]), 0.9, 0.1)
    rest = rows - known @ (known.T @ rows / known.sum(axis=0)[:, None])
    along = generator.standard_normal(rows.shape[1])
    if number % 2:
        rest = rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-12)
        along = rest[generator.integers(len(rows))]
    place = rest @ along
    return np.where(place > np.quantile(place, (0.5, 0.85)[number // 2]), 0.9, 0.1)


def _of_each_class(rows: np.ndarray, known: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The smaller of two groups of every class: two models put each class in two places."""
    share = np.full(len(rows), 0.1)
    for own in (np.flatnonzero(column) for column in known.T):
        if len(own) >= 4:
            second, _ = _lloyd(rows[own], generator)
            share[own[second if second.mean() <= 0.5 else ~second]] = 0.9
    return share


def _fitted(rows: np.ndarray, known: np.ndarray, weight: np.ndarray) -> _Model:
    """The model of weighted rows; a class mean leans on the mean of all by one row, a covariance on a ball by RIDGE."""
    mass, classes, d = weight.sum() + 1e-12, known.T @ weight, rows.shape[1]
    means = (known.T @ (weight[:, None] * rows) + weight @ rows / mass) / (classes + 1)[:, None]
    apart = rows - known @ means
    covariance = (apart * weight[:, None]).T @ apart / mass
    covariance = (1 - RIDGE) * covariance + (RIDGE * np.trace(covariance) / d + 1e-9) * np.eye(d)
    root = np.linalg.cholesky(covariance)
    shares = (classes + 0.5) / (classes + 0.5).sum()
    return _Model(mass / len(rows), shares, means, np.linalg.inv(root), float(np.log(np.diag(root)).sum()))


def _log_density(rows: np.ndarray, means: np.ndarray, model: _Model) -> np.ndarray:
    """Log of the share of a model times its Gaussian density at every row, around a mean for each row."""
    return _log_of(np.square((rows - means) @ model.white.T).sum(axis=1), model)


def _log_density_of_any_class(rows: np.ndarray, model: _Model) -> np.ndarray:
    turned, means = rows @ model.white.T, model.means @ model.white.T
    logs = [
        _log_of(np.square(turned - mean).sum(axis=1), model) + np.log(part)
        for mean, part in zip(means, model.classes, strict=True)
    ]
    return np.logaddexp.reduce(logs, axis=0)


def _log_of(squares: np.ndarray, model: _Model) -> np.ndarray:
    return np.log(model.share) - model.volume - squares / 2


def _best_cut(values: np.ndarray) -> float:
    """The threshold with the least sum of squares on its two sides: between-group variance is the largest there."""
    order = np.sort(values)
    n = len(order)
    count = np.arange(1, n)
    below = np.cumsum(order)[:-1]
    above = order.sum() - below
    place = int(np.argmax(np.square(below) / count + np.square(above) / (n - count)))
    return float((order[place] + order[place + 1]) / 2)


def _lloyd(rows: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, float]:
    """One split and its sum of squared distances."""
    first = rows[generator.integers(len(rows))]
    apart = np.square(rows - first).sum(axis=1)
    total = apart.sum()
    second = rows[generator.choice(len(rows), p=apart / total)] if total > 0 else first
    centers, member = np.stack([first, second]), np.zeros(len(rows), dtype=bool)
    for number in range(ROUNDS):
        # |x - a|^2 - |x - b|^2 needs one product a row.
        a, b = centers
        now = 2 * rows @ (b - a) > b @ b - a @ a
        if (number and np.array_equal(now, member)) or now.all() or not now.any():
            break
        member = now
        centers = np.stack([rows[~member].mean(axis=0), rows[member].mean(axis=0)])
    spread = sum(
        float(np.square(rows[side] - rows[side].mean(axis=0)).sum()) for side in (member, ~member) if side.any()
    )
    return member, spread
