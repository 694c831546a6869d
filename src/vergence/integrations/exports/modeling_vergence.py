"""An encoder for transformers: ``AutoModel.from_pretrained(FOLDER, trust_remote_code=True)``.

The layers are listed in config.json, and every one is of torch.nn or below; nothing else is needed.
"""

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling


class Standardize(nn.Module):
    """``(x - mean) / deviation``; the figures are stored with the weights."""

    def __init__(self, shape):
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.ones(shape))

    def forward(self, x):
        return (x - self.mean) / self.deviation


class Residual(nn.Module):
    """``relu(path(x) + shortcut(x))``."""

    def __init__(self, path, shortcut):
        super().__init__()
        self.path, self.shortcut = path, shortcut

    def forward(self, x):
        return torch.relu(self.path(x) + self.shortcut(x))


def build(layer):
    """A module from its description: a name, its options, and the modules inside."""
    kind, options, inside = layer
    parts = [build(each) for each in inside]
    if kind == "Residual":
        return Residual(*parts)
    if kind == "Standardize":
        return Standardize(**options)
    return getattr(nn, kind)(*parts, **options)


class EncoderConfig(PretrainedConfig):
    model_type = "vergence_encoder"

    def __init__(self, layers=None, hidden_size=0, **options):
        self.layers, self.hidden_size = layers, hidden_size
        super().__init__(**options)


class EncoderModel(PreTrainedModel):
    """``pooler_output`` is the representation ``[n, hidden_size]``."""

    config_class = EncoderConfig
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        self.encoder = build(config.layers)
        self.post_init()

    def forward(self, pixel_values, **_):
        if not pixel_values.is_floating_point():
            raise ValueError(f"The encoder takes numbers in [0, 1], got {pixel_values.dtype}.")
        return BaseModelOutputWithPooling(pooler_output=self.encoder(pixel_values))
