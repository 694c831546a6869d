"""Faults injected into real training runs, healthy runs of every method, and what the doctor says: the confusion table.

    python benchmarks/faults_of_learning.py ROWS                        digits and CIFAR-10, seeds 2, 3 and 4
    python benchmarks/faults_of_learning.py ROWS --data digits --seeds 5
    python benchmarks/faults_of_learning.py ROWS --table                the table of the rows that are there

Every case is made from scratch (``learning_cases.py``); the doctor sees held-out embeddings, labels, objective, loss
and the projector's weights, never the name of the fault. A row is written to the folder ROWS as soon as it is measured,
and rows that are there are not measured again. Seeds 0 and 1 were looked at while the doctor's thresholds were set.
"""

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from learning_cases import FAULTS, HEALTHY

SOUND = "healthy run"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.table:
        for data, seed in itertools.product(options.data, options.seeds):
            measure(data, seed, options.folder)
    rows = [json.loads(path.read_text()) for path in sorted(options.folder.glob("*.json"))]
    print(*table([row for row in rows if row["seed"] in options.seeds]), sep="\n")


def measure(data: str, seed: int, folder: Path) -> None:
    """Diagnose every case of a data set that has no row yet."""
    folder.mkdir(parents=True, exist_ok=True)
    faults = {(name, SOUND): (make, ()) for name, make in HEALTHY[data].items()}
    faults |= {(name, "fault"): case for name, case in FAULTS[data].items()}
    for (name, kind), (make, accepted) in faults.items():
        path = folder / f"{data}-{kind}-{name}-{seed}.json".replace(" ", "_")
        if path.exists():
            continue
        began = time.process_time()
        case = make(seed)
        said = case.examined().faults
        row = {"data": data, "case": name, "kind": kind, "seed": seed, "said": said, "accepted": accepted}
        row |= {"agreement": case.agreement, "untrained": case.untrained}
        path.write_text(json.dumps({**row, "seconds": time.process_time() - began}) + "\n", encoding="utf-8")
        learned = f"neighbors agree in {case.agreement:.3f}, untrained {case.untrained:.3f}"
        print(f"{data} {kind} {name}, seed {seed}: {', '.join(said) or 'no fault'}; {learned}", flush=True)


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What was injected against what was said first, and the sums."""
    yield "| data | injected | runs | named | named first | also said |"
    yield "|---|---|---:|---:|---:|---|"
    faulty = [row for row in rows if row["kind"] != SOUND]
    for (data, case), group in itertools.groupby(sorted(faulty, key=_place), key=_place):
        yield _line(data, case, list(group))
    for data in dict.fromkeys(row["data"] for row in rows):
        sound = [row for row in rows if row["kind"] == SOUND and row["data"] == data]
        alarms = Counter(f"{fault} ({row['case']})" for row in sound for fault in row["said"])
        quiet = sum(not row["said"] for row in sound)
        methods = len({row["case"] for row in sound})
        yield f"| {data} | nothing ({methods} methods) | {len(sound)} | {quiet} quiet | | {_counted(alarms)} |"
    named, alarmed = sum(map(_named, faulty)), sum(bool(row["said"]) for row in rows if row["kind"] == SOUND)
    yield ""
    yield f"{named} of {len(faulty)} faults named, alarms on {alarmed} of {len(rows) - len(faulty)} healthy runs, " + (
        f"{sum(row['seconds'] for row in rows) / 60:.0f} minutes of one core."
    )


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["data"], row["case"]


def _named(row: dict[str, Any]) -> bool:
    return bool(set(row["said"]) & set(row["accepted"]))


def _line(data: str, case: str, rows: list[dict[str, Any]]) -> str:
    first = sum(bool(row["said"]) and row["said"][0] in row["accepted"] for row in rows)
    others = Counter(fault for row in rows for fault in row["said"] if fault not in row["accepted"])
    return f"| {data} | {case} | {len(rows)} | {sum(map(_named, rows))} | {first} | {_counted(others)} |"


def _counted(said: Counter[str]) -> str:
    return ", ".join(fault if count == 1 else f"{fault} x{count}" for fault, count in said.most_common())


if __name__ == "__main__":
    main()
