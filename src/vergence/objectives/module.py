"""Objective: the one module that wraps the functions, for hyperparameters that are learned."""

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from vergence.tables import FROM_LEARNER
from vergence.types import Scalar

# CLIP keeps the scale 1 / T at most 100 "to prevent training instability" (Radford et al. 2021, Sec. 2.5).
LOWEST_TEMPERATURE = 0.01


class Objective(nn.Module):
    """An objective with its hyperparameters; those named ``learnable`` are trained with the encoder.

    ``Objective("two_modal", learnable=("temperature",))`` is CLIP's loss. A learnable hyperparameter is kept as its
    logarithm, so it stays above zero; a temperature also stays at 0.01 or above, as in CLIP. A ``bias`` has either
    sign and is kept as it is.
    """

    def __init__(
        self, objective: str | Callable[..., Tensor], *, learnable: Iterable[str] = (), **hyperparameters: Any
    ):
        super().__init__()
        self.function = _row(objective) if isinstance(objective, str) else objective
        self.hyperparameters = _completed(self.function, hyperparameters)
        self.logarithms, self.plain = nn.ParameterDict(), nn.ParameterDict()
        for name in learnable:
            value = self.hyperparameters.pop(name, None)
            if name == "bias" and isinstance(value, float):
                self.plain[name] = nn.Parameter(torch.tensor(value))
                continue
            if not isinstance(value, float) or not value > 0:
                known = [key for key, default in self.hyperparameters.items() if isinstance(default, float)]
                raise ValueError(f"learnable {name!r} must be a hyperparameter above 0; got {value}. Known: {known}.")
            self.logarithms[name] = nn.Parameter(torch.tensor(math.log(value)))

    def forward(self, *embeddings: Tensor, **tensors: Any) -> Scalar:
        return self.function(*embeddings, **{**self.hyperparameters, **self.learned(), **tensors})

    def learned(self) -> dict[str, Tensor]:
        """The learnable hyperparameters as they are now."""
        values = {name: logarithm.exp() for name, logarithm in self.logarithms.items()}
        lowest = {name: v.clamp(min=LOWEST_TEMPERATURE) if name == "temperature" else v for name, v in values.items()}
        return {**lowest, **self.plain}

    def extra_repr(self) -> str:
        values = {**self.hyperparameters, **{name: f"{v.item():.3g}, learnable" for name, v in self.learned().items()}}
        return ", ".join([self.function.__name__, *(f"{name}={value}" for name, value in values.items())])


def _row(name: str) -> Callable[..., Tensor]:
    from vergence.objectives import OBJECTIVES  # the front door imports this file

    return OBJECTIVES[name]


def _completed(function: Callable[..., Tensor], hyperparameters: dict[str, Any]) -> dict[str, Any]:
    """The function's keyword defaults with the given ones in their place; unknown ones are refused."""
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in FROM_LEARNER}
    if unknown := set(hyperparameters) - set(defaults):
        raise ValueError(
            f"{function.__name__} has no hyperparameter {', '.join(sorted(unknown))}. Known: {list(defaults)}"
        )
    return {**defaults, **hyperparameters}
