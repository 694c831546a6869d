"""Arrays, in memory or in files: what they hold is decided by their shape and type, unless it is said."""

import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from vergence.data.files import label_file, label_values, tables
from vergence.data.samples import Kind, Samples, in_memory
from vergence.data.splits import part

NUMPY = {torch.uint8: np.uint8, torch.float32: np.float32, torch.int64: np.int64}
CHANNELS = (1, 3)
FRACTIONS = "fb"  # the numpy kinds whose pixels run from 0 to 1: floats and truth values
ROUNDED = 1e-5  # float32 has 7 digits: below this share of its size a column keeps less than two of them
BLOCK = 2**22  # values looked at together, so that checking a large file needs little memory


def array(path: str, split: str, *, labels: str = "", kind: str = "") -> Samples:
    """An array in a .npy, .npz, .parquet or .csv file; ``labels`` names a .npy or text file with one label a sample.

    Two dimensions are vectors. Three are gray images ``[n, h, w]`` if whole numbers, else series ``[n, c, t]``. Four
    are images, ``[n, h, w, c]`` or ``[n, c, h, w]``, of 0 to 255 if whole numbers, else of 0 to 1. ``kind`` overrules.
    A .npz holds ``x`` (and ``y`` or ``labels``), or ``x_train`` and ``x_test`` (and ``y_train``, ``y_test``).
    """
    found = _separated(path) if path.lower().endswith(".csv") else tables(path)
    if labels and "x" not in found:
        raise ValueError(
            f"{path} is divided into train and test, so its labels must be inside it, as y_train and y_test."
        )
    if labels:
        found["y"] = label_file(labels)
    return from_tables(found, split, kind=kind, source=f"array:{path}")


def _separated(path: str) -> dict[str, NDArray[Any]]:
    """The numbers of a table with commas, and the column of labels where it has one of a usual name."""
    from vergence.data.embeddings import read_embeddings, read_labels

    x, labels = read_embeddings(path), read_labels(path)
    return {"x": np.asarray(x)} | ({} if labels is None else {"y": labels})


def from_arrays(x: ArrayLike | Tensor, labels: ArrayLike | Tensor | None = None, *, kind: str = "") -> Samples:
    """Samples from arrays in memory, read by the same rules as a file."""
    samples = replace(from_array(_plain(x), kind=kind, source="x"), **label_fields(labels))
    return in_memory(samples, memory=math.inf)


def divided(value: Any, split: str) -> Samples:
    """Samples, or arrays ``x`` or ``(x, labels)``, that were given from Python, divided as a file of them would be."""
    if isinstance(value, Samples):
        return part(value, split)
    x, labels = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    return part(replace(from_array(_plain(x), kind="", source="memory"), **label_fields(labels)), split)


def from_array(array: NDArray[Any], *, kind: str, source: str) -> Samples:
    """An array without labels, checked and read by the rules of :func:`array`."""
    _require_numbers(array, source)
    chosen = _kind(array, kind, source)
    x = _channels_first(array, chosen, source)
    if array.dtype.kind == "f":
        _require_finite(x, source)
    if chosen in ("vector", "series") and array.dtype.itemsize > 4:
        _require_apart(x, source)
    if chosen == "text" and array.min() < 0:
        raise ValueError(f"{source} holds the token {array.min()}; tokens are whole numbers from 0, which is padding.")
    if chosen == "image":
        _require_pixels(x, source)
    dtype = {"image": torch.uint8, "text": torch.int64}.get(chosen, torch.float32)
    return Samples(StoredArray(x, torch.arange(len(x)), dtype), chosen, source=source)


def from_tables(found: Mapping[str, NDArray[Any]], split: str, *, kind: str, source: str) -> Samples:
    """Samples from named arrays: ``x`` and ``y``, divided here, or ``x_train``, ``x_test`` and their labels."""
    if "x" in found:
        samples = replace(from_array(found["x"], kind=kind, source=source), **label_fields(found.get("y")))
        return part(samples, split)
    wanted = ("train", "test") if split == "all" else (split,)
    shapes = [found[name].shape for name in ("x_train", "x_test") if name in found]
    if len(shapes) < 2 or shapes[0][1:] != shapes[1][1:]:
        what = ", ".join(f"{name} {list(array.shape)}" for name, array in found.items())
        raise ValueError(f"{source} holds {what}; expected x_train and x_test of equally shaped samples.")
    samples = from_array(np.concatenate([found[f"x_{each}"] for each in wanted]), kind=kind, source=source)
    if not {"y_train", "y_test"} <= set(found):
        return samples
    labels = np.concatenate([found[f"y_{each}"] for each in wanted])
    return replace(samples, **label_fields(labels, classes=np.concatenate([found["y_train"], found["y_test"]])))


def label_fields(labels: Any, *, classes: NDArray[Any] | None = None) -> dict[str, Any]:
    """The ``labels`` and ``classes`` of samples, from one name or whole number a sample."""
    if labels is None:
        return {"labels": None, "classes": ()}
    values = _whole(_plain(labels))
    names = np.unique(values if classes is None else _whole(classes))
    codes = torch.from_numpy(np.searchsorted(names, values).astype(np.int64))
    return {"labels": codes, "classes": tuple(str(name) for name in names.tolist())}


@dataclass(frozen=True)
class StoredArray:
    """An array, perhaps on disk, whose rows become tensors when they are asked for."""

    array: NDArray[Any]
    indices: Tensor
    dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.array.shape[1:])

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, indices: Tensor) -> Tensor:
        rows = _rows(self.array, self.indices[indices])
        if self.dtype == torch.uint8 and rows.dtype.kind in FRACTIONS:
            rows = np.round(rows * 255)
        return torch.from_numpy(np.ascontiguousarray(rows, NUMPY[self.dtype]))

    def take(self, indices: Tensor) -> "StoredArray":
        return replace(self, indices=self.indices[indices])

    def first_pass(self, *, keep: bool) -> tuple[Tensor | None, dict[int, str]]:
        return (self[torch.arange(len(self))] if keep else None), {}


def _rows(array: NDArray[Any], indices: Tensor) -> NDArray[Any]:
    """Rows of an array, copied; those that follow each other in one piece, which is twice as fast."""
    first, count = int(indices[0]) if len(indices) else 0, len(indices)
    if torch.equal(indices, torch.arange(first, first + count)):
        return np.array(array[first : first + count])
    return array[indices.numpy()]


def _kind(array: NDArray[Any], kind: str, source: str) -> Kind:
    """What an array holds, by its shape and type, unless it is said."""
    allowed: dict[int, tuple[Kind, ...]] = {2: ("vector", "series", "text"), 3: ("series", "image"), 4: ("image",)}
    if array.ndim == 3 and array.dtype.kind != "f":
        allowed[3] = ("image", "series")
    kinds = allowed.get(array.ndim, ())
    if not kinds or (kind and kind not in kinds):
        raise ValueError(
            f"{source} has shape {list(array.shape)} and type {array.dtype}"
            + (f", which cannot be read as {kind!r}. " if kind and kinds else ". ")
            + "Expected vectors [n, d], series [n, t] or [n, c, t], tokens [n, t], or images [n, h, w], [n, h, w, c] "
            "or [n, c, h, w]."
        )
    if kind == "text" and array.dtype.kind not in "iu":
        raise ValueError(f"{source} has type {array.dtype}; tokens are whole numbers, with 0 for padding.")
    return next((known for known in kinds if known == kind), kinds[0])


def _channels_first(array: NDArray[Any], kind: Kind, source: str) -> NDArray[Any]:
    """The array seen as ``[n, c, t]`` or ``[n, c, h, w]``; nothing is copied."""
    if (kind, array.ndim) in (("series", 2), ("image", 3)):
        return array[:, None]
    if kind != "image" or (array.shape[1] in CHANNELS and array.shape[-1] not in CHANNELS):
        return array
    if array.shape[-1] in CHANNELS:
        return np.moveaxis(array, -1, 1)
    raise ValueError(
        f"{source} has shape {list(array.shape)}: images have 1 or 3 channels, first or last, as in [n, 3, h, w] or "
        "[n, h, w, 3]. Leave out a fourth (transparency) with x[..., :3]."
    )


def _require_numbers(array: NDArray[Any], source: str) -> None:
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{source} has type {array.dtype}; expected real numbers. If it holds numbers as objects or text, save it "
            "again with np.save(path, np.asarray(x, dtype=np.float32))."
        )
    if array.ndim < 2:
        raise ValueError(f"{source} has shape {list(array.shape)}; expected one row a sample, as in [n, d].")
    if 0 in array.shape:
        raise ValueError(f"{source} has shape {list(array.shape)}: there is nothing in it.")


def _require_finite(array: NDArray[Any], source: str) -> None:
    """No NaN and no infinity: where they are is said, because a person will go and look."""
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, which is what we look for
        bad = np.concatenate([(~np.isfinite(block.astype(np.float32))).sum(1) for block in _blocks(array)])
    rows = np.flatnonzero(bad)
    if len(rows):
        if np.isfinite(array[rows[0]]).all():
            raise ValueError(
                f"{source} holds numbers up to {np.abs(array[rows[0]]).max():.3g} (row {rows[0]}), and float32 ends at "
                "3.4e38. Rescale them."
            )
        raise ValueError(
            f"{source} has {bad.sum()} NaN or infinite values, in {len(rows)} of {len(array)} rows; the first is row "
            f"{rows[0]}. Drop those rows or fill them in."
        )


def _require_apart(array: NDArray[Any], source: str) -> None:
    """No column whose differences float32 would round away, such as 2^62 + {0, 1} or seconds since 1970."""
    columns = array.shape[1]
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    exact = np.zeros(columns, bool)
    first = np.asarray(array[:1]).reshape(columns, -1)[:, 0]
    for block in _blocks(array):
        each = block.reshape(len(block), columns, -1)
        exact |= (each != first[:, None]).any(axis=(0, 2))
        rounded = each.astype(np.float32)
        low, high = np.minimum(low, rounded.min(axis=(0, 2))), np.maximum(high, rounded.max(axis=(0, 2)))
    size = np.maximum(np.abs(low), np.abs(high))
    lost = np.flatnonzero(exact & (high - low < ROUNDED * size))
    if len(lost):
        raise ValueError(
            f"{source}: the values of column {lost[0]} differ by less than a 100,000th of their size, "
            f"{size[lost[0]]:.3g}, which float32 rounds away. Subtract what they have in common first."
        )


def _require_pixels(array: NDArray[Any], source: str) -> None:
    if array.dtype == np.uint8:
        return
    top = 1 if array.dtype.kind in FRACTIONS else 255
    ends = [(block.min(), block.max()) for block in _blocks(array)]
    low, high = float(min(low for low, _ in ends)), float(max(high for _, high in ends))
    if low < 0 or high > top:
        raise ValueError(
            f"{source} has type {array.dtype} and values from {low:g} to {high:g}; images are whole numbers from 0 to "
            "255 or fractions from 0 to 1. Rescale them, or say kind='series' if they are not images."
        )


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The rows, flat, a bounded number of values at a time."""
    rows = max(1, BLOCK // array[0].size)
    for start in range(0, len(array), rows):
        block = np.asarray(array[start : start + rows])
        yield block.reshape(len(block), -1)
        released(array)


def released(array: Any) -> None:
    """Let go of the pages of a mapped file that were read: they can be read again, and would count as memory."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "_mmap", None) if isinstance(array, np.memmap) else getattr(array, "base", None)
    if array is not None and hasattr(mmap, "MADV_DONTNEED"):
        array.madvise(mmap.MADV_DONTNEED)


def _whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as names or whole numbers: those saved as floats are turned back."""
    if labels.ndim != 1:
        raise ValueError(f"Labels have shape {list(labels.shape)}; expected one a sample, [n].")
    return label_values(labels)


def _plain(values: Any) -> NDArray[Any]:
    if isinstance(values, Tensor):  # numpy has no bfloat16
        return (values.float() if values.dtype == torch.bfloat16 else values).detach().cpu().numpy()
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError("The rows differ in length; expected the same for all, as in [n, d].") from None
