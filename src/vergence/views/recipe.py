"""Recipe: how samples become views, and what is asked of the samples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from vergence.counters import split
from vergence.types import Keys

Kind = Literal["image", "vector", "series", "text", "any"]
Draw = Callable[[Tensor, Tensor], Tensor]

FORMS = {
    "image": ("uint8 or float", "[n, channels, height, width]"),
    "vector": ("float", "[n, d]"),
    "series": ("float", "[n, channels, time]"),
    "text": ("int64", "[n, time]"),
}


@dataclass(frozen=True)
class Recipe:
    """Random views of samples: ``recipe(x, keys)`` gives one per function in ``draws``, ``plain(x)`` the sample itself.

    All randomness is a function of a sample's key and the number of the view, so the same key gives the same view, bit
    for bit, in any batch. A recipe that ``reads`` takes the text that belongs to a sample as its second view.
    """

    kind: Kind
    draws: tuple[Draw, ...]
    unvaried: Callable[[Tensor], Tensor]
    description: str
    refit: "Callable[[Tensor], Recipe] | None" = None
    reads: bool = False

    def __call__(self, x: Tensor, keys: Keys, text: Tensor | None = None) -> tuple[Tensor, ...]:
        if self.reads and text is not None:
            return self.view(x, keys), text
        return tuple(self.view(x, keys, number=number) for number in range(len(self.draws)))

    def view(self, x: Tensor, keys: Keys, *, number: int = 0) -> Tensor:
        """View ``number`` of each sample: any number of them, of which a call gives one of each function."""
        require_samples(x, self.kind)
        _require_keys(keys, len(x))
        return self.draws[number % len(self.draws)](x, split(keys, number))

    def plain(self, x: Tensor) -> Tensor:
        """The sample without randomness, as evaluation sees it."""
        require_samples(x, self.kind)
        return self.unvaried(x)

    def fitted(self, x: Tensor) -> "Recipe":
        """The recipe after seeing the training samples, if it draws from them; otherwise the recipe as it is."""
        if self.refit is None:
            return self
        require_samples(x, self.kind)
        return self.refit(x)

    def describe(self) -> str:
        return self.description


def plain(x: Tensor) -> Tensor:
    """Bytes as [0, 1], other numbers as float32, tokens as they are."""
    if x.dtype == torch.uint8:
        return x.float() / 255
    return x.float() if x.is_floating_point() else x


def require_samples(x: Tensor, kind: Kind) -> None:
    """A ValueError unless x is a batch of this kind; one pass over the numbers, none for bytes."""
    if kind == "any":
        return
    dtype, shape = FORMS[kind]
    if x.ndim != shape.count(",") + 1 or not _has_dtype(x, kind):
        raise ValueError(f"x must be {dtype} {shape} for {kind} views, got {_name(x)}")
    if kind == "image" and x.shape[1] not in (1, 3):
        raise ValueError(f"x must have 1 or 3 channels for image views, got {_name(x)}")
    if 0 in x.shape[1:]:
        raise ValueError(f"x must not have an empty axis, got {_name(x)}")
    if x.numel() and x.dtype != torch.uint8:
        _require_range(x, kind)


def require(condition: bool, option: str, value: object, allowed: str) -> None:
    """A ValueError that names the option, what came and what is allowed, unless the condition holds."""
    if not condition:
        raise ValueError(f"{option} must be {allowed}, got {value!r}")


def _has_dtype(x: Tensor, kind: Kind) -> bool:
    if kind == "text":
        return x.dtype == torch.int64
    return x.is_floating_point() or (kind == "image" and x.dtype == torch.uint8)


def _require_range(x: Tensor, kind: Kind) -> None:
    low, high = (bound.item() for bound in x.aminmax())
    if kind == "image" and not (low >= 0 and high <= 1):
        raise ValueError(f"float images x must lie in [0, 1] (bytes in [0, 255]), got values from {low} to {high}")
    if kind == "text" and low < 0:
        raise ValueError(f"tokens x must be at least 0 (0 is padding), got {low}")
    if not abs(low) + abs(high) < float("inf"):
        raise ValueError(f"x must be finite, got values from {low} to {high}")


def _require_keys(keys: Tensor, n: int) -> None:
    if keys.dtype != torch.int64 or keys.shape != (n,):
        raise ValueError(f"keys must be int64 [{n}], one per sample of x (see sample_keys), got {_name(keys)}")


def _name(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
