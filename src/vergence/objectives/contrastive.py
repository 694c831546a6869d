"""Objectives that contrast a positive with negatives. Each is one line over the contrast of its anchors."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from vergence.objectives.inputs import direction, directions, positive
from vergence.objectives.pairwise import contrast, cross_contrast, cross_log_sums
from vergence.types import Embedding, Negatives, Scalar


def info_nce(
    query: Embedding, key: Embedding, *, negatives: Negatives | None = None, temperature: float | Scalar = 0.1
) -> Scalar:
    r"""Cross-entropy of finding each query's own key among the candidates, in nats.

    .. math:: \frac1n \sum_i -\log \frac{e^{q_i \cdot k_i / T}}{e^{q_i \cdot k_i / T} + \sum_j e^{q_i \cdot k^-_j / T}}

    on directions. The negatives of a query are the other n - 1 keys or, if given, ``negatives`` (then only those: the
    contrastive loss of Wang & Isola with M = k, and MoCo's with its queue). The value when all embeddings coincide is
    the logarithm of the number of candidates.

    References:
        van den Oord et al. (2018), eq. 4. https://arxiv.org/abs/1807.03748
        He et al. (2020), eq. 1. https://arxiv.org/abs/1911.05722
    """
    positive(temperature=temperature)
    query, key = directions(query=query, key=key)
    if negatives is None:
        return softplus(cross_contrast(query, key, temperature=temperature)[0]).mean()
    negatives = direction("negatives", negatives)
    scores = (query * key).sum(1) / temperature
    return softplus(cross_log_sums(query, negatives, temperature=temperature) - scores).mean()


def nt_xent(z1: Embedding, z2: Embedding, *, temperature: float | Scalar = 0.5) -> Scalar:
    r"""SimCLR's loss: InfoNCE with both views as anchors and all other 2n - 1 embeddings as candidates.

    :math:`\frac{1}{2n} \sum_i \mathrm{softplus}(c_i)` with the contrast
    :math:`c_i = \log \sum_{j \ne i, i^+} e^{z_i \cdot z_j / T} - z_i \cdot z_{i^+} / T`: the positive is in the
    denominator.

    References:
        Chen et al. (2020), eq. 1. https://arxiv.org/abs/2002.05709
    """
    return softplus(_contrast(z1, z2, temperature)).mean()


def decoupled(z1: Embedding, z2: Embedding, *, temperature: float | Scalar = 0.1) -> Scalar:
    r"""NT-Xent without the positive in the denominator: the mean contrast, :math:`\frac{1}{2n} \sum_i c_i`.

    Unlike NT-Xent it can be negative, and its gradient does not fade once the positive wins.

    References:
        Yeh et al. (2022), eq. 6. https://arxiv.org/abs/2110.06848
    """
    return _contrast(z1, z2, temperature).mean()


def flat_nce(z1: Embedding, z2: Embedding, *, temperature: float | Scalar = 0.1) -> Scalar:
    r"""FlatNCE: :math:`\frac{1}{2n} \sum_i e^{c_i - \mathrm{stop}(c_i)}`, whose value is always 1 and whose gradient is
    that of ``decoupled``.

    The number says nothing: watch ``nt_xent`` or ``decoupled`` instead. It is no bound on mutual information.

    References:
        Chen et al. (2021), eq. 6. https://arxiv.org/abs/2107.01152
    """
    c = _contrast(z1, z2, temperature)
    return torch.exp(c - c.detach()).mean()


def _contrast(z1: Tensor, z2: Tensor, temperature: float | Tensor) -> Tensor:
    positive(temperature=temperature)
    u1, u2 = directions(z1=z1, z2=z2)
    return contrast(u1, u2, temperature=temperature)
