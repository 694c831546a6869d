"""Encoders: a row builds a backbone for samples of a shape; ``encoder.width`` is the width of its representation."""

from typing import Any

from torch import nn

from vergence.encoders.convolutional import alexnet, convnet, halfnet, temporal_convnet
from vergence.encoders.external import external
from vergence.encoders.flow import additive_flow, affine_flow
from vergence.encoders.layers import cut, layers
from vergence.encoders.mlp import mlp, perceptron, residual_mlp, with_width
from vergence.encoders.recurrent import bigru
from vergence.encoders.resnet import resnet18, resnet50
from vergence.encoders.standard import Standardise
from vergence.tables import Rows

ENCODERS = Rows(
    "encoder",
    {
        "mlp": perceptron,
        "residual_mlp": residual_mlp,
        "convnet": convnet,
        "halfnet": halfnet,
        "alexnet": alexnet,
        "resnet18": resnet18,
        "resnet50": resnet50,
        "temporal_convnet": temporal_convnet,
        "bigru": bigru,
        "additive_flow": additive_flow,
        "affine_flow": affine_flow,
    },
)

GLOSSARY = {
    "hidden": "widths of the hidden layers",
    "norm": "batch norm after every linear layer",
    "depth": "number of residual layers",
    "std": "standard deviation of the initial weights; small starts at the identity",
    "channels": "channels of each convolution",
    "kernel": "side of the convolution kernels",
    "stride": "step of the convolutions",
    "width": "width of the representation",
    "zero_init": "start every residual block as its shortcut",
    "vocabulary": "number of different tokens, padding included",
    "embedding": "width of a token's embedding",
    "couplings": "number of coupling layers",
    "seed": "seed of the fixed permutations",
}


def build(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """The backbone ``name`` for samples of ``shape``: a row of ENCODERS, or ``timm:NAME``, ``hf:NAME``."""
    if ":" in name:
        return external(name, shape, **options)
    return ENCODERS[name](shape, **options)


__all__ = ["ENCODERS", "GLOSSARY", "Standardise", "build", "cut", "layers", "mlp", "with_width"]
