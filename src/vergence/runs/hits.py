"""Hits: which test samples each classifier got right, kept beside the results, and differences paired on them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save

from vergence.evaluation.few_labels import interval
from vergence.runs.results import TRAINED, Gain
from vergence.runs.run import write_bytes

FILE = "hits.safetensors"
ROWS = "rows"
NORMAL = 1.959964  # the 97.5 % point of the normal law

# features -> accuracies, each with how many labels of each class it had where not all
Judgments = Mapping[str, Sequence[tuple[Any, Mapping[str, Any]]]]
Hits = dict[str, dict[str, np.ndarray]]  # features -> classifier -> right or not; under ROWS the places in the data


@dataclass(frozen=True)
class Difference:
    """``first - second`` of two shares of correct samples, with a 95 % interval; ``n`` samples were judged by both."""

    first: float
    second: float
    low: float
    high: float
    n: int

    @property
    def value(self) -> float:
        return self.first - self.second

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "value": self.value}


def paired_difference(first: np.ndarray, second: np.ndarray) -> Difference:
    r"""The difference of two accuracies on the same samples, from which of them each classifier got right.

    Only samples on which the two disagree count: with b right by the first alone and c by the second alone, the
    difference is (b - c) / n with variance :math:`(b + c - (b - c)^2 / n) / n^2`. Half a sample is added to each of
    the four cells, so that the interval does not shrink to a point when few disagree. It holds the drawing of test
    samples, not the luck of a training run.

    References:
        Agresti & Min (2005), Simple improved confidence intervals for comparing matched proportions.
    """
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise ValueError(f"Expected one value a sample from both, got shapes {first.shape} and {second.shape}.")
    one, other = first.astype(bool), second.astype(bool)
    n, gained, lost = len(one), int((one & ~other).sum()), int((other & ~one).sum())
    b, c, total = gained + 0.5, lost + 0.5, n + 2.0
    middle = (b - c) / total
    half = NORMAL * math.sqrt(max(0.0, b + c - (b - c) ** 2 / total)) / total
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return Difference(float(one.mean()), float(other.mean()), low, high, n)


def hits(judgments: Judgments, labels: Mapping[str, Any], rows: Mapping[str, Any]) -> Hits:
    """Which test samples each classifier with all labels got right, for each kind of features."""
    found: Hits = {}
    for name, each in judgments.items():
        truth = np.asarray(labels[name])
        mine = {ROWS: _places(rows.get(name), len(truth))}
        for accuracy, more in each:
            if not more and accuracy.predictions.shape == truth.shape:
                mine[accuracy.classifier] = accuracy.predictions == truth
        found[name] = mine
    return found


def gains(found: Hits) -> tuple[Gain, ...]:
    """The accuracy of the trained encoder less that of each baseline, on the samples that both were tested on."""
    trained = found.get(TRAINED, {})
    return tuple(
        Gain(name, classifier, apart.first, apart.second, apart.low, apart.high, apart.n)
        for name, other in found.items()
        if name != TRAINED
        for classifier in trained
        if classifier != ROWS and (apart := difference(trained, other, classifier)) is not None
    )


def few_gains(judgments: Judgments, rows: Mapping[str, Any]) -> Iterator[Gain]:
    """The same with few labels of each class, draw by draw: baselines saw the labels that the trained encoder saw.

    The interval is over draws of the labels and over test samples.
    """
    for mine, more in judgments.get(TRAINED, ()):
        for name, each in judgments.items():
            for other, known in each:
                if name == TRAINED or not more or known != more or other.classifier != mine.classifier:
                    continue
                places = (_places(rows.get(TRAINED), mine.n), _places(rows.get(name), other.n))
                _, here, there = np.intersect1d(*places, return_indices=True)
                if len(here):
                    first, second = mine.hits[:, here].astype(float), other.hits[:, there].astype(float)
                    low, high = interval(first - second, least=-1.0)
                    shares = float(first.mean()), float(second.mean())
                    yield Gain(name, mine.classifier, *shares, low, high, len(here), more["per_class"])


def difference(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], classifier: str) -> Difference | None:
    """A classifier on two kinds of features, paired on the samples that both have; None where there are none."""
    if classifier not in first or classifier not in second:
        return None
    _, mine, theirs = np.intersect1d(first[ROWS], second[ROWS], return_indices=True)
    return paired_difference(first[classifier][mine], second[classifier][theirs]) if len(mine) else None


def save_hits(folder: Path, found: Hits) -> Path | None:
    """Keep them beside the results, for comparisons."""
    if not found:
        return None
    flat = {f"{name}|{key}": array.astype(np.uint8 if array.dtype == bool else np.int64)
            for name, mine in found.items() for key, array in mine.items()}  # fmt: skip
    return write_bytes(folder / FILE, save(flat))


def read_hits(folder: Path) -> Hits:
    """What ``save_hits`` left in a run directory; nothing where there is no such file or it cannot be read."""
    found: Hits = {}
    try:
        stored = load_file(folder / FILE)
    except Exception:  # absent, torn or of another version: a comparison does without
        return found
    for name, array in stored.items():
        kind, _, key = name.partition("|")
        found.setdefault(kind, {})[key] = array if key == ROWS else array.astype(bool)
    return found


def _places(rows: Any, n: int) -> np.ndarray:
    """The places of test samples in the data; in their order where none are known."""
    return np.arange(n) if rows is None else np.asarray(rows).astype(np.int64)
