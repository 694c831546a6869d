"""Accuracy with its interval, and the door: rows and labels of both splits, checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics.estimate import wilson

Array = Any  # a numpy array or a torch tensor
Split = tuple[np.ndarray, np.ndarray]  # rows and their labels


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The share of test samples classified correctly, in [0, 1], with a 95 % interval over the drawing of test samples.

    The interval is Wilson's; it does not include the luck of the training run. ``hits`` says of every draw of the
    labels which test samples were classified correctly, ``[draws, n]``; None where all labels were used.
    """

    accuracy: float
    interval: tuple[float, float]
    n: int
    predictions: np.ndarray
    classifier: str
    choices: Mapping[str, Any] = field(default_factory=dict)
    hits: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        low, high = self.interval
        found = {"classifier": self.classifier, "accuracy": self.accuracy, "low": low, "high": high, "n": self.n}
        return {**found, **{key: self.choices[key] for key in ("protocol",) if key in self.choices}}


def scored(predictions: np.ndarray, labels: np.ndarray, classifier: str, **choices: Any) -> Accuracy:
    correct, n = int((predictions == labels).sum()), len(labels)
    return Accuracy(correct / n, wilson(correct / n, n), n, predictions, classifier, choices)


def checked_splits(train_h: Array, train_labels: Array, test_h: Array, test_labels: Array) -> tuple[Split, Split]:
    """Both splits as checked numpy arrays."""
    train, test = _checked(train_h, train_labels, "train"), _checked(test_h, test_labels, "test")
    if train[0].shape[1] != test[0].shape[1]:
        raise ValueError(f"train_h has {train[0].shape[1]} columns, test_h has {test[0].shape[1]}: expected as many")
    if len(np.unique(train[1])) < 2:
        raise ValueError(f"All {len(train[1])} training labels are {train[1][0]!r}: a classifier needs two classes")
    return train, test


def _checked(h: Array, labels: Array, split: str) -> Split:
    h, labels = as_numpy(h), as_numpy(labels)
    if h.ndim != 2 or not len(h):
        raise ValueError(f"{split}_h must be rows of features [n, d], not an array of shape {list(h.shape)}")
    if labels.shape != (len(h),):
        raise ValueError(f"{split}_h has {len(h)} rows, but {split}_labels has the shape {list(labels.shape)}")
    if h.dtype.kind not in "biuf":
        raise ValueError(f"{split}_h must hold real numbers, not {h.dtype}")
    h = h.astype(np.float32 if h.dtype != np.float64 else np.float64, copy=False)
    bad = np.flatnonzero(~np.isfinite(h).all(axis=1))
    if len(bad):
        raise ValueError(f"{len(bad)} of {len(h)} rows of {split}_h hold NaN or infinity, first at row {bad[0]}")
    return h, labels


def as_numpy(values: Array) -> np.ndarray:
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()
