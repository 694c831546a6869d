"""Gaussian mixtures of (x, y): log density ratios that are neither linear nor of one sign."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vergence.types import Square

Rows = Float[np.ndarray, "n _"]

# Added to every covariance of columns of unit variance: a component cannot shrink onto a few rows.
RIDGE = 1e-3
# A component's covariance is shrunk towards that of all rows as by so many rows for each column.
SHRINKAGE = 0.5
# EM stops after so many steps, or when a step gains less than this many nats a row.
STEPS = 40
TOLERANCE = 2e-4
# Log ratios beyond this overflow float32 when they are added up, and no sample could check them.
LARGEST = 80.0


class Mixture(NamedTuple):
    """Weights, means and covariances of the components."""

    weight: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    def log_terms(self, rows: Rows, columns: slice = slice(None)) -> Float[np.ndarray, "n k"]:
        """The log of weight times density of each component at each row, for the marginal of some columns."""
        mean, factor = self.mean[:, columns], np.linalg.cholesky(self.covariance[:, columns, columns])
        away = (rows - mean[:, None]) @ np.linalg.inv(factor).transpose(0, 2, 1)
        constant = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1) + 0.5 * mean.shape[1] * math.log(2 * math.pi)
        return np.log(self.weight) - constant - 0.5 * np.square(away, out=away).sum(2).T

    def log_density(self, rows: Rows, columns: slice = slice(None)) -> np.ndarray:
        return _log_sum(self.log_terms(rows, columns))[0]


def fitted(rows: Rows, responsibility: Float[np.ndarray, "n k"]) -> tuple[Mixture, float]:
    """The mixture that EM reaches from the given responsibilities, and its mean log likelihood.

    References:
        Dempster, Laird & Rubin (1977). https://doi.org/10.1111/j.2517-6161.1977.tb01600.x
    """
    whole, last = np.cov(rows.T, bias=True).reshape(rows.shape[1], -1), -math.inf
    for _ in range(STEPS):
        mixture = _maximized(rows, responsibility, whole)
        terms = mixture.log_terms(rows)
        density, responsibility = _log_sum(terms)
        value = float(density.mean())
        if value - last < TOLERANCE:
            break
        last = value
    return mixture, value


def starts(rows: Rows, k: int, *, pair: tuple[int, int] | None = None, seed: int = 0) -> list[np.ndarray]:
    """Responsibilities to begin from: shells, clusters, and for an even k the sign of the product of two columns.

    Clusters do not find components with equal means, such as those of y = x with a random sign, which the product
    does, or those of heavy tails, which shells around the center do.
    """
    shells = np.argsort(np.argsort((rows**2).sum(1))) * k // len(rows)
    found = [np.eye(k)[shells], _clusters(rows, k, seed)]
    if pair is not None and k % 2 == 0:
        positive = (rows[:, pair[0]] * rows[:, pair[1]] > 0).astype(int)
        halves = _clusters(rows, k // 2, seed).argmax(1) if k > 2 else np.zeros(len(rows), int)
        found.append(np.eye(k)[positive * (k // 2) + halves])
    return found


class MixtureScores:
    """The log ratio of a mixture, for all pairs of chosen rows."""

    def __init__(self, mixture: Mixture, x: Rows, y: Rows):
        dx = x.shape[1]
        in_x, in_y = slice(None, dx), slice(dx, None)
        of_x = mixture.log_terms(x, in_x)
        shares = of_x - _log_sum(of_x)[0][:, None]
        alone_y = mixture.log_density(y, in_y)
        self.parts = [_conditional(mixture, k, x, y, shares[:, k], alone_y) for k in range(len(mixture.weight))]

    def __call__(self, rows: Tensor) -> Square:
        ratios = (left[rows] @ right[rows].T for left, right in self.parts)
        total = next(ratios).clamp_(max=LARGEST).exp_()
        for ratio in ratios:
            total += ratio.clamp_(max=LARGEST).exp_()
        return total.clamp_(min=math.exp(-LARGEST)).log_()


def _conditional(
    mixture: Mixture, k: int, x: Rows, y: Rows, share: np.ndarray, alone_y: np.ndarray
) -> tuple[Tensor, Tensor]:
    """Factors whose product is the log of share(x) N(y | x) / p(y) of one component, for every x with every y."""
    dx = x.shape[1]
    mean, covariance = mixture.mean[k], mixture.covariance[k]
    slope = np.linalg.solve(covariance[:dx, :dx], covariance[:dx, dx:])
    rest = np.linalg.cholesky(covariance[dx:, dx:] - covariance[dx:, :dx] @ slope)
    whiten = np.linalg.inv(rest).T
    predicted, seen = (x - mean[:dx]) @ slope @ whiten, (y - mean[dx:]) @ whiten
    constant = np.log(np.diag(rest)).sum() + 0.5 * len(rest) * math.log(2 * math.pi)
    ones = np.ones((len(x), 1))
    left = np.hstack([predicted, (share - constant - 0.5 * (predicted**2).sum(1))[:, None], ones])
    return _tensor(left), _tensor(np.hstack([seen, ones, -(0.5 * (seen**2).sum(1) + alone_y)[:, None]]))


def _maximized(rows: Rows, responsibility: np.ndarray, whole: np.ndarray) -> Mixture:
    count = responsibility.sum(0) + 1e-9  # an empty component keeps the covariance of all rows
    mean = responsibility.T @ rows / count[:, None]
    pseudo = SHRINKAGE * rows.shape[1]
    away = rows - mean[:, None]
    scatter = (away * responsibility.T[:, :, None]).transpose(0, 2, 1) @ away
    covariance = (scatter + pseudo * whole) / (count + pseudo)[:, None, None] + RIDGE * np.eye(rows.shape[1])
    weight = np.maximum(count / count.sum(), 1e-12)
    return Mixture(weight / weight.sum(), mean, covariance)


def _clusters(rows: Rows, k: int, seed: int, *, rounds: int = 10) -> np.ndarray:
    """k-means by Lloyd's rounds, as one-hot responsibilities."""
    generator = np.random.default_rng(seed)
    center = rows[generator.choice(len(rows), k, replace=False)]
    for _ in range(rounds):
        nearest = ((center**2).sum(1) - 2 * rows @ center.T).argmin(1)
        member = np.eye(k)[nearest]
        count = member.sum(0)[:, None]
        center = np.where(count > 0, member.T @ rows / np.maximum(count, 1), center)
    return member


def _log_sum(terms: Float[np.ndarray, "n k"]) -> tuple[np.ndarray, np.ndarray]:
    """The log of the sum of exponentials of each row, and each one's share in it."""
    largest = terms.max(1, keepdims=True)
    share = np.exp(terms - largest)
    total = share.sum(1, keepdims=True)
    return (largest + np.log(total))[:, 0], share / total


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).float()
