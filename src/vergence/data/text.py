"""Texts as rows of tokens: no vocabulary to learn, so the same words are the same tokens in every run."""

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vergence.data.arrays import label_fields
from vergence.data.files import existing_file, uncompressed
from vergence.data.samples import Samples
from vergence.data.splits import part
from vergence.tables import Table

PADDING = 0
WORDS = re.compile(r"\w+|[^\w\s]")
TEXT_COLUMNS = ("text", "sentence")
LABEL_COLUMNS = ("label", "class", "coarse")


def text(path: str, split: str, *, tokens: str = "word", length: int = 64, vocabulary: int = 32768) -> Samples:
    """A text file, .gz or not: a text a line, ``label TAB text``, or a table whose first line names its columns.

    The columns are text or sentence, and if they are there label and split. A text is cut at ``length`` tokens, which
    are hashed words (``word``: two words share a token with probability 1/vocabulary) or bytes (``byte``). Empty lines
    are left out.
    """
    columns = _columns(_lines(existing_file(path)), path)
    samples = from_texts(columns["text"], tokens=tokens, length=length, vocabulary=vocabulary, source=f"text:{path}")
    samples = replace(samples, **label_fields(columns.get("label")))
    if not {"train", "test"} <= set(columns.get("split", ())):
        return part(samples, split)
    return samples.take(torch.tensor([i for i, each in enumerate(columns["split"]) if split in (each, "all")]))


def from_texts(texts: Sequence[str], *, tokens: str, length: int, vocabulary: int, source: str) -> Samples:
    """Texts as samples; their names are the texts themselves."""
    x = tokenized(texts, tokens=tokens, length=length, vocabulary=vocabulary)
    return Samples(x, "text", names=texts, source=source)


def tokenized(
    texts: Sequence[str], *, tokens: str = "word", length: int = 64, vocabulary: int = 32768
) -> Int[Tensor, "n t"]:
    """The first ``length`` tokens of each text, with padding behind."""
    if length < 1 or vocabulary < 2:
        raise ValueError(f"length must be at least 1 and vocabulary at least 2, not {length} and {vocabulary}.")
    tokenize = TOKENIZERS[tokens]
    rows = np.full((len(texts), length), PADDING, np.int64)
    for row, content in zip(rows, texts, strict=True):
        found = tokenize(content, vocabulary)[:length]
        row[: len(found)] = found
    return torch.from_numpy(rows)


def words(content: str, vocabulary: int) -> list[int]:
    """Words and punctuation in lower case, each hashed to 1, ..., vocabulary - 1."""
    return [1 + _hashed(word) % (vocabulary - 1) for word in WORDS.findall(content.lower())]


def utf8(content: str, vocabulary: int) -> list[int]:
    """The bytes of the text in UTF-8, each plus one, folded into 1, ..., vocabulary - 1."""
    return [1 + byte % (vocabulary - 1) for byte in content.encode()]


TOKENIZERS: dict[str, Callable[[str, int], list[int]]] = Table("tokens", {"word": words, "byte": utf8})


@cache
def _hashed(word: str) -> int:
    return zlib.crc32(word.encode())


def _lines(path: Path) -> list[str]:
    raw = uncompressed(path)
    try:
        lines = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ValueError(f"{path} is not UTF-8 text: line {line} holds the byte {raw[error.start]:#x}.") from None
    lines = [line.rstrip("\r") for line in lines if line.strip()]
    if not lines:
        raise ValueError(f"There is no text in {path}.")
    return lines


def _columns(lines: list[str], path: str) -> dict[str, Any]:
    """The columns ``text``, ``label`` and ``split``, as far as there are any."""
    header = lines[0].lower().split("\t")
    names = {"text": _position(header, TEXT_COLUMNS), "label": _position(header, LABEL_COLUMNS)}
    names["split"] = _position(header, ("split",))
    if names["text"] is None:
        width = len(header)
        if width > 2:
            raise ValueError(
                f"{path} has {width} columns; its first line must name them, one of them text or sentence."
            )
        names = {"text": width - 1, "label": 0 if width == 2 else None}
    rows = [line.split("\t") for line in (lines if "split" not in names else lines[1:])]
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"{path} has {len(row)} columns in row {number}, but {len(header)} in its first line.")
    return {name: [row[at] for row in rows] for name, at in names.items() if at is not None}


def _position(header: list[str], names: Sequence[str]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)
