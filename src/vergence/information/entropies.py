"""Difference of entropies: what y costs to describe without x, less what it costs with x."""

import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from vergence.information.critics import perceptron
from vergence.information.crossfit import Split, splits
from vergence.information.preprocessing import tensor

RowsX = Float[np.ndarray, "n dx"]
RowsY = Float[np.ndarray, "n dy"]


def entropy_difference(x: RowsX, y: RowsY, *, folds: int = 3, seed: int = 0) -> tuple[float, float]:
    r"""Nats and their standard error from two Gaussian models of y, each judged on unseen pairs.

    :math:`\mathbb{E}[-\log q(y)] - \mathbb{E}[-\log q(y \mid x)]`, where the second has as its mean a linear map
    and a network of x. Each cross-entropy is above its entropy, so the difference is no bound; but it has no
    ceiling, and is exact for Gaussians.

    References:
        McAllester & Stratos (2020), Sec. 5. https://arxiv.org/abs/1811.04251
    """
    gains = [_gain(x, y, split, seed) for split in splits(len(x), folds=folds, seed=seed)]
    return float(np.concatenate(gains).mean()), float(np.concatenate(gains).std()) / math.sqrt(len(x))


def _gain(x: RowsX, y: RowsY, split: Split, seed: int) -> np.ndarray:
    """For each unseen pair, by how much the log likelihood of y rises when x is known."""
    train, stop, test = (part.numpy() for part in split)
    fitted = np.concatenate([train, stop])
    weight = np.linalg.lstsq(_with_one(x[train]), y[train], rcond=None)[0]
    rest = y - _with_one(x) @ weight
    rest = rest - _network_mean(x, rest, split, seed)
    return _log_likelihood(rest, fitted, test, x.shape[1] + 1) - _log_likelihood(y, fitted, test, 1)


def _with_one(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def _network_mean(x: RowsX, rest: RowsY, split: Split, seed: int, *, epochs: int = 20, batch: int = 256) -> np.ndarray:
    """What a network predicts of the residuals, or zero if that does not help on the stopping part."""
    inputs, targets = tensor(x), tensor(rest)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = perceptron(x.shape[1], width=64, out=rest.shape[1], layers=2)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    generator = torch.Generator().manual_seed(seed)
    best, mean = targets[split.stop].square().mean(), torch.zeros_like(targets)
    for _ in range(epochs):
        for rows in split.train[torch.randperm(len(split.train), generator=generator)].split(batch):
            optimiser.zero_grad()
            (network(inputs[rows]) - targets[rows]).square().mean().backward()
            optimiser.step()
        with torch.no_grad():
            guess = network(inputs)
            error = (guess - targets)[split.stop].square().mean()
        if error < best:
            best, mean = error, guess
    return mean.double().numpy()


def _log_likelihood(rows: np.ndarray, fitted: np.ndarray, test: np.ndarray, parameters: int) -> np.ndarray:
    """Of the test rows, under the Gaussian of the fitted ones, up to the constant that both models share."""
    mean = rows[fitted].mean(0)
    centred = rows[fitted] - mean
    covariance = centred.T @ centred / (len(fitted) - parameters)
    factor = cho_factor(covariance, lower=True)
    away = rows[test] - mean
    half_log_det = np.log(np.diag(factor[0])).sum()
    return -0.5 * (away * cho_solve(factor, away.T).T).sum(1) - half_log_det
