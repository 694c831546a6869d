"""Layers: an encoder may be cut after any of them, for the question which layer is the representation."""

from typing import Any

import torch
from torch import Tensor, nn

from vergence.encoders.flow import Coupling, CouplingFlow
from vergence.encoders.mlp import IdentityStart, with_width
from vergence.encoders.resnet import Residual

ENDS = (nn.ReLU, Residual, IdentityStart, Coupling)  # what a layer ends with: an activation, or a block with its own
PLAIN = (nn.Flatten, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)  # no layer of its own: it belongs to the one before


class Pool(nn.Module):
    """The mean over positions: a feature map as one vector."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).mean(2) if x.ndim > 2 else x


def layers(encoder: nn.Module) -> list[nn.Sequential]:
    """The layers of an encoder in order, each ending with an activation or a block; the last with the representation.

    What stands before the first weights, such as the standardization of inputs, belongs to the first layer.
    """
    found: list[list[nn.Module]] = [[]]
    for module in _sequence(encoder):
        if isinstance(module, PLAIN) and not found[-1] and len(found) > 1:
            found[-2].append(module)
        else:
            found[-1].append(module)
        if isinstance(module, ENDS):
            found.append([])
    return [nn.Sequential(*modules) for modules in found if modules]


def cut(encoder: nn.Module, layer: int, shape: tuple[int, ...]) -> nn.Module:
    """The encoder of samples of ``shape`` up to ``layer``, counted from 1: what is there, averaged over positions."""
    every = layers(encoder)
    if not 1 <= layer <= len(every):
        raise ValueError(f"This encoder has {len(every)} layers: layer must be from 1 to {len(every)}, got {layer}.")
    if layer == len(every):
        return encoder
    shortened = nn.Sequential(*every[:layer], Pool())
    with torch.no_grad():
        width = shortened.eval()(torch.zeros(1, *shape)).shape[1]
    return with_width(shortened.train(), width)


def _sequence(encoder: Any) -> list[nn.Module]:
    """The modules of a sequential encoder, one after the other."""
    if isinstance(encoder, CouplingFlow):
        return [nn.Flatten(), *encoder.couplings]
    if not isinstance(encoder, nn.Sequential):
        raise ValueError(f"{type(encoder).__name__} cannot be cut: only encoders whose layers follow each other can.")
    return [inner for module in encoder for inner in (_sequence(module) if _opens(module) else [module])]


def _opens(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential | CouplingFlow)
