"""Optimizers, warm-up and cosine schedules, and which parameters decay. The number in the config is the number used."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vergence.config import Optim
from vergence.learning.depth import scales
from vergence.learning.eager import eager
from vergence.learning.rows import WithRows, token_vectors
from vergence.tables import Table

TRUST = 1e-3  # LARS's trust coefficient, as in SimCLR's code


def optimizer(module: nn.Module, optim: Optim, *, layer_decay: float = 1.0) -> Optimizer:
    """The optimizer of a config over the trainable parameters of a module; ``layer_decay`` gives layers their rates.

    Token vectors with sparse gradients take SparseAdam beside it.
    """
    groups = parameter_groups(module, optim.weight_decay)
    if layer_decay < 1:
        groups = _by_layer(module, groups, layer_decay)
    main, vectors = OPTIMIZERS[optim.name](groups, optim), token_vectors(module)
    return WithRows(main, vectors, lr=optim.rate, betas=(optim.momentum, 0.999)) if vectors else main


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; biases, norms and scalars do not, which all the papers but MoCo's agree on."""
    apart = {id(parameter) for parameter in token_vectors(module)}
    trainable = [
        parameter for parameter in module.parameters() if parameter.requires_grad and id(parameter) not in apart
    ]
    return [
        {"params": [parameter for parameter in trainable if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trainable if parameter.ndim <= 1], "weight_decay": 0.0},
    ]


def _by_layer(learner: nn.Module, groups: list[dict[str, Any]], decay: float) -> list[dict[str, Any]]:
    """Each group divided by the factor on its rate, ``scale``: that of its layer in the encoder, 1 in the heads."""
    factors = scales(learner.get_submodule("encoder"), decay)
    own = {id(parameter): factors[name] for name, parameter in learner.get_submodule("encoder").named_parameters()}
    divided = []
    for group in groups:
        for scale in sorted({own.get(id(parameter), 1.0) for parameter in group["params"]}):
            members = [parameter for parameter in group["params"] if own.get(id(parameter), 1.0) == scale]
            divided.append({**group, "params": members, "scale": scale})
    return divided


def learning_rate(optim: Optim, step: int, steps: int, steps_per_epoch: int) -> float:
    """The rate at ``step`` of ``steps``: a linear warm-up from 0, then the schedule."""
    warmup = optim.warmup * steps_per_epoch
    if step < warmup:
        return optim.rate * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return optim.rate * SCHEDULES[optim.schedule](progress)


def constant(progress: float) -> float:
    """The same rate all along."""
    return 1.0


def cosine(progress: float) -> float:
    """Half a cosine, from 1 to 0."""
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def linear(progress: float) -> float:
    """A straight line from 1 to 0."""
    return max(0.0, 1 - progress)


def step(progress: float) -> float:
    """A tenth of the rate after 60 % and again after 80 %."""
    return 0.1 ** ((progress >= 0.6) + (progress >= 0.8))


SCHEDULES = Table("schedule", {"constant": constant, "cosine": cosine, "linear": linear, "step": step})


def sgd(groups: list[dict[str, Any]], optim: Optim) -> Optimizer:
    return eager(torch.optim.SGD)(groups, lr=optim.rate, momentum=optim.momentum)


def adam(groups: list[dict[str, Any]], optim: Optim) -> Optimizer:
    return eager(torch.optim.Adam)(groups, lr=optim.rate, betas=(optim.momentum, 0.999))


def adamw(groups: list[dict[str, Any]], optim: Optim) -> Optimizer:
    return eager(torch.optim.AdamW)(groups, lr=optim.rate, betas=(optim.momentum, 0.999))


def lars(groups: list[dict[str, Any]], optim: Optim) -> Optimizer:
    return LARS(groups, lr=optim.rate, momentum=optim.momentum)


class LARS(Optimizer):
    """Layer-wise adaptive rates: SGD with momentum whose step is scaled by ``||w|| / ||g||`` for every matrix.

    Biases and norms (parameters of at most one dimension) take the plain step.

    References:
        You et al. (2017). https://arxiv.org/abs/1708.03888; SimCLR, App. B.9, for the exclusions.
    """

    def __init__(self, params: Iterable[Any], lr: float, momentum: float = 0.9, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                gradient = weight.grad + group["weight_decay"] * weight
                if weight.ndim > 1:
                    gradient = gradient * _trust(weight, gradient)
                state = self.state[weight]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(weight)
                velocity = state["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
                weight.sub_(group["lr"] * velocity)


def _trust(weight: Tensor, gradient: Tensor) -> Tensor:
    weights, gradients = weight.norm(), gradient.norm()
    return torch.where((weights > 0) & (gradients > 0), TRUST * weights / gradients, 1.0)


OPTIMIZERS = Table("optimizer", {"sgd": sgd, "adam": adam, "adamw": adamw, "lars": lars})
