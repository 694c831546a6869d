"""Texts: a sentence a line, with labels or as consecutive sentences of documents."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vergence.counters import drawn, shuffled
from vergence.data import lines, numbers
from vergence.data.arrays import label_fields
from vergence.data.files import existing_file
from vergence.data.lines import Found, Header, Rows, position
from vergence.data.numbers import Names, Numbers, stretches
from vergence.data.ragged import COUNTED, Column, Lines, Ragged, rows_of
from vergence.data.samples import Samples
from vergence.data.splits import SALTS, TEST_SHARE, held_out, part
from vergence.data.tokens import LENGTH, PADDING, TOKENIZERS, Tokens, from_json, hashed, of_model, wordpiece
from vergence.tables import UnknownName

TEXT_COLUMNS = ("text", "sentence")
LABEL_COLUMNS = ("label", "class", "coarse")
DOCUMENT_COLUMNS = ("document", "doc", "book", "title")
BLOCK = 64  # consecutive sentences that are held out together, so that their neighbors are in the same part


def text(
    path: str,
    split: str,
    *,
    tokens: str | Tokens = "auto",
    length: int = 0,
    vocabulary: int = 0,
    pairs: str = "",
    column: str = "",
    by_line: bool = False,
) -> Samples:
    """A text file, .gz or not: a text a line, ``label TAB text``, or a table whose first line names its columns.

    The columns are text or sentence, and if they are there label and split. ``pairs=next`` pairs each sentence with the
    one after it in the same document: the first of two columns (or document, book), or what empty lines divide.
    A text is cut at ``length`` tokens (64, or what a pretrained model reads). ``tokens`` is wordpiece (trained on these
    texts), a tokenizer.json, ``hf:`` and a model, or hashed: word (two words share a token with probability
    1/vocabulary) or byte; auto is wordpiece in a training run and word elsewhere. A file over 1 GiB stays on disk, or
    any with ``by_line``. Empty lines are left out.
    """
    if pairs not in ("", "next"):
        raise UnknownName("pairs", pairs, ("next",))
    header = TextHeader(column, documents=pairs == "next")
    samples, rows = read_texts(path, header, tokens, length, vocabulary, by_line)
    samples = replace(samples, source=f"text:{path}")
    if pairs:
        return next_sentences(samples, _documents(rows), split, path)
    samples = replace(samples, **_labels(rows.cells.get("label")))
    if not {"train", "test"} <= set(rows.cells.get("split", ())):
        return part(samples, split)
    mine = np.fromiter((split in (each, "all") for each in rows.cells["split"]), bool, len(rows))
    return samples.take(torch.from_numpy(np.flatnonzero(mine)))


def _labels(cells: Sequence[str] | None) -> dict[str, Any]:
    """The labels of texts and their names."""
    if not isinstance(cells, Names):
        return label_fields(cells)
    known = label_fields(list(cells.known))
    return {**known, "labels": torch.cat([known["labels"][codes] for _, codes in stretches(cells.codes)])}


def read_texts(
    path: str, header: Header, tokens: str | Tokens, length: int, vocabulary: int, by_line: bool
) -> tuple[Samples, Rows]:
    """A file as samples: one column of texts, the others beside it. The last file is kept: runs read it again."""
    state = existing_file(path).stat()
    key = (path, header, length, vocabulary, by_line, state.st_mtime_ns, state.st_size)
    if _LAST.get("key") != key or tokens not in _LAST["tokens"]:
        found = _read_texts(path, header, tokens, length, vocabulary, by_line)
        _LAST.update(key=key, tokens=(tokens, found[0].tokens), found=found)
    return _LAST["found"]


_LAST: dict[str, Any] = {}


def _read_texts(
    path: str, header: Header, tokens: str | Tokens, length: int, vocabulary: int, by_line: bool
) -> tuple[Samples, Rows]:
    rows = lines.read(path, header, by_line=by_line)
    columns = list(rows.texts)
    made = tokens_for(tokens, _sample(rows.texts.values()) if tokens == "wordpiece" else (), vocabulary)
    read = tokens_read(length, made)
    first, *others = every = [rows_of(rows.texts[name], made, read) for name in columns]
    kept: dict[str, Any] = {"names": rows.texts[columns[0]], "tokens": made, "skipped": rows.skipped}
    kept |= {"beside": dict(zip(columns[1:], others, strict=True)), "remarks": _remarks(every, rows, read)}
    return Samples(first, "text", source=path, **kept), rows


def _remarks(columns: Sequence[Ragged | Lines], rows: Rows, length: int) -> str:
    """Sentences on texts of which only the beginning is read and on control characters, with their first lines."""
    cut, control = (sorted(set().union(*(getattr(each, name) for each in columns))) for name in ("cut", "control"))
    said = []
    if cut:
        sizes = {place: max(len(texts[place]) for texts in rows.texts.values()) for place in cut}
        longest = max(cut, key=sizes.__getitem__)
        said += [
            f"Only the first {length} tokens (length={length}) are read of {len(cut):,} of {len(rows):,} texts: "
            f"{rows.named(cut)}; the longest is line {rows.numbers[longest]} with {sizes[longest]:,} characters."
        ]
    if control:
        said += [f"Control characters are read as spaces: {rows.named(control)}."]
    return " ".join(said)


def _sample(columns: Iterable[Sequence[str]]) -> list[str]:
    """Texts that a tokenizer is trained on: all, or of a file too large for memory some lines that are drawn."""
    found: list[str] = []
    for texts in columns:
        found += texts.several(drawn(len(texts), COUNTED).tolist()) if isinstance(texts, Column) else texts
    return found


def from_texts(texts: Sequence[str], *, source: str, tokens: str | Tokens = "auto", length: int = 0) -> Samples:
    """Texts as samples; their names are the texts themselves."""
    made = tokens_for(tokens, texts, 0)
    return Samples(rows_of(texts, made, tokens_read(length, made)), "text", names=texts, source=source, tokens=made)


def tokens_for(tokens: str | Tokens, texts: Sequence[str], vocabulary: int = 0) -> Tokens:
    """The tokenizer that an option names: a word of the table, a file, ``hf:`` and a model, or one that was made."""
    if isinstance(tokens, Tokens):
        return tokens
    if tokens in ("auto", *TOKENIZERS):
        return hashed("word" if tokens == "auto" else tokens, vocabulary)
    if tokens == "wordpiece":
        return wordpiece(texts, vocabulary)
    if tokens.startswith("hf:"):
        return of_model(tokens.removeprefix("hf:"))
    if not tokens.endswith(".json"):
        raise UnknownName("tokens", tokens, ("auto", "wordpiece", *TOKENIZERS, "FILE.json", "hf:MODEL"))
    return from_json(existing_file(tokens).read_text(encoding="utf-8"), name=tokens)


def tokens_read(length: int, tokens: Tokens) -> int:
    """How many tokens of a text are read: what was asked for, but no more than the tokenizer's model reads."""
    if length < 0:
        raise ValueError(f"length must be at least 1, not {length}.")
    if tokens.length:
        return min(length or tokens.length, tokens.length)
    return length or LENGTH


def tokenized(
    texts: Sequence[str], *, tokens: str | Tokens = "word", length: int = LENGTH, vocabulary: int = 0
) -> Int[Tensor, "n t"]:
    """The first ``length`` tokens of each text, with padding up to ``length`` behind."""
    if length < 1:
        raise ValueError(f"length must be at least 1, not {length}.")
    rows = tokens_for(tokens, texts, vocabulary).encode(texts, length)
    found = torch.full((len(rows), length), PADDING)
    for row, made in zip(found, rows, strict=True):
        row[: len(made)] = torch.tensor(made)
    return found


@dataclass(frozen=True)
class TextHeader:
    """Columns of a file of single texts; ``column`` names that of the texts where it is not text or sentence."""

    column: str = ""
    documents: bool = False

    def found(self, first: list[str], path: str) -> Found:
        header = [name.strip().lower() for name in first]
        place = position(header, (self.column.lower(),) if self.column else TEXT_COLUMNS)
        if place is None and self.column:
            raise UnknownName(f"column of {path}", self.column, header)
        other = ("document", DOCUMENT_COLUMNS) if self.documents else ("label", LABEL_COLUMNS)
        if place is None:
            if len(first) > 2:
                raise ValueError(
                    f"{path} has {len(first)} columns; its first line must name them, one of them text or sentence."
                )
            names = {other[0]: 0, "text": 1} if len(first) == 2 else {"text": 0}
            return Found(names, ("text",), len(first), named=False)
        every = {"text": place, other[0]: position(header, other[1]), "split": position(header, ("split",))}
        return Found({key: at for key, at in every.items() if at is not None}, ("text",), len(first), named=True)


def next_sentences(samples: Samples, documents: np.ndarray | Numbers, split: str, path: str) -> Samples:
    """Each sentence with the one after it, where both are of one document and of one part.

    A fifth of the stretches of 64 sentences is the test part; neighbors across the border of two parts are no pair.
    """
    if not any((own[1:] == own[:-1]).any() for _, own in stretches(documents, more=1)):
        raise ValueError(
            f"{path} has no two consecutive sentences of one document; sentences: {len(documents)}, documents: "
            f"{len(np.unique(documents[:]))}. Leave out pairs=next, or give longer documents."
        )
    # In an order without order: otherwise the second text of each pair would be the first of the one after it, and rows
    # that are looked at side by side would be no independent pairs.
    if isinstance(samples.x, Lines):
        texts = replace(samples.x.texts, rows=numbers.shuffled(_followed(documents, split)))
        after = replace(samples.x, texts=replace(texts, ahead=1))
        return replace(samples, x=replace(samples.x, texts=texts), names=texts, beside={"positive": after})
    first = shuffled(torch.from_numpy(np.concatenate(list(_followed(documents, split)))))
    return replace(samples.take(first), beside={"positive": samples.take(first + 1).x})


def _followed(documents: np.ndarray | Numbers, split: str) -> Iterator[np.ndarray]:
    """The sentences of a part whose next one is of the same document and of the same part."""
    in_test = _in_test(documents)
    for first, own in stretches(documents, more=1):
        pairs = own[1:] == own[:-1]
        if split != "all":
            mine = in_test(first, len(own)) == (split == "test")
            pairs &= mine[1:] & mine[:-1]
        yield first + np.flatnonzero(pairs)


def _in_test(documents: np.ndarray | Numbers) -> Callable[[int, int], np.ndarray]:
    """Which sentences are in the test part: a fifth of the stretches of 64, counted from where a document begins."""
    size = max(1, min(BLOCK, len(documents) // 20))
    changes = [first + 1 + np.flatnonzero(own[1:] != own[:-1]) for first, own in stretches(documents, more=1)]
    begins = np.concatenate([[0], *changes])
    lengths = np.diff(np.r_[begins, len(documents)])
    named = documents[begins]
    counts = np.zeros(int(named.max()) + 1, np.int64)
    np.maximum.at(counts, named, -(-lengths // size))
    chosen = held_out(np.zeros(int(counts.sum()), np.int64), TEST_SHARE, salt=SALTS["test"])
    begun = (counts.cumsum() - counts)[named]

    def in_test(first: int, count: int) -> np.ndarray:
        places = np.arange(first, first + count)
        run = np.searchsorted(begins, places, side="right") - 1
        return chosen[(places - begins[run]) // size + begun[run]]

    return in_test


def _documents(rows: Rows) -> np.ndarray | Numbers:
    """The number of the document of each sentence: by a column, or by the empty lines between them."""
    cells = rows.cells.get("document")
    found = Numbers()
    if isinstance(cells, Names):
        ranks = np.argsort(np.argsort(np.array(list(cells.known), object)))
        for _, codes in stretches(cells.codes):
            found.extend(ranks[codes])
        return found
    if cells is not None:
        known = {name: number for number, name in enumerate(sorted(set(cells)))}
        return np.fromiter(map(known.__getitem__, cells), np.int64, len(rows))
    empty = np.array(rows.empty, np.int64)
    for _, own in stretches(rows.numbers):
        found.extend(np.searchsorted(empty, own))
    return found
