"""What could be learned of token weights from books, in closed form: STS of weighted counts beside inverse frequency.

    VERGENCE_DATA=DATA python benchmarks/text_weights.py

A column for each token, no training, so no seed: the limit of the bag with many columns. ``repeated`` is the pointwise
mutual information of a token with itself across a sentence and the next (the diagonal of the InfoNCE-optimal critic).
Each row has the score x 100 and the 95 % interval of its difference to ``rarity``, pairs drawn again within each set.
"""

import os
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.stats import spearmanr

from vergence.data.lines import lines_of
from vergence.data.pairs import scored
from vergence.data.tokens import flat, wordpiece

TEXT = Path(os.environ.get("VERGENCE_DATA", "data")) / "text"
PARTS = {"STS-B train": "train", "STS-B dev": "dev", "STS-B test": "test", "STS12-16": "all"}
PRIOR, PRIOR_TEXTS = 0.03, 20  # how often a token comes again, as if seen in so many texts


def counted(texts, tokens):
    """How often each text holds each token."""
    made = flat(texts, tokens, 64)
    ends = np.r_[0, np.cumsum(made.sizes, dtype=np.int64)]
    rows = sparse.csr_matrix((np.ones(len(made.tokens)), made.tokens, ends), shape=(len(texts), tokens.vocabulary))
    rows.sum_duplicates()
    return rows


def weights(documents, rows):
    """Rows of the table: a weight for each token, and what all tokens share."""
    held, n = (rows > 0).astype(float), rows.shape[0]
    count = np.asarray(held.sum(0)).ravel()
    rarity = np.log((1 + n) / (1 + count)).clip(1e-2)
    after = np.flatnonzero(documents[1:] == documents[:-1])
    both = np.asarray(held[after].multiply(held[after + 1]).sum(0)).ravel()
    again = (both + PRIOR * PRIOR_TEXTS) / (count + PRIOR_TEXTS)
    repeated = np.log(again * n / (count + 0.5)).clip(1e-2)
    return {
        "rarity": (rarity, 0.0, False),
        "rarity, tokens once": (rarity, 0.0, True),
        "rarity, .01 in common": (rarity, 0.01, False),
        "root of repeated": (repeated**0.5, 0.0, False),
        "root of repeated, fourth root of rarity": (repeated**0.5 * rarity**0.25, 0.0, False),
        "root of repeated, tokens once": (repeated**0.5, 0.0, True),
    }


def cosines(first, second, weight, common, once):
    """Cosines of weighted counts, where different tokens have the cosine ``common``."""
    first, second = ((side > 0).astype(float) if once else side for side in (first, second))
    products = [
        np.asarray(one.multiply(two) @ weight**2).ravel() + common * (one @ weight) * (two @ weight)
        for one, two in ((first, second), (first, first), (second, second))
    ]
    return products[0] / np.sqrt(products[1] * products[2]).clip(1e-9)


def mean(values, scores, places):
    """The rank correlation x 100, averaged over sets."""
    return 100 * float(np.mean([spearmanr(values[i], scores[i]).statistic for i in places]))


def main(resamples=200):
    books = [line.split("\t") for _, _, line in lines_of(TEXT / "books_sentences.tsv.gz")]
    texts = [text for _, text in books]
    tokens = wordpiece(texts, 4096)
    table = weights(np.unique([book for book, _ in books], return_inverse=True)[1], counted(texts, tokens))
    for part, name in PARTS.items():
        pairs = scored(f"{TEXT}/{'sts12_16_test' if name == 'all' else 'stsb'}.tsv.gz", part=name)
        sides, draw = [counted(side, tokens) for side in (pairs.first, pairs.second)], np.random.default_rng(0)
        places = [np.flatnonzero(pairs.sets == each) for each in np.unique(pairs.sets)]
        drawn = [[draw.choice(own, len(own)) for own in places] for _ in range(resamples)]
        bar = cosines(*sides, *table["rarity"])
        for row, options in table.items():
            found = cosines(*sides, *options)
            moved = [mean(found, pairs.scores, i) - mean(bar, pairs.scores, i) for i in drawn]
            low, high = np.percentile(moved, [2.5, 97.5])
            print(f"{part}\t{row}\t{mean(found, pairs.scores, places):.1f}\t[{low:+.2f}, {high:+.2f}]", flush=True)


if __name__ == "__main__":
    main()
