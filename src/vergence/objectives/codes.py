"""SwAV and DINO: a view predicts to which prototypes another view belongs. Rows are scores with the prototypes."""

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.objectives.inputs import checked, positive
from vergence.types import Embedding, Scalar


def swav(
    query: Embedding, key: Embedding, *, temperature: float = 0.1, epsilon: float = 0.05, iterations: int = 3
) -> Scalar:
    r"""Cross-entropy of the query's prototypes to the key's codes: :math:`-\frac1n \sum_{ik} q_{ik} \log p_{ik}`.

    Rows are scores with the K prototypes, :math:`p = \mathrm{softmax}(\mathrm{query} / T)`, and the codes q are
    ``sinkhorn(key)``: prototypes share the batch evenly, which is what prevents collapse. The value is log K where all
    scores are equal, and 0 where every query is sure and right. The learner averages both directions, and takes codes
    from global views only and without gradient.

    References:
        Caron et al. (2020), Eqs. 2 and 3. https://arxiv.org/abs/2006.09882
    """
    positive(temperature=temperature, epsilon=epsilon)
    query, key = checked(query=query, key=key)
    codes = sinkhorn(key, epsilon=epsilon, iterations=iterations)
    return -(codes * (query / temperature).log_softmax(1)).sum(1).mean()


def sinkhorn(scores: Embedding, *, epsilon: float = 0.05, iterations: int = 3) -> Embedding:
    r"""Codes of a batch: :math:`e^{\mathrm{scores} / \epsilon}` with columns, then rows, made to have equal sums.

    Rows sum to 1. After many iterations each of the K prototypes holds 1/K of the batch; three, as the authors take,
    come near. Computed in logarithms, so that no scale of the scores overflows.

    References:
        Cuturi (2013); Caron et al. (2020), Sec. 3.1. https://arxiv.org/abs/2006.09882
    """
    logarithms = scores / epsilon
    for _ in range(iterations):
        logarithms = logarithms - logarithms.logsumexp(0, keepdim=True)
        logarithms = logarithms - logarithms.logsumexp(1, keepdim=True)
    return logarithms.softmax(1)


def dino(
    query: Embedding,
    key: Embedding,
    *,
    center: Float[Tensor, " d"] | None = None,
    temperature: float = 0.1,
    key_temperature: float = 0.04,
) -> Scalar:
    r"""Cross-entropy of the student's prototypes to the teacher's, centered and sharpened.

    .. math:: -\frac1n \sum_{ik} \mathrm{softmax}_k\left((\mathrm{key}_i - c) / T_k\right)
        \log \mathrm{softmax}_k(\mathrm{query}_i / T)

    Rows are scores with the K prototypes; c is a moving average of the teacher's scores, or where none is given the
    mean of this batch's. Centering alone leads to the uniform assignment, where the value is log K; sharpening alone
    to one prototype, where it is 0: neither value says that something was learned.

    References:
        Caron et al. (2021), Alg. 1 and Sec. 3.1. https://arxiv.org/abs/2104.14294
    """
    positive(temperature=temperature, key_temperature=key_temperature)
    query, key = checked(query=query, key=key)
    teacher = ((key - (key.mean(0) if center is None else center.to(key))) / key_temperature).softmax(1)
    return -(teacher * (query / temperature).log_softmax(1)).sum(1).mean()


def entropies(scores: Embedding, *, temperature: float, center: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Of softmax(scores / T): the mean entropy of a row, and the entropy of the mean row, in nats.

    Both are log K where every row is uniform. Both are 0 where all rows are sure of one prototype. A low first and a
    high second are what a clustering should have: rows are sure, and together they use many prototypes.
    """
    share = ((scores if center is None else scores - center) / temperature).softmax(1)
    return torch.special.entr(share).sum(1).mean(), torch.special.entr(share.mean(0)).sum()
