"""The recurrent encoder of texts."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vergence.encoders.text_bag import VOCABULARY, TokenVectors
from vergence.tables import UnknownName

PADDING = 0
POOLINGS = ("mean", "last")


class BiGRU(nn.Module):
    """Token vectors, a bidirectional GRU, and the mean of its states or the last state of each direction.

    Rows are packed, so that padding costs nothing and a text's representation does not depend on its batch.
    """

    def __init__(self, vocabulary: int, embedding: int, hidden: int, *, pooling: str, std: float, weighted: bool):
        super().__init__()
        if pooling not in POOLINGS:
            raise UnknownName("pooling", pooling, POOLINGS)
        self.tokens = TokenVectors(vocabulary, embedding, std=std, weighted=weighted)
        self.recurrent = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        self.width = 2 * hidden
        self.pooling, self.packs = pooling, True

    def forward(self, tokens: Tensor) -> Tensor:
        lengths = (tokens != PADDING).sum(1).clamp(min=1)
        packed = pack_padded_sequence(self.tokens(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.recurrent(packed)
        if self.pooling == "last":
            return torch.cat([last[0], last[1]], dim=1)
        padded, _ = pad_packed_sequence(states, batch_first=True)
        return padded.sum(1) / lengths[:, None]  # states behind the last token are 0


def bigru(
    shape: tuple[int, ...],
    *,
    vocabulary: int = 0,
    embedding: int = 128,
    hidden: int = 256,
    pooling: str = "mean",
    std: float = 1.0,
    weighted: bool = False,
) -> nn.Module:
    """A bidirectional GRU over tokens: the mean of its states, or ``pooling=last``, the last ones side by side.

    ``weighted`` gives each token a learned weight that starts at its inverse document frequency.

    References:
        Logeswaran & Lee (2018), Sec. 3 (last states). https://arxiv.org/abs/1803.02893
        Wang & Isola (2020), Sec. 5. https://arxiv.org/abs/2005.10242
    """
    return BiGRU(vocabulary or VOCABULARY, embedding, hidden, pooling=pooling, std=std, weighted=weighted)
