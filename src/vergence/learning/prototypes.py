"""Prototypes: unit vectors that embeddings are compared with."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize


class Prototypes(nn.Module):
    """The cosine of each row with each of K learned vectors.

    Both are divided by their length, so this is SwAV's layer with prototypes put back onto the sphere after every step,
    and DINO's last layer with weight normalization of fixed length 1.

    References:
        Caron et al. (2020), Alg. 1. https://arxiv.org/abs/2006.09882; Caron et al. (2021), App. C.
    """

    def __init__(self, width: int, count: int):
        super().__init__()
        self.weight = nn.Parameter(normalize(torch.randn(count, width), dim=1))

    def forward(self, z: Tensor) -> Tensor:
        return linear(normalize(z, dim=1), normalize(self.weight, dim=1))
