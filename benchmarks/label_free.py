"""Which score without labels ranks encoders as a linear probe with labels does? Over at least 40 encoders.

    python benchmarks/label_free.py RUNS               train and measure; rows that are there are not measured again
    python benchmarks/label_free.py RUNS --report      the tables of all rows

Encoders: methods x lengths of training x temperatures, weights and widths, on CIFAR-10 and MNIST, on which a score or a
combination of two is chosen, and on the digits of scikit-learn, on which what was chosen is tested. 800 training
images and 500 held-out ones (digits: what there is); the probe is trained and tested on representations h. A score is
wrong about a pair of encoders of one data set where it prefers the one whose probe is worse by .01 or more.
"""

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata, spearmanr

from vergence import config, evaluation, features
from vergence.config import Optim
from vergence.data import load
from vergence.diagnostics import DIAGNOSTICS, measure
from vergence.diagnostics.selection import SCORES
from vergence.learning import loop, optimizers
from vergence.runs import assembly

Row = dict[str, Any]

CHOSEN_ON, TESTED_ON = ("cifar10", "mnist"), ("digits",)
SAMPLES, HELD_OUT, APART = 800, 500, 0.01
NARROW = {"projector": (128, 64)}
FAMILY = {
    "random": {},
    "simclr": {},
    "simclr cold": {"method": "simclr", "objective": {"temperature": 0.1}},
    "simclr hot": {"method": "simclr", "objective": {"temperature": 2.0}},
    "align_uniform": {},
    "only alignment": {"method": "align_uniform", "objective": {"align_weight": 20.0}},
    "spectral": {"heads": NARROW},
    "barlow_twins": {"heads": NARROW},
    "vicreg": {"heads": NARROW},
    "w_mse": {"heads": NARROW},
    "mmcr": {"heads": NARROW},
    "frossl": {"heads": NARROW},
    "byol": {"heads": {"projector": (128, 64), "predictor": (128, 64)}},
    "linear_contrastive": {},
    **{
        f"lejepa {w:g}": {"method": "lejepa", "objective": {"weight": w}, "heads": NARROW}
        for w in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
    },
}
LENGTHS = (1, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", default=(*TESTED_ON, *CHOSEN_ON))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of processor time, after which it stops")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if options.report:
        report([json.loads(path.read_text()) for path in sorted(options.folder.glob("*.json"))])
        return
    for epochs, data, name in itertools.product(LENGTHS, options.data, FAMILY):
        if time.process_time() > options.seconds:
            return
        path = options.folder / f"{data}-{name.replace(' ', '_')}-{epochs}.json"
        if path.exists() or (name == "random" and epochs > LENGTHS[0]):
            continue
        row = measured(data, name, epochs)
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")
        print(json.dumps(row), flush=True)


def measured(data: str, name: str, epochs: int) -> Row:
    """Train an encoder; its scores without labels, its loss, and what the probe says."""
    given = {"method": name, **FAMILY[name]}
    settings = config.Config(
        data=data, encoder="convnet", epochs=epochs, batch=64, limit=SAMPLES, watching=config.Watching(every=0),
        backbone={"channels": (16, 32)}, optim=Optim(warmup=0.25), **given,
    )  # fmt: skip
    parts = assembly.assemble(settings)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    losses = [step.loss for step in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)]
    held_out = load(data, split="test", limit=HELD_OUT)
    train = features.extract(parts.learner.encoder, parts.samples, parts.recipe)
    test = features.extract(parts.learner.encoder, held_out, parts.recipe, branches=parts.learner.branches)
    rows = {key: DIAGNOSTICS[key] for key in SCORES if key != "held_out_loss"}
    found = measure(test.h, z1=test.z1, z2=test.z2, rows=rows)
    scores = {key: _number(found[key].value) for key in rows if key in found}
    probe = evaluation.linear_probe(train.h, train.labels, test.h, test.labels).accuracy
    loss = statistics.fmean(losses[-max(1, len(losses) // 10) :]) if losses else None
    return {"data": data, "name": name, "epochs": epochs, "probe": probe, "loss": loss, **scores}


def report(rows: list[Row]) -> None:
    """Rank correlations by data set, the best combination of two, and how often each is wrong."""
    singles = {key: np.array([-SCORES[key](row[key]) for row in rows]) for key in SCORES if key in rows[0]}
    pairs = {
        f"{a} + {b}": _ranks(rows, singles[a]) + _ranks(rows, singles[b]) for a, b in itertools.combinations(singles, 2)
    }
    both = {**singles, **pairs}
    names = " | ".join((*CHOSEN_ON, *TESTED_ON))
    print(f"{len(rows)} encoders\n\n| score | {names} | wrong pairs, chosen on | tested on |")
    print("|---|" + "---:|" * (len(CHOSEN_ON) + len(TESTED_ON) + 2))
    means = {key: np.nanmean([agreement(rows, both[key], data) for data in CHOSEN_ON]) for key in both}
    best = max(pairs, key=means.__getitem__)
    for key in (*sorted(singles, key=lambda key: -means[key]), best):
        cells = [f"{agreement(rows, both[key], data):.2f}" for data in (*CHOSEN_ON, *TESTED_ON)]
        errors = [f"{wrong(rows, both[key], group):.0%}" for group in (CHOSEN_ON, TESTED_ON)]
        print(f"| {key} | {' | '.join([*cells, *errors])} |")
    print(f"\nChosen on {', '.join(CHOSEN_ON)}: {best}.")
    own = [row for row in rows if row["name"].startswith("lejepa")]
    for data in (*CHOSEN_ON, *TESTED_ON):
        part = [row for row in own if row["data"] == data]
        found = _spearman([-row["loss"] for row in part], part)
        print(f"LeJEPA's loss with the probe, {len(part)} runs on {data}: {found:.2f}")


def agreement(rows: list[Row], score: np.ndarray, data: str) -> float:
    """Spearman's correlation of a score with the probe among the encoders of one data set."""
    places = [number for number, row in enumerate(rows) if row["data"] == data]
    return _spearman([score[number] for number in places], [rows[number] for number in places])


def wrong(rows: list[Row], score: np.ndarray, group: tuple[str, ...]) -> float:
    """The share of pairs, apart by .01 or more by the probe, that a score orders the other way round."""
    answers = []
    for first, second in itertools.combinations(range(len(rows)), 2):
        gap = rows[first]["probe"] - rows[second]["probe"]
        if rows[first]["data"] == rows[second]["data"] and rows[first]["data"] in group and abs(gap) >= APART:
            answers.append((score[first] - score[second]) * gap <= 0)
    return statistics.fmean(answers) if answers else float("nan")


def _ranks(rows: list[Row], score: np.ndarray) -> np.ndarray:
    """Ranks within each data set, as shares."""
    found = np.zeros(len(rows))
    for data in (*CHOSEN_ON, *TESTED_ON):
        places = [number for number, row in enumerate(rows) if row["data"] == data]
        found[places] = rankdata(score[places]) / max(1, len(places))
    return found


def _spearman(score: list[float], rows: list[Row]) -> float:
    return float(spearmanr(score, [row["probe"] for row in rows]).statistic) if len(rows) > 2 else float("nan")


def _number(value: Any) -> float:
    return float(value["value"] if isinstance(value, dict) else getattr(value, "value", value))


if __name__ == "__main__":
    main()
