"""Clean draws of clean sets: what the doctor says of them is an alarm.

    python benchmarks/foreign/draws.py CLEAN SETS [SETS ...] --seed 5
    python benchmarks/foreign/suite.py CLEAN ROWS.jsonl --only clean

Every set as it is and in four of eight other ways that spoil nothing: parts of the rows, of the columns and of the
classes, a projection, unit length, standardized columns, principal components and these whitened.
"""

import argparse
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from embeddings import Set
from held_out import keep

ROWS, OTHERS = 1000, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for sets in options.sets:
        for path in sorted(sets.glob("*.npz")):
            keep(draws(path, f"{sets.name}/{path.stem}", options.seed), options.folder)


def draws(path: Path, name: str, seed: int) -> Iterator[Set]:
    stored, generator = np.load(path), np.random.default_rng([seed, zlib.crc32(name.encode())])
    kept = np.sort(generator.permutation(len(stored["h"]))[:ROWS])
    every = list(variants(stored["h"][kept].astype(np.float64), stored["labels"][kept], generator))
    for place in (0, *(i for i in generator.permutation(len(every))[:OTHERS] if i)):
        variant, h, labels = every[place]
        yield f"{name.replace('/', '-')}-{variant}", h, labels, None


def variants(
    h: np.ndarray, labels: np.ndarray, generator: np.random.Generator
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    n, d = h.shape
    yield "plain", h, labels
    kept = np.sort(generator.permutation(n)[: min(n, max(120, int(generator.uniform(0.3, 0.8) * n)))])
    yield "rows", h[kept], labels[kept]
    columns = generator.permutation(d)[: max(min(d, 5), int(generator.uniform(0.3, 0.7) * d))]
    yield "columns", h[:, columns], labels
    width = max(5, d // int(generator.integers(2, 6)))
    yield "turned", (h - h.mean(0)) @ generator.standard_normal((d, width)) / np.sqrt(d), labels
    classes = np.unique(labels)
    if len(classes) > 3:
        kept = np.isin(labels, generator.permutation(classes)[: max(2, int(generator.integers(2, len(classes))))])
        if kept.sum() >= 100:
            yield "classes", h[kept], labels[kept]
    lengths = np.linalg.norm(h, axis=1, keepdims=True)
    if (lengths > 0).all():
        yield "unit", h / lengths, labels
    spread = h.std(0)
    live = spread > 1e-9 * spread.max()
    yield "standardized", (h[:, live] - h[:, live].mean(0)) / spread[live], labels
    vectors, values, _ = np.linalg.svd(h - h.mean(0), full_matrices=False)
    count = int(min(generator.integers(8, 65), (values > 1e-3 * values[0]).sum()))
    if count >= 4:
        yield "components", vectors[:, :count] * values[:count], labels
        yield "whitened", vectors[:, :count] * np.sqrt(n), labels


if __name__ == "__main__":
    main()
