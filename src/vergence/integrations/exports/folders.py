"""A Hugging Face folder: config, weights, preprocessing and card, for ``AutoModel.from_pretrained``."""

import json
import re
from pathlib import Path
from typing import Any

from safetensors.torch import save as serialize
from torch import Tensor, nn

from vergence.encoders import Standardize
from vergence.encoders.resnet import Residual
from vergence.integrations.exports.card import card
from vergence.integrations.exports.source import Source, contract, written
from vergence.integrations.exports.weights import DEPTHS, torchvision_names
from vergence.runs.run import write_bytes

MODELING = "modeling_vergence.py"
# What describes a layer of torch.nn: the attributes that its constructor takes.
OPTIONS = {
    "Conv1d": ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups"),
    "Conv2d": ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups"),
    "Linear": ("in_features", "out_features"),
    "BatchNorm1d": ("num_features", "eps"),
    "BatchNorm2d": ("num_features", "eps"),
    "MaxPool1d": ("kernel_size", "stride", "padding"),
    "MaxPool2d": ("kernel_size", "stride", "padding"),
    "AdaptiveAvgPool1d": ("output_size",),
    "AdaptiveAvgPool2d": ("output_size",),
    "Flatten": ("start_dim", "end_dim"),
    "Dropout": ("p",),
    "ReLU": (),
    "Identity": (),
}


def hugging_face(source: Source, path: Path) -> list[Path]:
    """A folder for ``AutoModel.from_pretrained``; ``trust_remote_code`` only for layers that it does not know.

    Models of ``hf:`` are what they were; ``timm:`` becomes a timm wrapper, a ResNet of ours with a 7 x 7 stem a ResNet.
    """
    if source.kind == "text" and not source.config.encoder.startswith("hf:"):
        raise ValueError(
            f"{source.config.encoder} reads tokens that transformers does not make; export it as torch or onnx, or "
            "train an encoder hf:NAME."
        )
    path.mkdir(parents=True, exist_ok=True)
    config, tensors, inside = _model(source, path)
    known = contract(source, inside=inside)
    files = {"vergence.json": json.dumps(known, indent=1), "README.md": card(source, known, form="hf")}
    if config is not None:
        if source.classes:
            config["id2label"] = dict(enumerate(source.classes))
        files["config.json"] = json.dumps(config, indent=1)
        write_bytes(path / "model.safetensors", serialize(tensors, metadata=written(known)))
        if "auto_map" in config:
            files[MODELING] = (Path(__file__).parent / MODELING).read_text(encoding="utf-8")
    if source.kind == "image":
        files["preprocessor_config.json"] = json.dumps(_processor(source, known, inside=inside), indent=1)
    return [write_bytes(path / name, text.encode()) for name, text in files.items()] + [path / "model.safetensors"]


def _model(source: Source, path: Path) -> tuple[dict[str, Any] | None, dict[str, Tensor], bool]:
    """The config and tensors of the folder, None where transformers has written them; is standardization inside?"""
    library, _, name = source.config.encoder.partition(":")
    if library == "hf":
        source.backbone.model.save_pretrained(path)  # type: ignore[union-attr, operator]
        return None, {}, False
    if library == "timm":
        options = {"architecture": name, "model_args": dict(source.config.backbone), "num_classes": 0}
        known = {key: source.backbone.pretrained_cfg[key] for key in ("input_size", "mean", "std")}  # type: ignore[index]
        config = {
            "model_type": "timm_wrapper",
            "architectures": ["TimmWrapperModel"],
            **options,
            "pretrained_cfg": known,
        }
        return config, _plain({f"timm_model.{key}": v for key, v in source.backbone.state_dict().items()}), False
    if library in DEPTHS and not source.config.layer and torchvision_names(source)[1] == "7x7":
        return _resnet(source, library), _plain(_resnet_names(torchvision_names(source)[0])), False
    listed = {
        "auto_map": {"AutoConfig": "modeling_vergence.EncoderConfig", "AutoModel": "modeling_vergence.EncoderModel"}
    }
    config = {"model_type": "vergence_encoder", "architectures": ["EncoderModel"], **listed}
    config |= {"layers": described(source.encoder), "hidden_size": source.width}
    return config, _plain({f"encoder.{key}": value for key, value in source.encoder.state_dict().items()}), True


def described(module: nn.Module) -> list[Any]:
    """A module as a name, its options and the modules inside, as JSON can hold it."""
    kind = type(module).__name__
    if isinstance(module, Standardize):
        return ["Standardize", {"shape": list(module.mean.shape)}, []]
    if isinstance(module, Residual):
        return ["Residual", {}, [described(module.path), described(module.shortcut)]]
    if type(module) is nn.Sequential:
        return ["Sequential", {}, [described(child) for child in module]]
    if kind not in OPTIONS or type(module).__module__.split(".")[0] != "torch":
        raise ValueError(
            f"transformers does not know the layers of this encoder ({kind}), and they cannot be listed; export it as "
            "torch or onnx."
        )
    options = {name: getattr(module, name) for name in OPTIONS[kind]}
    if kind in ("Conv1d", "Conv2d", "Linear"):
        options["bias"] = module.bias is not None
    return [kind, options, []]


def _resnet(source: Source, name: str) -> dict[str, Any]:
    """The config of transformers' ResNet."""
    basic = name == "resnet18"
    return {
        "model_type": "resnet",
        "architectures": ["ResNetModel"],
        "num_channels": source.example.shape[1],
        "embedding_size": 64,
        "hidden_sizes": [64, 128, 256, 512] if basic else [256, 512, 1024, 2048],
        "depths": list(DEPTHS[name]),
        "layer_type": "basic" if basic else "bottleneck",
        "hidden_act": "relu",
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": False,
    }


def _resnet_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """torchvision's names of a ResNet as transformers has them."""
    found = {}
    for name, value in tensors.items():
        name = re.sub(r"^conv1\.", "embedder.embedder.convolution.", name)
        name = re.sub(r"^bn1\.", "embedder.embedder.normalization.", name)
        name = re.sub(r"^layer(\d)\.", lambda stage: f"encoder.stages.{int(stage[1]) - 1}.layers.", name)
        name = re.sub(r"\.conv(\d)\.", lambda place: f".layer.{int(place[1]) - 1}.convolution.", name)
        name = re.sub(r"\.bn(\d)\.", lambda place: f".layer.{int(place[1]) - 1}.normalization.", name)
        found[
            name.replace("downsample.0", "shortcut.convolution").replace("downsample.1", "shortcut.normalization")
        ] = value
    return found


def _processor(source: Source, known: dict[str, Any], *, inside: bool) -> dict[str, Any]:
    """Preprocessing as transformers does it; the central square has to be taken before, see vergence.json."""
    side = source.example.shape[-1]
    made = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": side, "width": side}}
    made |= {"resample": 2, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": not inside}
    if known["normalization"] and not inside:
        made |= {"image_mean": known["normalization"]["mean"], "image_std": known["normalization"]["deviation"]}
    return made


def _plain(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().contiguous().clone() for name, value in tensors.items()}
