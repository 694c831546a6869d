"""The doctor over shards: 10^7 x 128 embeddings in Parquet files, one process and two.

    python benchmarks/doctor_shards.py FOLDER                 writes the shards into FOLDER, examines them, removes them
    python benchmarks/doctor_shards.py FOLDER --rows 1000000

Prints seconds by the clock and of processor, the peak memory of the parent and of the largest other process, the
speed-up, and the largest relative difference between the two answers; ``--rounds`` repeats it and prints the median.
One process is one thread; of two, one judges the labels of the rows that were kept while the other looks for faults.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from vergence.data.writing import Rows, write_rows

WIDTH, EACH = 128, 131_072


def write(folder: Path, rows: int) -> None:
    """Rows with a decaying spectrum around ten centers, in files of 131,072."""
    scale = np.arange(1, WIDTH + 1, dtype=np.float32) ** -0.5
    centers = np.random.default_rng(1).standard_normal((10, WIDTH), dtype=np.float32) * scale
    for number, start in enumerate(range(0, rows, EACH)):
        file = folder / f"shard-{number:05d}.parquet"
        if file.exists():
            continue
        generator = np.random.default_rng((2, number))
        count = min(EACH, rows - start)
        labels = generator.integers(0, 10, count)
        h = generator.standard_normal((count, WIDTH), dtype=np.float32) * scale + 0.5 * centers[labels]
        write_rows(file, [Rows(h, None, [str(label) for label in labels])])


def examine(folder: Path, processes: int) -> None:
    """The answer of the command, with the seconds of its parts and the memory of its processes."""
    from vergence.runs import mapping
    from vergence.stages.doctor import doctor

    passed = []
    whole = mapping.examined

    def timed(*given, **options):
        start = time.perf_counter()
        state = whole(*given, **options)
        passed.append(time.perf_counter() - start)
        return state

    mapping.examined = timed
    start = time.perf_counter()
    found = doctor(folder, processes=processes).values
    seconds = time.perf_counter() - start
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    facts = {
        "pass": passed[0], "examination": seconds - passed[0],
        "processor": sum(each.ru_utime + each.ru_stime for each in used),
        "peak": [each.ru_maxrss / 1024 for each in used],
        "values": {name: number.get("value") for name, number in found["diagnostics"].items()},
        "verdict": found["verdict"]["label"],
    }  # fmt: skip
    print(json.dumps(facts, default=str))


def compared(folder: Path) -> float:
    """One process and then two, each as a command of its own; how many times as fast two are."""
    found = {}
    # One process is one core: threads beside it would be the second one under another name.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    for processes in (1, 2):
        command = [sys.executable, __file__, str(folder), "--processes", str(processes)]
        start = time.perf_counter()
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
        found[processes] = one = json.loads(made.strip().splitlines()[-1])
        one["whole"] = time.perf_counter() - start
        print(f"{processes} process{'es' * (processes > 1)}: {one['whole']:.1f} s by the clock, {one['pass']:.1f} s "
              f"for the pass over the shards, {one['examination']:.1f} s for the reservoir, the rest to start; "
              f"{one['processor']:.0f} s of processor, peak {one['peak'][0]:.0f} and {one['peak'][1]:.0f} MiB, "
              f"{one['verdict']}", flush=True)  # fmt: skip
    first, second = (
        {name: value for name, value in found[processes]["values"].items() if isinstance(value, float)}
        for processes in (1, 2)
    )
    apart = max(abs(first[name] - second[name]) / max(1e-12, abs(first[name])) for name in first)
    speed = {key: found[1][key] / found[2][key] for key in ("whole", "pass", "examination")}
    print(f"speed-up {speed['whole']:.2f}x of the whole command, {speed['pass']:.2f}x of the pass, "
          f"{speed['examination']:.2f}x of the reservoir; the answers differ by {apart:.1e} at most",
          flush=True)  # fmt: skip
    return speed["whole"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="do not remove the shards")
    given = parser.parse_args()
    if given.processes:
        examine(given.folder, given.processes)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    write(given.folder, given.rows)
    speeds = [compared(given.folder) for _ in range(given.rounds)]
    if given.rounds > 1:
        print(f"speed-up, median of {given.rounds}: {np.median(speeds):.2f}x, worst {min(speeds):.2f}x")
    if not given.keep:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
