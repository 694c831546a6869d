"""The doctor on foreign embeddings: every set clean and spoiled by each defect; what is named, missed, falsely said.

    python benchmarks/foreign/embeddings.py CACHE        the development sets: thresholds were chosen on them
    python benchmarks/foreign/fresh.py FRESH             other data, encoders and seeds: looked at once, at the end
    python benchmarks/foreign/suite.py CACHE ROWS.jsonl  every set clean and with every defect
    python benchmarks/foreign/suite.py CACHE ROWS.jsonl --table     the table of what is there

Every set is taken clean and with each defect at one of its three strengths, in turn, so that over the sets each
strength occurs equally often. A defect counts where it costs more than .02 of accuracy (``defects.cost``). An alarm on
a clean set is *confirmed* if the remedy that the doctor names, applied here with scikit-learn on the rows, gains .02 or
more; both counts are printed. About half a second a case. Cases that ROWS has already are left out, so that a run which
was ended goes on.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from defects import DEFECTS, PAIRED, Given, accuracy, cost
from sklearn.preprocessing import StandardScaler

from vergence.diagnostics import diagnose

MATTERS = 0.02
ROWS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], help="defects, or 'clean'")
    parser.add_argument("--sets", default="", help="sets whose name holds this")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th set only")
    parser.add_argument("--first", type=int, default=0, help="the number of the first set to take")
    parser.add_argument("--rows-of-a-set", type=int, default=ROWS, help="at most, drawn at random and kept in order")
    parser.add_argument(
        "--defects-of-a-set", type=int, default=len(DEFECTS), help="a draw of them, where time is short"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.table:
        for number, name in enumerate(sorted(path.stem for path in options.cache.glob("*.npz"))):
            if options.sets in name and number % options.every == options.first:
                drawn = np.random.default_rng(number).permutation(list(DEFECTS))[: options.defects_of_a_set]
                only = options.only or ["clean", *drawn]
                examine(options.cache, name, number, options.rows, only, options.rows_of_a_set)
    rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    print(*table(rows), sep="\n")


def examine(cache: Path, name: str, number: int, path: Path, only: list[str], most: int) -> None:
    """A set clean and with every defect that it can have."""
    stored = np.load(cache / f"{name}.npz")
    kept = np.sort(np.random.default_rng(7).permutation(len(stored["h"]))[:most])
    clean = Given(stored["h"][kept], stored["labels"][kept], stored["z2"][kept] if "z2" in stored.files else None)
    there = {(row["set"], row["defect"]) for row in (map(json.loads, path.open()) if path.exists() else ())}
    if "clean" in only and (name, None) not in there:
        write(path, {"set": name, "defect": None, **said(clean), **confirmed(clean)})
    for place, (defect, (spoil, accepted)) in enumerate(DEFECTS.items()):
        if defect not in only or (defect in PAIRED and clean.z2 is None) or (name, defect) in there:
            continue
        strength = (number + place) % 3
        whole = clean if defect in PAIRED else replace(clean, z2=None)  # a defect of h would be one of the pairs too
        spoiled = spoil(whole, strength, np.random.default_rng(1000 * number + place))
        row = {"set": name, "defect": defect, "strength": strength, "accepted": accepted}
        write(path, {**row, "cost": cost(clean, spoiled, defect), **said(spoiled)})


def said(given: Given) -> dict[str, Any]:
    began = time.process_time()
    second = {} if given.z2 is None else {"z1": given.h, "z2": given.z2}
    found = diagnose(given.h, labels=given.labels, diagnostics={}, **second)
    levels = {finding.fault: finding.level for finding in found.findings}
    verdict = {"label": found.verdict.label, "evidence": found.verdict.evidence}
    return {"said": list(found.faults), "levels": levels, **verdict, "seconds": time.process_time() - began}


def confirmed(given: Given) -> dict[str, Any]:
    """Accuracies by cosine as rows are and after each remedy that the doctor may name, with scikit-learn and numpy."""
    h = given.h.astype(np.float64)
    middle = h - h.mean(axis=0)
    _, _, directions = np.linalg.svd(middle, full_matrices=False)
    tried = {
        "constant offset": middle,
        "dominant direction": middle - middle @ directions[:3].T @ directions[:3],
        "column scales": StandardScaler().fit_transform(h),
    }
    plain = accuracy(h, given.labels, "cosine")
    gains = {name: accuracy(rows, given.labels, "cosine") - plain for name, rows in tried.items()}
    gains["heavy-tailed lengths"] = plain - accuracy(h, given.labels, "euclidean")
    return {"gains": gains, "accuracy": plain}


def write(path: Path, row: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    wrong = (row["defect"] is None and row["said"]) or (row["defect"] and not named(row) and row["cost"] > MATTERS)
    if wrong:
        costs = f"cost {row['cost']:.3f}, " if row["defect"] else f"gains {row['gains']}, "
        told = f"{row.get('strength', '')}: {costs}said {row['levels']}"
        print(f"{row['set']} {row['defect'] or 'clean'} {told}", flush=True)


def named(row: dict[str, Any]) -> bool:
    return bool(set(row["said"]) & set(row["accepted"]))


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Each defect: how often it costs, how often it is named there; the worst set; alarms on clean sets."""
    yield "| defect | cases | cost above .02 | named of these | named at no cost | other faults said |"
    yield "|---|---:|---:|---:|---:|---:|"
    by_set: dict[str, list[bool]] = defaultdict(list)
    total: list[bool] = []
    for defect in DEFECTS:
        group = [row for row in rows if row["defect"] == defect]
        costly = [row for row in group if row["cost"] > MATTERS]
        for row in costly:
            by_set[row["set"]].append(named(row))
        total += map(named, costly)
        free = [row for row in group if row["cost"] <= MATTERS]
        others = sum(bool(set(row["said"]) - set(row["accepted"])) for row in group)
        told = f"{sum(map(named, costly))} | {sum(map(named, free))} of {len(free)}"
        yield f"| {defect} | {len(group)} | {len(costly)} | {told} | {others} |"
    clean = [row for row in rows if row["defect"] is None]
    alarms = [row for row in clean if row["said"]]
    doubtful = [row for row in alarms if any(row["gains"].get(fault, -1) < MATTERS for fault in row["said"])]
    yield ""
    if total:
        worst = min(by_set, key=lambda name: sum(by_set[name]) / len(by_set[name]))
        share = f"{sum(by_set[worst])} of {len(by_set[worst])}"
        rate = 100 * sum(total) / len(total)
        yield f"Named: {sum(total)} of {len(total)} ({rate:.1f} %); worst set {worst}: {share}."
    sure = len(alarms) - len(doubtful)
    yield f"Clean sets: {len(clean)}; alarms on {len(alarms)}, of which {sure} are confirmed by the remedy."
    yield f"{sum(row['seconds'] for row in rows) / 60:.1f} minutes of the doctor's time for {len(rows)} cases."


if __name__ == "__main__":
    main()
