"""The spectral contrastive objective: a low-rank factorization of the augmentation graph."""

import torch
from torch import Tensor

from vergence.objectives.gram import squared_scores
from vergence.objectives.inputs import checked, positive
from vergence.types import Embedding, Scalar


def spectral(z1: Embedding, z2: Embedding, *, mu: float = 1.0) -> Scalar:
    r"""Factorize the augmentation graph: attract positives by their scores, repel negatives by their squared scores.

    .. math:: \frac1\mu \left( -\frac2n \sum_i z_{1i} \cdot z_{2i}
        + \frac{1}{n(n-1)} \sum_{i \ne j} (z_{1i} \cdot z_{2j})^2 \right)

    Rows longer than :math:`\sqrt\mu` are shortened to it, shorter ones are left alone: the ball, not the sphere. For
    rows of that length mu is the weight of the repulsion. The mean over distinct pairs makes the estimate unbiased.

    References:
        HaoChen et al. (2021), eq. 6 and the authors' code. https://arxiv.org/abs/2106.04156
    """
    positive(mu=mu)
    z1, z2 = checked(z1=z1, z2=z2)
    z1, z2 = _ball(z1, mu**0.5), _ball(z2, mu**0.5)
    n = z1.shape[0]
    attraction = (z1 * z2).sum(1)
    repulsion = (squared_scores(z1, z2) - attraction.square().sum()) / (n * (n - 1))
    return (repulsion - 2 * attraction.mean()) / mu


def _ball(z: Tensor, radius: float) -> Tensor:
    """Every row longer than the radius shortened to it."""
    norms = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return z * (radius / norms.clamp(min=radius))
