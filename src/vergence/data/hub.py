"""Datasets of the Hugging Face hub, through their own library."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vergence.data.arrays import from_array
from vergence.data.images import ImageFiles
from vergence.data.samples import Samples
from vergence.data.shards import sharded
from vergence.data.shards.order import LANES, WINDOW
from vergence.data.shards.places import expanded
from vergence.data.splits import part
from vergence.data.text import from_texts

TEST_NAMES = ("test", "validation", "val", "dev")
PARTS = {"train": ("train",), "test": TEST_NAMES}


def hugging_face(
    name: str, split: str, *, config: str = "", column: str = "", size: int = 64, streaming: bool = False
) -> Samples:
    """A dataset of the Hugging Face hub, or a folder written by its ``save_to_disk``; needs ``vergence[hf]``.

    The first column of images, texts or numbers is the data, unless ``column`` names it; the first column of classes
    is the labels. Images become squares of ``size``. With ``streaming`` its Parquet files are read shard by shard, as
    ``parquet:`` reads them, and nothing else is downloaded; a folder of Parquet files does as well.
    """
    if streaming:
        return _streamed(name, split, config=config, column=column, size=size)
    dataset, divided = split_of(_dataset(name, config), split)
    features = {key: type(feature).__name__ for key, feature in dataset.features.items()}
    labels = next((key for key, feature in features.items() if feature == "ClassLabel"), None)
    column = column or next((key for key in features if key != labels), "")
    if column not in features:
        raise ValueError(f"{name} has no column {column!r}. It has: {', '.join(features)}.")
    samples = _samples(dataset, column, features[column], size, f"hf:{name}")
    if labels is not None:
        names = tuple(dataset.features[labels].names)
        samples = replace(samples, labels=torch.tensor(dataset[labels][:]), classes=names)
    return samples if divided else part(samples, split)


def _streamed(name: str, split: str, *, config: str, column: str, size: int) -> Samples:
    """The Parquet files of a dataset as shards; those of train and test are the split where there are both."""
    files = _parquet_files(name, config)
    divided = {part: [file for file in files if _is_of(file, names)] for part, names in PARTS.items()}
    own = all(divided.values())
    chosen = divided[split] if own and split in divided else files
    options = {"column": column, "size": size, "channels": 3, "length": 64, "lanes": LANES, "window": WINDOW}
    where = {"timeout": 60.0, "retries": 5, "room": 16.0}  # the hub answers slowly when it is busy
    return sharded("parquet", name, "all" if own else split, files=chosen, **where, **options)  # type: ignore[arg-type]


def _parquet_files(name: str, config: str) -> list[str]:
    """Where the Parquet files are: in a folder, in the dataset's repository, or where the hub converted it to."""
    inside = f"{config}/**" if config else "**"
    homes = [f"hf://datasets/{name}", f"hf://datasets/{name}@refs%2Fconvert%2Fparquet"]
    for home in [str(name)] if Path(name).is_dir() else homes:
        try:
            return expanded(f"{home}/{inside}/*.parquet", (".parquet",), timeout=60.0, retries=3)
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"{name} has no Parquet files to stream; without ,streaming it is downloaded whole.")


def _is_of(file: str, names: tuple[str, ...]) -> bool:
    """Whether a file belongs to a part, by a word of its name or of its folder's."""
    return any(word in names for word in re.split(r"[^a-z]+", "/".join(file.lower().split("/")[-2:])))


@dataclass(frozen=True)
class Column:
    """Opens the image in one row of a dataset."""

    dataset: Any
    name: str

    def __call__(self, index: int) -> Image.Image:
        return self.dataset[index][self.name]


def _samples(dataset: Any, column: str, feature: str, size: int, source: str) -> Samples:
    if feature == "Image":
        x = ImageFiles(Column(dataset, column), torch.arange(len(dataset)), size=size, channels=3)
        return Samples(x, "image", source=source)
    values = dataset[column][:]
    if values and isinstance(values[0], str):
        return from_texts(values, source=source)
    return from_array(np.asarray(values), kind="", source=source)


def _dataset(name: str, config: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise ImportError("hf: needs the datasets library: pip install 'vergence[hf]'.") from None
    if Path(name).is_dir():
        return datasets.load_from_disk(name)
    return datasets.load_dataset(name, config or None)


def split_of(found: Any, split: str) -> tuple[Any, bool]:
    """The wanted part, and whether the dataset is divided already."""
    if not hasattr(found, "keys"):
        return found, False
    test = next((name for name in TEST_NAMES if name in found), None)
    if "train" not in found or test is None:
        return found[next(iter(found))], False
    if split == "all":
        import datasets

        return datasets.concatenate_datasets([found["train"], found[test]]), True
    return found["train" if split == "train" else test], True
