"""One state for all rows, that many processes can make together: a map over shards and a reduce.

Two states of different rows merge into the state of all of them, in any order and over any split: counts, copies and
the reservoir exactly, sums and Gram matrices (float64) to rounding. A row is known by a key, such as a hash of its
shard and its number in it; what is drawn is drawn by that key, so the draw does not depend on who saw the row.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.counters import mixed
from vergence.diagnostics.estimate import normal
from vergence.diagnostics.geometry import Norms
from vergence.diagnostics.spectrum import GROUPS, Moments

RESERVOIR = 50_000  # rows that are kept to be compared with each other, as many as uniformity looks at
RESERVOIR_BYTES = 2**27  # and no more than this
SKETCH = 2**16  # different rows whose copies are counted: below that many the count is exact
BLOCK = 1024  # rows whose fingerprints are made together: what stays in the cache is made twice as fast
DRAW = 0x5EED  # apart from other uses of the keys


@dataclass(frozen=True, eq=False)
class State:
    """What is known of rows that need not be in memory.

    ``count, total, product`` are sums over eight groups of rows, dealt by key. ``mean`` and ``square`` are the mean
    length and the sum of squared deviations from it. ``digests`` are the smallest fingerprints of rows, with how often
    each came. ``reservoir`` holds the rows with the smallest hashes of keys.
    """

    count: Tensor
    total: Tensor
    product: Tensor
    mean: float = 0.0
    square: float = 0.0
    zeros: int = 0
    digests: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    repeats: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    reservoir: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    labels: np.ndarray | None = None
    classes: Mapping[str, int] | None = None

    @property
    def n(self) -> int:
        return int(self.count.sum())

    @property
    def d(self) -> int:
        return self.total.shape[1]

    @property
    def is_full(self) -> bool:
        """Whether further rows can only take the place of others in the reservoir."""
        return len(self.hashes) >= reservoir_size(self.d)

    @property
    def moments(self) -> Moments:
        return Moments(self.count, self.total, self.product)

    @property
    def norms(self) -> Norms:
        """Lengths of all rows."""
        deviation = math.sqrt(self.square / max(1, self.n - 1))
        estimate = normal(self.mean, deviation / math.sqrt(self.n), n=self.n, method="Student's t")
        spread = math.sqrt(self.square / self.n) / self.mean if self.mean else math.nan
        return Norms(estimate, spread, self.zeros)

    @property
    def copies(self) -> int:
        """Rows that repeat another bit by bit: exact up to 65,536 different rows, then estimated from as many.

        A fingerprint of the sketch has all its copies counted, so no copies are estimated where there are none. Rows of
        zeros are counted elsewhere.
        """
        filled = self.digests != fingerprints(np.zeros((1, self.d), np.float32))
        seen = int(self.repeats[filled].sum())
        return round((seen - int(filled.sum())) / seen * (self.n - self.zeros)) if seen else 0

    def rows(self) -> tuple[Tensor, np.ndarray | None]:
        """The reservoir in the order of the keys, and its labels."""
        order = np.argsort(self.keys, kind="stable")
        return torch.from_numpy(self.reservoir[order]), None if self.labels is None else self.labels[order]

    @property
    def known(self) -> dict[str, Any]:
        """What a diagnosis of the reservoir takes from all rows; what needs neighbors in the file is left out."""
        absent = dict.fromkeys(("steady", "steadiness", "block", "label_shift"))
        return {"n": self.n, "moments": self.moments, "norms_of_h": self.norms, "exact": self.copies, **absent}


def of(rows: Tensor, keys: Tensor, labels: Any = None, *, within: State | None = None) -> State:
    """The state of some rows, each with a key and a label or none; with ``within`` only what can still enter that."""
    rows = rows.float()
    n, d = rows.shape
    if keys.shape != (n,) or (labels is not None and len(labels) != n):
        raise ValueError(f"{n} rows need a key each, and a label each or none; got {len(keys)} keys.")
    count, total, product, long = _sums(rows, mixed(keys + 1) & (GROUPS - 1))
    digests, repeats = _smallest_digests(rows.numpy(), within)
    names = None if labels is None else np.asarray(labels).astype(str)
    chosen, hashes = _drawn(keys, reservoir_size(d), within)
    return State(
        count, total, product, float(long.mean()), float(((long - long.mean()) ** 2).sum()), int((long == 0).sum()),
        digests, repeats, hashes, keys.numpy()[chosen], rows.numpy()[chosen], None if names is None else names[chosen],
        None if names is None else Counter(names.tolist()),
    )  # fmt: skip


def _sums(rows: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor, np.ndarray]:
    """Counts, sums and Gram matrices of groups of rows in float64; and all lengths, which cannot overflow there."""
    count, total, product = (
        torch.zeros(GROUPS, *size, dtype=torch.float64) for size in ((), rows.shape[1:], 2 * rows.shape[1:])
    )
    long = []
    for number in range(GROUPS):
        part = rows[torch.from_numpy(np.flatnonzero(group.numpy() == number))].double()
        count[number], total[number], product[number] = len(part), part.sum(dim=0), part.T @ part
        long.append(part.norm(dim=1))
    return count, total, product, torch.cat(long).numpy()


def merged(*states: State) -> State:
    """The state of the rows of all states."""
    first = states[0]
    for other in states:
        if first.d != other.d:
            raise ValueError(f"Rows of {first.d} and of {other.d} dimensions cannot be examined together.")
        if (first.classes is None) != (other.classes is None):
            raise ValueError("Some shards have labels and others have none: they cannot be examined together.")
    if len(states) == 1:
        return first
    n, means = (np.array([getattr(each, name) for each in states]) for name in ("n", "mean"))
    mean = float(n @ means / n.sum())
    digests, repeats = _added(states)
    hashes, keys = (np.concatenate([getattr(each, name) for each in states]) for name in ("hashes", "keys"))
    kept = np.sort(np.lexsort((keys, hashes))[: reservoir_size(first.d)])
    edges = np.searchsorted(kept, np.cumsum([0, *(len(each.keys) for each in states)]))
    reservoir = np.empty((len(kept), first.d), np.float32)
    passed = 0
    for each, start, stop in zip(states, edges, edges[1:], strict=False):
        np.take(each.reservoir, kept[start:stop] - passed, axis=0, out=reservoir[start:stop])
        passed += len(each.keys)
    return State(
        sum((each.count for each in states), torch.zeros_like(first.count)),
        sum((each.total for each in states), torch.zeros_like(first.total)),
        sum((each.product for each in states), torch.zeros_like(first.product)),
        mean,
        float(sum(each.square for each in states) + n @ (means - mean) ** 2),
        sum(each.zeros for each in states),
        digests,
        repeats,
        hashes[kept],
        keys[kept],
        reservoir,
        None if first.labels is None else np.concatenate([each.labels for each in states])[kept],
        None if first.classes is None else reduce(Counter.__add__, (Counter(each.classes) for each in states)),
    )


def reservoir_size(d: int) -> int:
    return max(1000, min(RESERVOIR, RESERVOIR_BYTES // (4 * d)))


def _drawn(keys: Tensor, most: int, within: State | None) -> tuple[np.ndarray, np.ndarray]:
    """The places of rows that may be in the reservoir, and the hashes they are drawn by."""
    hashes = mixed(mixed(keys) + DRAW).numpy()
    chosen = np.arange(len(hashes))
    if within is not None and len(within.hashes) >= most:
        chosen = np.flatnonzero(hashes <= within.hashes.max())
    if len(chosen) > most:
        chosen = chosen[np.lexsort((keys.numpy()[chosen], hashes[chosen]))[:most]]
    return chosen, hashes[chosen]


def _smallest_digests(rows: np.ndarray, within: State | None) -> tuple[np.ndarray, np.ndarray]:
    digests = fingerprints(rows)
    if within is not None and len(within.digests) >= SKETCH:
        digests = digests[digests <= within.digests[-1]]
    found, repeats = np.unique(digests, return_counts=True)
    return found[:SKETCH], repeats[:SKETCH]


def _added(states: Sequence[State]) -> tuple[np.ndarray, np.ndarray]:
    """The smallest fingerprints of all, each with its copies in all."""
    found, place = np.unique(np.concatenate([each.digests for each in states]), return_inverse=True)
    repeats = np.bincount(place, np.concatenate([each.repeats for each in states]), minlength=len(found))
    return found[:SKETCH], repeats[:SKETCH].astype(np.int64)


def fingerprints(rows: np.ndarray) -> np.ndarray:
    """64 bits for every row of float32: equal for equal rows, and for unequal rows once in 2^64."""
    width = rows.shape[1] + rows.shape[1] % 2
    keys = np.random.default_rng(0).integers(1, 2**63, size=width // 2, dtype=np.uint64) | np.uint64(1)
    sums = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), BLOCK):
        plain = np.zeros((len(rows[start : start + BLOCK]), width), np.float32)
        plain[:, : rows.shape[1]] = rows[start : start + BLOCK]
        plain += np.float32(0)  # minus zero becomes zero
        words = plain.view(np.uint64)
        words ^= words >> np.uint64(29)  # round numbers have no low bits, which products would not fill
        words *= keys
        sums[start : start + BLOCK] = words.sum(axis=1, dtype=np.uint64)
    return mixed(torch.from_numpy(sums.view(np.int64))).numpy().view(np.uint64)
