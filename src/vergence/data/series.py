"""Time series: many of one length, or long recordings cut into windows."""

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vergence.data.arrays import from_tables
from vergence.data.files import array_in, existing_file
from vergence.data.samples import Samples
from vergence.data.splits import SALTS, TEST_SHARE, held_out
from vergence.tables import UnknownName


def series(path: str, split: str, *, name: str = "", window: int = 0, stride: int = 0) -> Samples:
    """Time series in a .npy or .npz file, or in a .tsv file of the UCR archive.

    Without ``window``, ``[n, t]`` or ``[n, c, t]``: a .npz holds ``x`` and ``y``, or ``x_train``, ``y_train``,
    ``x_test`` and ``y_test``, each behind ``NAME_`` if there are several sets; the test set of ``NAME_TRAIN.tsv`` is
    ``NAME_TEST.tsv``. With ``window``, recordings ``[time, c]`` laid end to end in ``x``, with their bounds ``offset``,
    labels ``y`` and ``subject`` if known: cut every ``stride`` (else ``window``) steps; whole subjects are held out.
    """
    if window < 0 or stride < 0:
        raise ValueError(f"window and stride must not be negative, got {window} and {stride}.")
    found = _arrays(existing_file(path))
    found = _windows(found, window, stride or window, path) if window else _chosen(found, name, path)
    return from_tables(found, split, kind="series", source=f"series:{path}")


def _arrays(file: Path) -> dict[str, NDArray[Any]]:
    if file.suffix == ".tsv":
        return _ucr(file)
    if file.suffix in (".npy", ".npz"):
        return {"x": array_in(file)} if file.suffix == ".npy" else array_in(file)
    raise ValueError(f"{file} ends in {file.suffix or 'nothing'}; series are read from .npy, .npz and .tsv.")


def _ucr(file: Path) -> dict[str, NDArray[Any]]:
    """A label and then the values in each line; the training file has a test file beside it."""
    other = file.with_name(file.name.replace("_TRAIN", "_TEST"))
    train = _table(file)
    if other == file or not other.is_file():
        return {"x": train[:, 1:], "y": train[:, 0]}
    test = _table(other)
    return {"x_train": train[:, 1:], "y_train": train[:, 0], "x_test": test[:, 1:], "y_test": test[:, 0]}


def _table(file: Path) -> NDArray[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty file is said to be one below
            found = np.loadtxt(file, delimiter="\t", ndmin=2)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{file} is not a table of numbers: {error}") from error
    if found.size == 0 or found.shape[1] < 2:
        raise ValueError(f"{file} has the shape {list(found.shape)}; expected a label and values in each line.")
    return found


def _chosen(found: dict[str, NDArray[Any]], name: str, path: str) -> dict[str, NDArray[Any]]:
    """The arrays of one set of those in a file."""
    if not name and ("x" in found or "x_train" in found):
        return found
    known = sorted({key.removesuffix("_x_train") for key in found if key.endswith("_x_train")})
    if not known:
        raise ValueError(f"{path} holds {', '.join(found)}; expected x (and y), or x_train and x_test (and labels).")
    if not name:
        raise ValueError(f"{path} holds several sets: {', '.join(known)}. Say which: series:{path},name={known[0]}.")
    if name not in known:
        raise UnknownName("name", name, known)
    return {key.removeprefix(f"{name}_"): values for key, values in found.items() if key.startswith(f"{name}_")}


def _windows(found: dict[str, NDArray[Any]], window: int, stride: int, path: str) -> dict[str, NDArray[Any]]:
    """Windows of recordings, divided so that no subject, recording or moment is on both sides."""
    if "x" not in found or found["x"].ndim > 2:
        raise ValueError(f"{path} holds {', '.join(found)}; for windows it must hold recordings x of shape [time, c].")
    x = found["x"].reshape(len(found["x"]), -1)
    offset = found.get("offset", np.array([0, len(x)]))
    _check_offset(offset, len(x), path)
    starts = [np.arange(a, b - window + 1, stride) for a, b in itertools.pairwise(offset.tolist())]
    for key in ("y", "subject"):
        if key in found and len(found[key]) != len(starts):
            raise ValueError(f"{path} has {len(found[key])} values in {key} for {len(starts)} recordings.")
    recording = np.repeat(np.arange(len(starts)), [len(each) for each in starts])
    start = np.concatenate(starts)
    if not len(start):
        raise ValueError(f"No recording in {path} is as long as a window of {window} steps.")
    train, test = _sides(start, found.get("subject", np.arange(len(starts)))[recording], window, len(x))
    views = np.lib.stride_tricks.sliding_window_view(x, window, axis=0)
    tables = {"x_train": views[start[train]], "x_test": views[start[test]]}
    if "y" in found:
        labels = found["y"][recording]
        tables |= {"y_train": labels[train], "y_test": labels[test]}
    return tables


def _check_offset(offset: NDArray[Any], length: int, path: str) -> None:
    """The bounds of recordings rise from 0 or later to at most the length."""
    whole = offset.ndim == 1 and len(offset) > 1 and offset.dtype.kind in "iu"
    if not whole or offset.min() < 0 or offset.max() > length or (np.diff(offset.astype(np.int64)) < 0).any():
        raise ValueError(f"{path}: offset must be whole numbers that rise from 0 to at most {length}, two or more.")


def _sides(
    start: NDArray[Any], group: NDArray[Any], window: int, end: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which windows train and which test: whole groups, or, of a single one, the time before and after a moment."""
    names, number = np.unique(group, return_inverse=True)
    if len(names) > 1:
        test = held_out(np.zeros(len(names), np.int64), TEST_SHARE, salt=SALTS["test"])[number]
        return ~test, test
    moment = round(end * (1 - TEST_SHARE))
    return start + window <= moment, start >= moment
