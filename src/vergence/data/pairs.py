"""Pairs of texts: anchor and positive, with hard negatives or with scores."""

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from vergence.data import lines
from vergence.data.lines import Found, position
from vergence.data.numbers import Numbers
from vergence.data.samples import Samples
from vergence.data.splits import part as divided
from vergence.data.text import read_texts
from vergence.data.tokens import Tokens
from vergence.tables import UnknownName

ANCHORS = ("anchor", "query", "question", "sentence1", "text1", "premise")
POSITIVES = ("positive", "answer", "sentence2", "text2", "hypothesis", "duplicate")
NEGATIVE = re.compile(r"negative[ _]?\d*")
SCORES = ("score", "similarity")
SETS = ("set", "year", "dataset", "subset")
SPLITS = ("train", "dev", "validation", "test")


def pairs(
    path: str,
    split: str,
    *,
    tokens: str | Tokens = "auto",
    length: int = 0,
    vocabulary: int = 0,
    above: float = 0.0,
    scale: str = "0:5",
    by_line: bool = False,
) -> Samples:
    """A table of pairs of texts, or of triples with hard negatives: columns anchor, positive, negative, negative_2, ...

    Columns are separated by tabs; sentence1 and sentence2, query and answer are understood too, and without names they
    are taken in this order. Of scored pairs (a column score, within ``scale``) those scored ``above`` or more are
    positives: ``pairs:stsb.tsv,above=4``. A column split divides train and test. See ``text`` for the rest.
    """
    samples, rows = read_texts(path, PairHeader(), tokens, length, vocabulary, by_line)
    samples = replace(samples, source=f"pairs:{path}")
    kept = np.ones(len(rows), bool)
    if "score" in rows.cells:
        if not above:
            raise ValueError(
                f"{path} has scores: say which pairs are positives, as in pairs:{path},above=4. To evaluate an "
                "encoder on the scores, give the file to --evaluate."
            )
        kept = scores_of(path, rows.cells["score"], rows.numbers, scale) >= above
    if {"train", "test"} <= set(rows.cells.get("split", ())):
        kept &= np.fromiter((split in (each, "all") for each in rows.cells["split"]), bool, len(rows))
        return samples.take(torch.from_numpy(np.flatnonzero(kept)))
    return divided(samples.take(torch.from_numpy(np.flatnonzero(kept))), split)


@dataclass(frozen=True)
class Scored:
    """Pairs of texts to evaluate on, with scores where they have any, and the set that each belongs to."""

    path: str
    first: Sequence[str]
    second: Sequence[str]
    scores: np.ndarray | None
    sets: np.ndarray
    negatives: tuple[Sequence[str], ...] = ()


def scored(path: str, *, part: str = "test", scale: str = "0:5", above: float = 0.0) -> Scored:
    """Pairs of a file as evaluation data; of one with a column split those of ``part``."""
    rows = lines.read(path, PairHeader())
    kept = np.ones(len(rows), bool)
    if "split" in rows.cells:
        known = sorted(set(rows.cells["split"]))
        if part not in (*known, "all"):
            raise UnknownName(f"part of {path}", part, known)
        kept = np.array([part in (each, "all") for each in rows.cells["split"]])
    places = np.flatnonzero(kept)
    scores = None
    if "score" in rows.cells:
        scores = scores_of(path, rows.cells["score"], rows.numbers, scale)[places]
        if above:
            places, scores = places[scores >= above], None
    sets = np.array(rows.cells.get("set", ["all"] * len(rows)))[places]
    texts = [[column[place] for place in places.tolist()] for column in rows.texts.values()]
    return Scored(path, texts[0], texts[1], scores, sets, tuple(texts[2:]))


def scores_of(path: str, cells: Sequence[str], numbers: np.ndarray | Numbers, scale: str) -> np.ndarray:
    """Scores as numbers within their scale; any other is an error that names its line."""
    try:
        low, high = (float(end) for end in scale.split(":"))
    except ValueError:
        raise ValueError(f"scale is written low:high, as in 0:5, not {scale!r}.") from None
    found = array("d")
    for cell, number in zip(cells, numbers, strict=True):
        try:
            value = float(cell)
        except ValueError:
            raise ValueError(f"{path}, line {number}: the score {cell[:40]!r} is not a number.") from None
        if not low <= value <= high:
            raise ValueError(
                f"{path}, line {number}: the score {value:g} is outside of {low:g} to {high:g}. Another range is "
                "written scale=0:1."
            )
        found.append(value)
    return np.array(found)


@dataclass(frozen=True)
class PairHeader:
    """Columns of a file of pairs, by name or by their order."""

    def found(self, first: list[str], path: str) -> Found:
        header = [name.strip().lower() for name in first]
        anchor, positive = position(header, ANCHORS), position(header, POSITIVES)
        if anchor is None and positive is None:
            if len(first) < 2:
                raise ValueError(f"{path} has one column; pairs take two or more: anchor, positive, negative, ...")
            names = ["anchor", "positive", *(f"negative_{number}" for number in range(1, len(first) - 1))]
            return Found({name: at for at, name in enumerate(names)}, tuple(names), len(first), named=False)
        if anchor is None or positive is None:
            wanted = "anchor (or query, sentence1)" if anchor is None else "positive (or answer, sentence2)"
            raise ValueError(f"{path}, line 1: there is no column {wanted}. There are: {', '.join(header)}.")
        columns = {"anchor": anchor, "positive": positive}
        negatives = [at for at, name in enumerate(header) if NEGATIVE.fullmatch(name)]
        columns |= {f"negative_{number}": at for number, at in enumerate(negatives, 1)}
        texts = tuple(columns)
        more = {"score": SCORES, "split": ("split",), "set": SETS}
        columns |= {name: at for name, known in more.items() if (at := position(header, known)) is not None}
        return Found(columns, texts, len(first), named=True)


def with_negatives(samples: Samples) -> int:
    """How many hard negatives each sample has."""
    return sum(name.startswith("negative") for name in samples.beside)
