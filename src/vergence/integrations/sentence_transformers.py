"""An encoder of ours as a module of sentence-transformers, for those that the library has no module for.

``vergence export RUN --form sentence-transformers`` writes the folder; ``SentenceTransformer(path,
trust_remote_code=True)`` loads it where Vergence is installed.
"""

from pathlib import Path
from typing import Any, ClassVar

import torch
from sentence_transformers.base.modules.input_module import InputModule

from vergence.learning.sentence_models import read_own, write_own


class Encoded(InputModule):
    """Tokens and an encoder; the embedding of a text is the representation that the run's encoder gives it."""

    modalities: ClassVar[list[str]] = ["text"]

    def __init__(self, encoder: Any, tokens: Any, facts: dict[str, Any]):
        super().__init__()
        self.encoder, self.tokens, self.facts = encoder, tokens, facts

    @property
    def tokenizer(self) -> Any:
        return self.tokens

    @property
    def max_seq_length(self) -> int:
        return int(self.facts["length"])

    def get_embedding_dimension(self) -> int:
        return int(self.encoder.width)

    get_sentence_embedding_dimension = get_embedding_dimension

    def preprocess(self, inputs: list[str], prompt: str | None = None, **kwargs: Any) -> dict[str, torch.Tensor]:
        rows = self.tokens.encode([f"{prompt or ''}{text}" for text in inputs], self.facts["length"])
        x = torch.zeros(len(rows), max(map(len, rows), default=1), dtype=torch.int64)
        for row, made in zip(x, rows, strict=True):
            row[: len(made)] = torch.tensor(made)
        return {"input_ids": x}

    tokenize = preprocess

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        features["sentence_embedding"] = self.encoder(features["input_ids"])
        return features

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        write_own(Path(output_path), self.encoder, self.tokens, self.facts)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> "Encoded":
        return cls(*read_own(Path(model_name_or_path) / subfolder))
