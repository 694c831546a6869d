"""Small datasets that come with scikit-learn and need no download."""

from typing import Any

import torch
from torch import Tensor

from vergence.data.samples import Kind, Samples
from vergence.data.splits import part

DIGITS_LEVELS = 16  # scikit-learn's digits count the dark pixels, 0 to 16, in blocks of 4 x 4


def digits(split: str) -> Samples:
    """Handwritten digits: 1797 gray images of 8 x 8, 10 classes."""
    bunch = _bunch("digits")
    x = torch.from_numpy(bunch.images).mul(255 / DIGITS_LEVELS).round().to(torch.uint8).unsqueeze(1)
    return _part(x, "image", bunch, "digits", split)


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
    bunch = _bunch(name)
    return _part(torch.from_numpy(bunch.data).float(), "vector", bunch, name, split)


def _part(x: Tensor, kind: Kind, bunch: Any, source: str, split: str) -> Samples:
    classes = tuple(str(name) for name in bunch.target_names)
    return part(Samples(x, kind, torch.from_numpy(bunch.target).long(), classes, source=source), split)


def _bunch(name: str) -> Any:
    from sklearn import datasets  # a second to import, needed by these four only

    return getattr(datasets, f"load_{name}")()
