"""Samples: what every source of data becomes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Int
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


@dataclass(frozen=True)
class Samples:
    """Data of one kind, with labels where the source has them.

    A batch ``x[indices]`` is uint8 ``[n, c, h, w]`` for images, float32 ``[n, d]`` for vectors, float32 ``[n, c, t]``
    for series and int64 ``[n, t]`` for text, where token 0 is padding. ``captions`` are texts that belong to images, as
    tokens. ``skipped`` names what could not be read, and why.
    """

    x: Tensor | Stored
    kind: Kind
    labels: Labels | None = None
    classes: tuple[str, ...] = ()
    names: Sequence[str] | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    source: str = ""
    captions: Int[Tensor, "n t"] | None = None

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
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"{len(self)} {plural} of {' x '.join(map(str, self.shape))} from {self.source}{classes}{skipped}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.x.shape[1:])

    def take(self, indices: Tensor) -> "Samples":
        """The samples at ``indices``, in that order."""
        return replace(
            self,
            x=self.x[indices] if isinstance(self.x, Tensor) else self.x.take(indices),
            labels=None if self.labels is None else self.labels[indices],
            names=None if self.names is None else [self.names[index] for index in indices.tolist()],
            captions=None if self.captions is None else self.captions[indices],
        )


def require_pairs(samples: Samples) -> Samples:
    """The samples, if there are two of them: contrast needs another to compare with."""
    if len(samples) < 2:
        raise ValueError(f"{samples.source} gives {len(samples)} sample; contrast needs at least 2.")
    return samples


def in_memory(samples: Samples, *, memory: float) -> Samples:
    """Every sample read once: the unreadable move to ``skipped``, the others become a tensor if ``memory`` GiB hold it.

    What does not fit is read again for every batch, which data-loader workers can do.
    """
    if isinstance(samples.x, Tensor) or not len(samples):
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
    return replace(samples, skipped=skipped)
