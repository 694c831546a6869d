"""Wrong labels by how well a reader does without them: where are they found, and where can nobody find them?

    python benchmarks/foreign/wrong_labels.py SETS ROWS.jsonl
    python benchmarks/foreign/wrong_labels.py SETS ROWS.jsonl --table

Of every set 10, 15 and 30 % of the labels are replaced by any other class; the doctor examines it, and the set as it
is. Sets are sorted by the accuracy of scikit-learn's logistic regression, cross-validated on the right labels, which
only this benchmark knows. Two readings are counted: a fault, and "cannot tell" (an open question of wrong labels).
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from defects import Given
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from suite import said

SHARES = (0.0, 0.1, 0.15, 0.3)
BINS = (0.0, 0.6, 0.8, 0.9, 1.01)
ROWS = 500  # of a set at most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.table:
        for path in sorted(options.sets.glob("*.npz")):
            for row in examined(path, options.shares, options.seed):
                with options.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    print(*table([json.loads(line) for line in options.rows.read_text().splitlines()]), sep="\n")


def examined(path: Path, shares: list[float], seed: int) -> Iterator[dict[str, Any]]:
    stored = np.load(path)
    generator = np.random.default_rng([seed, len(path.stem)])
    kept = generator.permutation(len(stored["h"]))[:ROWS]
    h, labels = stored["h"][kept].astype(np.float32), np.unique(stored["labels"][kept], return_inverse=True)[1]
    clean = accuracy(h, labels)
    for share in shares:
        given = Given(h, replaced(labels, share, generator))
        told = said(given)
        row = {"set": path.stem, "n": len(h), "classes": int(labels.max()) + 1, "clean": clean, "share": share}
        yield {**row, "said": told["said"], "level": told["levels"].get("label noise"), "evidence": told["evidence"]}


def replaced(labels: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    classes = int(labels.max()) + 1
    wrong = generator.random(len(labels)) < share
    return np.where(wrong, (labels + generator.integers(1, classes, len(labels))) % classes, labels)


def accuracy(h: np.ndarray, labels: np.ndarray) -> float:
    """Five-fold accuracy of logistic regression on standardized columns, of rows whose class has five of them."""
    common = np.bincount(labels)[labels] >= 5
    reader = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return float(cross_val_score(reader, h[common], labels[common], cv=folds).mean())


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| accuracy on right labels | sets | named: 0 % wrong | 10 % | 15 % | 30 % | else cannot tell | else silent |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for low, high in itertools.pairwise(BINS):
        group = [row for row in rows if low <= row["clean"] < high]
        cells = []
        for share in SHARES:
            some = [row for row in group if row["share"] == share]
            cells.append(f"{sum('label noise' in row['said'] for row in some)} of {len(some)}")
        missed = [row for row in group if row["share"] and "label noise" not in row["said"]]
        open_ = sum(row["level"] == "unknown" for row in missed)
        sets = len({row["set"] for row in group})
        yield f"| {low:.1f} to {min(1, high):.1f} | {sets} | {' | '.join(cells)} | {open_} | {len(missed) - open_} |"


if __name__ == "__main__":
    main()
