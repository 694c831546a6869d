"""Critics: modules that score every x against every y, ``[n, dx], [k, dy] -> [n, k]``. Any such module serves."""

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vergence.types import Scores

RowsX = Float[Tensor, "n dx"]
RowsY = Float[Tensor, "k dy"]


# What an estimator asks of a critic: the scores of all pairs.
Critic = Callable[[Tensor, Tensor], Tensor]


class InnerProduct(nn.Module):
    """Similarity of features as they are: x . y / temperature. It has no weights and needs equal widths."""

    def __init__(self, *, temperature: float = 1.0):
        super().__init__()
        self.temperature = temperature

    def forward(self, x: RowsX, y: RowsY) -> Scores:
        return x @ y.T / self.temperature


class Bilinear(nn.Module):
    """x W y, with one matrix and no bias: optimal for Gaussians up to terms of x alone and of y alone."""

    def __init__(self, dx: int, dy: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dx, dy) / math.sqrt(dx * dy))

    def forward(self, x: RowsX, y: RowsY) -> Scores:
        return x @ self.weight @ y.T


class Separable(nn.Module):
    """f(x) . g(y), each a perceptron: n + k passes and one matrix product for n x k scores."""

    def __init__(self, dx: int, dy: int, *, width: int = 128, embedding: int = 32, layers: int = 2):
        super().__init__()
        self.x = perceptron(dx, width=width, out=embedding, layers=layers)
        self.y = perceptron(dy, width=width, out=embedding, layers=layers)

    def forward(self, x: RowsX, y: RowsY) -> Scores:
        return self.x(x) @ self.y(y).T


class Concat(nn.Module):
    """h([x, y]): a perceptron on every pair, so n x k passes. The pairs are scored ``chunk`` at a time.

    The first layer is additive in x and y and is computed once for each; only what follows is quadratic.
    """

    def __init__(self, dx: int, dy: int, *, width: int = 64, layers: int = 2, chunk: int = 65536):
        super().__init__()
        self.x = nn.Linear(dx, width)
        self.y = nn.Linear(dy, width, bias=False)
        self.rest = nn.Sequential(nn.ReLU(), perceptron(width, width=width, out=1, layers=layers - 1))
        self.chunk = chunk

    def forward(self, x: RowsX, y: RowsY) -> Scores:
        a, b = self.x(x), self.y(y)
        rows = max(1, self.chunk // len(b))
        return torch.cat([self.rest(part[:, None] + b[None]).squeeze(2) for part in a.split(rows)])


def perceptron(d: int, *, width: int, out: int, layers: int) -> nn.Sequential:
    """Linear layers with ReLU between them: ``layers`` hidden ones, then the output."""
    widths = [d] + [width] * layers
    hidden = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
    return nn.Sequential(*(module for pair in hidden for module in pair), nn.Linear(widths[-1], out))
