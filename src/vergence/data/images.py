"""Images in files: any mode and size in, square 8-bit pixels out."""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from vergence.data.captions import captioned
from vergence.data.files import existing_file, existing_folder
from vergence.data.progress import with_progress
from vergence.data.samples import Batch, Samples
from vergence.data.splits import part

# What people call images. A format that Pillow lacks (.heic without its plug-in) is then reported, not passed over.
SUFFIXES = (
    ".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".jp2", ".avif",
    ".heic", ".heif",
)  # fmt: skip
WITH_ALPHA = frozenset({"LA", "La", "PA", "RGBA", "RGBa"})
LARGEST_SIDE = 2**13  # 8192 x 8192 pixels are 200 MB
AHEAD = 1024  # images decoded before the first is collected: a bound on memory
DIVISIONS = {"train": ("train", "training"), "test": ("test", "testing", "val", "valid", "validation")}

Outcome = TypeVar("Outcome")


def folder(path: str, split: str, *, size: int = 64, channels: int = 3) -> Samples:
    """A folder of images, its sub-folders taken as classes when there are several and every image lies in one.

    Sub-folders called train and test (or val) are the split, if both are there. The central square of each image is
    resized to ``size``; transparency becomes white; ``channels=1`` makes gray. Unreadable files are skipped and named.
    A table captions.csv or captions.jsonl with the columns file and caption gives the images their texts.
    """
    if glob.has_magic(path):
        return _matching(path, split, size=size, channels=channels)
    root = existing_folder(path)
    divisions = _divisions(root)
    found = [(below, file) for below in divisions.values() or [root] for file in sorted(_image_files(below))]
    if not found:
        raise ValueError(f"There are no images in {path}. Looked for files ending in {' '.join(SUFFIXES)}.")
    files = [str(file) for _, file in found]
    x = ImageFiles(partial(_opened, files), torch.arange(len(files)), size=size, channels=channels)
    samples = Samples(x, "image", names=[str(file.relative_to(root)) for _, file in found], source=f"folder:{path}")
    samples = captioned(_labeled(samples, [file.relative_to(below).parts for below, file in found]), root)
    if not divisions:
        return part(samples, split)
    return samples.take(torch.tensor([i for i, (below, _) in enumerate(found) if below == divisions.get(split, below)]))


def _matching(pattern: str, split: str, *, size: int, channels: int) -> Samples:
    """The images that a pattern such as ``photos/*/*.jpg`` names; their folders are classes where there are several."""
    files = [Path(file) for file in sorted(glob.glob(pattern, recursive=True)) if Path(file).suffix.lower() in SUFFIXES]
    if not files:
        raise ValueError(f"No image matches {pattern}. Looked for files ending in {' '.join(SUFFIXES)}.")
    samples = image_files([str(file) for file in files], size=size, channels=channels)
    labeled = _labeled(samples, [(file.parent.name, file.name) for file in files])
    return part(replace(labeled, source=f"folder:{pattern}"), split)


def image_files(paths: Sequence[str], *, size: int, channels: int = 3) -> Samples:
    """Images by their files, in the order given; unreadable ones are skipped and named when they are read."""
    files = [str(existing_file(path)) for path in paths]
    x = ImageFiles(partial(_opened, files), torch.arange(len(files)), size=size, channels=channels)
    return Samples(x, "image", names=list(map(str, paths)), source="the files")


@dataclass(frozen=True)
class ImageFiles:
    """Images that are decoded when they are asked for; ``opened(i)`` gives image number ``i`` before it is decoded."""

    opened: Callable[[int], Image.Image]
    indices: Tensor
    size: int
    channels: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LARGEST_SIDE:
            raise ValueError(f"size must be 1 to {LARGEST_SIDE} pixels, not {self.size}.")
        if self.channels not in (1, 3):
            raise ValueError(f"channels must be 1 (gray) or 3 (color), not {self.channels}.")

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), self.channels, self.size, self.size)

    @property
    def itemsize(self) -> int:
        return 1

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, indices: Tensor) -> UInt8[Tensor, "n c size size"]:
        return torch.stack(list(_in_threads(self._decoded, indices.tolist())))

    def batch(self, indices: Tensor) -> Batch:
        """The images at indices that can be decoded, and for the others their numbers and why they cannot."""
        outcomes = list(_in_threads(self._attempt, indices.tolist()))
        sound = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, str)]
        pairs = zip(indices.tolist(), outcomes, strict=True)
        skipped = [(index, outcome) for index, outcome in pairs if isinstance(outcome, str)]
        empty = torch.zeros(0, *self.shape[1:], dtype=torch.uint8)
        x = torch.stack([outcomes[number] for number in sound]) if sound else empty  # type: ignore[misc]
        return Batch(indices[sound], x, {}, skipped)

    def take(self, indices: Tensor) -> "ImageFiles":
        return replace(self, indices=self.indices[indices])

    def first_pass(self, *, keep: bool) -> tuple[Tensor | None, dict[int, str]]:
        """Every image decoded once; one that cannot be decoded stays black, with its reason."""
        held = torch.zeros(self.shape, dtype=torch.uint8) if keep else None
        failures: dict[int, str] = {}
        attempts = _in_threads(self._attempt, range(len(self)))
        for index, outcome in enumerate(with_progress(attempts, total=len(self), what="Reading images")):
            if isinstance(outcome, str):
                failures[index] = outcome
            elif held is not None:
                held[index] = outcome
        return held, failures

    def _attempt(self, index: int) -> Tensor | str:
        try:
            return self._decoded(index)
        except Exception as error:  # a damaged file may raise anything
            return _reason(error)

    def _decoded(self, index: int) -> Tensor:
        with self.opened(int(self.indices[index])) as image:
            return torch.from_numpy(pixels(image, size=self.size, channels=self.channels))


def pixels(image: Image.Image, *, size: int, channels: int = 3) -> NDArray[np.uint8]:
    """The central square of an image, upright, without transparency, as ``[channels, size, size]`` of 0 to 255."""
    image.draft(None, (size, size))  # JPEG: decode at the smallest eighth that still covers the size
    image = _eight_bits(ImageOps.exif_transpose(image)).convert("L" if channels == 1 else "RGB")
    width, height = image.size
    edge = min(width, height)
    left, top = (width - edge) / 2, (height - edge) / 2
    # Cropping before resizing keeps a picture of 10,000 x 1 pixels harmless.
    square = image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge))
    return np.array(square).reshape(size, size, channels).transpose(2, 0, 1).copy()


def _eight_bits(image: Image.Image) -> Image.Image:
    """Any mode as 8 bits a channel: 16-bit values divided by 256, transparent pixels laid on white."""
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed range; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).clip(0, 65535) // 256).astype(np.uint8))
    if image.mode in WITH_ALPHA or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image


def _opened(files: list[str], index: int) -> Image.Image:
    if os.path.getsize(files[index]) == 0:
        raise ValueError("empty file")
    return Image.open(files[index])


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image that Pillow can read"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _in_threads(function: Callable[[int], Outcome], numbers: Sequence[int]) -> Iterator[Outcome]:
    """The outcomes in order. Pillow decodes outside Python's lock, so threads keep every core busy.

    There are as many as torch may use, which is one in a data-loader worker.
    """
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for start in range(0, len(numbers), AHEAD):
            yield from pool.map(function, numbers[start : start + AHEAD])


def _divisions(root: Path) -> dict[str, Path]:
    """The sub-folders that are a split, when both parts are there."""
    below = {child.name.lower(): child for child in root.iterdir() if child.is_dir()}
    found = {split: below[name] for split, names in DIVISIONS.items() for name in reversed(names) if name in below}
    return found if len(found) == len(DIVISIONS) else {}


def _image_files(root: Path) -> Iterator[Path]:
    seen = set()
    for place, folders, files in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if (real := os.path.realpath(place)) in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(real)
        for name in files:
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                yield Path(place, name)


def _labeled(samples: Samples, places: list[tuple[str, ...]]) -> Samples:
    """The samples with their sub-folders as classes, when that is what the sub-folders are."""
    classes = {name: number for number, name in enumerate(sorted({place[0] for place in places if len(place) > 1}))}
    if len(classes) < 2 or any(len(place) == 1 for place in places):
        return samples
    return replace(samples, labels=torch.tensor([classes[place[0]] for place in places]), classes=tuple(classes))
