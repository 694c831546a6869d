"""The door of the diagnostics: rows of numbers from anywhere, checked, and streamed where they are many.

A numpy array (memory-mapped or not) or a tensor on any device goes in; tensors of float32 or better come out.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = Any  # a numpy array, memory-mapped or not, or a torch tensor

CHUNK = 8192  # rows read at a time: 8192 x 768 float64 are 50 MB


def shape(h: Array, name: str = "h") -> tuple[int, int]:
    """The checked shape of rows of embeddings: at least two rows, at least one column."""
    if not hasattr(h, "shape"):
        raise ValueError(f"{name} must be an array or a tensor [n, d], not a {type(h).__name__}")
    found = tuple(h.shape)
    if len(found) != 2:
        raise ValueError(f"{name} must be rows of embeddings [n, d], not an array of shape {list(found)}")
    if found[0] < 2 or found[1] < 1:
        raise ValueError(f"{name} has the shape {list(found)}: at least 2 rows and 1 column are needed")
    return int(found[0]), int(found[1])


def chunks(h: Array, name: str = "h") -> Iterator[Tensor]:
    """The rows in order, ``CHUNK`` at a time, in float32 or better; NaN and infinite rows are counted and located."""
    for start in range(0, shape(h, name)[0], CHUNK):
        chunk = tensor(h[start : start + CHUNK])
        if not torch.isfinite(chunk.sum()) and len(not_finite(h)):
            raise _not_finite_error(h, name)
        yield chunk


def as_tensor(h: Array, name: str = "h") -> Tensor:
    """All rows in memory, checked."""
    rows, start = torch.empty(0), 0
    for chunk in chunks(h, name):
        if not start:
            if len(chunk) == len(h):
                return chunk
            rows = chunk.new_empty(len(h), chunk.shape[1])  # once: joining the chunks would hold all rows twice
        rows[start : start + len(chunk)] = chunk
        start += len(chunk)
    return rows


def sampled(h: Array, count: int, *, seed: int, name: str = "h") -> Tensor:
    """At most ``count`` rows chosen at random without repetition, in file order; all of them when they are no more."""
    n, _ = shape(h, name)
    if n <= count:
        return as_tensor(h, name)
    chosen = chosen_rows(n, count, seed=seed)
    return rows_at(h, chosen, name)


def chosen_rows(n: int, count: int, *, seed: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).choice(n, size=min(n, count), replace=False))


def drawn_rows(n: int, count: int, *, labels: Tensor | None = None, seed: int = 0) -> np.ndarray:
    """At most ``count`` row numbers in file order, drawn at random; of every class the same share where labels are.

    Classes are dealt in turn from a list that is shuffled within each class, so that the sample of a sorted file is
    the sample of a shuffled one.
    """
    if n <= count:
        return np.arange(n)
    order = np.random.default_rng(seed).permutation(n)
    if labels is not None:
        order = order[np.argsort(labels.cpu().numpy()[order], kind="stable")]
    return np.sort(order[np.floor(np.arange(count) * (n / count)).astype(int)])


def rows_at(h: Array, index: np.ndarray, name: str = "h") -> Tensor:
    """The rows with these numbers, in memory, checked."""
    return as_tensor(h[torch.from_numpy(index).to(h.device)] if isinstance(h, Tensor) else h[index], name)


def labels_for(labels: Array, n: int) -> Tensor:
    """Labels as an int64 tensor 0 ... K - 1, one for each of n rows."""
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.shape != (n,):
        raise ValueError(f"There are {n} rows but the labels have the shape {list(values.shape)}: one each is needed")
    return torch.from_numpy(np.unique(values, return_inverse=True)[1].reshape(-1))


def not_finite(h: Array) -> np.ndarray:
    """The indices of rows that hold NaN or infinity."""
    bad = [
        start + np.flatnonzero(~torch.isfinite(tensor(h[start : start + CHUNK])).all(dim=1).cpu().numpy())
        for start in range(0, len(h), CHUNK)
    ]
    return np.concatenate(bad)


def unit(h: Tensor) -> Tensor:
    """Rows divided by their length; a row of zeros stays zero. Squares of 1e20 or 1e-30 are never formed."""
    tiny = torch.finfo(h.dtype).tiny
    largest = torch.maximum(h.amax(dim=1, keepdim=True), -h.amin(dim=1, keepdim=True))
    if not bool(((largest == 0) | ((largest > 1e-15) & (largest < 1e15))).all()):
        h = h / largest.clamp(min=tiny)
    return torch.nn.functional.normalize(h, dim=1, eps=tiny)


def lengths(rows: Tensor) -> Tensor:
    """Euclidean lengths that neither overflow nor underflow."""
    largest = rows.abs().amax(dim=1)
    return largest * (rows / largest.clamp(min=torch.finfo(rows.dtype).tiny)[:, None]).norm(dim=1)


def tensor(values: Array) -> Tensor:
    """A detached tensor of float32 or float64."""
    if not isinstance(values, Tensor):
        values = np.asarray(values)
        if values.dtype.kind not in "fiub":
            raise ValueError(f"Embeddings must be numbers, not {values.dtype}")
        values = torch.from_numpy(np.array(values, dtype=_precision(values.dtype)))  # a copy: the file is read-only
    values = values.detach()
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _precision(dtype: np.dtype) -> type:
    return np.float64 if dtype in (np.float64, np.int64) else np.float32


def _not_finite_error(h: Array, name: str) -> ValueError:
    bad = not_finite(h)
    where = ", ".join(str(index) for index in bad[:5]) + (", ..." if len(bad) > 5 else "")
    return ValueError(
        f"{len(bad)} of {len(h)} rows of {name} hold NaN or infinity (rows {where}). "
        "Leave them out with --drop-nan, or find where they come from: a NaN loss, a division by a zero norm"
    )
