"""Training from shards beside training from memory: images a second on two workers, and the time to the first step.

    python benchmarks/shards.py

32 x 32 images as JPEG files in WebDataset shards and as arrays in Parquet shards; a small convnet; SimCLR. Speeds are
those of steps 5 on, taken in turns: by the clock, and in processor time of the training process, which another program
does not change and which is all that counts where the workers have cores of their own. The first step is that of a set
of 1,000 shards in a fresh process, from the start of the program.
"""

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from vergence.config import Config
from vergence.learning import loop, optimizers
from vergence.runs import assembly
from vergence.stages.shard import shard

STEPS, WARM = 25, 5


def photos(folder: Path, n: int) -> None:
    for number in range(n):
        low = np.random.default_rng(number).integers(0, 256, (4, 4, 3), np.uint8)
        place = folder / f"{number % 10}" / f"{number:06d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(low).resize((32, 32), Image.Resampling.BICUBIC).save(place, quality=90)


def speed(data: str, workers: int, size: int = 32) -> list[float]:
    """Images a second by the clock, and of the processor of this process."""
    config = Config(data=data, size=size, batch=128, epochs=STEPS, workers=workers, device="cpu")
    parts = assembly.assemble(config)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    start = now()
    for step in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config):
        if step.number == WARM:
            start = now()
        if step.number == STEPS:
            break
    return [(STEPS - WARM) * 128 / (end - begin) for begin, end in zip(start, now(), strict=True)]


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def first_step(data: str) -> None:
    config = Config(data=data, size=32, batch=128, epochs=1, workers=2, device="cpu")
    parts = assembly.assemble(config)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    next(iter(loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)))


def many(folder: Path, count: int, each: int) -> None:
    """Many tar files of a few JPEGs, without an index: as people have them."""
    import tarfile

    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)).save(buffer, "JPEG")
    folder.mkdir()
    for number in range(count):
        with tarfile.open(folder / f"{number:05d}.tar", "w") as file:
            for sample in range(each):
                for ending, content in {"jpg": buffer.getvalue(), "cls": b"3"}.items():
                    member = tarfile.TarInfo(f"{number:05d}{sample:04d}.{ending}")
                    member.size = len(content)
                    file.addfile(member, io.BytesIO(content))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", default="")
    parser.add_argument("--photos", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.first:
        first_step(given.first)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        photos(folder / "photos", given.photos)
        for form in ("wds", "parquet"):
            shard(f"folder:{folder / 'photos'}", folder / form, format=form, records=250, quiet=True)
        sources = {
            "memory": f"folder:{folder / 'photos'}",
            "wds": f"wds:{folder / 'wds'}",
            "parquet": f"parquet:{folder / 'parquet'}",
        }
        found: dict[str, list[list[float]]] = {name: [] for name in sources}
        for _ in range(given.rounds):
            for name, data in sources.items():
                found[name].append(speed(data, 2))
        middle = {name: np.median(values, 0) for name, values in found.items()}
        for name, (clock, processor) in middle.items():
            shares = middle[name] / middle["memory"]
            print(f"{name}: {clock:,.0f} images a second, {shares[0]:.2f} of memory; {processor:,.0f} a second of the "
                  f"training process, {shares[1]:.2f}", flush=True)  # fmt: skip
        many(folder / "many", 1_000, 20)
        before, start = os.times(), time.perf_counter()
        subprocess.run([sys.executable, __file__, "--first", f"wds:{folder / 'many'}"], check=True)
        used = os.times().children_user + os.times().children_system - before.children_user - before.children_system
        print(f"first step of 1,000 tar files without an index: {time.perf_counter() - start:.1f} s by the clock, "
              f"{used:.1f} s of processor")  # fmt: skip


if __name__ == "__main__":
    main()
