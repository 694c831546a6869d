"""Weights by name: as we have them, as timm has them, as torchvision has them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as serialize
from torch import Tensor, nn

from vergence.encoders.resnet import Bottleneck, Residual
from vergence.integrations.exports.source import Source, contract, written
from vergence.runs.run import write_bytes

DEPTHS = {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}


def safetensors(source: Source, path: Path) -> list[Path]:
    """The weights of the encoder by our names, standardization included; a classifier is ``head``."""
    tensors = dict(source.encoder.state_dict())
    if source.head is not None:
        tensors |= {f"head.{name}": value for name, value in source.head.state_dict().items()}
    return [_write(path, tensors, contract(source, inside=True))]


def timm_weights(source: Source, path: Path) -> list[Path]:
    """The weights by timm's names, for ``timm.create_model``; inputs are standardized by the caller."""
    library, _, model = source.config.encoder.partition(":")
    known = contract(source, inside=False)
    if library == "timm":
        known["timm"] = {"name": model, "options": {**dict(source.config.backbone), "num_classes": 0}}
        return [_write(path, source.backbone.state_dict(), known)]
    tensors, stem = torchvision_names(source)
    if stem != "7x7":
        raise ValueError(
            "timm's ResNets have a 7 x 7 stem, and this run's images are so small that it has the 3 x 3 one without "
            "pooling. Export it with --form torchvision, whose stem can be exchanged, or as torch or onnx."
        )
    known["timm"] = {"name": source.config.encoder, "options": {"num_classes": 0}}
    return [_write(path, tensors, known)]


def torchvision_weights(source: Source, path: Path) -> list[Path]:
    """A ResNet by torchvision's names (``conv1``, ``layer1.0.conv1``, ...), which detectors load; no ``fc``."""
    tensors, stem = torchvision_names(source)
    known = contract(source, inside=False)
    known["torchvision"] = {"name": source.config.encoder.removeprefix("timm:"), "stem": stem}
    if stem == "3x3":
        known["torchvision"]["stem"] = "3x3: model.conv1 = Conv2d(c, 64, 3, padding=1, bias=False), no maxpool"
    return [_write(path, tensors, known)]


def torchvision_names(source: Source) -> tuple[dict[str, Tensor], str]:
    """A ResNet's tensors by torchvision's names, and its stem; timm has the same names."""
    name = source.config.encoder
    if name in ("timm:resnet18", "timm:resnet34", "timm:resnet50", "timm:resnet101"):
        return dict(source.backbone.state_dict()), "7x7"
    if name not in DEPTHS or source.config.layer:
        raise ValueError(f"These names are those of ResNets (resnet18, resnet50), and the run's encoder is {name}.")
    layers = dict(source.backbone.named_children())
    blocks = [key for key, module in layers.items() if isinstance(module, Residual)]
    places = [f"layer{stage + 1}.{block}" for stage, depth in enumerate(DEPTHS[name]) for block in range(depth)]
    found = {f"conv1.{key}": value for key, value in layers["0"].state_dict().items()}
    found |= {f"bn1.{key}": value for key, value in layers["1"].state_dict().items()}
    for key, place in zip(blocks, places, strict=True):
        found |= {f"{place}.{inner}": value for inner, value in block_names(layers[key]).items()}
    return found, "7x7" if found["conv1.weight"].shape[-1] == 7 else "3x3"


def block_names(block: nn.Module) -> dict[str, Tensor]:
    """A residual block's tensors: conv1, bn1, conv2, ... along its path, downsample.0 and .1 of its shortcut."""
    path = {"0": "conv1", "1": "bn1", "3": "conv2", "4": "bn2", "6": "conv3", "7": "bn3"}
    assert isinstance(block, Residual), "a block of ours"
    assert isinstance(block, Bottleneck) or len(block.path) == 5
    found = {}
    for name, value in block.state_dict().items():
        inner = re.fullmatch(r"path\.(\d+)\.(.+)", name)
        key = f"{path[inner[1]]}.{inner[2]}" if inner else name.replace("shortcut", "downsample")
        found[key] = value
    return found


def _write(path: Path, tensors: Mapping[str, Tensor], known: dict[str, Any]) -> Path:
    own = {name: value.detach().to(torch.float32 if value.is_floating_point() else value.dtype).contiguous().clone()
           for name, value in tensors.items()}  # fmt: skip
    return write_bytes(path, serialize(own, metadata=written(known)))


def read_contract(path: Path) -> dict[str, Any]:
    """The contract in the metadata of a safetensors file."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return json.loads((file.metadata() or {})["vergence"])
