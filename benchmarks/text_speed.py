"""Sentences a CPU-second of training the bag on the books: two versions of the source, in turns, and their ratio.

    git worktree add ../before COMMIT
    VERGENCE_DATA=DATA OMP_NUM_THREADS=1 python benchmarks/text_speed.py ../before/src src --rounds 7

Each version is a process that takes some steps when it is told to, so that both meet the same load. Both sentences of a
pair are counted; the first round, in which memory is made, is left out. The losses beside the speeds should agree.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BATCH = 256


def stepping() -> None:
    """Read numbers of steps, take them, and print the processor time they took and the last loss."""
    import vergence
    from text import RECIPES
    from vergence.learning import loop, optimizers
    from vergence.runs import assembly

    options = {"batch": BATCH, "seed": 0, "track": (), "watching": {"every": 0}, "epochs": 100}
    parts = assembly.assemble(vergence.config.given(**options, **RECIPES["bag"]))
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    steps = loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)
    for line in sys.stdin:
        begun = time.process_time()
        *_, step = (next(steps) for _ in range(int(line)))
        print(time.process_time() - begun, step.loss, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs=2, help="the folders src of the version before and of the one after")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60, help="of a round")
    arguments = parser.parse_args()
    versions = [
        subprocess.Popen(
            [sys.executable, __file__, "--stepping"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(source).resolve())},
            text=True,
        )
        for source in arguments.sources
    ]
    speeds: list[list[float]] = [[], []]
    for number in range(arguments.rounds + 1):
        for version, found in zip(versions, speeds, strict=True):
            print(arguments.steps, file=version.stdin, flush=True)
            seconds, loss = map(float, version.stdout.readline().split())
            found.append(2 * BATCH * arguments.steps / seconds)
            print(f"round {number}: {found[-1]:,.0f} sentences a CPU-second, loss {loss:.6f}", flush=True)
    before, after = (found[1:] for found in speeds)
    ratios = [new / old for old, new in zip(before, after, strict=True)]
    print(f"medians {statistics.median(before):,.0f} and {statistics.median(after):,.0f}, ratio of a round "
          f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")  # fmt: skip
    for version in versions:
        version.communicate()


if __name__ == "__main__":
    stepping() if sys.argv[1:] == ["--stepping"] else main()
