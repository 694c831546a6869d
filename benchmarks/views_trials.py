"""Do short trials find the set of views that longer training would? Rank correlation and regret, set by set.

    python benchmarks/views_trials.py run rows.jsonl [--only cifar10 digits] [--passes trial target ...]
    python benchmarks/views_trials.py table rows.jsonl        # what the rows say; costs nothing
    python benchmarks/views_trials.py photos FOLDER           # 3,780 photographs as JPEG, to time `vergence views` on

Rows are kept one by one, so a run that was stopped goes on. CIFAR-10 and digits are the development data: steps, laps
and spread of the trials were chosen on them; the others (views_data.py says what they are and which packages hold
them) were looked at afterwards. Point VERGENCE_DATA at copies of the data sets. Passes:

    trial     the race of `vergence views`, with seed 0, and its label-free score
    again     the race with seed 1
    target    300 steps with a falling rate and a seed of its own: kNN and linear probe on test samples
    wrong     data on which the usual recipe is wrong: does the race find a better set?
    method    the target with Barlow Twins
    seed      the target with another seed
    network   the target with the default encoder of `vergence train`, of twice the channels
    long      the target with five times as many steps
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from vergence import data, evaluation
from vergence.data import Samples
from vergence.data.drawing import GROUP, evenly
from vergence.learning import trials
from vergence.learning.trials import Trial
from vergence.objectives import barlow_twins
from vergence.views.candidates import ViewSet, candidates
from views_data import OWN, WRONG, write_photos

DEVELOPMENT = ("cifar10", "digits")
FRESH = ("mnist", "fashion_mnist", "photos", "photos_apart", "watch_table", "watch", "textures", "vowels", "diamonds")
TRAIN, TEST, STEPS = 3000, 2000, 300
BARLOW_WEIGHT = 0.08  # as chosen before on CIFAR-10 for 128 dimensions (docs/measured/views.md)


@cache
def samples(name: str) -> tuple[Samples, Samples]:
    """The training and test samples of a data set, drawn evenly."""
    parts = OWN[name]() if name in OWN else tuple(data.load(name, split=split) for split in ("train", "test"))
    return tuple(
        part.take(evenly(len(part), count, part.labels)) for part, count in zip(parts, (TRAIN, TEST), strict=True)
    )


def lap_rows(parts: tuple[Samples, Samples], seed: int) -> Iterator[dict]:
    """The race, and beside it the label-free score of every set after the first lap."""
    train, _ = parts
    sets = candidates(train.kind, train.shape)
    recipes = {one.name: one.recipe().fitted(train.x) for one in sets}
    runners = {key: Trial(train.x, recipe, train.kind, seed=seed) for key, recipe in recipes.items()}
    began = time.process_time()
    free = trials.without_labels(train.x, list(recipes.values()), seed=seed)
    scores: dict[str, float] = {}
    by_labels = trials.by_labels(train.x, train.labels, train.beside.get(GROUP))

    def measure(trial: Trial) -> Tensor:
        key = next(key for key, runner in runners.items() if runner is trial)
        if key not in scores:
            scores[key] = free(trial).mean().item()
        return by_labels(trial)

    tried = trials.race(runners, measure, rungs=trials.laps(), groups=train.beside.get(GROUP))
    seconds = time.process_time() - began
    for place, row in enumerate(tried):
        own = {"place": place, "scores": [reading.score for reading in row.readings], "tied": row.tied}
        yield {"set": row.name, "seed": seed, **own, "label_free": scores[row.name], "cpu_seconds": seconds}


def target_row(parts: tuple[Samples, Samples], one: ViewSet, **options) -> dict:
    """A longer training with one set: kNN and linear probe on test samples."""
    train, test = parts
    steps, began = options.pop("steps", STEPS), time.process_time()
    trial = Trial(train.x, one.recipe(), train.kind, horizon=steps, **options)
    trial.advance(steps)
    h, other = trial.represent(train.x), trial.represent(test.x)
    four = (h, train.labels, other, test.labels)
    found = {"knn": evaluation.knn(*four).accuracy, "probe": evaluation.linear_probe(*four).accuracy}
    return {"set": one.name, **found, "cpu_seconds": time.process_time() - began}


TARGETS: dict[str, dict] = {  # the seeds are not those of the races
    "target": {"seed": 10},
    "method": {"seed": 10, "objective": lambda z1, z2: barlow_twins(z1, z2, off_diagonal=BARLOW_WEIGHT)},
    "seed": {"seed": 11},
    "network": {"seed": 10, "network": {}},
    "long": {"seed": 10, "steps": 5 * STEPS},
}
RACES = {"trial": 0, "again": 1, "wrong": 0}


def run(path: Path, names: list[str], passes: list[str]) -> None:
    """Append the rows that the file lacks."""
    for kind in passes:
        for name in WRONG if kind == "wrong" else names:
            parts = tuple(map(WRONG[name], samples("digits"))) if kind == "wrong" else samples(name)
            if kind in RACES and not _found(path, name, kind):
                for row in list(lap_rows(parts, RACES[kind])):
                    _keep(path, name, kind, row)
            if kind in TARGETS or kind == "wrong":
                _targets(path, name, kind, parts)


def _targets(path: Path, name: str, kind: str, parts: tuple[Samples, Samples]) -> None:
    """Longer trainings of all sets, or, where the usual recipe is wrong, of the chosen one and the usual one."""
    label, options = (kind, TARGETS[kind]) if kind in TARGETS else (f"{kind}-target", TARGETS["target"])
    chosen = candidates(parts[0].kind, parts[0].shape)
    if kind == "wrong":
        best = {row["set"] for row in _found(path, name, kind) if row["place"] == 0}
        chosen = [one for one in chosen if one.name in best | {"usual"}]
    done = {row["set"] for row in _found(path, name, label)}
    for one in chosen:
        if one.name not in done:
            _keep(path, name, label, target_row(parts, one, **options))


def _keep(path: Path, name: str, kind: str, row: dict) -> None:
    with path.open("a") as file:
        print(json.dumps({"data": name, "pass": kind, **row}), file=file)


def _found(path: Path, name: str, kind: str) -> list[dict]:
    return [row for row in rows(path) if (row["data"], row["pass"]) == (name, kind)]


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(path: Path) -> None:
    """Spearman's rho and the regret of the race's order against every target; the worst set beside the mean."""
    found = rows(path)
    columns = [(kind, measure) for kind in TARGETS for measure in ("knn", "probe")]
    for label, race, free in (("the race", "trial", 0), ("the race, seed 1", "again", 0), ("label-free", "trial", 1)):
        print(
            f"\n{label:20}" + "".join(f"{kind + ' ' + measure:>15}" for kind, measure in columns) + "      tied   CPU s"
        )
        kept: dict[tuple[str, str], list[tuple[float, float]]] = {column: [] for column in columns}
        for name in (*DEVELOPMENT, *FRESH):
            order = _found(path, name, race)
            order = sorted(order, key=lambda row: -row["label_free"]) if free else order
            cells = [_agreement(order, found, name, *column) for column in columns]
            for column, cell in zip(columns, cells, strict=True):
                kept[column] += [cell] if cell else []
            tied = sum(row["tied"] for row in order)
            seconds = order[0]["cpu_seconds"] if order else 0
            print(f"{name:20}" + "".join(map(_cell, cells)) + f"{tied:>10}{seconds:8.0f}")
        for words, pick in (("mean", np.mean), ("worst", None)):
            cells = [_summary(kept[column], pick) for column in columns]
            print(f"{words:20}" + "".join(map(_cell, cells)))
    _print_ties(path)
    _print_usual(found)
    _print_wrong(found)


def _agreement(order: list[dict], found: list[dict], name: str, kind: str, measure: str) -> tuple[float, float] | None:
    target = {row["set"]: row[measure] for row in found if row["data"] == name and row["pass"] == kind}
    if not order or len(target) < len(order):
        return None
    values = [target[row["set"]] for row in order]
    return float(spearmanr(range(len(values)), [-value for value in values])[0]), max(values) - values[0]


def _summary(cells: list[tuple[float, float]], pick: Callable | None) -> tuple[float, float] | None:
    if not cells:
        return None
    rho, regret = zip(*cells, strict=True)
    return (min(rho), max(regret)) if pick is None else (float(pick(rho)), float(pick(regret)))


def _cell(cell: tuple[float, float] | None) -> str:
    return f"{'-':>15}" if cell is None else f"{cell[0]:8.2f} /{cell[1]:5.3f}"


def _print_ties(path: Path) -> None:
    print("\nIs the best set after longer training (kNN) among those that the race calls tied with its winner?")
    for name in (*DEVELOPMENT, *FRESH):
        for race, kind in ((race, kind) for race in ("trial", "again") for kind in TARGETS):
            order, target = _found(path, name, race), {row["set"]: row["knn"] for row in _found(path, name, kind)}
            if order and len(target) == len(order):
                best, ties = max(target, key=target.__getitem__), [row["set"] for row in order if row["tied"]]
                print(f"  {name:16}{race:8}{kind:8}{'yes' if best in ties else 'no':5}{best}; tied: {', '.join(ties)}")


def _print_usual(found: list[dict]) -> None:
    print("\nRegret of always taking the usual set (target, kNN):")
    for name in (*DEVELOPMENT, *FRESH):
        target = {row["set"]: row["knn"] for row in found if row["data"] == name and row["pass"] == "target"}
        if target:
            *worst, best = sorted(target, key=target.__getitem__)
            regret = target[best] - target["usual"]
            print(f"  {name:16}{regret:.3f}   best {best}, worst {', '.join(worst[:5])}")


def _print_wrong(found: list[dict]) -> None:
    print("\nWhere the usual recipe is wrong: kNN on test samples after a longer training")
    for name in WRONG:
        target = {row["set"]: row["knn"] for row in found if row["data"] == name and row["pass"] == "wrong-target"}
        best = next((row for row in found if row["data"] == name and row.get("place") == 0), None)
        if best and best["set"] in target:
            print(f"  {name:10} chosen {best['set']:14} {target[best['set']]:.3f}   usual {target['usual']:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", nargs="?", choices=["run", "table", "photos"], help="nothing: only say this")
    parser.add_argument("rows", nargs="?", type=Path, default=Path("views_trials.jsonl"))
    parser.add_argument("--only", nargs="+", default=[*DEVELOPMENT, *FRESH])
    parser.add_argument(
        "--passes", nargs="+", default=["trial", "target", "wrong", "method", "again", "seed", "network", "long"]
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "run":
        run(arguments.rows, arguments.only, arguments.passes)
    elif arguments.action == "table":
        table(arguments.rows)
    elif arguments.action == "photos":
        write_photos(arguments.rows)
    else:
        parser.print_help()
