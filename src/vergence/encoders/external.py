"""Encoders from other libraries, by ``timm:NAME`` or ``hf:NAME``; the libraries are optional extras."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from vergence.encoders.mlp import with_width
from vergence.encoders.pretrained import Pretrained, language_model


def external(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """The encoder ``library:name``, without its head."""
    library, _, model = name.partition(":")
    if library == "timm":
        timm = _extra("timm", "timm")
        module = timm.create_model(model, num_classes=0, in_chans=shape[0], **options)
        return with_width(module, module.num_features)
    if library == "hf":
        return language_model(model, **options)
    raise ValueError(f"Unknown encoder {name!r}: the part before the colon must be timm or hf, not {library!r}.")


def pretrained(name: str, backbone: nn.Module, options: Mapping[str, Any]) -> dict[str, Tensor]:
    """The published weights of a ``timm:`` or ``hf:`` encoder, by the names of its own tensors."""
    library, _, model = name.partition(":")
    if library == "hf":
        return backbone.state_dict()  # it was built with them
    if library != "timm":
        raise ValueError(
            f"{name} has no published weights that are known here: --start pretrained is for timm:NAME and hf:NAME. "
            "Give a file or folder of weights, or a run."
        )
    timm = _extra("timm", "timm")
    channels = next(parameter for parameter in backbone.parameters() if parameter.ndim == 4).shape[1]
    try:
        made = timm.create_model(model, pretrained=True, num_classes=0, in_chans=channels, **options)
    except Exception as error:  # a network that is down, a name without weights: each has its own class
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(".")
        raise RuntimeError(
            f"The weights of {name} could not be fetched: {reason}. Fetch them where there is a network and give the "
            "file: --start FILE."
        ) from error
    return made.state_dict()


def fresh(backbone: Any) -> nn.Module:
    """A ``hf:`` encoder of the same architecture as it is initialized, without the published weights."""
    transformers = _extra("transformers", "hf")
    made = transformers.AutoModel.from_config(backbone.model.config)
    kept = {name: getattr(backbone, name) for name in ("pooling", "normalize", "before", "behind")}
    return Pretrained(made, **kept)


def expected_inputs(name: str, backbone: Any) -> tuple[Sequence[float], Sequence[float]] | None:
    """The mean and deviation of inputs that a library's weights were trained with; None where it does not say."""
    library, _, model = name.partition(":")
    if library == "timm":
        known = backbone.pretrained_cfg
        return tuple(known["mean"]), tuple(known["std"])
    if library != "hf":
        return None
    transformers = _extra("transformers", "hf")
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(model)
    except (OSError, ValueError, ImportError):  # a model without a description of its inputs
        return None
    return tuple(processor.image_mean), tuple(processor.image_std)


def _extra(library: str, extra: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        message = (
            f"This encoder needs {library}, which is not installed ({error}). Try: pip install 'vergence[{extra}]'"
        )
        raise ImportError(message) from error
