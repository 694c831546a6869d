"""Published image datasets: a local copy first, else the published address.

Where ``VERGENCE_DATA`` points, a copy may be ``NAME.npz`` (x_train, y_train, x_test, y_test), the published archive
or its folder, the folders of torchvision (``MNIST/raw``) or Debian (``fashion-mnist``), or CIFAR-10 as WebP sheets.
"""

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
from vergence.data.files import array_in, uncompressed
from vergence.data.samples import Samples

Pixels = NDArray[np.uint8]
Read = Callable[[str], tuple[Pixels, NDArray[Any] | None]]

DIGITS = tuple("0123456789")
GARMENTS = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL_OBJECTS = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
FINE_OBJECTS = (
    "apple", "aquarium fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest",
    "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn mower", "leopard", "lion", "lizard",
    "lobster", "man", "maple tree", "motorcycle", "mountain", "mouse", "mushroom", "oak tree", "orange", "orchid",
    "otter", "palm tree", "pear", "pickup truck", "pine tree", "plain", "plate", "poppy", "porcupine", "possum",
    "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper",
    "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet pepper", "table", "tank", "telephone",
    "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow tree", "wolf",
    "woman", "worm",
)  # fmt: skip
MNIST = tuple(
    Published(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}-ubyte.gz", md5)
    for name, md5 in {
        "train-images-idx3": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1": "ec29112dd5afa0611ce80d1b7f02629c",
    }.items()
)
FASHION_MNIST = tuple(
    Published(f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}-ubyte.gz", md5)
    for name, md5 in {
        "train-images-idx3": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1": "bb300cfdad3c16e7a12a480ee83cd310",
    }.items()
)
CIFAR = "https://www.cs.toronto.edu/~kriz"
CIFAR10 = Published(f"{CIFAR}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")
CIFAR100 = Published(f"{CIFAR}/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8")
STL10 = Published("http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb")


def mnist(split: str) -> Samples:
    """MNIST: 60,000 + 10,000 handwritten digits, gray, 28 x 28, 10 classes."""
    return _samples("mnist", split, partial(_idx, MNIST, ("mnist", "MNIST/raw")), DIGITS)


def fashion_mnist(split: str) -> Samples:
    """Fashion-MNIST: 60,000 + 10,000 pictures of clothes, gray, 28 x 28, 10 classes."""
    folders = ("fashion_mnist", "fashion-mnist", "FashionMNIST/raw")
    return _samples("fashion_mnist", split, partial(_idx, FASHION_MNIST, folders), GARMENTS)


def cifar10(split: str) -> Samples:
    """CIFAR-10: 50,000 + 10,000 photographs of objects, color, 32 x 32, 10 classes."""
    labels = _found("cifar10/labels.npz")
    return _samples("cifar10", split, partial(_sheets, labels) if labels else _cifar10, OBJECTS)


def cifar100(split: str) -> Samples:
    """CIFAR-100: 50,000 + 10,000 photographs of objects, color, 32 x 32, 100 classes."""
    return _samples("cifar100", split, _cifar100, FINE_OBJECTS)


def stl10(split: str, *, unlabeled: bool = False) -> Samples:
    """STL-10: 5,000 + 8,000 photographs of objects, color, 96 x 96, 10 classes; ``unlabeled`` trains on 100,000."""
    return _samples("stl10", split, partial(_stl10, unlabeled), STL_OBJECTS)


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
    found = array_in(archive)
    return found[f"x_{split}"], found[f"y_{split}"]


def _idx(files: Sequence[Published], folders: Sequence[str], split: str) -> tuple[Pixels, NDArray[Any]]:
    """Images and labels in the IDX format, compressed or not; a download goes to the first of the folders."""
    prefix = "train" if split == "train" else "t10k"
    images, labels = (_idx_array(file, folders) for file in files if file.name.startswith(prefix))
    return images, labels


def _idx_array(file: Published, folders: Sequence[str]) -> Pixels:
    names = (file.name.removesuffix(".gz"), file.name)
    path = _found(*(f"{folder}/{name}" for folder in folders for name in names)) or fetched(file, folders[0])
    content = uncompressed(path)
    dimensions = content[3] if len(content) > 3 else 0
    start = 4 + 4 * dimensions
    shape = [int.from_bytes(content[at : at + 4]) for at in range(4, start, 4)]
    if content[:3] != b"\0\0\x08" or len(content) != start + math.prod(shape):  # 8: unsigned bytes
        raise ValueError(f"{path} is not a whole IDX file of bytes. Remove it and run the same command again.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _cifar10(split: str) -> tuple[Pixels, NDArray[Any]]:
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] if split == "train" else ["test_batch.bin"]
    folder = _holding("cifar10", CIFAR10, "cifar-10-batches-bin", names)
    return _records([folder / name for name in names], label_bytes=1)


def _cifar100(split: str) -> tuple[Pixels, NDArray[Any]]:
    folder = _holding("cifar100", CIFAR100, "cifar-100-binary", [f"{split}.bin"])
    return _records([folder / f"{split}.bin"], label_bytes=2)


def _records(paths: Sequence[Path], *, label_bytes: int) -> tuple[Pixels, NDArray[Any]]:
    """CIFAR's binary records: the labels (the last is the fine one), then 32 x 32 of red, green and blue."""
    width = label_bytes + 3 * 32 * 32
    for path in paths:
        if path.stat().st_size % width:
            raise ValueError(f"{path} is not a whole number of records. Remove it and run the same command again.")
    rows = np.concatenate([np.fromfile(path, np.uint8) for path in paths]).reshape(-1, width)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1]


def _sheets(labels: Path, split: str) -> tuple[Pixels, NDArray[Any]]:
    """CIFAR-10 as lossless sheets of 100 images a row, ``data_batch_1.webp`` and so on, beside ``labels.npz``."""
    names = [f"data_batch_{number}" for number in range(1, 6)] if split == "train" else ["test_batch"]
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        sheets = list(pool.map(_sheet, [labels.with_name(f"{name}.webp") for name in names]))
    return np.concatenate(sheets), array_in(labels)[f"y_{split}"]


def _sheet(path: Path) -> Pixels:
    with Image.open(path) as image:
        grid = np.asarray(image.convert("RGB"))
    return grid.reshape(-1, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)


def _stl10(unlabeled: bool, split: str) -> tuple[Pixels, NDArray[Any] | None]:
    """STL-10's binary files, left on disk: 96 x 96 of red, green and blue, column by column; labels count from 1."""
    stem = "unlabeled" if unlabeled and split == "train" else split
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
