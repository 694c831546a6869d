"""Encoders from other libraries, by ``timm:NAME`` or ``hf:NAME``; the libraries are optional extras."""

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from vergence.encoders.mlp import with_width


def external(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """The encoder ``library:name``, without its head."""
    library, _, model = name.partition(":")
    if library == "timm":
        timm = _extra("timm", "timm")
        module = timm.create_model(model, num_classes=0, in_chans=shape[0], **options)
        return with_width(module, module.num_features)
    if library == "hf":
        transformers = _extra("transformers", "hf")
        return Pooled(transformers.AutoModel.from_pretrained(model, **options))
    raise ValueError(f"Unknown encoder {name!r}: the part before the colon must be timm or hf, not {library!r}.")


class Pooled(nn.Module):
    """A Hugging Face model, its last hidden states averaged over the tokens (padding, token 0, left out)."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        self.width = model.config.hidden_size

    def forward(self, x: Tensor) -> Tensor:
        if x.is_floating_point():
            return self.model(pixel_values=x).last_hidden_state.mean(1)
        real = (x != 0).long()
        states = self.model(input_ids=x, attention_mask=real).last_hidden_state
        return (states * real.unsqueeze(-1)).sum(1) / torch.clamp(real.sum(1, keepdim=True), min=1)


def _extra(library: str, extra: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        message = (
            f"This encoder needs {library}, which is not installed ({error}). Try: pip install 'vergence[{extra}]'"
        )
        raise ImportError(message) from error
