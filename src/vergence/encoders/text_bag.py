"""Weighted word vectors: the encoder of texts that ignores the order of words."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

PADDING = 0
VOCABULARY = 32768  # tokens where neither the data nor the options say how many: hashed words
SHARED = 3  # a third of the columns of common tokens is shared by all others
OPENING = 2  # tokens that a text begins with: "how many", "what is"
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
        self.vocabulary = vocabulary
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
        # The backward pass of an index into one column is many times as fast as that of rows with one column.
        return self.log_weight[:, 0].index_select(0, tokens.flatten()).view(tokens.shape).exp()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.vectors(tokens) * self.weights(tokens)[..., None]


class OwnColumns(nn.Module):
    """A column of its own for each of the most common tokens; what a text has of them, and nothing learned.

    Of ``count`` columns the last ``shared`` are dealt out to all other tokens in turn, by how common they are; with
    none, the others have no column. Which tokens are common is known once :meth:`measure` saw the texts; before, they
    are those with the lowest numbers.
    """

    column: Tensor  # of each token; the one behind the last for tokens that have none

    def __init__(self, vocabulary: int, count: int, *, shared: int = 0):
        super().__init__()
        if not 0 < count < vocabulary:
            raise ValueError(
                f"1 to {vocabulary - 1} of {vocabulary} tokens can have columns of their own, not {count}."
            )
        self.vocabulary, self.count, self.shared = vocabulary, count, shared
        self.register_buffer("column", torch.empty(vocabulary, dtype=torch.int64))
        self._deal(torch.arange(PADDING + 1, vocabulary))

    @torch.no_grad()
    def measure(self, counts: Tensor, texts: int) -> None:
        """Deal out the columns by how many texts each token occurs in, to the most common the first."""
        order = counts.argsort(descending=True, stable=True)
        self._deal(order[order != PADDING])

    def _deal(self, order: Tensor) -> None:
        rank = torch.arange(len(order), device=order.device)
        own = self.count - self.shared
        others = own + (rank - own) % self.shared if self.shared else torch.full_like(rank, self.count)
        self.column.fill_(self.count)
        self.column[order] = torch.where(rank < own, rank, others).to(self.column.device)

    def forward(self, present: Tensor, row: Tensor, amount: Tensor, rows: int) -> Tensor:
        """The sum of the amounts of the tokens of each column, in each of so many rows."""
        columns = self.count + 1
        found = torch.zeros(rows * columns, dtype=amount.dtype, device=amount.device)
        return found.index_add_(0, row * columns + self.column[present], amount).view(rows, columns)[:, : self.count]


class Bag(nn.Module):
    """The mean of weighted token vectors over the tokens that are not padding; nothing is computed for padding.

    With ``plain``, so many times what has no weights stands beside it: the mean of the same vectors, or, with
    ``common``, the shares of tokens in so many columns, times the length of a token vector before training; with
    ``opening``, those of so many common tokens once more, among the first two tokens of a text alone. With ``once``, a
    token counts once in a text, however often it stands there.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        std: float,
        weighted: bool,
        plain: float = 0.0,
        once: bool = False,
        common: int = 0,
        opening: int = 0,
    ):
        super().__init__()
        if (common or opening) and not plain:
            raise ValueError("Columns of common tokens are multiplied by plain, which is 0: give plain too.")
        self.tokens = TokenVectors(vocabulary, width, std=std, weighted=weighted)
        if min(common, opening) < 0:
            raise ValueError(f"Columns are counted from 0, but common is {common} and opening {opening}.")
        common, opening = min(common, vocabulary - 1), min(opening, vocabulary - 1)  # padding has none
        self.own = OwnColumns(vocabulary, common, shared=common // SHARED) if common else None
        self.opening = OwnColumns(vocabulary, opening) if opening else None
        self.length = std * width**0.5
        self.width = width + (common or width * bool(plain)) + opening
        self.plain, self.once, self.packs = plain, once, True

    def forward(self, tokens: Tensor) -> Tensor:
        begin = tokens[:, :OPENING]
        if self.once:
            tokens = _distinct(tokens)
        real = tokens != PADDING
        counts, row, present = real.sum(1), real.nonzero()[:, 0], tokens[real]
        weights = self.tokens.weights(present).to(self.tokens.vectors.weight.dtype)
        each = 1 / counts.clamp(min=1).to(weights.dtype)  # of a token
        shares = each[row]
        parts = [self._sums(present, row, counts, weights * shares)]
        if self.own is not None:
            parts.append(self.own(present, row, self.plain * self.length * shares, len(tokens)))
        elif self.plain:
            parts.append(self._sums(present, row, counts, self.plain * shares))
        if self.opening is not None:
            first = begin != PADDING
            row = first.nonzero()[:, 0]
            parts.append(self.opening(begin[first], row, self.plain * self.length * each[row], len(tokens)))
        return torch.cat(parts, dim=1)

    @property
    def is_mean(self) -> bool:
        """Whether a text is the plain mean of :meth:`table`, wherever its tokens stand and however often."""
        return not self.once and self.opening is None

    def _sums(self, present: Tensor, row: Tensor, counts: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of the vectors of each row's tokens."""
        table = self.tokens.vectors.weight
        sums = _summed(table.detach(), present, counts, weights)
        return _WithRows.apply(sums, table, present, row, weights.detach())  # type: ignore[no-any-return]

    def table(self, vocabulary: int) -> Tensor:
        """A vector for each token, of which a text is the plain mean where :attr:`is_mean`."""
        every = torch.arange(vocabulary)
        parts = [self.tokens(every)]
        if self.own is not None:
            length = torch.full(every.shape, self.plain * self.length)
            parts.append(self.own(every, every, length, vocabulary))
        elif self.plain:
            parts.append(self.plain * self.tokens.vectors(every))
        return torch.cat(parts, dim=1).detach()


class _WithRows(torch.autograd.Function):
    """Sums of the rows of a table as they are, and the gradient of the table: a row for each different token.

    torch's own has a row for each token of each text, several times as many numbers to add, sort and add again.
    """

    @staticmethod
    def forward(ctx: Any, sums: Tensor, table: Tensor, present: Tensor, row: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(present, row, weights)
        ctx.shape = table.shape
        return sums.view_as(sums)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:  # type: ignore[override]
        if not ctx.needs_input_grad[1]:
            return gradient, None, None, None, None
        present, row, weights = ctx.saved_tensors
        order = _order(present, ctx.shape[0])
        tokens, times = present[order].unique_consecutive(return_counts=True)
        values = _summed(gradient, row[order], times, weights[order])
        rows = torch.sparse_coo_tensor(tokens[None], values, ctx.shape, is_coalesced=True, check_invariants=False)
        return gradient, rows, None, None, None


def _summed(table: Tensor, rows: Tensor, counts: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of so many rows of a table each."""
    begins = counts.cumsum(0) - counts
    return functional.embedding_bag(rows, table, begins, mode="sum", per_sample_weights=weights)


def _order(tokens: Tensor, vocabulary: int) -> Tensor:
    """The places of tokens in rising order, equal ones as they stood."""
    if tokens.device.type != "cpu" or vocabulary > 2**15:
        return tokens.argsort(stable=True)
    # numpy counts numbers of 16 bits: a twentieth of the time of a comparison of each two.
    return torch.from_numpy(tokens.short().numpy().argsort(kind="stable"))


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
    common: int = 0,
    opening: int = 0,
) -> nn.Module:
    """Averaged word vectors, each with a learned weight that starts at the inverse document frequency of its token.

    Weights serve similarity, and take from classifiers what common words say: with ``plain``, the mean without weights
    stands beside the weighted one, multiplied by it, and the representation is twice as wide. Where the tokens are many
    times the columns, classifiers cannot tell them apart: with ``common``, so many columns stand in the place of the
    plain mean, two thirds of them for one of the most common tokens each and a third that all others share, and with
    ``opening`` so many common tokens have another one that counts them among the first two tokens of a text. With
    ``once``, a word that is said again adds nothing, as in BM25 with k1 = 0.

    References:
        Arora et al. (2017), A simple but tough-to-beat baseline for sentence embeddings.
    """
    return Bag(
        vocabulary or VOCABULARY,
        width,
        std=std,
        weighted=weighted,
        plain=plain,
        once=once,
        common=common,
        opening=opening,
    )
