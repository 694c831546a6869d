"""Defects put into foreign embeddings, each at three strengths, and what each costs in accuracy or retrieval.

A defect takes a :class:`Given` and a strength of 0, 1 or 2, and gives a spoiled one. The cost is measured here, with
scikit-learn, against the clean rows that only the suite knows: leave-one-out accuracy of ten neighbors by cosine and by
distance, whichever loses more; for pairs, the share of first views whose nearest second view is their own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.neighbors import NearestNeighbors

K = 10


@dataclass(frozen=True)
class Given:
    """What the doctor sees."""

    h: np.ndarray
    labels: np.ndarray
    z2: np.ndarray | None = None


Defect = Callable[[Given, int, np.random.Generator], Given]


def constant_offset(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """A constant vector of 1, 3 or 10 times the mean length is added."""
    size = (1, 3, 10)[strength] * np.linalg.norm(given.h, axis=1).mean()
    return replace(given, h=given.h + size * direction(given.h.shape[1], generator))


def dominant_direction(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """Gaussian noise along one direction, with 1, 3 or 10 times the deviation of all others together."""
    size = (1, 3, 10)[strength] * spread(given.h)
    noise = generator.standard_normal(len(given.h))
    return replace(given, h=given.h + size * np.outer(noise, direction(given.h.shape[1], generator)))


def heavy_lengths(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """Rows are multiplied by log-normal numbers."""
    factor = np.exp((0.7, 1.2, 2.0)[strength] * generator.standard_normal(len(given.h)))
    return replace(given, h=given.h * factor[:, None])


def column_scales(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """A twentieth of the columns, one at least, is in other units: 10, 30 or 100 times as large."""
    d = given.h.shape[1]
    factor = np.ones(d)
    factor[generator.permutation(d)[: max(1, d // 20)]] = (10, 30, 100)[strength]
    return replace(given, h=given.h * factor)


def duplicates(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """10, 30 or 50 % of the rows are copies of others."""
    return copied(given, (0.1, 0.3, 0.5)[strength], 0.0, generator)


def near_duplicates(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """30 % of the rows are copies with noise of 1e-5, 1e-3 or 1e-2 of the deviation."""
    return copied(given, 0.3, (1e-5, 1e-3, 1e-2)[strength], generator)


def outliers(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """1, 3 or 10 % of the rows are 1e20, 100 or 30 times as long as the others, in a direction of their own."""
    n, d = given.h.shape
    count = max(1, int((0.01, 0.03, 0.1)[strength] * n))
    chosen = generator.permutation(n)[:count]
    size = (1e20, 100, 30)[strength] * np.linalg.norm(given.h, axis=1).mean()
    h = given.h.astype(np.float64)
    h[chosen] = size * np.stack([direction(d, generator) for _ in chosen])
    return replace(given, h=h.astype(np.float32))


def quantization(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """Columns are rounded to 16, 4 or 2 levels between their 1st and 99th percentiles."""
    levels = (16, 4, 2)[strength]
    low, high = np.percentile(given.h, [1, 99], axis=0)
    step = np.where(high > low, (high - low) / (levels - 1), 1.0)
    return replace(given, h=(np.clip(np.round((given.h - low) / step), 0, levels - 1) * step + low).astype(np.float32))


def mixture(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """10, 25 or 50 % of the rows come from another model: turned by a random rotation."""
    n, d = given.h.shape
    rotation = np.linalg.qr(generator.standard_normal((d, d)))[0]
    chosen = generator.permutation(n)[: int((0.1, 0.25, 0.5)[strength] * n)]
    h = given.h.copy()
    h[chosen] = h[chosen] @ rotation
    return replace(given, h=h)


def another_model(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """From a quarter, half or three quarters of the file on, rows come from a random network that reads the others.

    Its rows have the same width and mean length, and know much of the same.
    """
    n, d = given.h.shape
    start = n * (1, 2, 3)[strength] // 4
    rows = (given.h - given.h.mean(axis=0)) / spread(given.h)
    hidden = np.tanh(3 * rows @ generator.standard_normal((d, 2 * d)) + 0.3 * generator.standard_normal(2 * d))
    other = hidden @ generator.standard_normal((2 * d, d)) / np.sqrt(2 * d)
    other *= np.linalg.norm(given.h, axis=1).mean() / np.linalg.norm(other, axis=1).mean()
    h = np.concatenate([given.h[:start], other[start:]])
    return replace(given, h=h.astype(np.float32))


def dead_columns(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """50, 80 or 95 % of the columns are constant."""
    d = given.h.shape[1]
    dead = generator.permutation(d)[: min(d - 1, round((0.5, 0.8, 0.95)[strength] * d))]
    h = given.h.copy()
    h[:, dead] = 0.0
    return replace(given, h=h)


def empty_rows(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """3, 10 or 30 % of the rows are zeros."""
    h = given.h.copy()
    h[generator.permutation(len(h))[: max(1, int((0.03, 0.1, 0.3)[strength] * len(h)))]] = 0.0
    return replace(given, h=h)


def few_directions(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """Rows pass through 8, 4 or 2 random numbers, at most a quarter of the columns."""
    d = given.h.shape[1]
    rank = max(1, min((8, 4, 2)[strength], d // 4))
    down = np.linalg.qr(generator.standard_normal((d, rank)))[0]
    return replace(given, h=given.h @ down @ down.T)


def block_statistics(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """Every 64, 32 or 16 consecutive rows are standardized by themselves."""
    block = (64, 32, 16)[strength]
    h = given.h.copy()
    for start in range(0, len(h), block):
        part = h[start : start + block]
        h[start : start + block] = (part - part.mean(axis=0)) / (part.std(axis=0) + 1e-6 * spread(given.h))
    return replace(given, h=h)


def pure_noise(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """All rows are Gaussian noise: isotropic, with the columns' deviations, with the rows' covariance."""
    n, d = given.h.shape
    noise = generator.standard_normal((n, d))
    if strength == 1:
        noise *= given.h.std(axis=0)
    if strength == 2:
        noise = generator.standard_normal((n, n)) @ (given.h - given.h.mean(axis=0)) / np.sqrt(n)
    return replace(given, h=noise.astype(np.float32), z2=None)


def labels_shuffled(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """All labels are permuted; or drawn anew from the labels; or drawn evenly from the classes."""
    n = len(given.labels)
    drawn = (generator.permutation(given.labels), generator.choice(given.labels, n))
    return replace(given, labels=drawn[strength] if strength < 2 else generator.integers(0, given.labels.max() + 1, n))


def labels_shifted(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """Labels are 1 row late, 2 rows early, 7 rows late."""
    return replace(given, labels=np.roll(given.labels, (1, -2, 7)[strength]))


def labels_shifted_from_the_middle(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """A row was lost at a quarter, half or three quarters of the file: labels after it are one row late."""
    start = len(given.h) * (1, 2, 3)[strength] // 4
    return replace(given, labels=np.concatenate([given.labels[:start], np.roll(given.labels[start:], 1)]))


def label_noise(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """5, 15 or 30 % of the labels are replaced by another class."""
    classes = int(given.labels.max()) + 1
    wrong = generator.random(len(given.labels)) < (0.05, 0.15, 0.3)[strength]
    other = (given.labels + generator.integers(1, classes, len(given.labels))) % classes
    return replace(given, labels=np.where(wrong, other, given.labels))


def views_shifted(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """The second views are 1 row late, 3 rows early, 10 rows late."""
    return replace(given, z2=np.roll(given.z2, (1, -3, 10)[strength], axis=0))


def views_shuffled(given: Given, strength: int, generator: np.random.Generator) -> Given:
    """30, 60 or 100 % of the second views belong to other samples."""
    n = len(given.h)
    chosen = generator.permutation(n)[: int((0.3, 0.6, 1.0)[strength] * n)]
    z2 = given.z2.copy()
    z2[chosen] = z2[np.roll(chosen, 1)]
    return replace(given, z2=z2)


# The defects with the names by which the doctor may call them.
DEFECTS: dict[str, tuple[Defect, tuple[str, ...]]] = {
    "constant offset": (constant_offset, ("constant offset",)),
    "dominant direction": (dominant_direction, ("dominant direction",)),
    "heavy-tailed lengths": (heavy_lengths, ("heavy-tailed lengths",)),
    "column scales": (column_scales, ("column scales", "dominant direction")),
    "duplicates": (duplicates, ("duplicates",)),
    "near duplicates": (near_duplicates, ("duplicates",)),
    "outliers": (outliers, ("outliers",)),
    "quantization": (quantization, ("quantization",)),
    "mixture of two models": (mixture, ("mixture",)),
    "another model from a row on": (another_model, ("mixture",)),
    "dead columns": (dead_columns, ("dead columns",)),
    "empty rows": (empty_rows, ("empty rows",)),
    "few directions": (few_directions, ("dimensional collapse",)),
    "block statistics": (block_statistics, ("batch statistics leak",)),
    "pure noise": (pure_noise, ("labels at chance",)),
    "labels shuffled": (labels_shuffled, ("labels at chance",)),
    "labels shifted": (labels_shifted, ("misaligned labels",)),
    "labels shifted from the middle": (labels_shifted_from_the_middle, ("misaligned labels", "label noise")),
    "label noise": (label_noise, ("label noise",)),
    "views shifted": (views_shifted, ("misaligned views",)),
    "views shuffled": (views_shuffled, ("shuffled pairs",)),
}
PAIRED = ("views shifted", "views shuffled")  # defects that need second views


def cost(clean: Given, spoiled: Given, defect: str) -> float:
    """What the defect changes: accuracy lost, or gained falsely by copies; for pairs, retrieval lost."""
    if defect in PAIRED:
        return retrieval(clean.h, clean.z2) - retrieval(spoiled.h, spoiled.z2)
    changes = [
        accuracy(clean.h, clean.labels, metric) - accuracy(spoiled.h, spoiled.labels, metric)
        for metric in ("cosine", "euclidean")
    ]
    return -min(changes) if "duplicates" in defect else max(changes)


def accuracy(h: np.ndarray, labels: np.ndarray, metric: str) -> float:
    """Leave-one-out accuracy of ten neighbors; the class that comes first in the list wins a tie."""
    rows = h.astype(np.float64)
    if metric == "cosine":
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    else:
        rows = rows - np.median(rows, axis=0)
    search = NearestNeighbors(n_neighbors=min(K, len(rows) - 1), algorithm="brute").fit(rows)
    nearest = search.kneighbors(return_distance=False)
    votes = np.zeros((len(rows), labels.max() + 1))
    np.add.at(votes, (np.repeat(np.arange(len(rows)), nearest.shape[1]), labels[nearest].ravel()), 1)
    return float((votes.argmax(axis=1) == labels).mean())


def retrieval(first: np.ndarray, second: np.ndarray) -> float:
    first, second = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30) for rows in (first, second))
    return float(((first @ second.T).argmax(axis=1) == np.arange(len(first))).mean())


def direction(d: int, generator: np.random.Generator) -> np.ndarray:
    found = generator.standard_normal(d)
    return found / np.linalg.norm(found)


def spread(h: np.ndarray) -> float:
    """The root of the summed variances of the columns."""
    return float(np.sqrt(h.var(axis=0, dtype=np.float64).sum()))


def copied(given: Given, part: float, noise: float, generator: np.random.Generator) -> Given:
    n, d = given.h.shape
    order = generator.permutation(n)
    target, source = order[: int(part * n)], generator.choice(order[int(part * n) :], int(part * n))
    h, labels = given.h.copy(), given.labels.copy()
    h[target] = h[source] + noise * spread(given.h) / np.sqrt(d) * generator.standard_normal((len(target), d))
    labels[target] = labels[source]
    return replace(given, h=h, labels=labels)
