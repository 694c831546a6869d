"""Every method on the same data, the same small encoder and the same budget, beside what needs no training.

    python benchmarks/methods.py RUNS                                 all methods, three seeds, 20 epochs
    python benchmarks/methods.py RUNS --only simclr moco --seeds 1    some of them, one seed
    python benchmarks/methods.py RUNS --epochs 5                      another budget, kept apart from the others
    python benchmarks/methods.py RUNS --publish                       the tables of all rows, into the documents

A row is written to RUNS as soon as it is measured, and rows that are there are not measured again. Data: 10,000
training images of CIFAR-10 and of MNIST, 1,000 a class, and 2,000 held-out ones. Set VERGENCE_DATA to a folder that has
them, or let them be fetched. Minutes are of one processor core. The captions that CLIP reads name the class.
"""

import argparse
import itertools
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from vergence import config, evaluation, features
from vergence.data import Samples, load
from vergence.data.text import tokenized
from vergence.diagnostics import alignment, effective_rank, uniformity
from vergence.learning import loop, optimizers
from vergence.methods import METHODS
from vergence.report.colors import ACCENT, CONTRAST, QUIET
from vergence.report.figures import canvas, legend
from vergence.runs import assembly

Row = dict[str, Any]

DATA = ("cifar10", "mnist")
SAMPLES = 10_000
BATCH = {"cifar10": 256, "mnist": 128}  # pixels of digits are hard to beat: twice the steps for the same work
RAW = "raw pixels"
# What needs no training, and the views that say how much of an image is seen: InfoMax sees the top half.
REFERENCES = {RAW: "auto", "raw pixels, top half": "halves", "random, top half": "halves"}
GRAY = {"mnist": ("colorization",)}  # methods that need colors, where there are none
COLUMNS = {
    "probe": "linear probe",
    "knn": "kNN",
    "center": "nearest center",
    "alignment": "alignment",
    "uniformity": "uniformity",
    "rank": "effective rank",
    "minutes": "minutes",
}
PAGE = Path(__file__).parents[1] / "docs" / "methods_measured.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[*REFERENCES, *METHODS], metavar="METHOD")
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.publish:
        publish([json.loads(path.read_text()) for path in sorted(options.folder.glob("*.json"))])
        return
    torch.set_num_threads(1)
    for seed, data, method in itertools.product(range(options.seeds), options.data, options.only):
        if method in GRAY.get(data, ()):
            continue
        path = options.folder / f"{data}-{re.sub('[ ,]+', '_', method)}-{options.epochs}-{seed}.json"
        if not path.exists():
            row = measured(data, method, seed=seed, epochs=options.epochs)
            path.write_text(json.dumps(row) + "\n", encoding="utf-8")
            print(json.dumps(row), flush=True)


def measured(data: str, method: str, *, seed: int, epochs: int) -> Row:
    """Train a method and measure what it learned on held-out samples."""
    own = "random" if method in REFERENCES else method
    encoder = METHODS[own].encoder  # masked images need a ViT
    settings = config.Config(
        data=data, method=own, views=REFERENCES.get(method, "auto"), epochs=epochs, batch=BATCH[data], seed=seed,
        encoder="convnet" if encoder == "auto" else encoder, watching=config.Watching(every=0), limit=SAMPLES,
    )  # fmt: skip
    parts = assembly.assemble(settings, captioned(data, "train"))
    began = time.process_time()
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    for _ in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config):
        pass
    minutes = (time.process_time() - began) / 60
    train, test = made(parts, captioned(data, "test"), raw=method.startswith(RAW))
    arrays = (train.h, train.labels, test.h, test.labels)
    row: Row = {"data": data, "method": method, "seed": seed, "epochs": epochs, "minutes": minutes}
    row |= {"probe": evaluation.linear_probe(*arrays).accuracy, "knn": evaluation.knn(*arrays).accuracy}
    row |= {"center": evaluation.nearest_center(*arrays).accuracy, "rank": effective_rank(test.h)}
    if test.z1 is not None and test.z2 is not None:
        row |= {"alignment": alignment(test.z1, test.z2).value, "uniformity": uniformity(test.z1).value}
    return row


@cache
def captioned(data: str, split: str) -> Samples:
    """The samples of a data set with the caption that CLIP's authors give to a class (Sec. 3.1.4)."""
    samples = load(data, split=split, limit=SAMPLES)
    assert samples.labels is not None
    captions = [f"a photo of a {samples.classes[label]}" for label in samples.labels]
    return replace(samples, captions=tokenized(captions, length=8))


def made(parts: assembly.Assembled, test: Samples, *, raw: bool) -> tuple[features.Features, features.Features]:
    """What training and test samples become: the pixels, or what the encoder makes of them."""
    if raw:
        first, second = (features.pixels(samples, parts.recipe) for samples in (parts.samples, test))
        return features.Features(first, labels=parts.samples.labels), features.Features(second, labels=test.labels)
    train = features.extract(parts.learner.encoder, parts.samples, parts.recipe)
    return train, features.extract(parts.learner.encoder, test, parts.recipe, branches=parts.learner.branches)


def publish(rows: list[Row]) -> None:
    """Put the tables where the page has its marks, and the figures beside it; the words around them are a person's."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- measured -->\n")
    _, end, after = rest.partition("<!-- /measured -->")
    lines = "\n".join(line for chosen in tabled(rows) for line in section(*chosen))
    PAGE.write_text(f"{before}<!-- measured -->\n{lines}\n\n{end}{after}", encoding="utf-8")


def tabled(rows: list[Row]) -> Iterator[tuple[str, int, dict[str, list[Row]]]]:
    """For each data set and budget, the fullest first, the rows of every method, the best kNN accuracy first."""
    counts = Counter((row["data"], row["epochs"]) for row in rows)
    for data, epochs in sorted(counts, key=lambda pair: (pair[0], -counts[pair])):
        methods: dict[str, list[Row]] = {}
        for row in rows:
            if (row["data"], row["epochs"]) == (data, epochs):
                methods.setdefault(row["method"], []).append(row)
        order = sorted(methods, key=lambda name: -statistics.mean(row["knn"] for row in methods[name]))
        yield data, epochs, {name: methods[name] for name in order}


def section(data: str, epochs: int, methods: dict[str, list[Row]]) -> Iterator[str]:
    """A heading, a figure where all methods are there to see, and a table."""
    yield f"\n## {data}, {SAMPLES:,} images, {epochs} epochs in batches of {BATCH[data]}\n"
    if RAW in methods:
        picture = f"figures/methods_{data}.png"
        drawn(methods).savefig(PAGE.parent / picture, dpi=120, facecolor="white")
        yield f"![kNN and linear probe of every method on {data}; the table below has the figures]({picture})\n"
    yield f"| method | seeds | {' | '.join(COLUMNS.values())} |\n|---|---|" + "---:|" * len(COLUMNS)
    for name, runs in methods.items():
        cells = [_cell([row[key] for row in runs if key in row]) for key in COLUMNS]
        yield f"| {name} | {len(runs)} | {' | '.join(cells)} |"


def drawn(methods: dict[str, list[Row]]) -> Figure:
    """The accuracy of every method with its deviation over seeds; lines are kNN of what needs no training."""
    figure, axes = canvas("accuracy on held-out images", "", height=1 + 0.22 * len(methods))
    for key, color, marker in (("knn", ACCENT, "o"), ("probe", CONTRAST, "D")):
        values = [[row[key] for row in runs] for runs in methods.values()]
        spread = [statistics.stdev(each) if len(each) > 1 else 0.0 for each in values]
        style: dict[str, Any] = {"fmt": marker, "color": color, "markersize": 5, "label": COLUMNS[key]}
        axes.errorbar([statistics.mean(each) for each in values], range(len(values)), xerr=spread, **style)
    for name, line in {RAW: "--", "random": ":"}.items():
        if name in methods:
            place = statistics.mean(row["knn"] for row in methods[name])
            axes.axvline(place, color=QUIET, linestyle=line, linewidth=1.2, label=f"kNN, {name}")
    axes.set_yticks(range(len(methods)), list(methods))
    axes.set_ylim(len(methods) - 0.5, -0.5)
    legend(axes)
    return figure


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


if __name__ == "__main__":
    main()
