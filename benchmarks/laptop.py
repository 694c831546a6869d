"""The curve of recipes/laptop_cifar10.yaml: what neighbors and a probe reach without labels, epoch by epoch.

    vergence train --config recipes/laptop_cifar10.yaml --run RUN
    vergence train --config recipes/laptop_cifar10.yaml --method supervised --epochs 8 --optim.learning-rate 0.002 \\
        --run SUPERVISED
    python benchmarks/laptop.py RUN SUPERVISED    draws docs/images/laptop.svg, prints the figures
    python benchmarks/laptop.py choose            candidates, on 10,000 training images that are held out

Along training the accuracies are of 512 training images that were held out, with a part of the labels; the stars are
those of the 10,000 test images at the end, with all labels, as is the line of the supervised net.
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch

from vergence import evaluation, features
from vergence.config import Config, Optim, Watching
from vergence.learning import loop, optimizers
from vergence.report.colors import ACCENT, CONTRAST, QUIET
from vergence.report.figures import canvas, legend, level
from vergence.runs import assembly
from vergence.runs.results import TRAINED
from vergence.runs.run import Run

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "laptop.svg"

PLAIN: dict[str, Any] = {"channels": (64, 128, 256)}
RESIDUAL: dict[str, Any] = {**PLAIN, "blocks": (0, 1, 1), "final": 512}
# Method, rate, encoder and epochs, the last so that the candidates of one comparison take about as long.
CANDIDATES: list[tuple[str, float, dict[str, Any], int]] = [
    ("align_uniform", 2e-3, PLAIN, 3),
    ("align_uniform", 4e-3, PLAIN, 3),
    ("frossl", 8e-3, PLAIN, 3),
    ("frossl", 8e-3, PLAIN, 6),
    ("frossl", 8e-3, RESIDUAL, 2),
]


def choose() -> None:
    """kNN and linear probe of each candidate on the 10,000 training images that it did not see."""
    torch.set_num_threads(1)
    for method, rate, backbone, epochs in CANDIDATES:
        watching, optim = Watching(every=1, share=0.2), Optim(learning_rate=rate)
        parts = assembly.assemble(
            Config("cifar10", method, "convnet", epochs=epochs, backbone=backbone, optim=optim, watching=watching)
        )
        began = time.process_time()
        optimizer = optimizers.optimizer(parts.learner, optim)
        for _ in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config):
            pass
        seconds = time.process_time() - began
        seen, unseen = (
            features.extract(parts.learner.encoder, part, parts.recipe) for part in (parts.samples, parts.validation)
        )
        split = (seen.h, seen.labels, unseen.h, unseen.labels)
        knn, probe = (row(*split).accuracy for row in (evaluation.knn, evaluation.linear_probe))
        print(f"{method}, rate {rate}, {backbone}, {epochs} epochs: {seconds:.0f} s, kNN {knn:.3f}, probe {probe:.3f}")


def main(run: Path, *supervised: Path) -> None:
    figure, axes = canvas("epochs", "accuracy")
    rows, end = [row for row in Run(run).rows() if "knn" in row], scores(run)
    for name, title, color in (("probe", "linear probe", ACCENT), ("knn", "kNN", CONTRAST)):
        axes.plot([row["epoch"] for row in rows], [row[name] for row in rows], "o-", color=color, label=title)
        axes.plot(rows[-1]["epoch"], end[title], "*", color=color, markersize=14)
        axes.annotate(f"{end[title]:.3f}", (rows[-1]["epoch"], end[title]), (-10, 0), textcoords="offset points",
                      ha="right", va="center", color=color, fontsize=9)  # fmt: skip
    print("no labels:", end)
    for path in supervised:
        print("with all labels:", scores(path))
        level(axes, scores(path)["linear probe"], "trained with all labels", ":", QUIET)
    legend(axes)
    figure.savefig(PICTURE)


def scores(path: Path) -> dict[str, float]:
    """Accuracy on the test images by each classifier, with all labels, which come before those with few."""
    rows = Run(path).read_json("results.json")["accuracy"]
    return {row["classifier"]: row["accuracy"] for row in reversed(rows) if row["features"] == TRAINED}


if __name__ == "__main__":
    if sys.argv[1:] == ["choose"]:
        choose()
    else:
        main(*map(Path, sys.argv[1:]))
