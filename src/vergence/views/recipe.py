"""Recipe: how samples become views, and what is asked of the samples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from vergence.counters import split
from vergence.types import Keys

Kind = Literal["image", "vector", "series", "text", "any"]
NEGATIVE = "negative"  # the group of views that are hard negatives
Draw = Callable[[Tensor, Tensor], Tensor]

FORMS = {
    "image": ("uint8 or float", "[n, channels, height, width]"),
    "vector": ("float", "[n, d]"),
    "series": ("float", "[n, channels, time]"),
    "text": ("int64", "[n, time]"),
}


@dataclass(frozen=True)
class View:
    """One of the views that a recipe gives: how it is drawn, and what tells it from the others.

    ``draw(values, keys)`` makes it of one ``field`` of the samples: ``x``, or another tensor with a row for each of
    them, such as ``captions``. Views of one ``group`` are drawn alike; the first view's group is the global one.
    ``kind`` is the kind of the field where it is not that of ``x``: another encoder reads it.
    """

    draw: Draw
    group: str = ""
    field: str = "x"
    kind: Kind | None = None

    def __call__(self, values: Tensor, keys: Keys) -> Tensor:
        return self.draw(values, keys)


@dataclass(frozen=True)
class Recipe:
    """Random views of samples: ``recipe(x, keys)`` gives one for each of ``draws``, ``plain(x)`` the sample itself.

    There may be any number of views, of one kind or of several: two large and six small crops, or an image and its
    caption. A function in ``draws`` stands for a :class:`View` that it draws from ``x``; views to be compared with all
    others come first. All randomness is a function of a sample's key and the number of the view, so the same key gives
    the same view, bit for bit, in any batch. ``by_encoder`` says that the views differ only by the encoder's own
    dropout. Views of the group ``negative`` come last, and are hard negatives.
    """

    kind: Kind
    draws: tuple[Draw, ...]
    unvaried: Callable[[Tensor], Tensor]
    description: str
    refit: "Callable[[Tensor], Recipe] | None" = None
    by_encoder: bool = False

    def __post_init__(self) -> None:
        if not self.draws:
            raise ValueError("A recipe gives at least one view, and this one draws none.")

    @property
    def views(self) -> tuple[View, ...]:
        """What is known of each view."""
        return tuple(draw if isinstance(draw, View) else View(draw) for draw in self.draws)

    @property
    def groups(self) -> tuple[int, ...]:
        """The group of each view as a number, from 0 in the order in which they appear."""
        names = [view.group for view in self.views]
        order = list(dict.fromkeys(names))
        return tuple(order.index(name) for name in names)

    @property
    def negatives(self) -> int:
        """How many of the views are hard negatives."""
        return sum(view.group == NEGATIVE for view in self.views)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the samples that views are drawn from, besides ``x``."""
        return tuple(dict.fromkeys(view.field for view in self.views if view.field != "x"))

    def __call__(self, x: Tensor, keys: Keys, fields: Mapping[str, Tensor] | None = None) -> tuple[Tensor, ...]:
        given = {**(fields or {}), "x": x}
        return tuple(self._drawn(given, keys, number) for number in range(len(self.draws)))

    def view(self, x: Tensor, keys: Keys, *, number: int = 0, fields: Mapping[str, Tensor] | None = None) -> Tensor:
        """View ``number`` of each sample: any number of them, of which a call gives one of each function."""
        return self._drawn({**(fields or {}), "x": x}, keys, number)

    def alike(self, x: Tensor, keys: Keys, count: int) -> list[Tensor]:
        """``count`` different views, all drawn as the first is."""
        return [self.view(x, keys, number=number * len(self.draws)) for number in range(count)]

    def fields_of(self, samples: Any, indices: Keys, device: torch.device | None = None) -> dict[str, Tensor]:
        """Rows of the fields, besides ``x``, that views are drawn from: what a call takes beside the batch."""
        found = {}
        for name in self.fields:
            values = getattr(samples, name, None)
            values = samples.beside.get(name) if values is None and hasattr(samples, "beside") else values
            if values is None:
                raise ValueError(f"The views {self.description!r} need {name}, and {samples.source} has none.")
            found[name] = values[indices].to(device)
        return found

    def _drawn(self, given: Mapping[str, Tensor], keys: Keys, number: int) -> Tensor:
        view = self.views[number % len(self.draws)]
        if view.field not in given:
            raise ValueError(f"View {number} of {self.description!r} is drawn from the {view.field} of the samples.")
        values = given[view.field]
        require_samples(values, view.kind or self.kind)
        _require_keys(keys, len(values))
        return view(values, split(keys, number))

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
    """A ValueError unless x is a batch of this kind; one pass over the numbers, none for bytes or on accelerators."""
    if kind == "any":
        return
    dtype, shape = FORMS[kind]
    if x.ndim != shape.count(",") + 1 or not _has_dtype(x, kind):
        raise ValueError(f"x must be {dtype} {shape} for {kind} views, got {_name(x)}")
    if kind == "image" and x.shape[1] not in (1, 3):
        raise ValueError(f"x must have 1 or 3 channels for image views, got {_name(x)}")
    if 0 in x.shape[1:]:
        raise ValueError(f"x must not have an empty axis, got {_name(x)}")
    # To look at values on an accelerator would make every step wait for it; they were looked at before they went there.
    if x.numel() and x.dtype != torch.uint8 and x.device.type == "cpu":
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
