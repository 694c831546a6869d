"""Small datasets that come with scikit-learn and need no download."""

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vergence.data.samples import Kind, Samples
from vergence.data.splits import part

DIGITS_LEVELS = 16  # scikit-learn's digits count the dark pixels, 0 to 16, in blocks of 4 x 4

FILES = {
    "digits": "digits.csv.gz", "iris": "iris.csv", "wine": "wine_data.csv", "breast_cancer": "breast_cancer.csv",
}  # fmt: skip


class Table(NamedTuple):
    """Rows of numbers, a class for each, and the names of the classes."""

    data: np.ndarray
    target: np.ndarray
    names: tuple[str, ...]


def digits(split: str) -> Samples:
    """Handwritten digits: 1797 gray images of 8 x 8, 10 classes."""
    found = _table("digits")
    x = torch.from_numpy(found.data.reshape(-1, 8, 8)).mul(255 / DIGITS_LEVELS).round().to(torch.uint8).unsqueeze(1)
    return _part(x, "image", found, "digits", split)


def iris(split: str) -> Samples:
    """Iris flowers: 150 vectors of 4 measurements, 3 classes."""
    return _vectors("iris", split)


def wine(split: str) -> Samples:
    """Wines: 178 vectors of 13 measurements, 3 classes."""
    return _vectors("wine", split)


def breast_cancer(split: str) -> Samples:
    """Breast tumours: 569 vectors of 30 measurements, 2 classes."""
    return _vectors("breast_cancer", split)


def _vectors(name: str, split: str) -> Samples:
    found = _table(name)
    return _part(torch.from_numpy(found.data).float(), "vector", found, name, split)


def _part(x: Tensor, kind: Kind, table: Table, source: str, split: str) -> Samples:
    return part(Samples(x, kind, torch.from_numpy(table.target).long(), table.names, source=source), split)


def _table(name: str) -> Table:
    """The file of scikit-learn itself, because to import it takes a second; where it lies elsewhere, it is asked."""
    found = find_spec("sklearn")
    file = Path(found.origin).parent / "datasets" / "data" / FILES[name] if found and found.origin else None
    if file is None or not file.is_file():
        from sklearn import datasets

        bunch = getattr(datasets, f"load_{name}")()
        return Table(bunch.data, bunch.target, tuple(map(str, bunch.target_names)))
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        names = tuple(map(str, range(10))) if name == "digits" else tuple(next(lines).strip().split(",")[2:])
        rows = np.loadtxt(lines, delimiter=",")
    return Table(np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(np.int64), names)
