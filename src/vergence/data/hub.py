"""Datasets of the Hugging Face hub, through their own library."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vergence.data.arrays import from_array
from vergence.data.images import ImageFiles
from vergence.data.samples import Samples
from vergence.data.splits import part
from vergence.data.text import from_texts

TEST_NAMES = ("test", "validation", "val", "dev")


def hugging_face(name: str, split: str, *, config: str = "", column: str = "", size: int = 64) -> Samples:
    """A dataset of the Hugging Face hub, or a folder written by its ``save_to_disk``; needs ``vergence[hf]``.

    The first column of images, texts or numbers is the data, unless ``column`` names it; the first column of classes
    is the labels. Images become squares of ``size``.
    """
    dataset, divided = _split(_dataset(name, config), split)
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
        return from_texts(values, tokens="word", length=64, vocabulary=32768, source=source)
    return from_array(np.asarray(values), kind="", source=source)


def _dataset(name: str, config: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise ImportError("hf: needs the datasets library: pip install 'vergence[hf]'.") from None
    if Path(name).is_dir():
        return datasets.load_from_disk(name)
    return datasets.load_dataset(name, config or None)


def _split(found: Any, split: str) -> tuple[Any, bool]:
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
