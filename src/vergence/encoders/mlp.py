"""Multilayer perceptrons: the encoder of vectors, and every projector and predictor."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


def mlp(widths: Sequence[int], *, norm: bool = True, final_norm: bool = False) -> nn.Sequential:
    """Linear layers from ``widths[0]`` to ``widths[-1]``, with batch norm and ReLU between them.

    A linear layer followed by batch norm has no bias: the norm would remove it.
    """
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(pairwise(widths)):
        last = number == len(widths) - 2
        normed = final_norm if last else norm
        layers.append(nn.Linear(before, after, bias=not normed))
        layers += [nn.BatchNorm1d(after)] if normed else []
        layers += [] if last else [nn.ReLU()]
    return nn.Sequential(*layers)


def perceptron(shape: tuple[int, ...], *, hidden: tuple[int, ...] = (512, 512), norm: bool = True) -> nn.Module:
    """A multilayer perceptron over the flattened sample; the last hidden layer is the representation."""
    layers = mlp([math.prod(shape), *hidden], norm=norm, final_norm=norm)
    return with_width(nn.Sequential(nn.Flatten(), *layers, nn.ReLU()), hidden[-1])


class IdentityStart(nn.Module):
    """One residual layer, ``x + relu(Wx + b)``, or ``x + Wx + b`` as the last; near the identity at the start."""

    def __init__(self, width: int, *, last: bool = False, std: float = 1e-4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.activation = nn.Identity() if last else nn.ReLU()
        nn.init.normal_(self.linear.weight, std=std)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.activation(self.linear(x))


def residual_mlp(shape: tuple[int, ...], *, depth: int = 5, std: float = 1e-4) -> nn.Module:
    """A residual perceptron as wide as its input that starts at the identity.

    References:
        Tschannen et al. (2020), Sec. 3.1 and Fig. 2. https://arxiv.org/abs/1907.13625
    """
    width = math.prod(shape)
    layers = [IdentityStart(width, last=number == depth - 1, std=std) for number in range(depth)]
    return with_width(nn.Sequential(nn.Flatten(), *layers), width)


def with_width(module: nn.Module, width: int) -> nn.Module:
    """The module, carrying the width of its representation as ``module.width``."""
    module.width = width  # type: ignore[assignment]
    return module
