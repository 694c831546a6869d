"""Splits: which samples are for training, which are held out, and how to take fewer."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from vergence.counters import GOLDEN, STRETCH, mixed
from vergence.data.samples import Samples, Sharded

TEST_SHARE = 0.2  # of each class, for sources that come without a test set
SALTS = {"test": 1, "validation": 2, "limit": 3}  # so that the draws are independent


def part(samples: Samples, split: str) -> Samples:
    """The ``train``, ``test`` or ``all`` part of samples that come without a test set: a fifth of each class is test.

    The choice is a fixed hash of the position in the source, so it is the same on every machine and in every version.
    """
    if split == "all":
        return samples
    return _divided(samples, TEST_SHARE, salt=SALTS["test"], keep_held_out=split == "test")


def carved(samples: Samples, split: str, *, validation: float) -> Samples:
    """Training samples less the share ``validation`` of each class, or, for the split of that name, that share."""
    if split == "validation" and not 0 < validation < 1:
        raise ValueError(
            f"No samples are held out for validation: validation is {validation:g}. Give the same share, "
            "for example validation=0.1, to the train and the validation split."
        )
    if split not in ("train", "validation") or validation == 0:
        return samples
    return _divided(samples, validation, salt=SALTS["validation"], keep_held_out=split == "validation")


def fewer(samples: Samples, limit: int) -> Samples:
    """At most ``limit`` samples, drawn evenly from every class in equal numbers as far as that goes, in their order."""
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}.")
    if limit >= len(samples):
        return samples
    if isinstance(samples.x, Sharded):
        return samples.take(samples.x.sample(limit))
    if samples.labels is None:
        return samples.take(torch.from_numpy(np.flatnonzero(_smallest(len(samples), limit, SALTS["limit"]))))
    keys = _hashed(len(samples), SALTS["limit"])
    order = np.lexsort((keys, _ranks(samples.labels.numpy(), keys)))
    return samples.take(torch.from_numpy(np.sort(order[:limit])))


def held_out(groups: NDArray[np.int64], share: float, *, salt: int) -> NDArray[np.bool_]:
    """Which samples to hold out: a share of each group, at least one and not all unless it is alone, by a hash."""
    counts = np.bincount(groups)
    return _ranks(groups, _hashed(len(groups), salt)) < _wanted(counts, share)[groups]


def _divided(samples: Samples, share: float, *, salt: int, keep_held_out: bool) -> Samples:
    if isinstance(samples.x, Sharded):
        return samples.x.divided(share, salt=salt, held_out=keep_held_out).under(samples)
    if samples.labels is None:
        count = int(_wanted(np.array([len(samples)]), share)[0])
        chosen = _smallest(len(samples), count, salt) == keep_held_out
        return samples.take(torch.from_numpy(np.flatnonzero(chosen)))
    groups = samples.labels.numpy()
    if len(np.unique(groups)) == len(groups):  # a class of its own for each: labels are names, so all are one group
        groups = np.zeros(len(groups), np.int64)
    chosen = held_out(groups, share, salt=salt) == keep_held_out
    return samples.take(torch.from_numpy(np.flatnonzero(chosen)))


def _wanted(counts: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """How many of each group are held out."""
    return np.where(counts > 1, np.clip(np.round(share * counts), 1, counts - 1), 0).astype(np.int64)


def _smallest(n: int, count: int, salt: int) -> NDArray[np.bool_]:
    """Which of ``n`` places have the ``count`` smallest keys: a byte a place, whatever the keys take.

    The keys of ranks around ``count`` are found by the first 16 bits of all.
    """
    counts = np.zeros(2**16, np.int64)
    for _, keys in _key_stretches(n, salt):
        counts += np.bincount((keys >> np.uint64(48)).astype(np.int64), minlength=2**16)
    border = int(np.searchsorted(counts.cumsum(), count))
    near = [keys[keys >> np.uint64(48) == border] for _, keys in _key_stretches(n, salt)]
    rank = count - int(counts[:border].sum())  # at least 1 unless count is 0
    chosen = np.zeros(n, bool)
    if count:
        last = np.sort(np.concatenate(near))[rank - 1]
        for first, keys in _key_stretches(n, salt):
            chosen[first : first + len(keys)] = keys <= last
    return chosen


def _key_stretches(n: int, salt: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    for first in range(0, n, STRETCH):
        yield first, _hashed(min(n, first + STRETCH), salt, first)


def _ranks(groups: NDArray[np.int64], keys: NDArray[np.generic]) -> NDArray[np.int64]:
    """Each sample's place in its own group when the group is sorted by key."""
    order = np.lexsort((keys, groups))
    _, starts, counts = np.unique(groups[order], return_index=True, return_counts=True)
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, counts)
    return ranks


def _hashed(n: int, salt: int, first: int = 0) -> NDArray[np.uint64]:
    """Fixed numbers without order for first, ..., n - 1."""
    return mixed((torch.arange(first, n) + (salt << 40)) * GOLDEN).numpy().view(np.uint64)
