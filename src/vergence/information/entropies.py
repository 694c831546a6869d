"""Difference of entropies: what y costs to describe without x, less what it costs with x."""

import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from torch import Tensor, nn

from vergence.information.critics import perceptron
from vergence.information.crossfit import STOPPING, Split, splits
from vergence.information.preprocessing import tensor
from vergence.types import Scalar

RowsX = Float[np.ndarray, "n dx"]
RowsY = Float[np.ndarray, "n dy"]


def entropy_difference(x: RowsX, y: RowsY, *, folds: int = 3, seed: int = 0) -> tuple[float, float]:
    r"""Nats and their standard error from two Gaussian models of y, judged half on unseen pairs and half on seen ones.

    :math:`\mathbb{E}[-\log q(y)] - \mathbb{E}[-\log q(y \mid x)]`, where the second has as its mean a linear map
    and a network of x. Each cross-entropy is above its entropy, so the difference is no bound; but it has no
    ceiling, and is exact for Gaussians: what a fitted model loses on unseen pairs it gains on those it saw.

    References:
        McAllester & Stratos (2020), Sec. 5. https://arxiv.org/abs/1811.04251
    """
    folded = [_gains(x, y, split, seed) for split in splits(len(x), folds=folds, stop=STOPPING, seed=seed)]
    unseen, seen = (np.concatenate(side) for side in zip(*folded, strict=True))
    return 0.5 * float(unseen.mean() + seen.mean()), float(unseen.std()) / math.sqrt(len(x))


class Entropies(nn.Module):
    """Two Gaussian models with independent coordinates, of y alone and of y around a network of x.

    Their value for a batch is what y costs less what it costs with x; its gradient lowers both costs.

    References:
        McAllester & Stratos (2020), Sec. 5. https://arxiv.org/abs/1811.04251
    """

    def __init__(self, dx: int, dy: int, *, width: int = 256):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(dy))
        self.mean_given_x = perceptron(dx, width=width, out=dy, layers=1)
        self.log_deviations = nn.Parameter(torch.zeros(2, dy))

    def forward(self, x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]) -> Scalar:
        alone = _cost(y - self.mean, self.log_deviations[0])
        given_x = _cost(y - self.mean_given_x(x), self.log_deviations[1])
        surrogate = -(alone + given_x)
        return surrogate + (alone - given_x - surrogate).detach()


def _cost(away: Tensor, log_deviation: Tensor) -> Tensor:
    """The cross-entropy of rows under a Gaussian, up to the constant that both models share."""
    return (log_deviation + 0.5 * (away * (-log_deviation).exp()) ** 2).sum(1).mean()


def _gains(x: RowsX, y: RowsY, split: Split, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """By how much the log likelihood of y rises when x is known, for each unseen pair and for each that was seen."""
    train, test = split.train.numpy(), split.test.numpy()
    weight = np.linalg.lstsq(_with_one(x[train]), y[train], rcond=None)[0]
    rest = y - _with_one(x) @ weight
    rest = rest - _network_mean(x, rest, split, seed)
    unseen, seen = (_log_likelihood(rest, train, rows) - _log_likelihood(y, train, rows) for rows in (test, train))
    return unseen, seen


def _with_one(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _network_mean(x: RowsX, rest: RowsY, split: Split, seed: int, *, epochs: int = 20, batch: int = 256) -> np.ndarray:
    """What a network predicts of the residuals, or zero if that does not help on the stopping part."""
    inputs, targets = tensor(x), tensor(rest)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = perceptron(x.shape[1], width=64, out=rest.shape[1], layers=2)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    generator = torch.Generator().manual_seed(seed)
    best, mean = targets[split.stop].square().mean(), torch.zeros_like(targets)
    for _ in range(epochs):
        for rows in split.train[torch.randperm(len(split.train), generator=generator)].split(batch):
            optimizer.zero_grad()
            (network(inputs[rows]) - targets[rows]).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            guess = network(inputs)
            error = (guess - targets)[split.stop].square().mean()
        if error < best:
            best, mean = error, guess
    return mean.double().numpy()


def _log_likelihood(rows: np.ndarray, fitted: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Of the chosen rows, under the Gaussian of the fitted ones, up to the constant that both models share."""
    mean = rows[fitted].mean(0)
    centered = rows[fitted] - mean
    factor = cho_factor(centered.T @ centered / len(fitted), lower=True)
    away = rows[chosen] - mean
    half_log_det = np.log(np.diag(factor[0])).sum()
    return -0.5 * (away * cho_solve(factor, away.T).T).sum(1) - half_log_det
