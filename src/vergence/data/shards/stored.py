"""Shards as samples: they have a length and are read by index, but only a few pieces are open at a time."""

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.counters import drawn, sample_keys
from vergence.data.samples import Batch, Samples
from vergence.data.shards.order import LANES, WINDOW, Order
from vergence.data.shards.places import Spool, remote
from vergence.data.shards.reading import Opened, Reading
from vergence.data.shards.records import Damaged

HELD_OUT = 10_000  # samples that are held out for testing at most, whatever the size of the set
FEW_PIECES = 64  # pieces that a draw of samples touches where they hold enough: others need not be read
SAID = 5  # damaged samples that are said at once; all are in the results
MEMO = 2**28  # bytes of drawn samples that are kept, because calibration and measuring ask for them again


@dataclass(frozen=True, eq=False)
class Shards:
    """Samples in shards. ``kept`` has the rows of the pieces of which not all are used; of others all are, or none."""

    files: tuple[str, ...]
    shard: np.ndarray  # the file of each piece
    number: np.ndarray  # its number in the file
    records: np.ndarray  # the samples in it
    reading: Reading
    spool: Spool
    kept: Mapping[int, np.ndarray] = field(default_factory=dict)
    others: bool = True
    lanes: int = LANES
    window: int = WINDOW
    most_open: int = LANES * (WINDOW + 1)
    state: dict[str, Any] = field(default_factory=lambda: {"open": OrderedDict(), "lock": Lock(), "skipped": {}})

    @cached_property
    def counts(self) -> np.ndarray:
        """How many samples of each piece are used."""
        counts = self.records.copy() if self.others else np.zeros_like(self.records)
        for piece, rows in self.kept.items():
            counts[piece] = len(rows)
        return counts

    @cached_property
    def ends(self) -> np.ndarray:
        return np.cumsum(self.counts)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.reading.shape)

    @property
    def itemsize(self) -> int:
        return self.reading.dtype.itemsize

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """What was asked for and could not be read, so far and in this process."""
        return tuple(self.state["skipped"].items())

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getstate__(self) -> dict[str, Any]:
        fresh: dict[str, Any] = {"open": OrderedDict(), "lock": None, "skipped": {}}
        return {**self.__dict__, "state": fresh}

    def __getitem__(self, indices: Tensor) -> Tensor:
        """The samples at indices, all of which must be sound: those of ``sample`` are."""
        memo = self.state.get("memo")
        if memo is not None and bool(torch.isin(indices, memo[0]).all()):
            return memo[1][torch.searchsorted(memo[0], indices)]
        batch = self.batch(indices)
        if batch.skipped:
            name, reason = batch.skipped[0]
            raise ValueError(f"{name} cannot be read: {reason}.")
        return batch.x

    def batch(self, indices: Tensor) -> Batch:
        """The samples at indices without the damaged ones, which are named, in the order of the indices."""
        places = indices.numpy()
        pieces = np.searchsorted(self.ends, places, side="right")
        rows = places - (self.ends[pieces] - self.counts[pieces])
        x = torch.empty(len(places), *self.reading.shape, dtype=self.reading.dtype)
        fields = self.reading.empty_fields(len(places))
        sound, skipped = torch.zeros(len(places), dtype=torch.bool), []
        for piece in np.unique(pieces):
            at = np.flatnonzero(pieces == piece)
            own = self.kept[piece][rows[at]] if piece in self.kept else rows[at]
            try:
                opened = self.opened(int(piece))
            except Damaged as error:
                skipped.append((self.place(int(piece)), str(error)))
                continue
            skipped += opened.read(own, torch.from_numpy(at), x, fields, sound)
        if not bool(sound.all()):
            x, indices = x[sound], indices[sound]
            fields = {name: values[sound] for name, values in fields.items()}
        return Batch(indices, x, fields, skipped)

    def fields(self, indices: Tensor) -> dict[str, Tensor]:
        """Labels and captions at indices: of the batch that was delivered last, or read again."""
        last = self.state.get("last")
        if last is not None and torch.equal(last[0], indices):
            return last[1]
        return self.batch(indices).fields

    def delivered(self, batches: Iterable[Batch]) -> Iterator[tuple[Tensor, Tensor]]:
        """Indices and samples of batches as training takes them; what was skipped is counted by name."""
        for batch in batches:
            self._note(batch.skipped)
            self.state["last"] = (batch.indices, batch.fields)
            if len(batch.indices) < 2:
                raise ValueError(
                    f"No two samples of a batch can be read. {batch.skipped[0][0]}: {batch.skipped[0][1]}."
                )
            yield batch.indices, batch.x

    def _note(self, skipped: Sequence[tuple[str, str]]) -> None:
        """Count what was skipped by name; say the first ones."""
        known = self.state["skipped"]
        for name, reason in skipped:
            if name not in known and len(known) < SAID:
                warnings.warn(f"Skipped {name}: {reason}.", stacklevel=2)
            known[name] = reason

    def opened(self, piece: int) -> Opened:
        """A piece, open; the longest unused is closed when there are too many."""
        held = self.state["open"]
        if piece in held:
            try:
                held.move_to_end(piece)
                return held[piece]
            except KeyError:  # closed meanwhile by another thread
                pass
        path = self.spool.local(self.files[self.shard[piece]])
        found = self.reading.opened(path, int(self.number[piece]), self.place(piece))
        held[piece] = found
        while len(held) > self.most_open:
            held.popitem(last=False)
        return found

    def place(self, piece: int) -> str:
        return self.files[self.shard[piece]]

    def order(self, *, seed: int, epoch: int, batch: int) -> Order:
        """The batches of an epoch."""
        return Order(self.counts, self.shard, seed, epoch, batch, self.lanes, self.window)

    def ahead(self, pieces: Sequence[int]) -> None:
        """Begin to copy the remote shards of pieces that will be needed soon."""
        wanted = {self.place(piece) for piece in pieces if remote(self.place(piece))} - self.state.setdefault(
            "ahead", set()
        )
        if wanted:
            pool = self.state.setdefault("pool", ThreadPoolExecutor(2, thread_name_prefix="shards-ahead"))
            self.state["ahead"] |= wanted
            for place in sorted(wanted):
                pool.submit(self._copied_quietly, place)

    def _copied_quietly(self, place: str) -> None:
        try:
            self.spool.local(place)
        except OSError:  # whoever needs it will say so
            pass
        finally:
            self.state["ahead"].discard(place)

    def sample(self, count: int, *, seed: int = 0) -> Tensor:
        """At most ``count`` sound samples, rising, drawn from at most 64 pieces where those hold enough."""
        full = np.flatnonzero(self.counts)
        most = FEW_PIECES
        while True:
            pieces = full[drawn(len(full), most, seed=seed).numpy()]
            there = int(self.counts[pieces].sum())
            if there >= count or len(pieces) == len(full):
                break
            most *= 2
        chosen = drawn(there, count, seed=seed).numpy()
        ends = np.cumsum(self.counts[pieces])
        at = np.searchsorted(ends, chosen, side="right")
        first = self.ends[pieces] - self.counts[pieces]
        return self._sound(torch.from_numpy(first[at] + chosen - (ends[at] - self.counts[pieces][at])))

    def _sound(self, indices: Tensor) -> Tensor:
        """The indices that can be read; their samples are kept for the next call where that is little."""
        memo = self.state.get("memo")
        if memo is not None and bool(torch.isin(indices, memo[2]).all()):
            return indices[torch.isin(indices, memo[0])]
        keep = self.itemsize * int(np.prod(self.reading.shape)) * len(indices) <= MEMO
        found, held = [], []
        for part in indices.split(512):
            batch = self.batch(part)
            self._note(batch.skipped)
            found.append(batch.indices)
            held += [batch.x] if keep else []
        good = torch.cat(found)
        if not len(good):
            name, reason = next(iter(self.state["skipped"].items()))
            raise ValueError(f"None of {len(indices)} samples that were drawn can be read. {name}: {reason}.")
        if keep:
            self.state["memo"] = (good, torch.cat(held), indices)
        return good

    def take(self, indices: Tensor) -> "Shards":
        """Some of the samples; their places in the pieces are remembered, so they should be few."""
        places = indices.sort().values.numpy()
        pieces = np.searchsorted(self.ends, places, side="right")
        rows = places - (self.ends[pieces] - self.counts[pieces])
        kept = {int(piece): self.rows(int(piece))[rows[pieces == piece]] for piece in np.unique(pieces)}
        return self.restricted(kept, others=False)

    def under(self, samples: Samples) -> Samples:
        """The samples, with these shards under them."""
        lazy: dict[str, Any] = {
            name: Field(self, name) for name in ("labels", "captions") if getattr(samples, name) is not None
        }
        return replace(samples, x=self, names=Names(self), **lazy)

    def rows(self, piece: int) -> np.ndarray:
        """The rows of a piece that are used."""
        if piece in self.kept:
            return self.kept[piece]
        return np.arange(self.records[piece] if self.others else 0)

    def restricted(self, kept: Mapping[int, np.ndarray], *, others: bool) -> "Shards":
        state = {"open": OrderedDict(), "lock": Lock(), "skipped": {}}
        return replace(self, kept=kept, others=others, state=state)

    def first_pass(self, *, keep: bool) -> tuple[Tensor | None, dict[int, str]]:
        """Nothing is read in advance: damaged samples are found when their turn comes."""
        return None, {}

    def divided(self, share: float, *, salt: int, held_out: bool) -> "Shards":
        """The samples without a held-out share, or that share: at most 10,000, from at most 64 pieces if they suffice.

        Which they are is a fixed hash of their place, as for samples in memory; classes are not looked at.
        """
        n = len(self)
        wanted = min(HELD_OUT, max(1, round(share * n))) if n > 1 else 0
        full, most = np.flatnonzero(self.counts), FEW_PIECES
        while True:
            pieces = full[drawn(len(full), most, seed=salt).numpy()]
            there = int(self.counts[pieces].sum())
            if 2 * wanted <= there or len(pieces) == len(full):
                break
            most *= 2
        targets = np.diff(np.floor(np.cumsum([0, *self.counts[pieces]]) * (wanted / max(1, there))).astype(int))
        out, rest = {}, dict(self.kept)
        for piece, target in zip(pieces.tolist(), targets.tolist(), strict=True):
            rows = self.rows(piece)
            keys = sample_keys(salt, piece, torch.from_numpy(rows)).argsort(stable=True).numpy()
            out[piece], rest[piece] = np.sort(rows[keys[:target]]), np.sort(rows[keys[target:]])
        return self.restricted(out, others=False) if held_out else self.restricted(rest, others=self.others)


class Names(Sequence):
    """The names of samples in shards, read when they are asked for."""

    def __init__(self, x: Shards):
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> Any:
        piece = int(np.searchsorted(self.x.ends, index, side="right"))
        if not 0 <= index < len(self) or piece >= len(self.x.ends):
            raise IndexError(index)
        row = int(self.x.rows(piece)[index - (self.x.ends[piece] - self.x.counts[piece])])
        try:
            return self.x.opened(piece).name(row)
        except Damaged:
            return f"{self.x.place(piece)}: sample {row}"


@dataclass(frozen=True)
class Field:
    """Labels or captions of samples in shards, read when they are asked for."""

    x: Shards
    name: str

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, indices: Tensor) -> Tensor:
        found = self.x.fields(indices)[self.name]
        if len(found) != len(indices):
            raise ValueError(f"Some of {len(indices)} samples cannot be read: {self.x.skipped[-1:]}.")
        return found

    def unique(self) -> Tensor:
        return torch.arange(len(self.x.reading.classes))
