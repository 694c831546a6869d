"""Weighted word vectors: the encoder of texts that ignores the order of words."""

import torch
from torch import Tensor, nn
from torch.nn import functional

PADDING = 0
VOCABULARY = 32768  # tokens where neither the data nor the options say how many: hashed words
LEAST = 1e-2  # an inverse document frequency of a token that every text holds would be 0, which has no logarithm


class TokenVectors(nn.Module):
    r"""A vector and a weight for each token; the gradient of the vectors is sparse.

    The weights are learned by their logarithms, which start at the logarithm of the inverse document frequency,
    :math:`w = \log \frac{1 + N}{1 + n_w}` for a token in :math:`n_w` of N texts, once :meth:`measure` saw the texts.

    References:
        Sparck Jones (1972), A statistical interpretation of term specificity.
    """

    def __init__(self, vocabulary: int, width: int, *, std: float, weighted: bool):
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, width, padding_idx=PADDING, sparse=True)
        nn.init.normal_(self.vectors.weight, std=std)
        with torch.no_grad():
            self.vectors.weight[PADDING] = 0.0
        self.log_weight = nn.Parameter(torch.zeros(vocabulary, 1), requires_grad=weighted)

    @torch.no_grad()
    def measure(self, counts: Tensor, texts: int) -> None:
        """Set the weights to the inverse document frequencies of tokens that occur in ``counts`` of ``texts`` texts."""
        if self.log_weight.requires_grad:
            frequency = torch.log((1 + texts) / (1.0 + counts.to(self.log_weight)))
            self.log_weight.copy_(frequency.clamp(min=LEAST).log()[:, None])

    def weights(self, tokens: Tensor) -> Tensor:
        """The weight of each token."""
        return functional.embedding(tokens, self.log_weight)[..., 0].exp()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.vectors(tokens) * self.weights(tokens)[..., None]


class Bag(nn.Module):
    """The mean of weighted token vectors over the tokens that are not padding; nothing is computed for padding.

    With ``plain``, so many times the mean without weights stands beside it. With ``once``, a token counts once in a
    text, however often it stands there.
    """

    def __init__(
        self, vocabulary: int, width: int, *, std: float, weighted: bool, plain: float = 0.0, once: bool = False
    ):
        super().__init__()
        self.tokens = TokenVectors(vocabulary, width, std=std, weighted=weighted)
        self.width, self.plain, self.once, self.packs = width * (2 if plain else 1), plain, once, True

    def forward(self, tokens: Tensor) -> Tensor:
        if self.once:
            tokens = _distinct(tokens)
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


def _distinct(tokens: Tensor) -> Tensor:
    """The tokens of each row, each once, in rising order; padding where another one stood."""
    rising = tokens.sort(dim=1).values
    again = functional.pad(rising[:, 1:] == rising[:, :-1], (1, 0))
    return rising.masked_fill(again, PADDING)


def bag(
    shape: tuple[int, ...],
    *,
    vocabulary: int = 0,
    width: int = 256,
    std: float = 0.1,
    weighted: bool = True,
    plain: float = 0.0,
    once: bool = False,
) -> nn.Module:
    """Averaged word vectors, each with a learned weight that starts at the inverse document frequency of its token.

    Weights serve similarity, and take from classifiers what common words say: with ``plain``, the mean without weights
    stands beside the weighted one, multiplied by it, and the representation is twice as wide. With ``once``, a word
    that is said again adds nothing, as in BM25 with k1 = 0.

    References:
        Arora et al. (2017), A simple but tough-to-beat baseline for sentence embeddings.
    """
    return Bag(vocabulary or VOCABULARY, width, std=std, weighted=weighted, plain=plain, once=once)
