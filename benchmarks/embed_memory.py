"""What embed needs: how its peak memory grows with the samples, and its speed to that of the bare encoder.

    python benchmarks/embed_memory.py                10^4, 10^5 and 10^6 images of 3 x 16 x 16 from a file
    python benchmarks/embed_memory.py --most 100000

Each number of samples is embedded in a fresh process; "model" is the peak of a process that loads the encoder and
encodes one batch. Memory is the peak resident size. The bare loop encodes images that are in memory already, in the
same process, before embed does and after it; speeds are given by the clock and in processor time, which a busy machine
does not change.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import vergence as vg
from vergence import features
from vergence.runs import assembly
from vergence.runs.memory import keep_freed_memory
from vergence.runs.run import Run
from vergence.stages.embed import embed

SHAPE = (3, 16, 16)
BARE = 20_000  # images of the bare loop, at most


def peak() -> float:
    """The peak of this program in MiB; ru_maxrss would begin with that of the process which started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def written(path: Path, n: int) -> None:
    array = np.lib.format.open_memmap(path, "w+", np.uint8, (n, *SHAPE))
    for start in range(0, n, 10_000):
        part = array[start : start + 10_000]
        part[:] = np.random.default_rng(start).integers(0, 256, part.shape, np.uint8)
    array.flush()


def now() -> np.ndarray:
    """Seconds by the clock and of processor."""
    return np.array([time.perf_counter(), time.process_time()])


@torch.no_grad()
def bare(run: Path, n: int) -> np.ndarray:
    """Seconds for an image in the encoder alone."""
    encoder, recipe, _ = assembly.trained_encoder(Run(run))
    keep_freed_memory()  # as embed does
    x = torch.randint(0, 256, (features.CHUNK, *SHAPE), dtype=torch.uint8)
    encoder(recipe.plain(x))
    start, count = now(), max(1, min(n, BARE) // features.CHUNK)
    for _ in range(count):
        encoder(recipe.plain(x))
    return (now() - start) / (count * features.CHUNK)


def one(run: Path, path: Path, n: int) -> None:
    torch.set_num_threads(1)
    alone = bare(run, n)
    model = peak()
    start = now()
    embed(run, data=f"array:{path}", output=path.with_suffix(".h.npy"), quiet=True)
    each = (now() - start) / n
    held = peak() - model
    alone = (alone + bare(run, n)) / 2
    (clock, processor), speed = alone / each, 1 / each
    print(f"{n:>9,} images: model {model:.0f} MiB, embed +{held:.0f} MiB; {speed[0]:,.0f} images a second, {clock:.2f} "
          f"of the bare encoder's; {speed[1]:,.0f} a second of processor, {processor:.2f}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--one", nargs=3)
    given = parser.parse_args()
    if given.one:
        one(Path(given.one[0]), Path(given.one[1]), int(given.one[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        run, small = Path(folder) / "run", np.random.default_rng(0).integers(0, 256, (200, *SHAPE), np.uint8)
        vg.train(data=small, epochs=1, batch=64, run=run, quiet=True, track=(), watching={"every": 0})
        for n in (10_000, 100_000, 1_000_000):
            if n <= given.most:
                path = Path(folder) / "x.npy"
                written(path, n)
                subprocess.run([sys.executable, __file__, "--one", str(run), str(path), str(n)], check=True)


if __name__ == "__main__":
    main()
