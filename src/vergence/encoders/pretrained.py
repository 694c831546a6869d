"""Pretrained encoders of texts: a Hugging Face model, by name or folder, with its own pooling and special tokens."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vergence.encoders.text_transformer import POOLINGS, by_length, pooled
from vergence.tables import UnknownName

FLAGS = {  # how sentence-transformers writes the pooling of a model down
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_lasttoken": "last",
}
MODES = {"mean": "mean", "cls": "first", "lasttoken": "last"}


class Pretrained(nn.Module):
    """A model over the tokens of its own tokenizer, each plus one so that 0 is padding; its states pooled.

    The special tokens before and behind a text are added here, so that views of the text cannot lose them.
    """

    def __init__(self, model: Any, *, pooling: str, normalize: bool, before: list[int], behind: list[int]):
        super().__init__()
        if pooling not in POOLINGS:
            raise UnknownName("pooling", pooling, POOLINGS)
        self.model = model
        self.width = int(model.config.hidden_size)
        self.pooling, self.normalize = pooling, normalize
        self.before, self.behind = before, behind

    def forward(self, x: Tensor) -> Tensor:
        if x.is_floating_point():
            return self.model(pixel_values=x).last_hidden_state.mean(1)
        self._check(x)
        return by_length(self._encoded, x) if self.training else self._encoded(x)

    def _encoded(self, x: Tensor) -> Tensor:
        ids, real = with_special(x, self.before, self.behind)
        states = self.model(input_ids=ids, attention_mask=real.long()).last_hidden_state
        found = pooled(states, real, self.pooling)
        return nn.functional.normalize(found, dim=1) if self.normalize else found

    def _check(self, x: Tensor) -> None:
        known = int(self.model.config.vocab_size)
        if x.numel() and int(x.max()) > known:
            raise ValueError(
                f"The tokenizer does not belong to the model: it gives token {int(x.max()) - 1}, and the model knows "
                f"{known}. Leave tokens= out of the data, and the model's own tokenizer is used."
            )


def with_special(x: Tensor, before: list[int], behind: list[int]) -> tuple[Tensor, Tensor]:
    """Numbers of tokens as the model counts them, with special tokens around each text, and which are not padding."""
    n, t = x.shape
    lengths = (x != 0).sum(1)
    front, back = len(before), len(behind)
    ids = x.new_zeros(n, front + t + back)
    ids[:, :front] = torch.tensor(before, device=x.device, dtype=x.dtype)
    ids[:, front : front + t] = (x - 1).clamp(min=0)
    for number, token in enumerate(behind):
        ids[torch.arange(n, device=x.device), front + lengths + number] = token
    real = torch.arange(front + t + back, device=x.device) < (front + lengths + back)[:, None]
    return ids * real, real


def language_model(model: str, *, pooling: str = "", normalize: bool | None = None, **options: Any) -> nn.Module:
    """The model ``hf:NAME``; its folder says how it is pooled if it is of sentence-transformers, otherwise by mean."""
    try:
        import transformers
    except ImportError as error:
        raise ImportError(f"hf:{model} needs transformers ({error}). Try: pip install 'vergence[hf]'") from error
    stated = stated_by(model)
    found = transformers.AutoModel.from_pretrained(model, **options)
    before, behind = ([], []) if not hasattr(found.config, "vocab_size") else special_tokens(model)
    chosen = stated["normalize"] if normalize is None else normalize
    chosen_pooling = pooling or stated["pooling"]
    return Pretrained(found, pooling=chosen_pooling, normalize=chosen, before=before, behind=behind)


def special_tokens(model: str) -> tuple[list[int], list[int]]:
    """The tokens that a model's tokenizer puts before and behind a text."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError, KeyError):  # a model without a tokenizer, of images say
        return [], []
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    place = next((i for i in range(len(whole)) if whole[i : i + len(plain)] == plain), 0)
    return list(whole[:place]), list(whole[place + len(plain) :])


def stated_by(model: str) -> dict[str, Any]:
    """Pooling and normalization of a folder of sentence-transformers; the mean where nothing is stated."""
    folder, found = Path(model), {"pooling": "mean", "normalize": False}
    if not (folder / "modules.json").is_file():
        return found
    for module in json.loads((folder / "modules.json").read_text()):
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Pooling":
            found["pooling"] = _pooling(json.loads((folder / module["path"] / "config.json").read_text()), model)
        elif kind == "Normalize":
            found["normalize"] = True
        elif kind != "Transformer":
            raise ValueError(f"{model} has a module {kind}; only Transformer, Pooling and Normalize are read here.")
    return found


def _pooling(config: dict[str, Any], model: str) -> str:
    chosen = {name for flag, name in FLAGS.items() if config.get(flag)}
    mode = config.get("pooling_mode")
    if isinstance(mode, str) and mode in MODES:
        chosen = {MODES[mode]}
    if len(chosen) != 1:
        raise ValueError(f"{model} pools in a way that is not read here: {config}. Mean, first and last are.")
    return chosen.pop()
