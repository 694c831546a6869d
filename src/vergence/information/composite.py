"""The critic of ``estimate``: the log ratio of a Gaussian in canonical variates, and what a network adds to it."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from vergence.information.copula import Canonical, canonical, significant
from vergence.information.critics import perceptron
from vergence.information.crossfit import Split, two_way
from vergence.information.preprocessing import Rows, tensor
from vergence.types import Square

Factors = tuple[Tensor, Tensor]

# Variates enter the network clipped: beyond five deviations there is no sample to learn from.
CLIP = 5.0
# Up to this many columns the network sees them all; beyond, only their canonical variates, or it would learn the noise.
FEW_COLUMNS = 10
MOST_VARIATES = 4
# Correlations of the Gaussian part stay below this, so that one pair of rows cannot outweigh all others.
LARGEST = 0.9999


class CompositeCritic(nn.Module):
    """f(x) . g(y) + a(x) + b(y), as factors of the scores; zero until it is trained."""

    def __init__(self, dx: int, dy: int, *, width: int = 64, embedding: int = 16):
        super().__init__()
        self.x = perceptron(dx, width=width, out=embedding + 1, layers=2)
        self.y = perceptron(dy, width=width, out=embedding + 1, layers=2)
        for network, silent in ((self.x, slice(embedding, None)), (self.y, slice(None))):
            last = network[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.bias)
            last.weight.data[silent] = 0

    def forward(self, x: Tensor, y: Tensor) -> Factors:
        left, right = self.x(x), self.y(y)
        return _factors(left[:, :-1], left[:, -1], right[:, :-1], right[:, -1])


class Composite:
    """A composite critic for one fold: its Gaussian part fits the training rows and is chosen on the stopping rows."""

    def __init__(self, x: tuple[Rows, Rows, Rows], y: tuple[Rows, Rows, Rows], split: Split, *, seed: int = 0):
        train = split.train.numpy()
        linear = significant(canonical(x[0][train], y[0][train]), len(train))
        turned = significant(canonical(x[1][train], y[1][train]), len(train)).first(MOST_VARIATES)
        candidates = [_Gaussian(x[0], y[0], linear)]
        candidates += [_Gaussian(x[1], y[1], turned.first(k)) for k in range(len(turned.correlation) + 1)]
        self.gaussian = _best(candidates, split.stop)
        self.turned = self.gaussian not in candidates[:2]
        inputs = _Gaussian(x[1], y[1], turned)
        self.x, self.y = _inputs(inputs.x, x), _inputs(inputs.y, y)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.critic = CompositeCritic(self.x.shape[1], self.y.shape[1])

    def __call__(self, rows: Tensor) -> Square:
        parts = self.gaussian(rows), self.critic(self.x[rows], self.y[rows])
        left, right = (torch.cat(factors, dim=1) for factors in zip(*parts, strict=True))
        return left @ right.T


class _Gaussian:
    """The log ratio of correlated Gaussian variates, for chosen rows, as factors of the scores."""

    def __init__(self, x: Rows, y: Rows, variates: Canonical):
        self.x = tensor(((x - variates.mean_x) @ variates.weight_x).clip(-CLIP, CLIP))
        self.y = tensor(((y - variates.mean_y) @ variates.weight_y).clip(-CLIP, CLIP))
        self.correlation = tensor(np.minimum(variates.correlation, LARGEST))

    def __call__(self, rows: Tensor) -> Factors:
        x, y, rho = self.x[rows], self.y[rows], self.correlation
        remaining = 1 - rho**2
        weight = 0.5 * rho**2 / remaining
        return _factors(x * (rho / remaining), -(x**2) @ weight - 0.5 * remaining.log().sum(), y, -(y**2) @ weight)


def _factors(f: Tensor, a: Tensor, g: Tensor, b: Tensor) -> Factors:
    """Two matrices whose product is f(x) . g(y) + a(x) + b(y): one pass over n x n scores instead of four."""
    one = torch.ones_like(a)
    return torch.column_stack([f, a, one]), torch.column_stack([g, one, b])


def _best(candidates: list[_Gaussian], stop: Tensor) -> _Gaussian:
    factors = [candidate(stop) for candidate in candidates]
    values = [two_way(left @ right.T).item() for left, right in factors]
    return candidates[max(range(len(values)), key=lambda i: -math.inf if math.isnan(values[i]) else values[i])]


def _inputs(variates: Tensor, rows: tuple[Rows, Rows, Rows]) -> Tensor:
    columns, _, radius = rows
    seen = [variates, tensor(radius)] + ([tensor(columns)] if columns.shape[1] <= FEW_COLUMNS else [])
    return torch.cat(seen, dim=1)
