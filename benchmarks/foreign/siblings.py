"""A random sweep over kinds of embeddings: healthy ones must not be called faulty, broken ones must be.

    python benchmarks/foreign/siblings.py 200             200 draws
    python benchmarks/foreign/siblings.py 200 --seed 1    others

A draw is a cloud of classes (2 to 4,096 columns, 40 to 60,000 rows, 2 to 500 classes, balanced or 99 to 1), stored in
one of many ways (unit length, float16, int8, signs, rectified, histograms, word counts, one-hot, means over words of
different numbers, ...), whole or broken in one of several ways. Failures print the numbers that repeat them. Most draws
take a second; tests run twenty.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from vergence.diagnostics import diagnose

Random = np.random.Generator
# Rows per case, columns, classes: small, ordinary, wide, tall.
SHAPES = ((40, 2, 2), (60, 16, 2), (120, 64, 3), (300, 4, 3), (500, 32, 10), (600, 128, 10), (800, 384, 5),
          (700, 4096, 10), (1500, 64, 500), (5000, 32, 10), (60_000, 16, 20))  # fmt: skip
# What may be said of a healthy set that is stored in a way that costs, or that has copies by its nature.
TRUE_OF = {
    "one-hot": {"duplicates", "quantization", "cluster collapse", "dead columns"},
    "signs": {"quantization", "duplicates"},
    "int4": {"quantization", "duplicates", "dead columns"},
    "counts": {"duplicates", "quantization", "empty rows", "dead columns"},
    "pooled": {"heavy-tailed lengths"},
    "heavy": {"heavy-tailed lengths"},
    "offset": {"constant offset"},
}


class Case(NamedTuple):
    """A draw: what was stored how and broken how, the rows and labels, and what must or must not be said."""

    name: str
    h: np.ndarray
    labels: np.ndarray | None
    must: set[str]
    may: set[str]


def cloud(random: Random, n: int, d: int, classes: int, *, imbalanced: bool) -> tuple[np.ndarray, np.ndarray]:
    """Classes around centers of a decaying spectrum, told apart by neighbors in most rows."""
    share = np.full(classes, 1 / classes)
    if imbalanced:
        share = np.array([0.99, *[0.01 / (classes - 1)] * (classes - 1)])
    labels = random.choice(classes, n, p=share)
    labels[: 2 * classes] = np.repeat(np.arange(classes), 2)[: len(labels)]  # two of each at least
    random.shuffle(labels)
    scale = 1 / np.sqrt(1 + np.arange(d) / 8)
    centers = 3 * random.standard_normal((classes, d)) / np.sqrt(min(d, 8))
    h = (centers[labels] + random.standard_normal((n, d)) / np.sqrt(max(1, d / 16))) * scale
    return h.astype(np.float32), labels


def unit(h: np.ndarray) -> np.ndarray:
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)


def quantized(h: np.ndarray, levels: int) -> np.ndarray:
    top = np.abs(h).max()
    return np.round(h / top * levels).astype(np.int8)


def one_hot(h: np.ndarray, random: Random) -> np.ndarray:
    """The largest column, as a code."""
    return np.eye(h.shape[1], dtype=np.float32)[h.argmax(axis=1)]


def counts(h: np.ndarray, random: Random) -> np.ndarray:
    """Word counts whose rates follow the cloud, most of them zero."""
    rate = np.exp(np.clip(1.5 * h / h.std(), -4, 3))
    return random.poisson(20 * rate / rate.sum(axis=1, keepdims=True)).astype(np.float32)


def pooled(h: np.ndarray, random: Random) -> np.ndarray:
    """Means over words: the fewer words, the more noise and the longer the row."""
    words = random.integers(1, 30, len(h))
    return (h + random.standard_normal(h.shape) * h.std() / np.sqrt(words)[:, None]).astype(np.float32)


STORED: dict[str, Callable[[np.ndarray, Random], np.ndarray]] = {
    "plain": lambda h, random: h,
    "unit length": lambda h, random: unit(h),
    "float16": lambda h, random: h.astype(np.float16),
    "float64": lambda h, random: h.astype(np.float64) * 1e3,
    "tiny": lambda h, random: h * np.float32(1e-6),
    "int8": lambda h, random: quantized(h, 127),
    "int4": lambda h, random: quantized(h, 7),
    "signs": lambda h, random: np.sign(h - np.median(h, axis=0)).astype(np.int8),
    "rectified": lambda h, random: np.maximum(h, 0),
    "positive": lambda h, random: np.logaddexp(0, h),
    "softmax": lambda h, random: np.exp(h - h.max(axis=1, keepdims=True)) / np.exp(
        h - h.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True),
    "offset": lambda h, random: h + np.float32(3 * h.std()) * random.standard_normal(h.shape[1]).astype(np.float32),
    "one-hot": one_hot,
    "counts": counts,
    "pooled": pooled,
    "uneven columns": lambda h, random: h * np.exp(0.3 * random.standard_normal(h.shape[1])).astype(np.float32),
}  # fmt: skip


def broken(case: Case, how: str, random: Random) -> Case:
    """The case with one thing wrong."""
    h, labels = case.h.astype(np.float64), case.labels
    n, d = h.shape
    if how == "one point":
        h = np.ones((n, d)) + 0 * h
        return case._replace(name=f"{case.name}, {how}", h=h, must={"complete collapse"}, may=set())
    if how == "shuffled labels":
        shuffled = random.permutation(labels)
        return case._replace(name=f"{case.name}, {how}", labels=shuffled, must={"labels at chance"}, may=case.may)
    if how == "labels one row late":
        moved = np.roll(labels, 1)
        return case._replace(name=f"{case.name}, {how}", labels=moved, must={"misaligned labels"}, may=case.may)
    if how == "half copied":
        source = random.integers(0, n // 2, n - n // 2)
        copied = np.concatenate([case.h[: n // 2], case.h[source]])
        known = np.concatenate([labels[: n // 2], labels[source]])
        order = random.permutation(n)
        return case._replace(name=f"{case.name}, {how}", h=copied[order], labels=known[order], must={"duplicates"})
    if how == "a tenth empty":
        h[random.permutation(n)[: n // 10]] = 0
        return case._replace(name=f"{case.name}, {how}", h=h, must={"empty rows"}, may=case.may | {"duplicates"})
    assert how == "absurd rows"
    h[random.permutation(n)[: max(1, n // 100)]] *= 1e6
    return case._replace(name=f"{case.name}, {how}", h=h, must={"outliers"}, may=case.may)


BREAKS = ("one point", "shuffled labels", "labels one row late", "half copied", "a tenth empty", "absurd rows")


def drawn(number: int, seed: int) -> Case:
    """One draw; every other is broken."""
    random = np.random.default_rng([seed, number])
    n, d, classes = SHAPES[number % len(SHAPES)]
    imbalanced = bool(random.random() < 0.2) and classes <= 5 and n >= 300
    stored = str(random.choice(list(STORED)))
    stored = "plain" if stored == "rectified" and d < 8 else stored  # of two columns a third of the rows would be zeros
    h, labels = cloud(random, n, d, classes, imbalanced=imbalanced)
    words = f"{stored}, {n} x {d}, {classes} classes{', 99 to 1' * imbalanced}"
    case = Case(words, STORED[stored](h, random), labels, set(), TRUE_OF.get(stored, set()))
    how = str(random.choice(BREAKS))
    # What cannot be seen: labels of classes with three rows each, of 99 to 1, or of rows that hold too little; copies
    # among codes that coincide anyway.
    blind = imbalanced or classes > 20 or d < 4 or n < 120 or stored in ("one-hot", "counts", "signs", "int4")
    unseen = (blind and how in ("shuffled labels", "labels one row late")) or (
        how == "half copied" and "duplicates" in case.may
    )
    if number % 2 == 0 or unseen:
        return case if random.random() < 0.8 else case._replace(name=f"{words}, no labels", labels=None)
    return broken(case, how, random)


def judged(case: Case) -> str | None:
    """What is wrong with the doctor's answer, or nothing."""
    names: Any = None if case.labels is None else np.array([f"class {label}" for label in case.labels])
    found = diagnose(case.h, labels=names, diagnostics={})
    said = set(found.faults)
    if not case.must <= said:
        levels = {finding.fault: finding.level for finding in found.findings}
        return f"not named: {', '.join(case.must - said)}; said {levels}"
    if not case.must and said - case.may:
        sentences = [finding.sentence for finding in found.findings if finding.level == "fault"]
        return f"healthy, and called {', '.join(sorted(said - case.may))}: {' '.join(sentences)}"
    if not case.must and found.verdict.label == "collapsed":
        return "healthy, and called collapsed"
    return None


def failures(count: int, seed: int) -> Iterator[tuple[int, Case, str]]:
    for number in range(count):
        case = drawn(number, seed)
        wrong = judged(case)
        if wrong is not None:
            yield number, case, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    for number, case, wrong in failures(options.count, options.seed):
        kinds["broken" if case.must else "healthy"] += 1
        print(f"{options.seed}:{number} {case.name}: {wrong}", flush=True)
    print(f"{options.count} draws: {kinds['healthy']} false alarms, {kinds['broken']} misses.")
    sys.exit(bool(kinds.total()))


if __name__ == "__main__":
    main()
