"""Numbers of which there are as many as lines in a corpus: in a file without a name, none of them in memory."""

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from vergence import counters

PIECES = 64  # by the first six bits of keys
STRETCH = 2**16  # numbers that are in memory at a time


class Numbers:
    """Whole numbers one after the other in an unnamed file, which goes with the last reference to it.

    ``numbers[place]``, ``numbers[first:last]`` and ``numbers[places]`` read those alone. The file lies in the folder
    of temporary files (``TMPDIR``), 8 bytes a number.
    """

    def __init__(self, values: Any = ()):
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.written, self.waiting = 0, array("q")
        self.extend(values)

    def append(self, value: int) -> None:
        self.waiting.append(value)
        if len(self.waiting) >= STRETCH:
            self._write()

    def extend(self, values: Any) -> None:
        self._write()
        self.waiting = array("q", np.ascontiguousarray(values, np.int64).tobytes())
        self._write()

    def __len__(self) -> int:
        return self.written + len(self.waiting)

    def __getitem__(self, places: "int | slice | np.ndarray") -> Any:
        if isinstance(places, slice):
            first, last, step = places.indices(len(self))
            return self._read(first, max(0, last - first))[::step]
        if isinstance(places, int):
            return int(self._read(range(len(self))[places], 1)[0])
        return np.concatenate([np.empty(0, np.int64), *(self._read(place, 1) for place in places.tolist())])

    def __iter__(self) -> Iterator[int]:
        for _, values in stretches(self):
            yield from values.tolist()

    def __reduce__(self) -> tuple[type["Numbers"], tuple[np.ndarray]]:
        return Numbers, (self[:],)

    def pair(self, place: int) -> tuple[int, int]:
        """A number and the one after it."""
        first, second = self._read(place, 2).tolist()
        return first, second

    def _read(self, first: int, count: int) -> np.ndarray:
        self._write()
        return np.frombuffer(os.pread(self.file.fileno(), 8 * count, 8 * first), np.int64)

    def _write(self) -> None:
        if self.waiting:
            self.file.write(self.waiting.tobytes())
            self.file.flush()
            self.written, self.waiting = len(self), array("q")


class Names(Sequence[str]):
    """A column of a few different names, such as labels or documents, by their numbers."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.codes = Numbers()

    def append(self, name: str) -> None:
        self.codes.append(self.known.setdefault(name, len(self.known)))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, place: int) -> str:  # type: ignore[override]
        return list(self.known)[int(self.codes[place])]

    def __iter__(self) -> Iterator[str]:
        names = list(self.known)
        return (names[code] for code in self.codes)


def stretches(numbers: "Numbers | np.ndarray", more: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """All numbers, a stretch at a time with the place of its first one; ``more`` of the next stretch behind it."""
    for first in range(0, len(numbers), STRETCH):
        yield first, numbers[first : first + STRETCH + more]


def shuffled(parts: Iterable[np.ndarray]) -> Numbers:
    """Places that come in parts, in the order of :func:`vergence.counters.shuffled`: sorted by pieces of their keys."""
    pieces = [Numbers() for _ in range(PIECES)]
    for places in parts:
        keys = counters.sample_keys(0, -1, torch.from_numpy(places)).numpy()
        for piece, values in enumerate(pieces):
            values.extend(places[(keys >> 58) + PIECES // 2 == piece])
    found = Numbers()
    for values in pieces:
        found.extend(counters.shuffled(torch.from_numpy(values[:].copy())).numpy())
    return found
