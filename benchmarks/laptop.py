"""The curve of recipes/laptop_cifar10.yaml: what neighbors and a probe reach without labels, epoch by epoch.

    vergence train --config recipes/laptop_cifar10.yaml --run RUN
    vergence train --config recipes/laptop_cifar10.yaml --method supervised --run SUPERVISED
    python benchmarks/laptop.py RUN SUPERVISED                       draws docs/images/laptop.svg, prints the figures

Along training the accuracies are of 512 training images that were held out, with a part of the labels; the stars are
those of the 10,000 test images at the end, with all labels, as is the line of the supervised net.
"""

import sys
from pathlib import Path

from vergence.report.colors import ACCENT, CONTRAST, QUIET
from vergence.report.figures import canvas, legend, level
from vergence.runs.results import TRAINED
from vergence.runs.run import Run

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "laptop.svg"


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
    main(*map(Path, sys.argv[1:]))
