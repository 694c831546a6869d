"""What embeddings of texts are worth: agreement with human scores, classification, finding the other half of a pair.

Embeddings go in, a row for each text; nothing here knows an encoder. Each gives :class:`Measure` rows with intervals.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from vergence.counters import drawn, shuffled
from vergence.diagnostics.estimate import wilson
from vergence.evaluation.accuracy import as_numpy
from vergence.evaluation.logistic import Logistic, Moments, chosen

Array = Any
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # on the mean cross-entropy of rows scaled to unit mean square
CUTS = (1, 5, 10)  # places among which the right text is looked for
TILE = 1024  # queries whose scores are in memory at once
Z = 1.959964  # a 95 % interval


@dataclass(frozen=True)
class Measure:
    """One number with its 95 % interval over the drawing of texts; ``set`` names the part of the data it is about."""

    name: str
    value: float
    low: float
    high: float
    n: int
    set: str = "all"


def sts(first: Array, second: Array, scores: Array, *, sets: Sequence[str] | None = None) -> tuple[Measure, ...]:
    """Rank and linear correlation of the cosine of two texts with human scores of their similarity, a row per set.

    With several sets their mean comes last. Intervals are by Fisher's transform, of variance 1/(n - 3) for Pearson's r
    and (1 + r^2/2)/(n - 3) for Spearman's. A set whose cosines are all equal has no correlation: it counts as 0.

    References:
        Agirre et al. (2012-2016), the STS tasks; Bonett & Wright (2000), eq. 4, for the interval of Spearman's r.
    """
    from scipy import stats

    cosines, gold = cosine(first, second), as_numpy(scores).astype(float)
    if len(cosines) != len(gold):
        raise ValueError(f"There are {len(cosines)} pairs, but {len(gold)} scores: expected one each.")
    names = np.array(["all"] * len(gold) if sets is None else list(sets))
    rows = []
    for measure, correlate in (("Spearman", stats.spearmanr), ("Pearson", stats.pearsonr)):
        own = [
            _correlation(measure, correlate, cosines[names == each], gold[names == each], each) for each in _of(names)
        ]
        rows += [*own, *([_mean(measure, own)] if len(own) > 1 else [])]
    return tuple(rows)


def classification(
    h: Array, labels: Array, *, parts: Sequence[str] | None = None, folds: int = 10, seed: int = 0
) -> tuple[Measure, ...]:
    """Accuracy of logistic regression on frozen embeddings, as SentEval does it: by folds, or by the given split.

    Without ``parts`` (train, dev, test), every fold is predicted by a classifier that saw the others, whose penalty was
    chosen on a fifth of those: nested, so that no test text chooses anything. With dev, the penalty is chosen there.
    ``h`` may be sparse.

    References:
        Conneau & Kiela (2018), SentEval. https://arxiv.org/abs/1803.05449
    """
    labels = np.unique(as_numpy(labels), return_inverse=True)[1]
    if len(np.unique(labels)) < 2:
        raise ValueError("All texts have one label: a classifier needs two classes.")
    rows = h if sparse.issparse(h) else _rounded(as_numpy(h))
    if parts is not None and {"train", "test"} <= set(parts):
        named = np.asarray(parts)
        train, dev, test = (
            np.flatnonzero(np.isin(named, kind)) for kind in (("train",), ("dev", "validation"), ("test",))
        )
        found = _predicted(rows, labels, train, test, dev if len(dev) else None, seed)
        return (_accuracy(found == labels[test], "accuracy, given split"),)
    right = np.zeros(len(labels), bool)
    tests = _folds(labels, folds, seed)
    for test, moments in zip(tests, _of_others(rows, tests), strict=True):
        train = np.setdiff1d(np.arange(len(labels)), test)
        right[test] = _predicted(rows, labels, train, test, None, seed, moments=moments) == labels[test]
    return (_accuracy(right, f"accuracy, {folds} nested folds"),)


def retrieval(queries: Array, documents: Array, *, relevant: Array | None = None) -> tuple[Measure, ...]:
    """How high each query's own text ranks among all texts: recall at 1, 5 and 10, mean reciprocal rank, nDCG at 10.

    ``relevant`` is the number of the right document of each query; without it, its own row. Ties count as the middle
    of the places that they share, so embeddings that are all equal give chance.

    References:
        Jarvelin & Kekalainen (2002), Cumulated gain-based evaluation; with one right text nDCG is 1/log2(1 + rank).
    """
    queries, documents = unit(queries), unit(documents)
    own = np.arange(len(queries)) if relevant is None else as_numpy(relevant)
    ranks = np.concatenate(
        [_ranks(queries[i : i + TILE], documents, own[i : i + TILE]) for i in range(0, len(queries), TILE)]
    )
    values = {f"recall@{cut}": (ranks <= cut).astype(float) for cut in CUTS}
    values |= {"MRR": 1 / ranks, "nDCG@10": np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0.0)}
    return tuple(_average(name, each) for name, each in values.items())


def cosine(first: Array, second: Array) -> np.ndarray:
    """The cosine of each row with the other's; rows may be sparse."""
    first, second = unit(first), unit(second)
    if sparse.issparse(first):
        return np.asarray(first.multiply(second).sum(axis=1)).ravel()
    return (first * second).sum(axis=1)


def unit(h: Array) -> Any:
    """Rows of length 1; a row of zeros stays one."""
    if sparse.issparse(h):
        lengths = np.sqrt(np.asarray(h.multiply(h).sum(axis=1)).ravel())
        return sparse.diags(1 / np.maximum(lengths, np.finfo(np.float32).tiny)) @ h
    h = as_numpy(h).astype(np.float32)
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), np.finfo(np.float32).tiny)


def _correlation(measure: str, correlate: Any, cosines: np.ndarray, gold: np.ndarray, name: str) -> Measure:
    n = len(gold)
    if n < 4:
        raise ValueError(f"The set {name} has {n} scored pairs; a correlation with an interval takes 4.")
    flat = np.ptp(cosines) == 0 or np.ptp(gold) == 0
    r = 0.0 if flat else float(correlate(cosines, gold).statistic)
    half = Z * math.sqrt((1 + (r**2 / 2 if measure == "Spearman" else 0.0)) / (n - 3))
    middle = math.atanh(min(max(r, -1 + 1e-12), 1 - 1e-12))
    return Measure(measure, r, math.tanh(middle - half), math.tanh(middle + half), n, str(name))


def _mean(measure: str, rows: Sequence[Measure]) -> Measure:
    """The mean over sets that were drawn apart: their errors add in squares."""
    value = sum(row.value for row in rows) / len(rows)
    half = math.sqrt(sum(((row.high - row.low) / 2) ** 2 for row in rows)) / len(rows)
    return Measure(measure, value, max(-1.0, value - half), min(1.0, value + half), sum(row.n for row in rows), "mean")


def _rounded(h: np.ndarray) -> Tensor:
    """Rows about their mean, of about unit mean square: an intercept that is not penalized makes up for any mean."""
    rows = h.astype(np.float32) - h.mean(axis=0, dtype=np.float64).astype(np.float32)
    rows /= max(math.sqrt(float(np.vdot(rows, rows)) / rows.size), 1e-12)
    return torch.from_numpy(rows)


def _of_others(rows: Any, folds: Sequence[np.ndarray]) -> Iterator[Moments | None]:
    """The moments of all rows but those of a fold, for each fold: of all folds together, less its own."""
    if sparse.issparse(rows):
        yield from [None] * len(folds)
        return
    own = [Moments.of(rows[fold]) for fold in folds]
    whole = reduce(add, own)
    yield from (whole - each for each in own)


def _predicted(
    h: Any,
    labels: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    dev: np.ndarray | None,
    seed: int,
    *,
    moments: Moments | None = None,
) -> np.ndarray:
    """Labels of the test rows by a classifier with a penalty chosen on ``dev``, or on a fifth of the training rows.

    ``moments`` are those of the training rows, where they are known. Penalties are on rows scaled to unit mean square
    over the training rows, which is to say, multiplied by that mean square.
    """
    fit, check = (train, dev) if dev is not None else _fifth(labels, train, seed)
    if sparse.issparse(h):
        rows = h * (1 / max(math.sqrt(float(h[train].multiply(h[train]).mean())), 1e-12))
        return _of_sparse(rows, labels, fit, check, train, test)
    count, targets = len(fit), torch.from_numpy(labels[np.concatenate([fit, check])])
    rows = h[np.concatenate([fit, check])]
    checked, right = rows[count:], targets[count:]
    if dev is not None:
        rows, targets = rows[:count], targets[:count]
    moments = Moments.of(rows) if moments is None else moments
    whole = Logistic(rows, targets, int(labels.max()) + 1, moments.gram / len(rows))
    problem = whole if dev is not None else whole.beginning(count)
    penalties = [penalty * moments.mean_square for penalty in PENALTIES]
    best = chosen(problem, checked, right, penalties, tolerance=1e-3)
    return whole.fit(best.penalty, start=best).predictions(h[test]).numpy()


def _of_sparse(
    rows: Any, labels: np.ndarray, fit: np.ndarray, check: np.ndarray, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """The same for counts of words, whose Gram matrix would be large."""
    model, scores = _logistic(PENALTIES[-1], len(fit), tol=1e-3), {}
    for penalty in reversed(PENALTIES):
        model.set_params(C=1 / (penalty * len(fit))).fit(rows[fit], labels[fit])
        scores[penalty] = model.score(rows[check], labels[check])
    best = max(scores, key=scores.__getitem__)
    return _logistic(best, len(train), tol=1e-4).fit(rows[train], labels[train]).predict(rows[test])


def _logistic(penalty: float, n: int, *, tol: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / (penalty * n), max_iter=300, tol=tol, warm_start=True)


def _fifth(labels: np.ndarray, train: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = drawn(len(train), max(1, len(train) // 5), groups=torch.from_numpy(labels[train]), seed=seed).numpy()
    return np.delete(train, chosen), train[chosen]


def _folds(labels: np.ndarray, folds: int, seed: int) -> list[np.ndarray]:
    """Places in ``folds`` parts of nearly equal size, every class spread evenly over them."""
    order = shuffled(torch.arange(len(labels)), seed=seed).numpy()
    by_class = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(by_class[start::folds]) for start in range(folds)]


def _ranks(queries: np.ndarray, documents: np.ndarray, own: np.ndarray) -> np.ndarray:
    scores = queries @ documents.T
    right = scores[np.arange(len(queries)), own][:, None]
    close = np.abs(scores - right) <= 1e-6  # float32: the same text twice gives cosines that differ in the last bits
    return 1 + ((scores > right) & ~close).sum(axis=1) + (close.sum(axis=1) - 1) / 2


def _accuracy(right: np.ndarray, name: str) -> Measure:
    share = float(right.mean())
    return Measure(name, share, *wilson(share, len(right)), len(right))


def _average(name: str, values: np.ndarray) -> Measure:
    mean, n = float(values.mean()), len(values)
    half = Z * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else 1.0
    return Measure(name, mean, max(0.0, mean - half), min(1.0, mean + half), n)


def _of(names: np.ndarray) -> list[str]:
    return sorted(set(names.tolist()))
