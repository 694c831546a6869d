"""Alignment and uniformity on the sphere: two losses that are also the two metrics, and their closed-form floor."""

import math

import torch
from torch import Tensor

from vergence.objectives.inputs import direction, directions, positive
from vergence.objectives.pairwise import cross_log_sums, log_mean, view_spread
from vergence.types import Embedding, Negatives, Scalar


def alignment(z1: Embedding, z2: Embedding, *, alpha: float = 2.0) -> Scalar:
    r"""How close the two views of a sample are: :math:`\mathbb{E}\, \|u_1 - u_2\|^\alpha`. Lower is better.

    With u the direction of z. Zero means that the views coincide, :math:`2^\alpha` that they are opposite; independent
    uniform views at alpha = 2 give 2. The minus sign printed in Sec. 4.1.1 of the paper is a misprint.

    References:
        Wang & Isola (2020), Sec. 4.1.1. https://arxiv.org/abs/2005.10242
    """
    positive(alpha=alpha)
    u1, u2 = directions(z1=z1, z2=z2)
    return _alignment(u1, u2, alpha)


def uniformity(z: Embedding, *, t: float = 2.0) -> Scalar:
    r"""How evenly embeddings cover the sphere: :math:`\log \mathbb{E}\, e^{-t\|u - u'\|^2}`. Lower is better.

    With u the direction of z. Zero means every point is the same; the uniform law reaches ``uniformity_floor(d, t=t)``.
    Expectation over distinct pairs, so a small batch can fall below that, down to ``uniformity_floor(d, t=t, n=n)``.

    References:
        Wang & Isola (2020), Sec. 4.1.2. https://arxiv.org/abs/2005.10242
    """
    positive(t=t)
    (u,) = directions(z=z)
    return _uniformity(u, t)


def align_uniform(
    z1: Embedding,
    z2: Embedding,
    *,
    negatives: Negatives | None = None,
    align_weight: float = 1.0,
    uniform_weight: float = 1.0,
    alpha: float = 2.0,
    t: float = 2.0,
) -> Scalar:
    r"""Alignment and uniformity together: :math:`w_a\, \mathrm{alignment} + w_u\, \mathrm{uniformity}`.

    Uniformity is the mean of the two views'. With ``negatives``, a queue of past keys, it is that of the pairs within
    z1 and of z1 with the queue, all weighing the same: the authors' form for MoCo, where z2 has no gradient.
    Collapse is stable where the noise fraction of the features exceeds :math:`t\, w_u / w_a`; the paper saw it from a
    ratio :math:`w_a / w_u` of about 5.

    References:
        Wang & Isola (2020), Sec. 5. https://arxiv.org/abs/2005.10242
    """
    positive(alpha=alpha, t=t)
    if negatives is None and alpha == 2:
        aligned, uniform = view_spread(z1, z2, temperature=1 / (2 * t))
        return align_weight * aligned + uniform_weight * uniform
    u1, u2 = directions(z1=z1, z2=z2)
    if negatives is None:
        uniform = (_uniformity(u1, t) + _uniformity(u2, t)) / 2
    else:
        uniform = _uniformity_with(u1, direction("negatives", negatives, width=u1.shape[1]), t)
    return align_weight * _alignment(u1, u2, alpha) + uniform_weight * uniform


def uniformity_floor(d: int, *, t: float = 2.0, n: int | None = None) -> float:
    r"""The least ``uniformity`` in d dimensions: of any law, or of any n points.

    The uniform law reaches :math:`-2t + \log {}_0F_1(; d/2; t^2)`. A batch compares distinct points only, so n points
    may fall below it; they stay above :math:`-2tn/(n-1)`, which a simplex of n <= d + 1 points attains, and above the
    value at which adding each point's pair with itself would break the law's floor.

    References:
        Wang & Isola (2020), Prop. 1. https://arxiv.org/abs/2005.10242
    """
    law = log_mean_exponential(d, 2 * t) - 2 * t
    if n is None:
        return law
    distinct = (n * math.exp(law) - 1) / (n - 1)
    return max(-2 * t * n / (n - 1), math.log(distinct) if distinct > 0 else -math.inf)


def log_mean_exponential(d: int, concentration: float) -> float:
    r""":math:`\log \mathbb{E}\, e^{\kappa u \cdot v}` for a fixed and a uniform unit vector in d dimensions.

    That is :math:`\log {}_0F_1(; d/2; \kappa^2/4)`. The series has positive terms only, so it stays accurate where
    Bessel functions of high order underflow.
    """
    if concentration == 0:
        return 0.0
    # The terms (kappa / 2)^2k / (k! (d/2)_k) fall from k = kappa / 2 on.
    k = torch.arange(int(2 * concentration) + 100, dtype=torch.float64)
    half = torch.tensor(d / 2, dtype=torch.float64)
    terms = 2 * k * math.log(concentration / 2) - torch.lgamma(k + 1) - torch.lgamma(half + k) + torch.lgamma(half)
    return float(terms.logsumexp(0))


def _alignment(u1: Tensor, u2: Tensor, alpha: float) -> Tensor:
    squared = (u1 - u2).square().sum(1)
    if alpha == 2:
        return squared.mean()
    # The root of 0 has an infinite slope; views that coincide are at the minimum, so their gradient is 0.
    apart = squared > 0
    return torch.where(apart, torch.where(apart, squared, 1.0) ** (alpha / 2), 0.0).mean()


def _uniformity(u: Tensor, t: float) -> Tensor:
    # On the sphere -t |u - v|^2 = 2t u.v - 2t: a score at temperature 1 / 2t, less its largest value.
    return log_mean(u, temperature=1 / (2 * t))


def _uniformity_with(u: Tensor, others: Tensor, t: float) -> Tensor:
    n, k = len(u), len(others)
    within, across = n * (n - 1) / 2, n * k  # how many pairs
    between = cross_log_sums(u, others, temperature=1 / (2 * t)).logsumexp(0) - 2 * t
    return torch.logaddexp(_uniformity(u, t) + math.log(within), between) - math.log(within + across)
