"""The theorems of RESULTS whose assumptions some stored features meet."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vergence.counters import drawn
from vergence.diagnostics.by_name import Given, needed
from vergence.theory import RESULTS
from vergence.theory.certificate import Certificate

PAIRS = 2048  # whose empirical law the theorems are held against: their cost grows with the square


def certificates(stored: Mapping[str, Tensor]) -> Iterator[Certificate]:
    """Every row of RESULTS whose arguments the features have, named as in a run's file of features."""
    views, labels = stored.get("test_views"), stored.get("test_labels")
    rows = stored.get("test_views_rows")
    given: dict[str, Any] = {}
    if views is not None and labels is not None:
        own = labels[_places(rows, stored.get("test_rows"))] if rows is not None else labels[: len(views)]
        counts = own.unique(return_counts=True)[1]
        # The theorem is about directions, and a row of zeros has none; a main part takes two samples.
        if views.any(2).all() and len(counts) > 1 and counts.min() > 1:
            given |= {"features": views, "labels": own}
    z1, z2 = (stored.get(name) for name in ("test_z1", "test_z2"))
    if z1 is not None and z2 is not None and z1.shape == z2.shape and z1.any(1).all() and z2.any(1).all():
        some = drawn(len(z1), PAIRS)
        given |= {"z1": nn.functional.normalize(z1[some], dim=1), "z2": nn.functional.normalize(z2[some], dim=1)}
    yield from certified(given)


def _places(rows: Tensor, kept: Tensor | None) -> Tensor:
    """Where rows of the data are among those that were kept, which rise: of shards not all can be read."""
    return rows if kept is None else torch.searchsorted(kept, rows)


def certified(given: Mapping[str, Any]) -> Iterator[Certificate]:
    """The theorems of RESULTS whose arguments, filled by name, are all given."""
    known = Given(dict(given))
    for _, theorem in RESULTS.every():
        if needed(theorem) and known.has_all_for(theorem):
            yield known.call(theorem)
