"""Rows of tokens of different lengths: in memory one after the other, or read from a file line by line."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vergence.counters import drawn
from vergence.data import tokens as tokenizers
from vergence.data.numbers import STRETCH, Numbers, stretches
from vergence.data.tokens import CHARACTERS, PADDING, Tokens

COUNTED = 200_000  # lines of a file too large for memory in which words are counted


@dataclass(frozen=True)
class Ragged:
    """Rows of tokens in memory. ``x[indices]`` is int64 ``[n, t]``, t the longest of these rows; padding is behind."""

    flat: Tensor
    starts: Tensor
    lengths: Tensor
    longest: int
    itemsize: int = 4
    cut: Sequence[int] = ()  # of all texts, those of which only the first ``longest`` tokens are here
    control: Sequence[int] = ()  # and those with control characters

    @classmethod
    def of(cls, texts: Sequence[str], tokens: Tokens, length: int) -> "Ragged":
        """Texts as rows of their first ``length`` tokens."""
        made = tokenizers.flat(texts, tokens, length)
        lengths = torch.from_numpy(made.sizes).long()
        starts = lengths.cumsum(0) - lengths
        return cls(torch.from_numpy(made.tokens), starts, lengths, length, cut=made.cut, control=made.control)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.starts), self.longest

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, indices: Tensor) -> Tensor:
        lengths = self.lengths[indices]
        place = torch.arange(int(lengths.max()) if len(lengths) else 1)
        real = place < lengths[:, None]
        where = (self.starts[indices][:, None] + place) * real
        return torch.where(real, self.flat[where].long(), PADDING)

    def take(self, indices: Tensor) -> "Ragged":
        """Some of the rows; nothing is copied but their places."""
        return replace(self, starts=self.starts[indices], lengths=self.lengths[indices])

    def first_pass(self, *, keep: bool) -> tuple[None, dict[int, str]]:
        """Everything was read already."""
        return None, {}

    def document_counts(self, vocabulary: int) -> tuple[Tensor, int]:
        """In how many rows each token occurs, and how many rows there are."""
        return counted((self[part] for part in torch.arange(len(self)).split(16384)), vocabulary), len(self)


@dataclass(frozen=True)
class Column(Sequence[str]):
    """One column of a file as texts that are read when they are asked for.

    ``offsets`` say at which byte each line of the file begins, and at their end how many there are; they are shared by
    all columns and parts. ``rows`` are the lines of a part, all where it is None; ``ahead``, how many lines further.
    """

    file: Path
    offsets: Numbers
    position: int
    rows: "Numbers | np.ndarray | None" = None
    ahead: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.rows is None else len(self.rows)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return next(self.several([range(len(self))[index]]))

    def take(self, indices: Tensor) -> "Column":
        lines = self.lines(indices.numpy()) - self.ahead
        return replace(self, rows=lines.astype(np.uint32) if len(lines) < STRETCH else Numbers(lines))

    def lines(self, indices: np.ndarray) -> np.ndarray:
        """The places of some texts among the lines of the file."""
        return (indices if self.rows is None else self.rows[indices]) + self.ahead

    def several(self, indices: Sequence[int]) -> Iterator[str]:
        """Some texts; the file is open only meanwhile."""
        handle = os.open(self.file, os.O_RDONLY)
        try:
            for first, last in map(self.offsets.pair, self.lines(np.asarray(indices, np.int64)).tolist()):
                line, _, _ = os.pread(handle, last - first, first).partition(b"\n")  # empty lines may be behind it
                yield line.decode("utf-8-sig", "replace").rstrip("\r").split("\t")[self.position]
        finally:
            os.close(handle)


@dataclass(frozen=True)
class Sizes:
    """Bytes of the lines of a file, which order texts as their numbers of tokens would, read when asked for."""

    texts: Column

    def __getitem__(self, indices: Tensor) -> Tensor:
        ends = map(self.texts.offsets.pair, self.texts.lines(indices.numpy()).tolist())
        return torch.tensor([last - first for first, last in ends])


@dataclass(frozen=True)
class Lines:
    """Rows of tokens of a file too large for memory: lines are read and tokenized batch by batch."""

    texts: Column
    tokens: Tokens
    longest: int
    itemsize: int = 4
    control: Sequence[int] = ()  # not looked for

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self), self.longest

    @property
    def cut(self) -> list[int]:
        """Lines of the file that are read only in part for certain: how many tokens others have is not known before."""
        most, found = CHARACTERS * self.longest, list[int]()
        for first, offsets in stretches(self.texts.offsets, more=1):
            found += (first + np.flatnonzero(np.diff(offsets) > 4 * most)).tolist()
        return [place for place in found if len(self.texts[place]) > most]

    @property
    def lengths(self) -> Sizes:
        return Sizes(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, indices: Tensor) -> Tensor:
        rows = self.tokens.encode(list(self.texts.several(indices.tolist())), self.longest)
        found = torch.full((len(rows), max(map(len, rows), default=1)), PADDING)
        for row, made in zip(found, rows, strict=True):
            row[: len(made)] = torch.tensor(made)
        return found

    def take(self, indices: Tensor) -> "Lines":
        return replace(self, texts=self.texts.take(indices))

    def first_pass(self, *, keep: bool) -> tuple[None, dict[int, str]]:
        """Lines were checked when their places were found."""
        return None, {}

    def document_counts(self, vocabulary: int) -> tuple[Tensor, int]:
        """In how many of some drawn rows each token occurs, and how many those are."""
        rows = drawn(len(self), COUNTED)
        return counted((self[part] for part in rows.split(4096)), vocabulary), len(rows)


def counted(batches: Iterable[Tensor], vocabulary: int) -> Tensor:
    """In how many rows of padded batches each token occurs, padding left out."""
    total = torch.zeros(vocabulary, dtype=torch.int64)
    for tokens in batches:
        ordered = tokens.sort(dim=1).values
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        total += ordered[first & (ordered != PADDING)].bincount(minlength=vocabulary)[:vocabulary]
    return total


def rows_of(texts: Sequence[str], tokens: Tokens, length: int) -> "Ragged | Lines":
    """Texts as rows of tokens: in memory, or from the file where they are too large for it."""
    if isinstance(texts, Column):
        return Lines(texts, tokens, length)
    return Ragged.of(texts, tokens, length)
