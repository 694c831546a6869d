"""A folder of sentence-transformers: tokenizer, encoder and pooling, for ``SentenceTransformer(path)``."""

from pathlib import Path

from vergence.integrations.exports.source import Source
from vergence.learning.sentence_models import write_folder


def sentence_transformers(source: Source, path: Path) -> list[Path]:
    """A folder that ``SentenceTransformer(path)`` loads, with equal embeddings; of runs on texts.

    A bag becomes the library's StaticEmbedding, a pretrained model its Transformer and Pooling. Other encoders of ours
    take ``trust_remote_code=True`` and an installed Vergence.
    """
    if source.tokens is None:
        raise ValueError(f"{source.name} was trained on {source.kind} samples: sentence-transformers holds texts.")
    options = dict(source.config.backbone)
    write_folder(path, source.encoder, source.tokens, source.shape[-1], source.config.encoder, options)
    return sorted(file for file in path.rglob("*") if file.is_file())
