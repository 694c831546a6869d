"""Bounds on mutual information of a score matrix, in nats; each is differentiable.

``scores[i, j]`` is what a critic thinks of the pair (x_i, y_j); only those on the diagonal belong together.
``SIDES`` says on which side of the truth each stands, in expectation over samples and for any critic. FlatNCE's log-xi
is not here: with independent variables it says log(n / (n - 1)), so it bounds nothing from below.
"""

import math
from typing import Literal

import torch
from torch.nn.functional import softplus

from vergence.types import Scalar, Square, Vector

Side = Literal["lower", "upper", "neither"]


def info_nce(scores: Square) -> Scalar:
    r"""How well x picks its own y from the batch: :math:`\log n + \frac1n \sum_i (s_{ii} - \log \sum_j e^{s_{ij}})`.

    A lower bound with little variance, which never exceeds log n: near it, it says nothing about the truth.

    References:
        van den Oord et al. (2018), eq. 5. https://arxiv.org/abs/1807.03748
    """
    return math.log(len(scores)) + (scores.diagonal() - scores.logsumexp(1)).mean()


def nwj(scores: Square) -> Scalar:
    r""":math:`1 + \mathbb{E}_P[s - 1] - \mathbb{E}_Q[e^{s - 1}]`: an unbiased lower bound.

    Tight for the critic one plus the log density ratio. Its variance grows as the exponential of the information.

    References:
        Nguyen, Wainwright & Jordan (2010); Poole et al. (2019), eq. 5. https://arxiv.org/abs/1905.06922
    """
    return scores.diagonal().mean() - (_log_mean_off_diagonal(scores) - 1).exp()


def donsker_varadhan(scores: Square) -> Scalar:
    r""":math:`\mathbb{E}_P[s] - \log \mathbb{E}_Q[e^s]`: the tightest of this family.

    A lower bound for the true expectations only: the logarithm of a sample mean overestimates, by about
    ``limits.donsker_varadhan_bias``. Never average it over minibatches.

    References:
        Donsker & Varadhan (1983); Belghazi et al. (2018), eq. 10. https://arxiv.org/abs/1801.04062
    """
    return scores.diagonal().mean() - _log_mean_off_diagonal(scores)


def mine(scores: Square, *, log_average: float | Scalar = 0.0) -> Scalar:
    """Donsker-Varadhan's value, with the gradient of a denominator averaged over past batches.

    ``log_average`` is the logarithm of the moving average of e^s off the diagonal; ``moving_average`` updates it.

    References:
        Belghazi et al. (2018), Sec. 3.2. https://arxiv.org/abs/1801.04062
    """
    surrogate = scores.diagonal().mean() - (_log_mean_off_diagonal(scores) - log_average).exp()
    return surrogate + (donsker_varadhan(scores) - surrogate).detach()


def moving_average(scores: Square, log_average: Scalar, *, decay: float = 0.99) -> Scalar:
    """MINE's denominator after one more batch, in logarithms."""
    terms = torch.stack([log_average + math.log(decay), _log_mean_off_diagonal(scores).detach() + math.log1p(-decay)])
    return terms.logsumexp(0)


def jensen_shannon(scores: Square) -> Scalar:
    r""":math:`-\mathbb{E}_P[\mathrm{softplus}(-s)] - \mathbb{E}_Q[\mathrm{softplus}(s)]`: trains a critic stably.

    It bounds a Jensen-Shannon divergence (twice it, less log 4), not the mutual information; its optimal critic is the
    log density ratio.

    References:
        Nowozin et al. (2016). https://arxiv.org/abs/1606.00709; Hjelm et al. (2019), eq. 4. https://arxiv.org/abs/1808.06670
    """
    n = len(scores)
    negatives = softplus(scores)
    return -softplus(-scores.diagonal()).mean() - (negatives.sum() - negatives.diagonal().sum()) / (n * (n - 1))


def smile(scores: Square, *, clip: float = 5.0) -> Scalar:
    r"""Donsker-Varadhan's value with e^s clipped to :math:`[e^{-c}, e^c]` off the diagonal; Jensen-Shannon's gradient.

    Less variance for a bias that may go either way: not a bound.

    References:
        Song & Ermon (2020). https://arxiv.org/abs/1910.06222
    """
    value = scores.diagonal().mean() - _log_mean_off_diagonal(scores.clamp(-clip, clip))
    surrogate = jensen_shannon(scores)
    return surrogate + (value - surrogate).detach()


def interpolated(scores: Square, *, alpha: float = 0.01, log_baseline: float = 1.0) -> Scalar:
    r"""Between NWJ and InfoNCE: the denominator is :math:`\alpha m(y) + (1 - \alpha) a` with m the mean of e^s over x.

    ``alpha`` 1 is InfoNCE over the columns, 0 is NWJ (with the baseline a = e). In between it never exceeds
    1 + log(n / alpha), which it reaches: the authors' ceiling lacks the one. As in their code, the matching pair is in
    its own m and left out of the m of the independent ones.

    References:
        Poole et al. (2019), eq. 14. https://arxiv.org/abs/1905.06922
    """
    n = len(scores)
    with_pair = _mixed(scores.logsumexp(0) - math.log(n), alpha, log_baseline)
    without_pair = _mixed(_without_diagonal(scores).logsumexp(0) - math.log(n - 1), alpha, log_baseline)
    return 1 + (scores.diagonal() - with_pair).mean() - _log_mean_off_diagonal(scores - without_pair).exp()


def leave_one_out(scores: Square) -> Scalar:
    r""":math:`\frac1n \sum_i (s_{ii} - \log \frac{1}{n-1} \sum_{j \ne i} e^{s_{ji}})`: an upper bound.

    Only for the true critic, log p(y|x) up to a function of y; for any other it may be anywhere.

    References:
        Poole et al. (2019), eq. 13. https://arxiv.org/abs/1905.06922
    """
    n = len(scores)
    return (scores.diagonal() - _without_diagonal(scores).logsumexp(0)).mean() + math.log(n - 1)


SIDES: dict[str, Side] = {
    "info_nce": "lower",
    "nwj": "lower",
    "donsker_varadhan": "neither",  # a lower bound only before the sample mean enters the logarithm
    "mine": "neither",
    "jensen_shannon": "neither",
    "smile": "neither",
    "interpolated": "lower",
    "leave_one_out": "upper",
}


def _without_diagonal(scores: Square) -> Square:
    return scores.masked_fill(torch.eye(len(scores), dtype=torch.bool, device=scores.device), -torch.inf)


def _log_mean_off_diagonal(scores: Square) -> Scalar:
    n = len(scores)
    return _without_diagonal(scores).flatten().logsumexp(0) - math.log(n * (n - 1))


def _mixed(log_mean: Vector, alpha: float, log_baseline: float) -> Vector:
    """log(alpha e^log_mean + (1 - alpha) e^log_baseline), also at both ends."""
    if alpha == 1:
        return log_mean
    baseline = torch.full_like(log_mean, log_baseline + math.log1p(-alpha))
    return torch.logaddexp(log_mean + math.log(alpha), baseline) if alpha > 0 else baseline
