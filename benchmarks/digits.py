"""The demo over several seeds: five labels a class, trained encoder against untrained encoder and raw pixels.

    python benchmarks/digits.py [--seeds 3] [--epochs 80]

The settings are those of ``make demo``. Prints the accuracies of every seed, their means and the margins.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from vergence.config import Config
from vergence.runs import results
from vergence.stages.train import train

FEATURES = ("trained encoder", "untrained encoder", "raw pixels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=80)
    options = parser.parse_args()
    rows: dict[tuple[str, str], list[list[float]]] = {}
    for seed in range(options.seeds):
        for (labels, classifier), accuracies in measured(seed, options.epochs).items():
            rows.setdefault((labels, classifier), []).append(accuracies)
    print(f"{'labels':20} {'classifier':15} " + " ".join(f"{name:>18}" for name in FEATURES) + "   margin over pixels")
    for (labels, classifier), values in rows.items():
        table = np.array(values)
        means = " ".join(
            f"{mean:>11.3f} ± {spread:.3f}" for mean, spread in zip(table.mean(0), table.std(0), strict=True)
        )
        margins = table[:, 0] - table[:, 2]
        print(f"{labels:20} {classifier:15} {means}   {margins.mean():+.3f} (least {margins.min():+.3f})")


def measured(seed: int, epochs: int) -> dict[tuple[str, str], list[float]]:
    """Accuracy of each kind of features, by labels and classifier, of the demo with a seed."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Config(data="digits", epochs=epochs, seed=seed, objective={"temperature": 0.2})
        train(settings, run=Path(folder) / "run", quiet=True)
        found = results.read(Path(folder) / "run")
    assert found is not None
    by_features = {(row.labels, row.classifier, row.features): row.accuracy for row in found.accuracy}
    kinds = dict.fromkeys((row.labels, row.classifier) for row in found.accuracy)
    return {kind: [by_features[(*kind, name)] for name in FEATURES] for kind in kinds}


if __name__ == "__main__":
    main()
