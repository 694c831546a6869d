"""Which rows are held out: the very rows of scikit-learn's ``train_test_split``, whose import takes half a second."""

import math

import numpy as np


def held_out(n: int, share: float, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train on and a share of them, rounded up, to test on, in random order."""
    order = np.random.RandomState(seed).permutation(n)
    count = math.ceil(share * n)
    return order[count:], order[:count]


def held_out_evenly(codes: np.ndarray, count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train on and ``count`` to test on, each class with its share in both; codes are 0, 1, 2, ..."""
    draw = np.random.RandomState(seed)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes := np.bincount(codes))[:-1])
    seen = _shares(sizes, len(codes) - count, draw)
    held = _shares(sizes - seen, count, draw)
    mixed = [rows[draw.permutation(len(rows))] for rows in members]
    train = np.concatenate([rows[:own] for rows, own in zip(mixed, seen, strict=True)])
    test = np.concatenate([rows[own : own + left] for rows, own, left in zip(mixed, seen, held, strict=True)])
    return draw.permutation(train), draw.permutation(test)


def _shares(sizes: np.ndarray, count: int, draw: np.random.RandomState) -> np.ndarray:
    """How many of ``count`` rows each class gets: its share rounded down, then the largest remainders, ties by lot."""
    shares = sizes / sizes.sum() * count
    found = np.floor(shares)
    left = int(count - found.sum())
    remainders = shares - found
    for value in np.sort(np.unique(remainders))[::-1] if left else ():
        (equal,) = np.where(remainders == value)
        more = min(len(equal), left)
        found[draw.choice(equal, size=more, replace=False)] += 1
        left -= more
        if not left:
            break
    return found.astype(int)
