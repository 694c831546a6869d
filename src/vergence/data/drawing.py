"""Drawing a part of the samples: evenly over the data and its classes, by a counter, never from the front.

The choice is a fixed hash of the position and the seed, so that data sorted by class give as fair a part as shuffled
data, and the same part on every machine.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.counters import drawn
from vergence.data import SOURCES, settled
from vergence.data.arrays import label_fields
from vergence.data.samples import Samples, in_memory, require_pairs
from vergence.data.splits import _hashed, _ranks, carved, fewer, part

GROUP = "group"  # beside the samples: a whole number for each, equal for those that belong together


def read_part(source: str, count: int, labels: Any = None, groups: Any = None, *, seed: int = 0) -> tuple[Samples, int]:
    """At most ``count`` training samples of a source, drawn evenly, and how many there are; no others are read.

    ``labels`` and ``groups`` are one a sample of the whole source, training and test samples together.
    """
    name, argument, settings = settled(source, {"limit": 0, "validation": 0.0, "memory": 4.0})
    limit, validation, memory = (settings.pop(key) for key in ("limit", "validation", "memory"))
    row = partial(SOURCES[name], argument) if argument else SOURCES[name]
    samples = row("train" if labels is None and groups is None else "all", **settings)
    if labels is not None or groups is not None:
        samples = part(grouped(samples if labels is None else labeled(samples, labels), groups), "train")
    samples = carved(samples, "train", validation=validation)
    samples = fewer(samples, limit) if limit else samples
    some = samples.take(evenly(len(samples), count, samples.labels, seed=seed))
    return require_pairs(in_memory(some, memory=memory)), len(samples)


def labeled(samples: Samples, labels: Any) -> Samples:
    """The samples with labels, one each."""
    fields = label_fields(labels)
    if len(fields["labels"]) != len(samples):
        raise ValueError(f"There are {len(fields['labels'])} labels for {len(samples)} samples; expected one each.")
    return replace(samples, **fields)


def grouped(samples: Samples, groups: Any) -> Samples:
    """The samples with what belongs together beside them: one name or number a sample, such as a person or a device."""
    if groups is None:
        return samples
    codes = label_fields(groups)["labels"]
    if len(codes) != len(samples):
        raise ValueError(f"There are {len(codes)} groups for {len(samples)} samples; expected one each.")
    if len(codes.unique()) < 2:
        raise ValueError("All samples are of one group: groups tell nothing apart. Leave them out.")
    return replace(samples, beside={**samples.beside, GROUP: codes})


def evenly(n: int, count: int, labels: Tensor | None = None, *, seed: int = 0) -> Tensor:
    """``count`` of ``n`` positions in increasing order, every class in proportion to its size (within one sample)."""
    if count < 1:
        raise ValueError(f"At least 1 sample has to be drawn, not {count}.")
    return drawn(n, count, groups=labels, seed=seed)


def of_each_class(labels: Tensor, count: int, *, classes: int = 0, seed: int = 0) -> Tensor:
    """At most ``count`` positions of each class, in increasing order; with ``classes``, of that many drawn classes."""
    groups, keys = _groups(len(labels), labels), _hashed(len(labels), _salt(seed))
    chosen = _ranks(groups, keys) < count
    known = np.unique(groups)
    if 0 < classes < len(known):
        some = known[np.argsort(_hashed(len(known), _salt(seed) + 1))[:classes]]
        chosen &= np.isin(groups, some)
    return torch.from_numpy(np.flatnonzero(chosen))


def _groups(n: int, labels: Tensor | None) -> np.ndarray:
    if labels is None:
        return np.zeros(n, np.int64)
    return np.unique(labels.numpy(), return_inverse=True)[1]


def _salt(seed: int) -> int:
    return 16 + 2 * (seed % 2**20)  # apart from the salts of the splits
