"""Published image datasets, in the layouts people have them in: a local copy first, else the published address."""

import gzip
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from vergence.data.arrays import from_array
from vergence.data.download import Published, cache, fetched, local_copies, unpacked
from vergence.data.files import loaded
from vergence.data.samples import Samples

Pixels = NDArray[np.uint8]
Read = Callable[[str], tuple[Pixels, NDArray[Any] | None]]

DIGITS = tuple("0123456789")
GARMENTS = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL_OBJECTS = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")

MNIST = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
FASHION_MNIST = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
CIFAR = "https://www.cs.toronto.edu/~kriz"
CIFAR10 = Published(f"{CIFAR}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")
CIFAR100 = Published(f"{CIFAR}/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8")
STL10 = Published("http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb")


def mnist(split: str) -> Samples:
    """MNIST: 60,000 + 10,000 handwritten digits, grey, 28 x 28, 10 classes."""
    files = [Published(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}", md5) for name, md5 in MNIST.items()]
    return _samples("mnist", split, partial(_idx, "mnist", ("mnist", "MNIST/raw"), files), DIGITS)


def fashion_mnist(split: str) -> Samples:
    """Fashion-MNIST: 60,000 + 10,000 pictures of clothes, grey, 28 x 28, 10 classes."""
    place = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
    files = [Published(f"{place}/{name}", md5) for name, md5 in FASHION_MNIST.items()]
    folders = ("fashion_mnist", "fashion-mnist", "FashionMNIST/raw")
    return _samples("fashion_mnist", split, partial(_idx, "fashion_mnist", folders, files), GARMENTS)


def cifar10(split: str) -> Samples:
    """CIFAR-10: 50,000 + 10,000 photographs of objects, colour, 32 x 32, 10 classes."""
    return _samples("cifar10", split, _cifar10_sheets if _found("cifar10/labels.npz") else _cifar10, OBJECTS)


def cifar100(split: str) -> Samples:
    """CIFAR-100: 50,000 + 10,000 photographs of objects, colour, 32 x 32, 100 classes."""
    return _samples("cifar100", split, _cifar100, tuple(str(number) for number in range(100)))


def stl10(split: str, *, unlabelled: bool = False) -> Samples:
    """STL-10: 5,000 + 8,000 photographs of objects, colour, 96 x 96, 10 classes; ``unlabelled`` trains on 100,000."""
    return _samples("stl10", split, partial(_stl10, unlabelled), STL_OBJECTS)


def _samples(name: str, split: str, read: Read, classes: tuple[str, ...]) -> Samples:
    """The split of a dataset, from ``name.npz`` (with x_train, y_train and so on) if there is one, or by ``read``."""
    if archive := _found(f"{name}.npz"):
        read = partial(_npz, archive)
    parts = [read(each) for each in (("train", "test") if split == "all" else (split,))]
    x = parts[0][0] if len(parts) == 1 else np.concatenate([x for x, _ in parts])
    labels = [part_labels.ravel().astype(np.int64) for _, part_labels in parts if part_labels is not None]
    samples = from_array(x, kind="image", source=name)
    if len(labels) < len(parts):
        return samples
    return replace(samples, labels=torch.from_numpy(np.concatenate(labels)), classes=classes)


def _npz(archive: Path, split: str) -> tuple[Pixels, NDArray[Any] | None]:
    found = loaded(archive)
    return found[f"x_{split}"], found[f"y_{split}"]


def _idx(name: str, folders: Sequence[str], files: Sequence[Published], split: str) -> tuple[Pixels, NDArray[Any]]:
    """Images and labels in the IDX format, compressed or not."""
    prefix = "train" if split == "train" else "t10k"
    images, labels = (_idx_array(name, folders, file) for file in files if file.name.startswith(prefix))
    return images, labels


def _idx_array(name: str, folders: Sequence[str], file: Published) -> Pixels:
    plain = file.name.removesuffix(".gz")
    path = _found(*(f"{folder}/{each}" for folder in folders for each in (plain, file.name))) or fetched(file, name)
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    dimensions = content[3] if len(content) > 3 else 0
    shape = np.frombuffer(content, ">i4", dimensions, offset=4) if len(content) >= 4 + 4 * dimensions else ()
    if content[:3] != b"\0\0\x08" or len(content) != 4 + 4 * dimensions + math.prod(map(int, shape)):
        raise ValueError(f"{path} is not a whole IDX file of bytes; remove it and run the same command again.")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(tuple(shape))


def _cifar10(split: str) -> tuple[Pixels, NDArray[Any]]:
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] if split == "train" else ["test_batch.bin"]
    folder = _holding("cifar10", CIFAR10, "cifar-10-batches-bin", names)
    return _records([folder / name for name in names], label_bytes=1)


def _cifar100(split: str) -> tuple[Pixels, NDArray[Any]]:
    folder = _holding("cifar100", CIFAR100, "cifar-100-binary", [f"{split}.bin"])
    return _records([folder / f"{split}.bin"], label_bytes=2)


def _records(paths: Sequence[Path], *, label_bytes: int) -> tuple[Pixels, NDArray[Any]]:
    """CIFAR's binary records: the labels (the last is the fine one), then 32 x 32 of red, green and blue."""
    rows = np.concatenate([np.fromfile(path, np.uint8) for path in paths]).reshape(-1, label_bytes + 3 * 32 * 32)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1]


def _cifar10_sheets(split: str) -> tuple[Pixels, NDArray[Any]]:
    """CIFAR-10 as lossless sheets of 100 x 100 images, ``data_batch_1.webp`` and so on, beside ``labels.npz``."""
    names = [f"data_batch_{number}" for number in range(1, 6)] if split == "train" else ["test_batch"]
    table = _found("cifar10/labels.npz")
    assert table is not None
    with ThreadPoolExecutor() as pool:
        sheets = list(pool.map(_sheet, [table.with_name(f"{name}.webp") for name in names]))
    return np.concatenate(sheets), loaded(table)[f"y_{split}"]


def _sheet(path: Path) -> Pixels:
    with Image.open(path) as image:
        grid = np.asarray(image.convert("RGB"))
    return grid.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)


def _stl10(unlabelled: bool, split: str) -> tuple[Pixels, NDArray[Any] | None]:
    """STL-10's binary files, left on disk: 96 x 96 of red, green and blue, column by column; labels count from 1."""
    stem = "unlabeled" if unlabelled and split == "train" else split
    names = [f"{stem}_X.bin"] if stem == "unlabeled" else [f"{stem}_X.bin", f"{stem}_y.bin"]
    folder = _holding("stl10", STL10, "stl10_binary", names)
    x = np.memmap(folder / names[0], np.uint8, "r").reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)
    return x, np.fromfile(folder / names[1], np.uint8) - 1 if len(names) > 1 else None


def _found(*relative: str) -> Path | None:
    """The first of these paths that exists, in the user's copies or in the cache."""
    roots = [root for root in (local_copies(), cache()) if root is not None]
    return next((root / each for root in roots for each in relative if (root / each).is_file()), None)


def _holding(name: str, archive: Published, folder: str, members: Sequence[str]) -> Path:
    """The folder that holds ``members``, unpacked from the archive into the cache if they are nowhere."""
    for place in (folder, f"{name}/{folder}", name):
        found = [_found(f"{place}/{member}") for member in members]
        if found[0] is not None and all(path is not None and path.parent == found[0].parent for path in found):
            return found[0].parent
    path = _found(archive.name, f"{name}/{archive.name}") or fetched(archive, name)
    return unpacked(path, [f"{folder}/{member}" for member in members], cache() / name / folder)
