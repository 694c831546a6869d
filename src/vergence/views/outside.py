"""Views from outside: anybody's transform of one sample, such as torchvision's, as a recipe."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vergence.views.recipe import Recipe, plain

Transform = Callable[[Tensor], Any]


def from_callable(transform: Transform, *, views: int = 2) -> Recipe:
    """``views`` random views of each sample by a function of one sample.

    Images come to it as float tensors ``[channels, height, width]`` in [0, 1]. torch's generator is seeded from each
    sample's key before each call, so that the same key gives the same view in any batch and process, as long as the
    function draws from torch. A transform that draws from ``random`` or numpy is not repeated when a run is resumed.
    """

    def draw(x: Tensor, keys: Tensor) -> Tensor:
        made = []
        with torch.random.fork_rng(devices=[]):
            for sample, key in zip(plain(x), keys.tolist(), strict=True):
                torch.manual_seed(key & 0x7FFFFFFFFFFFFFFF)
                made.append(_tensor(transform(sample)))
        return torch.stack(made)

    name = getattr(transform, "__qualname__", type(transform).__name__)
    return Recipe("any", (draw,) * views, plain, f"{name}, {views} views")


def returns_recipe(row: Any) -> bool:
    """Whether calling a row with its options gives a recipe or a transform, rather than the view of a sample.

    It does when nothing must be given to it, or when its signature says so.
    """
    if getattr(row, "__annotations__", {}).get("return") is Recipe:
        return True
    try:
        parameters = inspect.signature(row).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return not any(item.kind in positional and item.default is item.empty for item in parameters)


def _tensor(view: Any) -> Tensor:
    if not isinstance(view, Tensor):
        raise ValueError(f"A transform must give a tensor for a tensor, got {type(view).__name__}.")
    return view.float() if view.is_floating_point() else plain(view)
