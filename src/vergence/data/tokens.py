"""Tokens: how texts become numbers: a tokenizer trained on the run's corpus, a pretrained model's, or hashed words.

Token 0 is padding, everywhere. A trained tokenizer is a ``tokenizer.json`` of the Hugging Face library ``tokenizers``;
hashed words need no library and nothing stored, and are the fallback.
"""

import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vergence.tables import Table

PADDING, UNKNOWN = 0, 1
WORDS = re.compile(r"\w+|[^\w\s]")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028\u2029\ufeff]+")
VOCABULARY = {"word": 32768, "byte": 257, "wordpiece": 16384}  # tokens, padding included, where none are given
LENGTH = 64  # tokens of a text that are read, where no model says otherwise
LETTERS = 1000  # different letters that a trained tokenizer knows; texts of one language have fewer
CHARACTERS = 100  # characters a token has at most: a text is cut here before it is tokenized
LONG = re.compile(rf"\S{{{CHARACTERS + 1},}}")  # what WordPiece reads as one unknown token, and would learn for minutes
FILE, FACTS = "tokenizer.json", "tokens.json"
EXTRA = "A trained tokenizer needs the library tokenizers: pip install 'vergence[text]'. Or write tokens=word."


@dataclass(frozen=True)
class Tokens:
    """A tokenizer: ``encode(texts)`` gives a list of tokens for each, of 1, ..., vocabulary - 1.

    ``content`` is its ``tokenizer.json``, empty for hashed tokens; ``shift`` is added to the numbers of that file, so
    that 0 stays padding where a model gives 0 to a word. ``length`` is how many tokens its model reads, 0 for any.
    """

    name: str
    vocabulary: int
    raw: Callable[[Sequence[str]], list[list[int]]]
    content: str = ""
    shift: int = 0
    length: int = 0

    def encode(self, texts: Sequence[str], length: int) -> list[list[int]]:
        """The first ``length`` tokens of each text; a text without any is one unknown token."""
        most = CHARACTERS * length
        cleaned = [CONTROL.sub(" ", text[:most]) for text in texts]
        return [row[:length] or [UNKNOWN + self.shift] for row in self.raw(cleaned)]


def hashed(kind: str, vocabulary: int = 0) -> Tokens:
    """Words or bytes as tokens without a vocabulary: the same word is the same token in every run."""
    vocabulary = vocabulary or VOCABULARY[kind]
    if vocabulary < 2:
        raise ValueError(f"vocabulary must be at least 2, not {vocabulary}.")
    tokenize = TOKENIZERS[kind]
    return Tokens(kind, vocabulary, partial(_each, tokenize, vocabulary))


def words(content: str, vocabulary: int) -> list[int]:
    """Words and punctuation in lower case, each hashed to 1, ..., vocabulary - 1."""
    return [1 + _hashed(word) % (vocabulary - 1) for word in WORDS.findall(content.lower())]


def utf8(content: str, vocabulary: int) -> list[int]:
    """The bytes of the text in UTF-8, each plus one, folded into 1, ..., vocabulary - 1."""
    return [1 + byte % (vocabulary - 1) for byte in content.encode("utf-8", "replace")]


TOKENIZERS: dict[str, Callable[[str, int], list[int]]] = Table("tokens", {"word": words, "byte": utf8})


def available() -> bool:
    """Whether the library of trained tokenizers is installed."""
    try:
        import tokenizers  # noqa: F401
    except ImportError:
        return False
    return True


def wordpiece(texts: Sequence[str], vocabulary: int = 0) -> Tokens:
    """A WordPiece tokenizer trained on ``texts``: lower case, accents removed, frequent pieces of words as tokens.

    References:
        Wu et al. (2016), Sec. 4.1. https://arxiv.org/abs/1609.08144
    """
    library = _library()
    made = _empty(library, {})
    cleaned = [CONTROL.sub(" ", LONG.sub(" ", text[: CHARACTERS * LENGTH])) for text in texts]
    # The library numbers the pieces inside words in no fixed order, and ties between pairs go by number: pieces that
    # are named beforehand, in order, make two trainings equal.
    used: set[str] = set()  # letter by letter: to normalize all texts would be a seventh of the time of loading
    letters = sorted({letter for each in used.union(*cleaned) for letter in made.normalizer.normalize_str(each)})
    first = ["[PAD]", "[UNK]", *(f"##{letter}" for letter in letters[:LETTERS] if not letter.isspace())]
    options = {"vocab_size": vocabulary or VOCABULARY["wordpiece"], "limit_alphabet": LETTERS, "show_progress": False}
    made.train_from_iterator(cleaned, library.trainers.WordPieceTrainer(special_tokens=first, **options))
    ordered = sorted(made.get_vocab().items(), key=lambda pair: pair[1])
    return from_json(_empty(library, dict(ordered)).to_str(), name="wordpiece")


def _empty(library: Any, vocabulary: dict[str, int]) -> Any:
    """A WordPiece tokenizer with a vocabulary, none at first."""
    made = library.Tokenizer(library.models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = library.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    made.decoder = library.decoders.WordPiece()
    if vocabulary:
        made.add_special_tokens(["[PAD]", "[UNK]"])
    return made


def from_json(content: str, *, name: str, shift: int = 0, length: int = 0) -> Tokens:
    """The tokenizer of a ``tokenizer.json``, given as its content."""
    try:
        made = _library().Tokenizer.from_str(content)
    except ImportError:
        raise
    except Exception as error:  # the library has one class for every error
        raise ValueError(f"{name}: this is no tokenizer.json of the library tokenizers: {str(error)[:200]}") from None
    made.no_truncation()
    made.no_padding()
    if not shift and made.token_to_id("[PAD]") != PADDING:
        shift = 1  # a word has the number 0 there
    return Tokens(name, made.get_vocab_size() + shift, partial(_encoded, made, shift), content, shift, length)


def truncating(tokens: Tokens, length: int) -> str:
    """The ``tokenizer.json`` of a tokenizer that cuts texts at ``length`` tokens itself, for other programs."""
    made = _library().Tokenizer.from_str(tokens.content)
    made.enable_truncation(length)
    return made.to_str()


def of_model(model: str) -> Tokens:
    """The tokenizer of a Hugging Face model, by name or folder; its encoder adds the special tokens."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise ImportError(f"hf:{model} needs transformers: pip install 'vergence[hf]'.") from None
    try:
        made = AutoTokenizer.from_pretrained(model, use_fast=True)
    except Exception as error:  # a missing file, a hub without a network, a damaged file: one class for each
        raise ValueError(f"hf:{model} has no tokenizer that can be read: {str(error)[:300]}") from error
    if getattr(made, "backend_tokenizer", None) is None:
        raise ValueError(f"hf:{model} has no fast tokenizer (a tokenizer.json), which is what is read here.")
    return from_json(made.backend_tokenizer.to_str(), name=f"hf:{model}", shift=1, length=_reads(model, made))


def _reads(model: str, tokenizer: Any) -> int:
    """How many tokens a model reads besides its special ones: what its folder says, or its tokenizer, at most 512."""
    stated = Path(model) / "sentence_bert_config.json"
    most = json.loads(stated.read_text()).get("max_seq_length") if stated.is_file() else None
    most = most or min(512, int(tokenizer.model_max_length))
    return max(1, most - tokenizer.num_special_tokens_to_add())


def stored(folder: Path) -> Tokens | None:
    """The tokenizer that a run keeps; None where it has none."""
    path = folder / FILE
    if not path.is_file():
        return None
    facts = json.loads(beside.read_text()) if (beside := folder / FACTS).is_file() else {}
    known = {key: facts[key] for key in ("shift", "length") if key in facts}
    return from_json(path.read_text(encoding="utf-8"), name=facts.get("name", str(path)), **known)


def files(tokens: Tokens) -> dict[str, str]:
    """What a run keeps of its tokenizer, by file name; nothing of hashed tokens."""
    if not tokens.content:
        return {}
    facts = {"name": tokens.name, "shift": tokens.shift, "length": tokens.length}
    return {FILE: tokens.content, FACTS: json.dumps(facts) + "\n"}


class Flat(NamedTuple):
    """The tokens of all texts one after the other, and how many each has; which texts were cut, which have controls."""

    tokens: np.ndarray
    sizes: np.ndarray
    cut: list[int]
    control: list[int]


def flat(texts: Sequence[str], tokens: Tokens, length: int) -> Flat:
    """Texts as their first ``length`` tokens, one text after the other."""
    rows, sizes, cut, control = [], [], list[int](), list[int]()
    for start in range(0, len(texts), 16384):
        some = texts[start : start + 16384]
        made = tokens.encode(some, length + 1)  # one more than is read, to see that there is more
        cut += [start + i for i, row in enumerate(made) if len(row) > length or len(some[i]) > CHARACTERS * length]
        control += [start + i for i, text in enumerate(some) if CONTROL.search(text, 0, CHARACTERS * length)]
        made = [row[:length] for row in made]
        sizes.append(np.fromiter(map(len, made), np.int32, len(made)))
        rows.append(np.fromiter(chain.from_iterable(made), np.int32, int(sizes[-1].sum())))
    return Flat(np.concatenate(rows), np.concatenate(sizes), cut, control)


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise ImportError(EXTRA) from None
    return tokenizers


def _each(tokenize: Callable[[str, int], list[int]], vocabulary: int, texts: Sequence[str]) -> list[list[int]]:
    return [tokenize(text, vocabulary) for text in texts]


def _encoded(tokenizer: Any, shift: int, texts: Sequence[str]) -> list[list[int]]:
    found = [encoding.ids for encoding in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
    return [[token + shift for token in row] for row in found] if shift else found


@lru_cache(2**17)  # of a corpus without end not every word
def _hashed(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "replace"))
