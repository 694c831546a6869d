"""Every method on the same data, the same small encoder and the same budget, beside what needs no training.

    python benchmarks/methods.py RUNS                                 all methods, three seeds, 20 epochs
    python benchmarks/methods.py RUNS --only simclr moco --seeds 1    some of them, one seed
    python benchmarks/methods.py RUNS --epochs 5                      another budget, kept apart from the others
    python benchmarks/methods.py RUNS --change '{"encoder": "vit"}'   with other settings, and named after them
    python benchmarks/methods.py RUNS --further                       judged by further training images, to choose by
    python benchmarks/methods.py RUNS --samples 3000                  fewer training images, to compare in a minute
    python benchmarks/methods.py RUNS --publish                       the tables of all rows, into the documents

A row is written to RUNS as soon as it is measured, and rows that are there are not measured again. Data: 10,000
training images of CIFAR-10 and of MNIST, 1,000 a class, and 2,000 held-out ones. Set VERGENCE_DATA to a folder that has
them, or let them be fetched. Minutes are of one processor core. The captions that CLIP reads name the class. Rows that
the page has and RUNS has not, or with fewer seeds, stay on the page; what --further and --samples measured is not
published.
"""

import argparse
import itertools
import json
import re
import statistics
import time
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
from vergence.diagnostics import DIAGNOSTICS, alignment, effective_rank, measure, uniformity
from vergence.diagnostics.measures import plain
from vergence.diagnostics.selection import SCORES
from vergence.learning import loop, optimizers
from vergence.methods import METHODS
from vergence.report.colors import ACCENT, CONTRAST, QUIET
from vergence.report.figures import canvas, legend
from vergence.runs import assembly

Row = dict[str, Any]
Line = dict[str, str]  # a row of a table as it stands on the page, by the keys of COLUMNS, and the number of seeds
Tables = dict[tuple[str, int], dict[str, Line]]  # by data set and epochs, the lines of the methods

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
PAGE = Path(__file__).parents[1] / "docs" / "measured" / "methods.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[*REFERENCES, *METHODS], metavar="METHOD")
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument(
        "--change", type=json.loads, default={}, metavar="JSON", help="settings of the config to change"
    )
    parser.add_argument("--samples", type=int, default=SAMPLES, help="training images")
    parser.add_argument("--further", action="store_true", help="judge by 2,000 further training images")
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
        name = named(method, options.change)
        fewer = f"-{options.samples}" * (options.samples != SAMPLES) + "-further" * options.further
        path = options.folder / f"{data}-{_plain(name)}{fewer}-{options.epochs}-{seed}.json"
        if not path.exists():
            given = {"seed": seed, "epochs": options.epochs, "further": options.further, "samples": options.samples}
            row = measured(data, method, options.change, **given)
            path.write_text(json.dumps(row) + "\n", encoding="utf-8")
            print(json.dumps(row), flush=True)


def named(method: str, change: dict[str, Any]) -> str:
    """A method, and what was changed beside its row: ``simclr, views multi_crop``."""
    flat = {
        f"{key}.{part}" if part else key: value
        for key, group in change.items()
        for part, value in (group.items() if isinstance(group, dict) else [("", group)])
    }
    return ", ".join([method, *[f"{key} {value}" for key, value in flat.items()]])


def measured(
    data: str, method: str, change: dict[str, Any], *, seed: int, epochs: int, further: bool, samples: int = SAMPLES
) -> Row:
    """Train a method and measure what it learned on held-out samples, or on further training samples."""
    own = "random" if method in REFERENCES else method
    encoder = METHODS[own].encoder  # masked images need a ViT
    settings = config.given(config.Config(
        data=data, method=own, views=REFERENCES.get(method, "auto"), epochs=epochs, batch=BATCH[data], seed=seed,
        encoder="convnet" if encoder == "auto" else encoder, watching=config.Watching(every=0), limit=samples,
    ), **change)  # fmt: skip
    parts = assembly.assemble(settings, captioned(data, "train", samples))
    began = time.process_time()
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    losses = [step.loss for step in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)]
    minutes = (time.process_time() - began) / 60
    train, test = made(parts, captioned(data, "further" if further else "test"), raw=method.startswith(RAW))
    arrays = (train.h, train.labels, test.h, test.labels)
    row: Row = {"data": data, "method": named(method, change), "seed": seed, "epochs": epochs, "minutes": minutes}
    row |= {"apart": True} if further or samples != SAMPLES else {}
    row |= {"probe": evaluation.linear_probe(*arrays).accuracy, "knn": evaluation.knn(*arrays).accuracy}
    row |= {"center": evaluation.nearest_center(*arrays).accuracy, "rank": effective_rank(test.h)}
    if test.z1 is not None and test.z2 is not None:
        row |= {"alignment": alignment(test.z1, test.z2).value, "uniformity": uniformity(test.z1).value}
    row |= {"loss": statistics.fmean(losses[-max(1, len(losses) // 10) :])} if losses else {}
    return row | {"scores": scored(test)}


def scored(test: features.Features) -> dict[str, float]:
    """The scores without labels of held-out samples, for benchmarks/label_free.py."""
    rows = {key: DIAGNOSTICS[key] for key in SCORES if key != "held_out_loss"}
    found = measure(test.h, z1=test.z1, z2=test.z2, rows=rows)
    return {key: float(plain(found[key].value)["value"]) for key in rows if key in found}


@cache
def captioned(data: str, split: str, samples: int = SAMPLES) -> Samples:
    """The samples of a data set with the caption that CLIP's authors give to a class (Sec. 3.1.4)."""
    found = more(data) if split == "further" else load(data, split=split, limit=samples)
    assert found.labels is not None
    captions = [f"a photo of a {found.classes[label]}" for label in found.labels]
    return replace(found, captions=tokenized(captions, length=8))


def more(data: str) -> Samples:
    """2,000 training samples beside the 10,000: a larger draw begins with the smaller one, in the order of the file."""
    everything, known = (load(data, limit=limit) for limit in (SAMPLES + SAMPLES // 5, SAMPLES))
    seen = {bytes(image.numpy()) for image in known.x}
    return everything.take(
        torch.tensor([n for n, image in enumerate(everything.x) if bytes(image.numpy()) not in seen])
    )


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
    old, end, after = rest.partition("<!-- /measured -->")
    new = tabled([row for row in rows if not row.get("apart")])
    lines = "\n".join(
        line for chosen in merged(read(old), new).items() for line in section(*chosen, draw=chosen[0] in new)
    )
    PAGE.write_text(f"{before}<!-- measured -->\n{lines}\n\n{end}{after}", encoding="utf-8")


def tabled(rows: list[Row]) -> Tables:
    """The line of every method for each data set and budget."""
    runs: dict[tuple[str, int], dict[str, list[Row]]] = {}
    for row in rows:
        runs.setdefault((row["data"], row["epochs"]), {}).setdefault(row["method"], []).append(row)
    return {place: {name: line(own) for name, own in methods.items()} for place, methods in runs.items()}


def line(runs: list[Row]) -> Line:
    cells = {key: _cell([row[key] for row in runs if key in row]) for key in COLUMNS}
    return {"seeds": str(len(runs)), **cells}


def read(page: str) -> Tables:
    """The tables that are on the page."""
    found: Tables = {}
    for text in page.splitlines():
        if heading := re.match(r"## (\w+), [\d,]+ images, (\d+) epochs", text):
            methods = found.setdefault((heading[1], int(heading[2])), {})
        elif text.startswith("| ") and not text.startswith("| method"):
            name, *cells = (cell.strip() for cell in text.strip("|").split("|"))
            methods[name] = dict(zip(("seeds", *COLUMNS), cells, strict=True))
    return found


def merged(old: Tables, new: Tables) -> Tables:
    """Old lines, but for those measured anew with as many seeds; the fullest table of a data set and the best first."""
    found: Tables = {}
    for place in {**old, **new}:
        lines = dict(old.get(place, {}))
        for name, own in new.get(place, {}).items():
            if name not in lines or int(own["seeds"]) >= int(lines[name]["seeds"]):
                lines[name] = own
        found[place] = {name: lines[name] for name in sorted(lines, key=lambda name: -_figures(lines[name]["knn"])[0])}
    return {place: found[place] for place in sorted(found, key=lambda place: (place[0], -len(found[place])))}


def section(place: tuple[str, int], methods: dict[str, Line], *, draw: bool) -> Iterator[str]:
    """A heading, a figure where all methods are there to see, and a table."""
    data, epochs = place
    yield f"\n## {data}, {SAMPLES:,} images, {epochs} epochs in batches of {BATCH[data]}\n"
    if RAW in methods:
        picture = f"../figures/methods_{data}.png"
        if draw:
            drawn(methods).savefig(PAGE.parent / picture, dpi=120, facecolor="white")
        yield f"![kNN and linear probe of every method on {data}; the table below has the figures]({picture})\n"
    yield f"| method | seeds | {' | '.join(COLUMNS.values())} |\n|---|---|" + "---:|" * len(COLUMNS)
    for name, cells in methods.items():
        yield f"| {name} | {' | '.join(cells.values())} |"


def drawn(methods: dict[str, Line]) -> Figure:
    """The accuracy of every method with its deviation over seeds; lines are kNN of what needs no training."""
    figure, axes = canvas("accuracy on held-out images", "", height=1 + 0.22 * len(methods))
    for key, color, marker in (("knn", ACCENT, "o"), ("probe", CONTRAST, "D")):
        values, spread = zip(*(_figures(cells[key]) for cells in methods.values()), strict=True)
        style: dict[str, Any] = {"fmt": marker, "color": color, "markersize": 5, "label": COLUMNS[key]}
        axes.errorbar(values, range(len(values)), xerr=spread, **style)
    for name, stroke in {RAW: "--", "random": ":"}.items():
        if name in methods:
            place = _figures(methods[name]["knn"])[0]
            axes.axvline(place, color=QUIET, linestyle=stroke, linewidth=1.2, label=f"kNN, {name}")
    axes.set_yticks(range(len(methods)), list(methods))
    axes.set_ylim(len(methods) - 0.5, -0.5)
    legend(axes)
    return figure


def _figures(cell: str) -> tuple[float, float]:
    """Mean and deviation of a cell; where there is one seed, no deviation is drawn."""
    mean, _, spread = cell.partition(" ± ")
    return float(mean), float(spread or 0)


def _plain(name: str) -> str:
    """A name for a file."""
    return re.sub(r"[^\w.]+", "_", name)


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


if __name__ == "__main__":
    main()
