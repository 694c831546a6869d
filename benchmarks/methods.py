"""Every method on the same data, the same small encoder and the same budget, beside what needs no training.

    python benchmarks/methods.py RUNS                                 all methods, three seeds, 20 epochs
    python benchmarks/methods.py RUNS --only simclr moco --seeds 1    some of them, one seed
    python benchmarks/methods.py RUNS --epochs 5                      a smaller budget, kept apart from the others
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
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from vergence import assembly, config, evaluation, features, optim, training
from vergence.data import Samples, load
from vergence.data.text import tokenised
from vergence.diagnostics import alignment, effective_rank, uniformity
from vergence.methods import METHODS

DATA = ("cifar10", "mnist")
SAMPLES = 10_000
BATCH = {"cifar10": 256, "mnist": 128}  # pixels of digits are hard to beat: twice the steps for the same work
RAW = "raw pixels"
# What needs no training, and the views that say how much of an image is seen: InfoMax sees the top half.
REFERENCES = {RAW: "auto", "raw pixels, top half": "halves", "random, top half": "halves"}
GREY = {"mnist": ("colourisation",)}  # methods that need colours, where there are none
COLUMNS = {
    "probe": "linear probe",
    "knn": "kNN",
    "centre": "nearest centre",
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
        if method in GREY.get(data, ()):
            continue
        path = options.folder / f"{data}-{re.sub('[ ,]+', '_', method)}-{options.epochs}-{seed}.json"
        if not path.exists():
            row = measured(data, method, seed=seed, epochs=options.epochs)
            path.write_text(json.dumps(row) + "\n", encoding="utf-8")
            print(json.dumps(row), flush=True)


def measured(data: str, method: str, *, seed: int, epochs: int) -> dict[str, Any]:
    """Train a method and measure what it learned on held-out samples."""
    settings = config.Config(
        data=data, method="random" if method in REFERENCES else method, views=REFERENCES.get(method, "auto"),
        encoder="convnet", epochs=epochs, batch=BATCH[data], seed=seed, watching=config.Watching(every=0),
        limit=SAMPLES,
    )  # fmt: skip
    parts = assembly.assemble(settings, captioned(data, "train"))
    began = time.process_time()
    optimiser = optim.optimiser(parts.learner, parts.config.optim)
    for _ in training.fit(parts.learner, optimiser, parts.samples, parts.recipe, parts.config):
        pass
    minutes = (time.process_time() - began) / 60
    train, test = made(parts, captioned(data, "test"), raw=method.startswith(RAW))
    arrays = (train.h, train.labels, test.h, test.labels)
    row: dict[str, Any] = {"data": data, "method": method, "seed": seed, "epochs": epochs, "minutes": minutes}
    row |= {"probe": evaluation.linear_probe(*arrays).accuracy, "knn": evaluation.knn(*arrays).accuracy}
    row |= {"centre": evaluation.nearest_centre(*arrays).accuracy, "rank": effective_rank(test.h)}
    if test.z1 is not None and test.z2 is not None:
        row |= {"alignment": alignment(test.z1, test.z2).value, "uniformity": uniformity(test.z1).value}
    return row


@cache
def captioned(data: str, split: str) -> Samples:
    """The samples of a data set with the caption that CLIP's authors give to a class (Sec. 3.1.4)."""
    samples = load(data, split=split, limit=SAMPLES)
    assert samples.labels is not None
    captions = [f"a photo of a {samples.classes[label]}" for label in samples.labels]
    return replace(samples, captions=tokenised(captions, length=8))


def made(parts: assembly.Assembled, test: Samples, *, raw: bool) -> tuple[features.Features, features.Features]:
    """What training and test samples become: the pixels, or what the encoder makes of them."""
    if raw:
        first, second = (features.pixels(samples, parts.recipe) for samples in (parts.samples, test))
        return features.Features(first, labels=parts.samples.labels), features.Features(second, labels=test.labels)
    train = features.extract(parts.learner.encoder, parts.samples, parts.recipe)
    return train, features.extract(parts.learner.encoder, test, parts.recipe, branches=parts.learner.branches)


def publish(rows: list[dict[str, Any]]) -> None:
    """Put the tables where the page has its marks; the words around them are a person's."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- measured -->\n")
    _, end, after = rest.partition("<!-- /measured -->")
    PAGE.write_text(f"{before}<!-- measured -->\n{tables(rows)}{end}{after}", encoding="utf-8")


def tables(rows: list[dict[str, Any]]) -> str:
    """The tables: one for each data set and budget, the best kNN accuracy first."""
    parts: list[str] = []
    for data, epochs in sorted({(row["data"], row["epochs"]) for row in rows}, key=lambda pair: (pair[0], -pair[1])):
        chosen = [row for row in rows if (row["data"], row["epochs"]) == (data, epochs)]
        by_method = {row["method"]: [each for each in chosen if each["method"] == row["method"]] for row in chosen}
        parts += ["", f"## {data}, {SAMPLES:,} images, {epochs} epochs in batches of {BATCH[data]}", ""]
        parts += [f"| method | seeds | {' | '.join(COLUMNS.values())} |", "|---|---|" + "---:|" * len(COLUMNS)]
        for name, runs in sorted(by_method.items(), key=lambda item: -statistics.mean(row["knn"] for row in item[1])):
            cells = [_cell([row[key] for row in runs if key in row]) for key in COLUMNS]
            parts.append(f"| {name} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(parts) + "\n\n"


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


if __name__ == "__main__":
    main()
