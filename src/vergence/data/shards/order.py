"""The order of samples in shards: a function of the seed, the epoch and the sizes of the pieces, and of nothing else.

In every epoch the shards are put in another order by counter and their samples counted through: 0, 1, ..., n - 1.
These places are cut into ``lanes`` of equal length, and a batch takes as many samples from each lane. Within a lane,
the samples of ``window`` pieces at a time are shuffled by counter. A process that makes a part of every batch reads
only the lanes of its part, so that processes share the shards among them, and yet the order is the same for any number
of them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vergence.counters import sample_keys

LANES = 8  # at most: processes up to this number read every shard once between them
WINDOW = 4  # pieces (tar files, row groups of Parquet files) shuffled together in each lane
SALT = 0x5A4D  # apart from the keys of views


@dataclass
class Order:
    """The batches of one epoch. ``counts`` are the samples in each piece, ``shards`` the number of each one's file."""

    counts: np.ndarray
    shards: np.ndarray
    seed: int
    epoch: int
    batch: int
    lanes: int = LANES
    window: int = WINDOW

    def __post_init__(self) -> None:
        order = shard_order(self.shards, self.seed, self.epoch)
        self.pieces = order[self.counts[order] > 0]
        self.ends = np.cumsum(self.counts[self.pieces])
        self.firsts = np.cumsum(self.counts) - self.counts  # the index of each piece's first sample
        self.steps = int(self.ends[-1]) // self.batch
        self.lanes = lanes_of(self.batch, self.lanes)
        self.share = self.batch // self.lanes  # samples of a lane in a batch
        self._windows: dict[int, tuple[int, Tensor]] = {}

    def indices(self, step: int, *, rank: int = 0, world: int = 1) -> Tensor:
        """The samples of this process's part of batch ``step``."""
        each = self.batch // world
        first, last = rank * each, (rank + 1) * each
        parts = []
        for lane in range(first // self.share, (last - 1) // self.share + 1):
            own = range(max(first, lane * self.share), min(last, (lane + 1) * self.share))
            start = step * self.share + own[0] - lane * self.share
            parts.append(self._of_lane(lane, start, start + len(own)))
        return torch.cat(parts)

    def upcoming(self, step: int, *, rank: int = 0, world: int = 1) -> list[int]:
        """The pieces of the windows after those of batch ``step``, in this process's lanes: what to fetch ahead."""
        each, length = self.batch // world, self.steps * self.share
        found = []
        for lane in range(rank * each // self.share, ((rank + 1) * each - 1) // self.share + 1):
            number = self._window_at(lane * length + step * self.share)[0]
            following = self.pieces[(number + 1) * self.window : (number + 2) * self.window]
            found += [int(piece) for piece in following]
        return found

    def _of_lane(self, lane: int, start: int, stop: int) -> Tensor:
        """Samples ``start`` to ``stop`` of a lane in its shuffled order."""
        length = self.steps * self.share
        parts = []
        while start < stop:
            place = lane * length + start
            first, shuffled = self._shuffled(lane, place, lane * length, (lane + 1) * length)
            taken = shuffled[place - first : place - first + stop - start]
            parts.append(taken)
            start += len(taken)
        return torch.cat(parts)

    def _shuffled(self, lane: int, place: int, low: int, high: int) -> tuple[int, Tensor]:
        """The first place of the window around a place, cut to its lane, and the window's samples in their order."""
        _, first, last = self._window_at(place)
        first, last = max(first, low), min(last, high)
        known = self._windows.get(lane)
        if known is None or known[0] != first:
            places = torch.arange(first, last)
            keys = sample_keys(self.seed ^ SALT, self.epoch, places)
            known = self._windows[lane] = (first, self._samples(places[keys.argsort(stable=True)]))
        return known

    def _window_at(self, place: int) -> tuple[int, int, int]:
        """The number of the window of a place, its first place and the one behind its last."""
        number = int(np.searchsorted(self.ends, place, side="right")) // self.window
        first = int(self.ends[number * self.window - 1]) if number else 0
        last = int(self.ends[min((number + 1) * self.window, len(self.ends)) - 1])
        return number, first, last

    def _samples(self, places: Tensor) -> Tensor:
        """Places of the epoch as indices of samples in the order of the files."""
        found = places.numpy()
        at = np.searchsorted(self.ends, found, side="right")
        pieces = self.pieces[at]
        within = found - (self.ends[at] - self.counts[pieces])
        return torch.from_numpy(self.firsts[pieces] + within)


def shard_order(shards: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """The pieces, shard by shard in the order of the epoch; the pieces of a shard stay together."""
    known = torch.arange(int(shards.max()) + 1)
    rank = torch.empty_like(known)
    rank[sample_keys(seed ^ SALT, epoch, known).argsort(stable=True)] = known
    return np.argsort(rank.numpy()[shards], kind="stable")


def lanes_of(batch: int, most: int) -> int:
    """The largest number of lanes up to ``most`` that divides the batch."""
    return next(lanes for lanes in range(max(1, min(most, batch)), 0, -1) if batch % lanes == 0)
