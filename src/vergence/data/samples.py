"""Samples: what every source of data becomes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from vergence.types import Labels

Kind = Literal["image", "vector", "series", "text"]


@runtime_checkable
class Stored(Protocol):
    """Samples that are read when they are asked for; indexed by an int64 tensor they give a batch, as a tensor does."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def itemsize(self) -> int: ...

    def __len__(self) -> int: ...

    def __getitem__(self, indices: Tensor) -> Tensor: ...

    def take(self, indices: Tensor) -> "Stored":
        """The same samples restricted to ``indices``; nothing is read."""

    def first_pass(self, *, keep: bool) -> tuple[Tensor | None, dict[int, str]]:
        """All samples read once: the samples if they are to be kept, and for each unreadable one the reason."""


class Batch(NamedTuple):
    """The sound samples of a batch: their indices, themselves, their labels and captions, and what was skipped."""

    indices: Tensor
    x: Tensor
    fields: dict[str, Tensor]
    skipped: list[tuple[Any, str]]


@runtime_checkable
class Sharded(Stored, Protocol):
    """Samples of which only a few pieces are open at a time: they are never read all, and drawn from a few pieces."""

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]: ...

    def batch(self, indices: Tensor) -> Any:
        """The sound samples at indices, with their labels and captions and what was skipped."""

    def delivered(self, batches: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
        """Indices and samples of batches, as training takes them."""

    def order(self, *, seed: int, epoch: int, batch: int) -> Any:
        """The batches of an epoch."""

    def ahead(self, pieces: Sequence[int]) -> None:
        """Begin to fetch pieces that will be needed soon."""

    def sample(self, count: int, *, seed: int = 0) -> Tensor:
        """Sound samples drawn from a few pieces."""

    def divided(self, share: float, *, salt: int, held_out: bool) -> "Sharded":
        """The samples without a held-out share, or that share."""

    def under(self, samples: "Samples") -> "Samples":
        """The samples, with these shards under them."""


@dataclass(frozen=True)
class Samples:
    """Data of one kind, with labels where the source has them.

    A batch ``x[indices]`` is uint8 ``[n, c, h, w]`` for images, float32 ``[n, d]`` for vectors, float32 ``[n, c, t]``
    for series and int64 ``[n, t]`` for text, t at most the length of a sample and token 0 padding. ``captions`` are
    texts that belong to images, as tokens. ``beside`` holds other texts of each sample by name: its positive, its
    negatives. ``tokens`` is the tokenizer of texts. ``skipped`` names what could not be read, and why;
    ``remarks`` is what else a user should hear, such as texts that are longer than what is read of them.
    """

    x: Tensor | Stored
    kind: Kind
    labels: Any = None  # Labels; of shards an object that reads the labels at the indices it is given
    classes: tuple[str, ...] = ()
    names: Any = None  # Sequence[str]; of shards an object that reads the names at the indices it is given
    skipped: tuple[tuple[str, str], ...] = ()
    source: str = ""
    captions: Any = None  # Int[Tensor, "n t"], or read by index
    beside: Mapping[str, Any] = field(default_factory=dict)
    tokens: Any = None
    remarks: str = ""

    def __post_init__(self) -> None:
        if self.labels is not None and len(self.labels) != len(self.x):
            raise ValueError(
                f"{self.source} has {len(self.labels)} labels for {len(self.x)} samples; expected one each."
            )

    def __len__(self) -> int:
        return len(self.x)

    def __str__(self) -> str:
        plural = {"image": "images", "vector": "vectors", "series": "series", "text": "texts"}[self.kind]
        classes = f", {len(self.classes)} classes" if self.labels is not None else ", no labels"
        skipped = f", {len(self.skipped)} skipped" if self.skipped and self.kind != "text" else ""  # many lines in one
        return f"{len(self)} {plural} of {' x '.join(map(str, self.shape))} from {self.source}{classes}{skipped}"

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """What was skipped: what could not be read at first, and what was damaged when its turn came."""
        return tuple(dict([*self.skipped, *(self.x.skipped if isinstance(self.x, Sharded) else ())]).items())

    @property
    def groups(self) -> Labels | None:
        """The labels, where they are in memory: what draws are stratified by."""
        return self.labels if isinstance(self.labels, Tensor) else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.x.shape[1:])

    def take(self, indices: Tensor) -> "Samples":
        """The samples at ``indices``, in that order; of shards in the order of the files."""
        if isinstance(self.x, Sharded):
            return self.x.take(indices).under(self)  # type: ignore[attr-defined]
        return replace(
            self,
            x=_rows(self.x, indices),
            labels=None if self.labels is None else self.labels[indices],
            names=None if self.names is None else _named(self.names, indices),
            captions=None if self.captions is None else self.captions[indices],
            beside={name: _rows(values, indices) for name, values in self.beside.items()},
        )


def _rows(values: Tensor | Stored, indices: Tensor) -> Tensor | Stored:
    return values[indices] if isinstance(values, Tensor) else values.take(indices)


def _named(names: Any, indices: Tensor) -> Sequence[str]:
    """Names of some samples; those that lie in a file stay there."""
    return names.take(indices) if hasattr(names, "take") else [names[index] for index in indices.tolist()]


def require_pairs(samples: Samples) -> Samples:
    """The samples, if there are two of them: contrast needs another to compare with."""
    if len(samples) < 2:
        raise ValueError(f"{samples.source} gives {len(samples)} sample; contrast needs at least 2.")
    return samples


def in_memory(samples: Samples, *, memory: float) -> Samples:
    """Every sample read once: the unreadable move to ``skipped``, the others become a tensor if ``memory`` GiB hold it.

    What does not fit is read again for every batch, which data-loader workers can do.
    """
    if isinstance(samples.x, Tensor | Sharded) or not len(samples):
        return samples
    gibibytes = samples.x.itemsize * torch.Size(samples.x.shape).numel() / 2**30
    x, failures = samples.x.first_pass(keep=gibibytes <= memory)
    names = samples.names or range(len(samples))
    skipped = tuple((str(names[index]), reason) for index, reason in sorted(failures.items()))
    if len(failures) == len(samples):
        name, reason = skipped[0]
        raise ValueError(f"None of the {len(samples)} files of {samples.source} can be read. {name}: {reason}.")
    if x is not None:
        samples = replace(samples, x=x)
    if failures:
        samples = samples.take(torch.tensor([index for index in range(len(samples)) if index not in failures]))
    return replace(samples, skipped=samples.skipped + skipped)
