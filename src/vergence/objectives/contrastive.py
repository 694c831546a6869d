"""Objectives that contrast a positive with negatives. Each is one line over the contrast of its anchors."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from vergence.objectives.inputs import class_numbers, direction, directions, positive, stacked_directions
from vergence.objectives.pairwise import contrast, cross_contrast, cross_log_sums, view_contrast
from vergence.types import Embedding, Labels, Negatives, Scalar


def info_nce(
    query: Embedding,
    key: Embedding,
    *,
    negatives: Negatives | None = None,
    hard_negatives: Negatives | None = None,
    temperature: float | Scalar = 0.1,
) -> Scalar:
    r"""Cross-entropy of finding each query's own key among the candidates, in nats.

    .. math:: \frac1n \sum_i -\log \frac{e^{q_i \cdot k_i / T}}{e^{q_i \cdot k_i / T} + \sum_j e^{q_i \cdot k^-_j / T}}

    on directions. The negatives of a query are the other n - 1 keys or, if given, ``negatives`` (then only those: the
    contrastive loss of Wang & Isola with M = k, and MoCo's with its queue). ``hard_negatives`` stand beside either:
    every query is contrasted with all of them too. The value when all embeddings coincide is the logarithm of the
    number of candidates.

    References:
        van den Oord et al. (2018), eq. 4. https://arxiv.org/abs/1807.03748
        He et al. (2020), eq. 1. https://arxiv.org/abs/1911.05722
        Karpukhin et al. (2020), Sec. 3.2, for hard negatives beside those of the batch. https://arxiv.org/abs/2004.04906
    """
    positive(temperature=temperature)
    query, key = directions(query=query, key=key)
    scores = (query * key).sum(1) / temperature
    if negatives is None:
        against = cross_contrast(query, key, temperature=temperature)[0]
    else:
        negatives = direction("negatives", negatives, width=query.shape[1])
        against = cross_log_sums(query, negatives, temperature=temperature) - scores
    if hard_negatives is not None:
        hard_negatives = direction("hard_negatives", hard_negatives, width=query.shape[1])
        hard = cross_log_sums(query, hard_negatives, temperature=temperature) - scores
        against = torch.logaddexp(against, hard)
    return softplus(against).mean()


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
    r"""The gradient of ``decoupled`` on a value that is always 1.

    :math:`\frac{1}{2n} \sum_i e^{c_i - \mathrm{stop}(c_i)}`, where stop passes no gradient. The value is always 1:
    watch ``nt_xent`` or ``decoupled`` instead. It is no bound on mutual information.

    References:
        Chen et al. (2021), eq. 6. https://arxiv.org/abs/2107.01152
    """
    c = _contrast(z1, z2, temperature)
    return torch.exp(c - c.detach()).mean()


def revised_info_nce(
    z1: Embedding, z2: Embedding, *, temperature: float | Scalar = 0.2, weight: float | None = None
) -> Scalar:
    r"""Alignment plus the log-sum-exp of the negatives.

    .. math:: \mathbb{E}\|u_1 - u_2\|^2 + w\, \mathbb{E} \log \sum_j e^{u \cdot u^-_j / T}

    The authors leave w open; ``None`` means 2T, which makes it exactly 2 + 2T ``decoupled``.

    References:
        Huang et al. (2023), Sec. 5. https://arxiv.org/abs/2111.00743
    """
    positive(temperature=temperature)
    u = stacked_directions(z1=z1, z2=z2)
    cosine = (u * u.roll(len(u) // 2, 0)).sum(1).mean()
    negatives = contrast(u, temperature=temperature).mean() + cosine / temperature
    return 2 - 2 * cosine + (2 * temperature if weight is None else weight) * negatives


def linear_contrastive(z1: Embedding, z2: Embedding, *, weight: float = 1.0) -> Scalar:
    r"""The contrastive loss at infinite temperature: attract positives and repel negatives by their cosines.

    .. math:: -\mathbb{E}\, u_1 \cdot u_2 + w\, \mathbb{E}\, u \cdot u^-

    Negatives are views of different samples, so the second mean is an unbiased :math:`\|\mathbb{E} u\|^2`. Any law with
    mean zero minimizes that, even one on two points: the loss does not prevent dimensional collapse.

    References:
        Huang et al. (2023), Sec. 4. https://arxiv.org/abs/2111.00743
    """
    u1, u2 = directions(z1=z1, z2=z2)
    n, both = u1.shape[0], u1 + u2
    negative = (both.sum(0).square().sum() - both.square().sum()) / (4 * n * (n - 1))
    return weight * negative - (u1 * u2).sum(1).mean()


def two_modal(z1: Embedding, z2: Embedding, *, temperature: float | Scalar = 0.07) -> Scalar:
    r"""InfoNCE both ways between two modalities, as CLIP: the mean of ``info_nce(z1, z2)`` and ``info_nce(z2, z1)``.

    :math:`-\frac{1}{2n} \sum_i \log \frac{e^{s_{ii}}}{\sum_j e^{s_{ij}}} + \log \frac{e^{s_{ii}}}{\sum_j e^{s_{ji}}}`
    with the scores :math:`s_{ij} = z_{1i} \cdot z_{2j} / T`, which are computed once. CLIP learns its temperature:
    ``Objective("two_modal", learnable=("temperature",))``.

    References:
        Radford et al. (2021), Fig. 3. https://arxiv.org/abs/2103.00020
    """
    positive(temperature=temperature)
    u1, u2 = directions(z1=z1, z2=z2)
    return softplus(torch.cat(cross_contrast(u1, u2, temperature=temperature))).mean()


def supervised(z1: Embedding, z2: Embedding, labels: Labels, *, temperature: float | Scalar = 0.1) -> Scalar:
    r"""NT-Xent with every embedding of the same label as a positive.

    :math:`\frac{1}{2n} \sum_i \frac{1}{|P(i)|} \sum_{p \in P(i)} -\log \frac{e^{u_i \cdot u_p / T}}{\sum_{j \ne i}
    e^{u_i \cdot u_j / T}}`, the mean over positives outside the logarithm. With all labels different it is ``nt_xent``.

    References:
        Khosla et al. (2020), eq. 2. https://arxiv.org/abs/2004.11362
    """
    positive(temperature=temperature)
    u, label = stacked_directions(z1=z1, z2=z2), class_numbers(labels, n=len(z1)).repeat(2)
    # The scores of an anchor with its class add up to its score with the sum of the class. We add up deviations from
    # the mean, which change no difference: at low temperatures the rounding of large sums would show.
    deviation = u - u.mean(0)
    sums = torch.zeros_like(u).index_add(0, label, deviation)
    counts = (torch.zeros_like(label).index_add(0, label, torch.ones_like(label))[label] - 1)[:, None]
    others = (sums[label] - deviation) / counts - deviation.roll(len(z1), 0)
    return (softplus(contrast(u, temperature=temperature)) - (u * others).sum(1) / temperature).mean()


def _contrast(z1: Tensor, z2: Tensor, temperature: float | Tensor) -> Tensor:
    positive(temperature=temperature)
    return view_contrast(z1, z2, temperature=temperature)
