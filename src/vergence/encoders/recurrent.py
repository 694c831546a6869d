"""The recurrent encoder of texts."""

import torch
from torch import Tensor, nn

PADDING = 0


class BiGRU(nn.Module):
    """Token embeddings, a bidirectional GRU, and the mean of its states over the tokens that are not padding."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, embedding, padding_idx=PADDING)
        self.recurrent = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        self.width = 2 * hidden

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.recurrent(self.tokens(tokens))
        real = (tokens != PADDING).unsqueeze(-1).to(states.dtype)
        return (states * real).sum(1) / torch.clamp(real.sum(1), min=1)


def bigru(shape: tuple[int, ...], *, vocabulary: int = 32768, embedding: int = 128, hidden: int = 256) -> nn.Module:
    """A bidirectional GRU over tokens, averaged; Wang & Isola use one (with concatenated last states) for sentences.

    References:
        Wang & Isola (2020), Sec. 5. https://arxiv.org/abs/2005.10242
    """
    return BiGRU(vocabulary, embedding, hidden)
