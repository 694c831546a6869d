"""The limit of the contrastive loss for many negatives, its rate, and its form as alignment plus entropy."""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from vergence.objectives.hypersphere import log_mean_exponential
from vergence.theory.certificate import Certificate
from vergence.types import Embedding, Scalar

ROWS = 1024  # anchors per block: 32 MiB of float64 scores against 4096 embeddings


def contrastive_limit(z1: Embedding, z2: Embedding, *, temperature: float = 0.5) -> Scalar:
    r"""What the contrastive loss minus :math:`\log M` tends to as the number M of negatives grows.

    :math:`-\frac{1}{T} E\, z \cdot z^+ + E_z \log E_{z^-} e^{z \cdot z^- / T}`: alignment, then uniformity. The law is
    the empirical one of the pairs, each read both ways, and the inner expectation includes the anchor itself: exact for
    a finite law, slightly too high for the law a small sample was drawn from.

    References:
        Wang & Isola (2020), Theorem 1. https://arxiv.org/abs/2005.10242
    """
    anchors, positives = _both_ways(z1, z2)
    aligned = (anchors * positives).sum(1).mean() / temperature
    return _log_potential(anchors, temperature).mean() - aligned


def limit_rate(z1: Embedding, z2: Embedding, *, temperature: float = 0.5) -> Scalar:
    r"""The constant c of the deviation from the limit, :math:`L_M - \log M - \text{limit} \sim c / M`.

    :math:`c = E\left[ \frac{e^{z \cdot z^+ / T}}{U(z)} - \frac{Var(e^{z \cdot z^- / T})}{2 U(z)^2} \right]` with
    :math:`U(z) = E\, e^{z \cdot z^- / T}`. The paper proves :math:`O(M^{-2/3})`, through a Chebyshev step that has
    :math:`M^2` where M belongs; the true rate is this one.
    """
    anchors, positives = _both_ways(z1, z2)
    first = _log_potential(anchors, temperature)
    second = _log_potential(anchors, temperature / 2)
    own = ((anchors * positives).sum(1) / temperature - first).exp()
    return (own - ((second - 2 * first).exp() - 1) / 2).mean()


def limit_deviation(
    z1: Embedding, z2: Embedding, *, negatives: int = 256, temperature: float = 0.5, draws: int = 64, seed: int = 0
) -> Float[Tensor, " draws"]:
    r"""Samples of :math:`L_M - \log M - \text{limit}` with M negatives drawn with replacement; their mean estimates it.

    With :math:`W_j = e^{z \cdot z_j^- / T} / U(z)`, the deviation is the mean of
    :math:`\log(e^{z \cdot z^+ / T} / (M U) + \bar W)`. We subtract :math:`\bar W - 1`, whose mean is exactly zero, so
    that the samples spread like 1/M and not like :math:`1/\sqrt M`. All anchors of one draw share their negatives.
    """
    anchors, positives = _both_ways(z1, z2)
    potential = _log_potential(anchors, temperature)
    own = ((anchors * positives).sum(1) / temperature - potential).exp() / negatives
    generator = torch.Generator(anchors.device).manual_seed(seed)
    samples = []
    for _ in range(draws):
        drawn = anchors[torch.randint(len(anchors), (negatives,), generator=generator, device=anchors.device)]
        mean = (anchors @ drawn.T / temperature - potential[:, None]).exp().mean(1)
        samples.append(((own + mean).log() - (mean - 1)).mean())
    return torch.stack(samples)


def limit_of_contrastive(
    z1: Embedding, z2: Embedding, *, negatives: int = 256, temperature: float = 0.5, draws: int = 64, seed: int = 0
) -> Certificate:
    r"""The contrastive loss exceeds its limit by at most :math:`e^{2/T} / M`.

    Both sides are of the empirical law of the pairs; the left one is a Monte Carlo mean (standard error in the terms).

    References:
        Wang & Isola (2020), supplement, proof of Theorem 1.
    """
    samples = limit_deviation(z1, z2, negatives=negatives, temperature=temperature, draws=draws, seed=seed)
    right = math.exp(2 / temperature) / negatives
    return Certificate(
        statement="contrastive loss - log M - its limit <= exp(2 / temperature) / M",
        source="Wang & Isola (2020), Theorem 1, supplement",
        left=samples.mean().item(),
        right=right,
        # The loss lies within 2/T of its limit whatever the encoder: a wider bound is vacuous.
        vacuous=right >= 2 / temperature,
        assumptions={"negatives are independent": "measured", "embeddings have norm 1": "measured"},
        terms={
            "limit": contrastive_limit(z1, z2, temperature=temperature).item(),
            "rate / M": limit_rate(z1, z2, temperature=temperature).item() / negatives,
            "standard error": (samples.std() / math.sqrt(draws)).item(),
            "M": float(negatives),
        },
    )


def resubstitution_entropy(z: Embedding, *, temperature: float = 0.5) -> Scalar:
    r"""Entropy, in nats, of a kernel density estimate at its own points, with von Mises-Fisher kernels of
    concentration :math:`\kappa = 1/T`.

    The uniformity term of the limit is :math:`-\hat H + \log Z_{vMF}(\kappa)`, so a contrastive loss with many
    negatives maximizes this entropy.

    References:
        Wang & Isola (2020), Sec. 4.2.
    """
    return von_mises_fisher_log_normalizer(z.shape[1], 1 / temperature) - uniformity_potential(
        z, temperature=temperature
    )


def uniformity_potential(z: Embedding, *, temperature: float = 0.5) -> Scalar:
    r"""The second term of the limit, :math:`E_z \log E_{z^-} e^{z \cdot z^- / T}`, self-pairs included."""
    return _log_potential(normalize(z, dim=1), temperature).mean()


def von_mises_fisher_log_normalizer(dimension: int, concentration: float) -> float:
    r"""The log integral of :math:`e^{\kappa u \cdot v}` over the sphere: its log area plus
    :math:`\log {}_0F_1(; d/2; \kappa^2/4)`."""
    log_area = math.log(2) + dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2)
    return log_area + log_mean_exponential(dimension, concentration)


def _both_ways(z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor]:
    z1, z2 = normalize(z1, dim=1), normalize(z2, dim=1)
    return torch.cat([z1, z2]), torch.cat([z2, z1])


def _log_potential(z: Tensor, temperature: float) -> Tensor:
    """log E exp(z . z' / T) for each row of z, a block of rows at a time."""
    blocks = [torch.logsumexp(rows @ z.T / temperature, 1) for rows in z.split(ROWS)]
    return torch.cat(blocks) - math.log(len(z))
