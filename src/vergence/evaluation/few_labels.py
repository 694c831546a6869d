"""Few labels: accuracy when only some samples of each class are labeled, and along a curve of how many."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from vergence.evaluation.accuracy import Accuracy, Array, Split, checked_splits
from vergence.evaluation.classifiers import nearest_center, nearest_centers

LABELS = (1, 2, 5, 10, 20, 50)  # of each class, along the curve


def few_labels(
    train_h: Array,
    train_labels: Array,
    test_h: Array,
    test_labels: Array,
    *,
    per_class: int = 5,
    draws: int = 10,
    classifier: Callable[..., Accuracy] = nearest_center,
    seed: int = 0,
) -> Accuracy:
    """Mean accuracy of a classifier that sees ``per_class`` labels of each class, over several draws of them.

    The interval holds both errors: of which samples were labeled, s^2 / draws, and of which samples are tested, the
    variance over test samples of the share of draws that classify them correctly, over their number. Predictions are
    the last draw's.
    """
    train, test = checked_splits(train_h, train_labels, test_h, test_labels)
    return _over_draws(train, test, per_class=per_class, draws=draws, classifier=classifier, seed=seed)


def _over_draws(
    train: Split, test: Split, *, per_class: int, draws: int, classifier: Callable[..., Accuracy], seed: int
) -> Accuracy:
    generator = np.random.default_rng(seed)
    drawn = [_per_class(train[1], per_class, generator) for _ in range(draws)]
    results: Sequence[Accuracy]
    if classifier is nearest_center:
        results = nearest_centers(train, test, drawn)
    else:
        results = [classifier(train[0][chosen], train[1][chosen], *test) for chosen in drawn]
    correct = np.stack([result.predictions == test[1] for result in results]).astype(float)
    last = results[-1]
    spread = float(correct.mean(axis=1).std(ddof=1)) if draws > 1 else 0.0
    choices = {"per_class": per_class, "draws": draws, "spread": spread}
    between = interval(correct)
    return Accuracy(float(correct.mean()), between, last.n, last.predictions, last.classifier, choices, correct > 0)


def label_curve(
    train_h: Array,
    train_labels: Array,
    test_h: Array,
    test_labels: Array,
    *,
    counts: Sequence[int] = LABELS,
    draws: int = 10,
    classifier: Callable[..., Accuracy] = nearest_center,
    seed: int = 0,
) -> tuple[Accuracy, ...]:
    """Accuracy against labels a class: ``few_labels`` at each of ``counts`` that every class has, and at last all.

    ``per_class`` of the last point is the mean over classes, and its interval is the classifier's own.
    """
    train, test = checked_splits(train_h, train_labels, test_h, test_labels)
    _, available = np.unique(train[1], return_counts=True)
    known = [count for count in counts if count <= available.min() and count < available.mean()]
    curve = [
        _over_draws(train, test, per_class=count, draws=draws, classifier=classifier, seed=seed) for count in known
    ]
    everything = classifier(*train, *test)
    choices = {**everything.choices, "per_class": float(available.mean()), "draws": 1, "spread": 0.0}
    return *curve, replace(everything, choices=choices)


def interval(correct: np.ndarray, *, least: float = 0.0) -> tuple[float, float]:
    """95 % over draws of labels and over test samples, of ``[draws, n]`` numbers up to 1; one draw says nothing.

    The numbers are 1 where a sample was classified correctly, or with ``least=-1`` differences of two such.
    """
    draws, n = correct.shape
    if draws < 2:
        return least, 1.0
    of_draws = float(correct.mean(axis=1).var(ddof=1)) / draws
    of_samples = float(correct.mean(axis=0).var(ddof=1)) / n if n > 1 else 0.25
    # Welch's degrees of freedom: few draws, many test samples.
    total = of_draws + of_samples
    freedom = total**2 / (of_draws**2 / (draws - 1) + of_samples**2 / max(1, n - 1)) if total else draws - 1
    half = float(stdtrit(max(1.0, freedom), 0.975)) * math.sqrt(total)
    middle = float(correct.mean())
    return max(least, middle - half), min(1.0, middle + half)


def _per_class(labels: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    chosen = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen.append(generator.choice(members, size=min(count, len(members)), replace=False))
    return np.concatenate(chosen)
