"""Texts as counts of rare words: what every learned encoder of texts is measured against."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vergence.data.tokens import hashed

HASHED = hashed("word")  # words, so that the row is the same for every tokenizer

PART = 16384  # texts whose words are in memory at a time


@dataclass(frozen=True)
class WordCounts:
    r"""How many of N texts hold each word, hashed: enough for the weights :math:`\log \frac{1 + N}{1 + n_w}` (idf).

    The cosine of two texts' weighted counts is the row ``TF-IDF``, which most short training does not beat.

    References:
        Sparck Jones (1972), A statistical interpretation of term specificity; Salton & Buckley (1988).
    """

    counts: np.ndarray
    texts: int

    @classmethod
    def of(cls, texts: Sequence[str]) -> "WordCounts":
        """Counts of a corpus."""
        parts = (_matrix(texts[first : first + PART]) for first in range(0, len(texts), PART))
        counts = sum((np.asarray((part > 0).sum(axis=0)).ravel() for part in parts), np.zeros(HASHED.vocabulary, int))
        return cls(counts, len(texts))

    def rows(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Texts as weighted counts of their words, a sparse row each."""
        weights = np.log((1 + self.texts) / (1.0 + self.counts)).astype(np.float32)
        return (_matrix(texts) @ sparse.diags(weights)).tocsr()


def _matrix(texts: Sequence[str]) -> sparse.csr_matrix:
    """Counts of the words of each text."""
    rows = HASHED.encode(list(texts), 512)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    flat = np.fromiter((token for row in rows for token in row), np.int64, int(sizes.sum()))
    made = sparse.csr_matrix(
        (np.ones(len(flat), np.float32), flat, np.r_[0, sizes.cumsum()]), shape=(len(rows), HASHED.vocabulary)
    )
    made.sum_duplicates()
    return made
