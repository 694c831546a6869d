"""The options of ``--compute``: what they set in torch, and what they compile."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from vergence.config import Compute
from vergence.objectives import pairwise
from vergence.views.recipe import Recipe, View


def prepare(compute: Compute) -> None:
    """Set what torch and the pairwise kernel keep for the whole process."""
    torch.set_float32_matmul_precision(compute.matmul)
    pairwise.KERNEL = compute.kernel
    if compute.deterministic:
        torch.use_deterministic_algorithms(True)


def compiled(learner: Any, recipe: Recipe, compute: Compute) -> Recipe:
    """Compile the learner's encoders in place, so that its weights keep their names; return the recipe compiled.

    The objective stays as it is: its kernels are written by hand. What compiles is all of an encoder and all of a view,
    each as one graph: a break would be an error here, not a slower run.
    """
    if compute.compile == "none":
        return recipe
    options: dict[str, Any] = {"mode": compute.compile, "fullgraph": True}
    for module in (learner.encoder, getattr(learner, "second", None)):
        if isinstance(module, nn.Module):
            module.compile(**options)
    ways = {id(view.draw): view.draw for view in recipe.views}
    made: dict[int, Callable[..., Any]] = {name: torch.compile(draw, **options) for name, draw in ways.items()}
    return replace(recipe, draws=tuple(_with(draw, made) for draw in recipe.draws))


def _with(draw: Any, made: dict[int, Callable[..., Any]]) -> Any:
    return replace(draw, draw=made[id(draw.draw)]) if isinstance(draw, View) else made[id(draw)]
