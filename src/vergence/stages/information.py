"""``vergence information``: how many nats two variables share."""

from pathlib import Path
from typing import Any

from vergence.data.embeddings import finite_pairs, read_embeddings
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
    pair = [read_embeddings(rows, column=True) if isinstance(rows, str | Path) else rows for rows in (x, y)]
    if drop_nan:
        pair = finite_pairs(*pair)
    found = estimate(*pair, bound=bound, critic=critic, batch=batch, folds=folds, seed=seed)
    lines = [str(found), *found.reasons]
    if bits:
        lines[0] = f"{found.bits:.3f} bits. {lines[0]}"
    return Answer(tuple(lines), found.to_dict())
