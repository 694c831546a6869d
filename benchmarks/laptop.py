"""The curve of recipes/laptop_cifar10.yaml: what neighbors and a probe reach without labels, epoch by epoch.

    vergence train --config recipes/laptop_cifar10.yaml --run RUN
    vergence train --config recipes/laptop_cifar10.yaml --method supervised --run SUPERVISED
    python benchmarks/laptop.py RUN SUPERVISED                       draws docs/images/laptop.svg, prints the figures

Along training the accuracies are of training images that were held out, 1,000 of them; at the end of the test images.
"""

import sys
from pathlib import Path

from vergence.report.colors import ACCENT, CONTRAST, QUIET
from vergence.report.figures import canvas, legend, level
from vergence.runs.results import TRAINED
from vergence.runs.run import Run

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "laptop.svg"


def main(run: Path, *supervised: Path) -> None:
    figure, axes = canvas("epochs", "accuracy of images that were held out")
    rows = [row for row in Run(run).rows() if "knn" in row]
    for name, title, color in (("probe", "linear probe", ACCENT), ("knn", "neighbors", CONTRAST)):
        axes.plot([row["epoch"] for row in rows], [row[name] for row in rows], "o-", color=color, label=title)
    for path, title in ((run, "no labels"), *((path, "with all labels") for path in supervised)):
        own = [row for row in scores(path) if row["features"] == TRAINED]
        found = {row["classifier"]: row["accuracy"] for row in reversed(own)}  # all labels first, few after them
        print(f"{title}: " + ", ".join(f"{kind} {accuracy:.4f}" for kind, accuracy in found.items()))
        if path != run:
            level(axes, found["linear probe"], title, ":", QUIET)
    legend(axes)
    figure.savefig(PICTURE)


def scores(path: Path) -> list[dict]:
    return Run(path).read_json("results.json")["accuracy"]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
