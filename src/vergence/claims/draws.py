"""Random inputs of checks, each a function of its seed, in float64."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vergence.information import exact, samplers


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def directions(n: int, d: int, seed: int = 0) -> Tensor:
    """Points drawn uniformly from the sphere."""
    return normalize(gaussian(n, d, seed=seed), dim=1)


def optimal_scores(nats: float, seed: int, *, n: int) -> Tensor:
    """Scores of the best critic, the log density ratio, for n pairs of Gaussians that share so many nats."""
    pairs = samplers.correlated_gaussians(n, nats=nats, seed=seed)
    return exact.gaussian_log_ratio(pairs.x, pairs.y, correlation=exact.correlation_for(nats))


def mean_and_error(values: Sequence[Tensor]) -> tuple[float, float]:
    """The mean of numbers, and its standard error."""
    stacked = torch.stack(list(values))
    return float(stacked.mean()), float(stacked.std()) / math.sqrt(len(values))
