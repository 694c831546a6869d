"""The doctor over shards: 10^7 x 128 embeddings in Parquet files, one process and two.

    python benchmarks/doctor_shards.py FOLDER                 writes the shards into FOLDER, examines them, removes them
    python benchmarks/doctor_shards.py FOLDER --rows 1000000

Prints seconds by the clock and of processor, the peak memory of the largest process, the speed-up, and the largest
relative difference between the two answers.
"""

import argparse
import json
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
    from vergence.runs.assessment import of_state
    from vergence.runs.mapping import examined, shard_files

    start = time.perf_counter()
    state = examined(shard_files(folder), processes=processes)
    merged = time.perf_counter() - start
    found = of_state(state)
    seconds = time.perf_counter() - start
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    facts = {
        "processes": processes, "seconds": seconds, "merged": merged,
        "processor": sum(each.ru_utime + each.ru_stime for each in used),
        "peak": [each.ru_maxrss / 1024 for each in used],
        "values": {name: number.value for name, number in found.diagnostics.items()},
        "verdict": found.verdict.label, "n": state.n,
    }  # fmt: skip
    print(json.dumps(facts, default=str))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int)
    given = parser.parse_args()
    if given.processes:
        examine(given.folder, given.processes)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    write(given.folder, given.rows)
    found = {}
    for processes in (1, 2):
        command = [sys.executable, __file__, str(given.folder), "--processes", str(processes)]
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found[processes] = one = json.loads(made.strip().splitlines()[-1])
        print(f"{processes} process{'es' * (processes > 1)}: {one['n']:,} rows, {one['seconds']:.0f} s by the clock "
              f"({one['merged']:.0f} s for the pass over the shards), {one['processor']:.0f} s of processor, "
              f"peak {one['peak'][0]:.0f} and {one['peak'][1]:.0f} MiB, {one['verdict']}", flush=True)  # fmt: skip
    first, second = (
        {name: value for name, value in found[processes]["values"].items() if isinstance(value, float)}
        for processes in (1, 2)
    )
    apart = max(abs(first[name] - second[name]) / max(1e-12, abs(first[name])) for name in first)
    speed, passes = (found[1][key] / found[2][key] for key in ("seconds", "merged"))
    print(f"speed-up {speed:.2f}x ({passes:.2f}x of the pass); the answers differ by {apart:.1e} at most")
    shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
