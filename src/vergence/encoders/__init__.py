"""Encoders: a row builds a backbone for samples of a shape; ``encoder.width`` is the width of its representation."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from vergence.encoders.convolutional import alexnet, convnet, halfnet, temporal_convnet
from vergence.encoders.external import external
from vergence.encoders.flow import additive_flow, affine_flow
from vergence.encoders.layers import cut, layers
from vergence.encoders.mlp import mlp, perceptron, residual_mlp, with_width
from vergence.encoders.recurrent import bigru
from vergence.encoders.resnet import resnet18, resnet50
from vergence.encoders.standard import Standardize
from vergence.encoders.text_bag import bag
from vergence.encoders.text_transformer import transformer
from vergence.encoders.vit import vit, vit_small, vit_tiny
from vergence.tables import Table

ENCODERS = Table(
    "encoder",
    {
        "mlp": perceptron,
        "residual_mlp": residual_mlp,
        "convnet": convnet,
        "halfnet": halfnet,
        "alexnet": alexnet,
        "resnet18": resnet18,
        "resnet50": resnet50,
        "vit": vit,
        "vit_tiny": vit_tiny,
        "vit_small": vit_small,
        "temporal_convnet": temporal_convnet,
        "bigru": bigru,
        "bag": bag,
        "transformer": transformer,
        "additive_flow": additive_flow,
        "affine_flow": affine_flow,
    },
    room="encoders",
)

GLOSSARY = {
    "hidden": "widths of the hidden layers",
    "norm": "batch norm after every linear layer",
    "depth": "number of residual layers, or of blocks",
    "std": "standard deviation of the initial weights; small starts at the identity",
    "channels": "channels of each convolution",
    "blocks": "residual blocks behind each convolution; empty for none",
    "final": "channels of a last 1 x 1 convolution, the width of the representation; 0 for none",
    "kernel": "side of the convolution kernels",
    "stride": "step of the convolutions",
    "width": "width of the representation",
    "zero_init": "start every residual block as its shortcut",
    "vocabulary": "number of different tokens, padding included; 0 for as many as the tokenizer has",
    "embedding": "width of a token's embedding",
    "plain": "what the mean without weights, beside the weighted one, is multiplied by; 0 leaves it out",
    "common": "columns in the place of the mean without weights: one for a common token each, a third for all others",
    "opening": "how many have another column, which counts them among the first two tokens of a text",
    "weighted": "give each token a learned weight that starts at its inverse document frequency",
    "once": "count a token that a text holds several times only once",
    "pooling": "which states are the representation: mean, first or last",
    "positions": "how places of tokens are told: rotary, learned or none",
    "heads": "heads of attention",
    "dropout": "share of numbers that are set to 0 in training",
    "couplings": "number of coupling layers",
    "seed": "seed of the fixed permutations",
    "patch": "side of a patch in pixels; by default an eighth of the image's, at most 16",
    "attention_heads": "heads of attention; the width must be a multiple of four times as many",
    "pool": "what the representation is: the mean of the patches, or the class token",
    "registers": "tokens beside the patches that belong to none",
    "drop_path": "probability that the last block is left out for a sample; earlier blocks less",
}


def build(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """The backbone ``name`` for samples of ``shape``: a row of ENCODERS or from outside, ``timm:NAME``, ``hf:NAME``.

    A row from outside is called with the shape and its options, or is a network already, which is copied. Where it does
    not state its ``width``, the width is measured.
    """
    if name.partition(":")[0] in ("timm", "hf") and name not in ENCODERS:
        return external(name, shape, **options)
    row = ENCODERS[name]
    made = copy.deepcopy(row) if isinstance(row, nn.Module) else _called(name, row, shape, options)
    if not isinstance(made, nn.Module):
        raise ValueError(f"The encoder {name} gave {type(made).__name__}, not a torch.nn.Module.")
    if isinstance(getattr(made, "width", None), int):
        return made
    return with_width(made, measured_width(made, shape, name))


def _called(name: str, row: Any, shape: tuple[int, ...], options: Mapping[str, Any]) -> Any:
    """What a row makes for a shape; what is named package.module:name may be anything, and is said to be no encoder."""
    try:
        return row(shape, **options)
    except TypeError as error:
        if ":" not in name:
            raise
        raise ValueError(
            f"The encoder {name} cannot be called with the shape of a sample, here {shape}: {error}"
        ) from error


@torch.no_grad()
def measured_width(encoder: nn.Module, shape: tuple[int, ...], name: str) -> int:
    """How many numbers an encoder gives for a sample of ``shape``; it must give one row for each sample."""
    mode = encoder.training
    tokens = len(shape) == 1 and any(isinstance(module, nn.Embedding) for module in encoder.modules())
    given = encoder.eval()(torch.zeros(2, *shape, dtype=torch.int64 if tokens else torch.float32))
    encoder.train(mode)
    if not isinstance(given, torch.Tensor) or given.ndim != 2 or len(given) != 2:
        what = list(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
        raise ValueError(f"The encoder {name} must give [n, width] for [n, {', '.join(map(str, shape))}], got {what}.")
    return given.shape[1]


__all__ = ["ENCODERS", "GLOSSARY", "Standardize", "build", "cut", "layers", "mlp", "with_width"]
