"""Weighted word vectors: the encoder of texts that ignores the order of words."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

PADDING = 0
VOCABULARY = 32768  # tokens where neither the data nor the options say how many: hashed words
LEAST = 1e-2  # an inverse document frequency of a token that every text holds would be 0, which has no logarithm
PRIOR, PRIOR_TEXTS = 0.03, 20.0  # how often a token comes again, as if seen in so many texts: STS-B dev hardly minds


class TokenVectors(nn.Module):
    r"""A vector and a weight for each token; the gradient of the vectors is sparse.

    The weights are learned by their logarithms, which start at the logarithm of the inverse document frequency,
    :math:`w = \log \frac{1 + N}{1 + n_w}` for a token in :math:`n_w` of N texts, once :meth:`measure` saw the texts.
    With ``repeats`` they are counted, not learned by gradient: see :meth:`observe`.

    References:
        Sparck Jones (1972), A statistical interpretation of term specificity.
    """

    held: Tensor
    repeated: Tensor
    pairs: Tensor

    def __init__(
        self, vocabulary: int, width: int, *, std: float, weighted: bool, repeats: bool = False, common: float = 0.0
    ):
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, width, padding_idx=PADDING, sparse=True)
        nn.init.normal_(self.vectors.weight, mean=common * std, std=std)
        with torch.no_grad():
            self.vectors.weight[PADDING] = 0.0
        self.weighted, self.repeats = weighted, repeats
        self.log_weight = nn.Parameter(torch.zeros(vocabulary, 1), requires_grad=weighted and not repeats)
        if repeats:  # texts that held each token, and of those how many whose positive held it too; pairs so far
            self.register_buffer("held", torch.zeros(2, vocabulary, dtype=torch.int64))
            self.register_buffer("repeated", torch.zeros(vocabulary, dtype=torch.int64))
            self.register_buffer("pairs", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def measure(self, counts: Tensor, texts: int) -> None:
        """Set the weights to the inverse document frequencies of tokens that occur in ``counts`` of ``texts`` texts."""
        if self.weighted:
            self.log_weight.copy_(_rarity(counts.to(self.log_weight), texts).log()[:, None])

    @torch.no_grad()
    def observe(self, first: Tensor, second: Tensor, total: Callable[[Tensor], Tensor] = lambda counts: counts) -> None:
        r"""Count which tokens of texts come again in their positives, and weight tokens by it.

        :math:`w^2 = \sqrt{\mathrm{idf}_w} \, \log \frac{P(w \in y \mid w \in x)}{P(w \in y)}` over the pairs (x, y) so
        far. The logarithm is what the InfoNCE-optimal critic, the pointwise mutual information, gives to a token in
        both texts where tokens are independent: an ending that is rare but comes again by chance has none. That a
        little of the rarity beside it helps was seen on STS-B dev. Lengths are kept: the mean of :math:`w^2` over
        tokens is that of the inverse document frequencies. ``total`` sums counts over processes.

        References:
            Poole et al. (2019), Sec. 2.3, for the critic; Church & Gale (1995), Poisson mixtures, for such tokens.
        """
        size = len(self.log_weight)
        one, two = (_distinct(tokens, size) for tokens in (first, second))
        seen = [one, two, one[torch.isin(one, two, assume_unique=True)]]
        counts = [(each % size).bincount(minlength=size) for each in seen]
        made = total(torch.stack([*counts, torch.full_like(counts[0], len(first))]))
        self.held += made[:2]
        self.repeated += made[2]
        self.pairs += made[3, 0]
        rarity = _rarity(self.held[0].to(self.log_weight), int(self.pairs))
        again = (self.repeated + PRIOR_TEXTS * PRIOR) / (self.held[0] + PRIOR_TEXTS)
        lift = torch.log(again * self.pairs / (self.held[1] + 0.5)).clamp(min=LEAST)
        square = rarity.sqrt() * lift
        kept = (self.held[0] * rarity**2).sum() / (self.held[0] * square).sum()
        self.log_weight.copy_((0.5 * (square * kept).log())[:, None])

    def weights(self, tokens: Tensor) -> Tensor:
        """The weight of each token."""
        return functional.embedding(tokens, self.log_weight)[..., 0].exp()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.vectors(tokens) * self.weights(tokens)[..., None]


def _rarity(counts: Tensor, texts: int) -> Tensor:
    """Inverse document frequencies of tokens that occur in ``counts`` of ``texts`` texts."""
    return torch.log((1 + texts) / (1.0 + counts)).clamp(min=LEAST)


def _distinct(tokens: Tensor, vocabulary: int) -> Tensor:
    """Each token of each row once, as row x vocabulary + token; padding is left out."""
    numbered = tokens + vocabulary * torch.arange(len(tokens), device=tokens.device)[:, None]
    return numbered[tokens != PADDING].unique()


class Bag(nn.Module):
    """The mean of weighted token vectors over the tokens that are not padding; nothing is computed for padding.

    With ``plain``, so many times the mean without weights stands beside it.
    """

    def __init__(self, vocabulary: int, width: int, *, plain: float = 0.0, **options: Any):
        super().__init__()
        self.tokens = TokenVectors(vocabulary, width, **options)
        self.width, self.plain, self.packs = width * (2 if plain else 1), plain, True

    def forward(self, tokens: Tensor) -> Tensor:
        real = tokens != PADDING
        counts = real.sum(1)
        present = tokens[real]
        weights = self.tokens.weights(present).to(self.tokens.vectors.weight.dtype)
        total = self._sums(present, counts, weights)
        if self.plain:
            total = torch.cat([total, self._sums(present, counts, torch.full_like(weights, self.plain))], dim=1)
        return total / counts.clamp(min=1)[:, None]

    def _sums(self, present: Tensor, counts: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of the vectors of each row's tokens."""
        table, begins = self.tokens.vectors.weight, counts.cumsum(0) - counts
        return functional.embedding_bag(present, table, begins, mode="sum", sparse=True, per_sample_weights=weights)

    def table(self, vocabulary: int) -> Tensor:
        """A vector for each token, of which a text is the plain mean."""
        every = torch.arange(vocabulary)
        parts = [self.tokens(every), *([self.plain * self.tokens.vectors(every)] if self.plain else [])]
        return torch.cat(parts, dim=1).detach()


def bag(
    shape: tuple[int, ...],
    *,
    vocabulary: int = 0,
    width: int = 256,
    std: float = 0.1,
    weighted: bool = True,
    plain: float = 0.0,
    repeats: bool = False,
    common: float = 0.0,
) -> nn.Module:
    """Averaged word vectors, each with a learned weight that starts at the inverse document frequency of its token.

    With ``repeats``, weights are not learned by gradient but counted: by how much more often a token comes again in the
    positive than in any text. Weights serve similarity, and take from classifiers what common words say: with
    ``plain``, the mean without weights stands beside the weighted one, multiplied by it, and the representation is
    twice as wide. With ``common``, vectors of different tokens start at the cosine common^2 / (1 + common^2), which
    brings long texts closer together than short ones: where they share equally many words, people find them more alike.

    References:
        Arora et al. (2017), A simple but tough-to-beat baseline for sentence embeddings.
    """
    options: dict[str, Any] = {"std": std, "weighted": weighted, "repeats": repeats, "common": common}
    return Bag(vocabulary or VOCABULARY, width, plain=plain, **options)
