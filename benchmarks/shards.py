"""Training from shards beside training from memory: images a second on two workers, and the time to the first step.

    python benchmarks/shards.py

32 x 32 images as JPEG files in WebDataset shards and as arrays in Parquet shards; a small convnet; SimCLR. Speeds are
those of steps 5 on, taken in turns. The first step is that of a set of 1,000 shards in a fresh process, from the start
of the program.
"""

import argparse
import io
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


def speed(data: str, workers: int, size: int = 32) -> float:
    """Images a second."""
    config = Config(data=data, size=size, batch=128, epochs=STEPS, workers=workers, device="cpu")
    parts = assembly.assemble(config)
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    start = 0.0
    for step in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config):
        if step.number == WARM:
            start = time.perf_counter()
        if step.number == STEPS:
            break
    return (STEPS - WARM) * 128 / (time.perf_counter() - start)


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
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.first:
        first_step(given.first)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        photos(folder / "photos", 5_000)
        for form in ("wds", "parquet"):
            shard(f"folder:{folder / 'photos'}", folder / form, format=form, records=250, quiet=True)
        sources = {
            "memory": f"folder:{folder / 'photos'}",
            "wds": f"wds:{folder / 'wds'}",
            "parquet": f"parquet:{folder / 'parquet'}",
        }
        found: dict[str, list[float]] = {name: [] for name in sources}
        for _ in range(3):
            for name, data in sources.items():
                found[name].append(speed(data, 2))
        middle = {name: float(np.median(values)) for name, values in found.items()}
        for name, value in middle.items():
            print(f"{name}: {value:,.0f} images a second, {value / middle['memory']:.2f} of memory", flush=True)
        many(folder / "many", 1_000, 20)
        start = time.perf_counter()
        subprocess.run([sys.executable, __file__, "--first", f"wds:{folder / 'many'}"], check=True)
        print(f"first step of 1,000 tar files without an index: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
