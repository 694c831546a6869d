"""Information that needs no estimation: discrete tables and Gaussians, in nats."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.types import Scalar, Scores

Distribution = Float[Tensor, "..."]
Table = Float[Tensor, "rows columns"]
Covariance = Float[Tensor, "d d"]


def entropy(p: Distribution) -> Scalar:
    r"""How uncertain a discrete variable is: :math:`-\sum p \log p`. Zero if it is certain."""
    return torch.special.entr(p).sum()


def kl_divergence(p: Distribution, q: Distribution) -> Scalar:
    r""":math:`\sum p \log(p / q)`: zero if the two agree, infinite where p has mass and q has none.

    In general not symmetric.
    """
    return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum()


def conditional_entropy(joint: Table) -> Scalar:
    """What remains uncertain of the column once the row is known: H(X, Y) - H(X)."""
    return entropy(joint) - entropy(joint.sum(1))


def mutual_information(joint: Table) -> Scalar:
    """What row and column of a joint table share: H(X) + H(Y) - H(X, Y)."""
    return entropy(joint.sum(1)) + entropy(joint.sum(0)) - entropy(joint)


def processed(joint: Table, channel: Float[Tensor, "columns outputs"]) -> Float[Tensor, "rows outputs"]:
    """The joint table of X and Z when Z is drawn from row Y of ``channel``.

    The data-processing inequality says that it shares no more than ``joint``; a permutation loses nothing.
    """
    return joint @ channel


def gaussian_information(covariance: Covariance, *, split: int) -> Scalar:
    r"""What the first ``split`` coordinates of a Gaussian share with the rest.

    .. math:: \tfrac12 \log \frac{\det \Sigma_{XX} \det \Sigma_{YY}}{\det \Sigma}
    """
    x, y = covariance[:split, :split], covariance[split:, split:]
    return 0.5 * (torch.logdet(x) + torch.logdet(y) - torch.logdet(covariance))


def correlated_information(correlation: float, *, d: int = 1) -> float:
    r"""What d pairs of Gaussians with this correlation share: :math:`-\frac d2 \log(1 - \rho^2)`."""
    return -0.5 * d * math.log1p(-(correlation**2))


def correlation_for(nats: float, *, d: int = 1) -> float:
    """The correlation at which d pairs of Gaussians share so many nats: the inverse of ``correlated_information``."""
    return math.sqrt(-math.expm1(-2 * nats / d))


def gaussian_log_ratio(x: Float[Tensor, "n d"], y: Float[Tensor, "k d"], *, correlation: float) -> Scores:
    r"""The optimal critic for d correlated pairs, :math:`\log p(y \mid x) / p(y)`, of every x with every y.

    Its mean over matching pairs is the mutual information; its exponential has mean one over all others.
    """
    remaining = 1 - correlation**2
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1)[None]
    exponent = correlation * (x @ y.T) - 0.5 * correlation**2 * squares
    return exponent / remaining - 0.5 * x.shape[1] * math.log(remaining)


def uniform_noise_information(width: float) -> float:
    r"""What :math:`X \sim U(0, 1)` shares with :math:`X + U(-w, w)`: a law with hard edges.

    :math:`w - \log 2w` up to a width of one half, :math:`1 / 4w` beyond.
    """
    return width - math.log(2 * width) if width <= 0.5 else 1 / (4 * width)


def student_information(degrees: float, *, dx: int, dy: int) -> float:
    """What the parts of a multivariate Student-t with identity scale share, though they are uncorrelated.

    References:
        Arellano-Valle et al. (2013), on the entropy of elliptical laws. https://doi.org/10.1111/j.1467-9469.2011.00774.x
    """
    parts = _student_entropy(degrees, dx) + _student_entropy(degrees, dy)
    return parts - _student_entropy(degrees, dx + dy)


def _student_entropy(degrees: float, d: int) -> float:
    half, whole = degrees / 2, (degrees + d) / 2
    normalizer = math.lgamma(half) - math.lgamma(whole) + 0.5 * d * math.log(degrees * math.pi)
    gap = torch.special.digamma(torch.tensor([whole, half], dtype=torch.float64))
    return normalizer + whole * float(gap[0] - gap[1])
