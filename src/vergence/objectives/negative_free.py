"""Objectives without negatives: what keeps them from collapse is a predictor, or the statistics of the batch."""

from typing import Any

import torch
from torch import Tensor

from vergence.objectives.gram import add_product, product, refuse_second_derivative, squared_scores
from vergence.objectives.inputs import checked, directions, not_negative, readable
from vergence.types import Embedding, Scalar


def negative_cosine(query: Embedding, key: Embedding) -> Scalar:
    r"""Minus the mean cosine of query and key, in [-1, 1]: :math:`-\mathbb{E}\, u_q \cdot u_k`.

    SimSiam's loss, and BYOL's is 2 + 2 times it. Nothing in it prevents collapse: -1 is what a constant encoder gets.

    References:
        Chen & He (2021), eq. 1. https://arxiv.org/abs/2011.10566
    """
    query, key = directions(query=query, key=key)
    return -(query * key).sum(1).mean()


def barlow_twins(z1: Embedding, z2: Embedding, *, off_diagonal: float = 5e-3) -> Scalar:
    r"""Make the cross-correlation C of the two views the identity.

    .. math:: \sum_i (1 - C_{ii})^2 + \lambda \sum_{i \ne j} C_{ij}^2, \qquad C = \frac1n \hat z_1^\top \hat z_2

    Columns are standardized by their mean and population deviation, as by the authors' batch normalization (without
    its epsilon); a constant column correlates with nothing. Dividing by the sample deviation instead, as Huang et al.
    do, shrinks C by (n - 1) / n, and then even equal views have a loss. solo-learn multiplies the sum by 0.025.

    References:
        Zbontar et al. (2021), eq. 1. https://arxiv.org/abs/2103.03230
    """
    not_negative(off_diagonal=off_diagonal)
    return _BarlowTwins.apply(*checked(z1=z1, z2=z2), off_diagonal)


def vicreg(
    z1: Embedding, z2: Embedding, *, invariance: float = 25.0, variance: float = 25.0, covariance: float = 1.0
) -> Scalar:
    r"""Variance, invariance and covariance: keep the views together, every column spread out, and columns uncorrelated.

    .. math:: \frac{\lambda}{nd} \|z_1 - z_2\|^2
        + \frac{\mu}{2d} \sum_{v,j} \max\left(0, 1 - \sqrt{\mathrm{Var}(z_v^j) + 10^{-4}}\right)
        + \frac{\nu}{d} \sum_v \sum_{i \ne j} \mathrm{Cov}(z_v)_{ij}^2

    with sample variances, and the three weights in the order of the signature. These are the means of the authors'
    code: the paper's eq. 6 sums the invariance over columns and the variance over views.

    References:
        Bardes et al. (2022), eqs. 1-6 and the authors' code. https://arxiv.org/abs/2105.04906
    """
    not_negative(invariance=invariance, variance=variance, covariance=covariance)
    z1, z2 = checked(z1=z1, z2=z2)
    spread, mixing = zip(*(_spread_and_mixing(z) for z in (z1, z2)), strict=True)
    return invariance * (z1 - z2).square().mean() + variance * sum(spread) / 2 + covariance * sum(mixing)


def _spread_and_mixing(z: Tensor) -> tuple[Tensor, Tensor]:
    """VICReg's penalties of one view: on columns with little variance, and on covariance between columns."""
    n, d = z.shape
    z = z - z.mean(0)
    variances = z.square().sum(0) / (n - 1)
    # The authors' epsilon: the root of 0 has an infinite slope.
    spread = torch.relu(1 - (variances + 1e-4).sqrt()).mean()
    mixing = (squared_scores(z.T, z.T) / (n - 1) ** 2 - variances.square().sum()) / d
    return spread, mixing


class _BarlowTwins(torch.autograd.Function):
    """Barlow Twins' sum on the smaller side, in one node: three or four matrix products and few passes beside them.

    With C itself when there are no more columns than rows; otherwise through ``sum C^2 = <Z1 Z1', Z2 Z2'> / n^2``.
    """

    @staticmethod
    def forward(ctx: Any, z1: Tensor, z2: Tensor, weight: float) -> Tensor:
        n, d = z1.shape
        (z1, inverse1), (z2, inverse2) = _standardized(z1), _standardized(z2)
        if d <= n:
            left = right = product(z1.T, z2, scale=1 / n)
            diagonal = left.diagonal()
        else:
            left, right = product(z1, z1.T, scale=1 / n), product(z2, z2.T, scale=1 / n)
            diagonal = (z1 * z2).sum(0).div_(n)
        ctx.weight = weight
        ctx.save_for_backward(z1, z2, inverse1, inverse2, left, right, diagonal)
        gaps, everything = 1 - diagonal, torch.dot(left.view(-1), right.view(-1))
        return torch.dot(gaps, gaps) + weight * (everything - torch.dot(diagonal, diagonal))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        refuse_second_derivative()
        z1, z2, inverse1, inverse2, left, right, diagonal = ctx.saved_tensors
        (n, d), scale = z1.shape, 2 * ctx.weight / len(z1)
        pull = (2 / n) * ((1 - ctx.weight) * diagonal - 1)
        first, second = z2 * pull, z1 * pull
        if d <= n:
            add_product(first, z2, left.T, scale)
            add_product(second, z1, left, scale)
        else:
            add_product(first, right, z1, scale)
            add_product(second, left, z2, scale)
        return _along(first, z1, inverse1 * grad), _along(second, z2, inverse2 * grad), None


def _standardized(z: Tensor) -> tuple[Tensor, Tensor]:
    """Columns with mean zero and population deviation one, and what they were multiplied by; 0 if constant."""
    standard, mean, inverse = torch.native_batch_norm(z, None, None, None, None, True, 0.0, 0.0)
    # What rounding leaves of a constant column is not a deviation.
    constant = 1 / inverse <= 8 * torch.finfo(z.dtype).eps * mean.abs()
    if not readable(z) or constant.any():
        inverse, standard = inverse.masked_fill(constant, 0.0), standard.masked_fill(constant, 0.0)
    return standard, inverse


def _along(grad: Tensor, standard: Tensor, inverse: Tensor) -> Tensor:
    """The gradient through standardizing, in place; of columns with mean zero, being sums of standardized ones."""
    slope = (grad * standard).sum(0).div_(-len(grad))
    return grad.addcmul_(standard, slope).mul_(inverse)
