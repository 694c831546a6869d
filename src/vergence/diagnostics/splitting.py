"""Splitting: rows in two by two means or by two Gaussians. Small, so that the doctor starts without scikit-learn."""

import numpy as np

STARTS = 3  # of two means; the tightest split wins
ROUNDS = 100  # of two means, at most
FITS = 60  # rounds of two Gaussians, at most
RIDGE = 1e-4  # on the diagonal of a covariance, of rows of unit scale
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


def two_gaussians(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Whether each row is likelier under the second of two Gaussians, fitted by expectation and maximization.

    The start is two of the rows, drawn. Covariances are whole, with a ridge on the diagonal.
    """
    rows = np.asarray(rows, dtype=np.float64)
    generator = np.random.default_rng(seed)
    first, second = rows[generator.choice(len(rows), 2, replace=False)]
    share = np.zeros(len(rows))
    near = np.square(rows - second).sum(axis=1) < np.square(rows - first).sum(axis=1)
    share[near] = 1.0
    before = -np.inf
    for _ in range(FITS):
        logs = np.stack([_log_density(rows, 1 - share), _log_density(rows, share)], axis=1)
        top = logs.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
        share = np.exp(logs[:, 1] - total)
        if abs(total.mean() - before) < STILL:
            break
        before = total.mean()
    return share > 0.5


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


def _log_density(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Log of the share of a weighted group times its Gaussian density, at every row."""
    mass = weight.sum() + 1e-12
    center = weight @ rows / mass
    apart = rows - center
    covariance = (apart * weight[:, None]).T @ apart / mass + RIDGE * np.eye(rows.shape[1])
    factor = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(factor, apart.T)
    return np.log(mass / len(rows)) - np.log(np.diag(factor)).sum() - np.square(whitened).sum(axis=0) / 2
