"""Folders of sentence-transformers: read without that library, and written so that it loads them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from vergence import encoders
from vergence.data import tokens as tokenizers
from vergence.data.tokens import FILE, LENGTH, Tokens
from vergence.encoders.pretrained import Pretrained, language_model
from vergence.encoders.text_bag import Bag
from vergence.learning.context import SideBySide

BUILT = "vergence.json"  # how an encoder of ours is built, in its folder
OURS = "vergence.integrations.sentence_transformers.Encoded"  # the module of encoders that the library does not have


class Static(nn.Module):
    """Averaged vectors of tokens, as the library's StaticEmbedding has them."""

    def __init__(self, vectors: Tensor, shift: int):
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(vectors, freeze=False)
        self.width, self.shift, self.packs = vectors.shape[1], shift, True

    def forward(self, x: Tensor) -> Tensor:
        real = (x != 0)[..., None]
        return (self.tokens((x - self.shift).clamp(min=0)) * real).sum(1) / real.sum(1).clamp(min=1)


def read_folder(path: str) -> tuple[nn.Module, Tokens, int]:
    """The encoder of a folder of sentence-transformers or Hugging Face, its tokenizer, and how many tokens it reads."""
    static, own = static_part(path), own_part(path)
    if static is not None:
        return _static(static)
    if own is not None:
        encoder, made, facts = read_own(own)
        return encoder, made, facts["length"]
    made = tokenizers.of_model(path)
    return language_model(path), made, made.length


def static_part(path: str) -> Path | None:
    """Where a folder of sentence-transformers keeps its StaticEmbedding; None if its encoder is another."""
    first = _first_module(path)
    return Path(path) / first["path"] if first.get("type", "").endswith(".StaticEmbedding") else None


def own_part(path: str) -> Path | None:
    """The folder itself where its encoder is one of ours, which the library has no module for."""
    return Path(path) if _first_module(path).get("type") == OURS else None


def _first_module(path: str) -> dict[str, Any]:
    file = Path(path) / "modules.json"
    modules = json.loads(file.read_text()) if file.is_file() else []
    return modules[0] if modules else {}


def start_options(path: str) -> dict[str, Any] | None:
    """The encoder and its options with which training goes on from such a folder; None if it is not ours to build."""
    static, own = static_part(path), own_part(path)
    if static is not None:
        return {"encoder": "bag", "backbone": {"width": static_vectors(static).shape[1]}}
    if own is not None:
        facts = json.loads((own / BUILT).read_text())
        return {"encoder": facts["encoder"], "backbone": facts["options"]}
    return None


def start_tokens(path: str) -> Tokens | None:
    """The tokenizer that the token vectors of such a folder belong to."""
    static, own = static_part(path), own_part(path)
    if static is not None:
        return tokenizers.from_json((static / FILE).read_text(encoding="utf-8"), name=str(static / FILE))
    return None if own is None else tokenizers.stored(own)


def start_weights(path: str) -> dict[str, Tensor] | None:
    """Averaged vectors of the library as weights of a bag: its tokens weigh 1 each, and the first row is padding."""
    static, made = static_part(path), start_tokens(path)
    if static is None or made is None:
        return None
    vectors = torch.cat([torch.zeros(made.shift, static_vectors(static).shape[1]), static_vectors(static)])
    return {"tokens.vectors.weight": vectors, "tokens.log_weight": torch.zeros(len(vectors), 1)}


def static_vectors(folder: Path) -> Tensor:
    """The table of a StaticEmbedding."""
    weights = load_file(folder / "model.safetensors")
    vectors = weights.get("embedding.weight", weights.get("embeddings"))
    if vectors is None:
        raise ValueError(f"{folder} holds no embedding.weight. It holds: {', '.join(weights)}.")
    return vectors.float()


def write_folder(
    path: Path, encoder: Any, tokens: Tokens, length: int, name: str, options: dict[str, Any]
) -> list[str]:
    """Write a folder that ``SentenceTransformer(path)`` loads; the names of its modules.

    Encoders that the library has no module for are written with ours: it is imported where the folder is loaded.
    """
    if isinstance(encoder, Pretrained):
        return _write_transformer(path, encoder, tokens, length)
    if not tokens.content:
        raise ValueError("Hashed tokens have no tokenizer.json, which the folder needs: train with tokens=wordpiece.")
    if isinstance(encoder, Bag) and encoder.is_mean:
        return _write_static(path, encoder, tokens, length)
    count = 2 if isinstance(encoder, SideBySide) else 1
    write_own(path, encoder, tokens, {"encoder": name, "options": options, "length": length, "count": count})
    _write_modules(path, [OURS], [""])
    return [OURS]


def write_own(folder: Path, encoder: Any, tokens: Any, facts: dict[str, Any]) -> None:
    """The weights, the tokenizer and how the encoder is built."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous().cpu() for name, value in encoder.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    for name, content in tokenizers.files(tokens).items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / BUILT).write_text(json.dumps(facts, indent=1))


def read_own(folder: Path) -> tuple[Any, Any, dict[str, Any]]:
    """What :func:`write_own` wrote."""
    facts = json.loads((folder / BUILT).read_text())
    made = [encoders.build(facts["encoder"], (facts["length"],), **facts["options"]) for _ in range(facts["count"])]
    encoder = SideBySide(*made) if facts["count"] == 2 else made[0]
    encoder.load_state_dict(load_file(folder / "model.safetensors"))
    return encoder.eval(), tokenizers.stored(folder), facts


def _static(folder: Path) -> tuple[nn.Module, Tokens, int]:
    content = (folder / FILE).read_text(encoding="utf-8")
    made = tokenizers.from_json(content, name=str(folder), shift=1)
    return Static(static_vectors(folder), 1), made, 8 * LENGTH


def _write_static(path: Path, encoder: Bag, tokens: Tokens, length: int) -> list[str]:
    """The bag: each token's vector times its weight, averaged by the library as it is here."""
    path.mkdir(parents=True, exist_ok=True)
    vectors = encoder.table(tokens.vocabulary)[tokens.shift :].contiguous()
    save_file({"embedding.weight": vectors.float().cpu()}, path / "model.safetensors")
    (path / "tokenizer.json").write_text(tokenizers.truncating(tokens, length), encoding="utf-8")
    names = ["sentence_transformers.models.StaticEmbedding"]
    _write_modules(path, names, [""])
    return names


def _write_transformer(path: Path, encoder: Pretrained, tokens: Tokens, length: int) -> list[str]:
    path.mkdir(parents=True, exist_ok=True)
    encoder.model.save_pretrained(path)
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(tokens.name.removeprefix("hf:")).save_pretrained(path)
    special = len(encoder.before) + len(encoder.behind)
    facts = {"max_seq_length": length + special, "do_lower_case": False}
    (path / "sentence_bert_config.json").write_text(json.dumps(facts, indent=1))
    pooling = {"mean": "mean_tokens", "first": "cls_token", "last": "lasttoken"}[encoder.pooling]
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    flags = {f"pooling_mode_{mode}": mode == pooling for mode in modes}
    (path / "1_Pooling").mkdir(exist_ok=True)
    (path / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": encoder.width, **flags, "include_prompt": True}, indent=1)
    )
    names = [f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling")]
    places = ["", "1_Pooling"]
    if encoder.normalize:
        names, places = [*names, "sentence_transformers.models.Normalize"], [*places, "2_Normalize"]
        (path / "2_Normalize").mkdir(exist_ok=True)
    _write_modules(path, names, places)
    return names


def _write_modules(path: Path, names: list[str], places: list[str]) -> None:
    rows = [
        {"idx": number, "name": str(number), "path": place, "type": name}
        for number, (name, place) in enumerate(zip(names, places, strict=True))
    ]
    (path / "modules.json").write_text(json.dumps(rows, indent=1))
    facts: dict[str, Any] = {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    (path / "config_sentence_transformers.json").write_text(json.dumps(facts, indent=1))
