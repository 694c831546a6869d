"""``vergence information``: how many nats two variables share."""

from pathlib import Path
from typing import Any

import numpy as np

from vergence.data.embeddings import finite_pairs, read_embeddings
from vergence.data.files import array_in, label_file, usable_numbers
from vergence.information import estimate
from vergence.runs.results import Answer

Array = Any  # a path to a file of rows, a numpy array or a tensor


def information(
    x: Array,
    y: Array,
    *,
    bound: str = "auto",
    critic: str = "auto",
    bits: bool = False,
    batch: int = 256,
    folds: int = 3,
    seed: int = 0,
    drop_nan: bool = False,
) -> Answer:
    """Estimate how many nats two variables share, row by row: with an interval, a ceiling and a word on trust."""
    pair = [_variable(rows) if isinstance(rows, str | Path) else rows for rows in (x, y)]
    if drop_nan:
        pair = finite_pairs(*pair)
    found = estimate(*pair, bound=bound, critic=critic, batch=batch, folds=folds, seed=seed)
    lines = [str(found), *(reason for reason in found.reasons if reason not in found.trust.sentence)]
    if bits:
        lines[0] = f"{found.bits:.3f} bits. {lines[0]}"
    return Answer(tuple(lines), found.to_dict())


def _variable(path: str | Path) -> Any:
    """Rows of numbers; or the labels of a text, one a line, or of an array of names, as numbers of their classes."""
    file = Path(path)
    if file.suffix != ".txt" and not (file.suffix == ".npy" and file.is_file() and array_in(file).dtype.kind in "SU"):
        return read_embeddings(path, column=True)
    labels = label_file(str(path))
    try:
        numbers = labels.astype(np.float64)
    except ValueError:
        return np.unique(labels, return_inverse=True)[1].reshape(len(labels), -1)
    return usable_numbers(numbers, str(path)).reshape(len(labels), -1)
