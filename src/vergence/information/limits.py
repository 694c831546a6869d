"""What no estimator can do: ceilings, variances and biases that follow from the number of samples."""

import math

# ln(2 k N^2) with k = 34 stays below 2 ln N + 5, which is how McAllester & Stratos arrive at their constant.
MCALLESTER_STRATOS = 5.0


def info_nce_ceiling(batch: int) -> float:
    """InfoNCE with this many candidates never exceeds the logarithm of their number."""
    return math.log(batch)


def interpolated_ceiling(batch: int, *, alpha: float = 0.01) -> float:
    """The interpolated bound never exceeds 1 + log(n / alpha), or log n at alpha 1; NWJ, at alpha 0, has no ceiling.

    Poole et al. (2019) print log(n / alpha). A critic that separates perfectly reaches one nat more, since then the
    term that is subtracted vanishes; only at alpha 1 is it always one.
    """
    if alpha == 0:
        return math.inf
    return math.log(batch / alpha) + (alpha < 1)


def kl_ceiling(n: int) -> float:
    """No distribution-free lower confidence bound on a KL divergence from n samples of each law exceeds ln n.

    References:
        McAllester & Stratos (2020), Theorem 3.1. https://arxiv.org/abs/1811.04251
    """
    return math.log(n)


def entropy_ceiling(n: int, *, k: float = 34.0) -> float:
    """No distribution-free lower bound on an entropy exceeds ln(2 k n^2), but with probability delta + 1.01 / k.

    References:
        McAllester & Stratos (2020), Theorem 4.1. https://arxiv.org/abs/1811.04251
    """
    return math.log(2 * k * n**2)


def information_ceiling(n: int) -> float:
    """No distribution-free 99 % lower bound on mutual information from n >= 50 pairs exceeds 2 ln n + 5.

    References:
        McAllester & Stratos (2020), Theorem 1.1. https://arxiv.org/abs/1811.04251
    """
    return 2 * math.log(n) + MCALLESTER_STRATOS


def nwj_variance_floor(nats: float, n: int) -> float:
    """NWJ with the perfect critic and n independent pairs has at least the variance (e^I - 1) / n.

    References:
        Song & Ermon (2020), Theorem 2. https://arxiv.org/abs/1910.06222
    """
    return math.expm1(nats) / n


def gaussian_ratio_variance(nats: float) -> float:
    """The variance of the density ratio under independence for correlated Gaussians of one dimension: e^{2 I} - 1.

    For d equal pairs it is (1 - rho^2)^-d - 1, which is the same number: the information counts, not the dimension.
    """
    return math.expm1(2 * nats)


def donsker_varadhan_bias(nats: float, n: int) -> float:
    """By how much Donsker-Varadhan with the perfect critic overestimates, at least: (e^I - 1) / 2n to first order."""
    return math.expm1(nats) / (2 * n)


def smile_variance(clip: float, n: int) -> float:
    r"""The mean of n ratios clipped to :math:`[e^{-c}, e^c]` varies by at most :math:`(e^c - e^{-c})^2 / 4n`."""
    return math.sinh(clip) ** 2 / n


def smile_bias(clip: float, *, largest: float, mean: float = 1.0) -> float:
    r"""How far clipping can move the mean of a ratio that is at most :math:`e^{\mathrm{largest}}` and has this mean.

    References:
        Song & Ermon (2020), Theorem 3. https://arxiv.org/abs/1910.06222
    """
    low, high, top = math.exp(-clip), math.exp(clip), math.exp(largest)
    if clip >= largest:
        return low * (1 - mean / top)
    return max(low * abs(1 - mean * low), abs(1 - top * low + mean * (top - high)) / (top - low))


def samples_needed(nats: float) -> int:
    """How many pairs could certify so many nats without assumptions: those whose ln n is one nat above."""
    return math.ceil(math.exp(min(nats, 600.0) + 1.0))
