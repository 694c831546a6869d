"""Token vectors beside other weights: rows that a batch did not touch stay as they are."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vergence.learning.eager import eager

ROWS = 128  # that are moved at a time: three such parts of 512 columns are 768 KiB


def token_vectors(module: nn.Module) -> list[Tensor]:
    """The trainable tables of vectors whose gradient has rows for the tokens of a batch only."""
    found = (part for part in module.modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse)
    return [part.weight for part in found if part.weight.requires_grad]


class RowAdam(torch.optim.SparseAdam):
    """torch's SparseAdam in half the time: some rows are read, moved and written while they are in the cache."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad.coalesce(), group)

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state |= {"step": 0, "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}
        state["step"] += 1
        first, second = group["betas"]
        rate = group["lr"] * math.sqrt(1 - second ** state["step"]) / (1 - first ** state["step"])
        for rows, values in zip(gradient.indices()[0].split(ROWS), gradient.values().split(ROWS), strict=True):
            mean = state["exp_avg"].index_select(0, rows).lerp_(values, 1 - first)
            square = state["exp_avg_sq"].index_select(0, rows).lerp_(values.square(), 1 - second)
            state["exp_avg"].index_copy_(0, rows, mean)
            state["exp_avg_sq"].index_copy_(0, rows, square)
            weight.index_add_(0, rows, mean.div_(square.sqrt_().add_(group["eps"])), alpha=-rate)


class WithRows(Optimizer):
    """An optimizer for all weights but token vectors, and SparseAdam for those, as one optimizer.

    SparseAdam moves only the rows of tokens that occurred, by their own moments, and never decays the others: a step
    costs as much as the batch has different tokens, whatever the vocabulary.

    References:
        Kingma & Ba (2015). https://arxiv.org/abs/1412.6980; torch.optim.SparseAdam, the lazy form of it.
    """

    def __init__(self, main: Optimizer, vectors: list[Tensor], *, lr: float, betas: tuple[float, float]):
        self.parts = (main, eager(RowAdam)(vectors, lr=lr, betas=betas))
        self.defaults: dict[str, Any] = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return [group for part in self.parts for group in part.param_groups]

    @property
    def state(self) -> dict[Any, Any]:  # type: ignore[override]
        return {key: value for part in self.parts for key, value in part.state.items()}

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Both states under one numbering: the token vectors come last."""
        main, rows = (part.state_dict() for part in self.parts)
        count = _count(main)
        return {
            "state": {**main["state"], **{count + number: moments for number, moments in rows["state"].items()}},
            "param_groups": [*main["param_groups"], *rows["param_groups"]],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        own = [part.state_dict() for part in self.parts]
        count = _count(own[0])
        state = state_dict["state"]
        first = {number: moments for number, moments in state.items() if number < count}
        last = {number - count: moments for number, moments in state.items() if number >= count}
        for part, mine, moments in zip(self.parts, own, (first, last), strict=True):
            # SparseAdam counts its steps by a plain number.
            plain = part is self.parts[1]
            kept = {key: {**value, "step": int(value["step"])} if plain else value for key, value in moments.items()}
            part.load_state_dict({**mine, "state": kept})


def _count(state: dict[str, Any]) -> int:
    return sum(len(group["params"]) for group in state["param_groups"])
