"""Divergence: how the losses push the centers of classes apart, and the bounds on the error that follow."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from vergence.theory.centers import class_centers
from vergence.theory.certificate import Certificate
from vergence.theory.stability import Views, expected_alignment, view_spread
from vergence.types import Labels

LARGEST_EPSILON = 1 - math.log(1 - 1 / math.e)  # beyond it phi can be negative and the proof of the simple form fails
BLOCK = 2**22  # triples of views held at once


@dataclass(frozen=True)
class Parts:
    """The two parts of a loss: ``first`` rewards alignment, ``second`` divergence."""

    first: float
    second: float


def info_nce_parts(features: Views) -> Parts:
    r"""InfoNCE with one negative and temperature 1, split: :math:`L_1 = \frac{1}{2} E \|f_1 - f_2\|^2 - 1` and
    :math:`L_2 = E \log(e^{f_1 \cdot f_2} + e^{f_1 \cdot f^-})`; their sum is the loss.

    Exact expectations over the views given, on the unit sphere: two independent views of a sample, and a view of an
    independent one, which may be the same.
    """
    features = normalize(features, dim=2)
    everyone = features.flatten(0, 1)
    total = 0.0
    for own in features:
        for anchors in own.split(max(1, BLOCK // (len(own) * len(everyone)))):
            positive, negative = anchors @ own.T, anchors @ everyone.T
            total += torch.logaddexp(positive[:, :, None], negative[:, None, :]).mean((1, 2)).sum().item()
    return Parts(expected_alignment(features) / 2 - 1, total / len(everyone))


def info_nce_divergence(
    features: Views, labels: Labels, *, epsilon: float | None = None, form: Literal["sharper", "simple"] = "sharper"
) -> Certificate:
    r"""Theorem 3: a small InfoNCE loss keeps every two centers of classes apart.

    Simple form: :math:`\mu_k \cdot \mu_l \le \log(e^{(L_2 + \tau) / p_k p_l} - e^{1 - \epsilon})`,
    :math:`\tau = (2 - \epsilon) R_\epsilon`, for :math:`\epsilon \le 1.4587`. The sharper form puts
    :math:`\epsilon^2 / 2` for :math:`\epsilon`, keeps both (k, l) and (l, k), and counts other pairs at their floor.
    The published remainder is lost; this one is derived and needs no concentration. Epsilon is chosen to make the bound
    smallest unless given; reported for the pair of classes with the least slack.

    References:
        Huang et al. (2023), Theorem 3. https://arxiv.org/abs/2111.00743
    """
    if epsilon is not None and not 0 <= epsilon <= LARGEST_EPSILON:
        raise ValueError(f"Expected epsilon in [0, {LARGEST_EPSILON:.4f}], where the theorem holds, got {epsilon}.")
    features = normalize(features, dim=2).double()
    second = info_nce_parts(features).second
    spreads = view_spread(features)
    tried = [epsilon] if epsilon is not None else [e for e in [0.0, *spreads.tolist()] if e <= LARGEST_EPSILON]
    bound = _simple_bound if form == "simple" else _sharper_bound
    shares = class_centers(features, labels)[1]
    weight = (shares[:, None] * shares)[..., None]
    epsilons = torch.tensor(tried, dtype=torch.float64)
    unstable = (spreads[:, None] > epsilons).double().mean(0)
    bounds, best = bound(second, unstable, epsilons, weight).min(2)
    return _centers_certificate(
        features,
        labels,
        bounds,
        largest=1.0,
        statement=f"product of two centers <= function of the InfoNCE loss ({form})",
        source="Huang et al. (2023), Theorem 3, remainder derived",
        terms={"second part of the loss": second, "epsilon": epsilons[best], "R": unstable[best]},
    )


def standardized(features: Views) -> Views:
    """Features with mean 0 and mean square 1 in every dimension, over all views: what the cross-correlation assumes."""
    spread = features.std((0, 1), unbiased=False)
    return (features - features.mean((0, 1))) / torch.where(spread > 0, spread, 1)


def cross_correlation(features: Views) -> Float[Tensor, "d d"]:
    r""":math:`C = E f(x_1) f(x_2)^T` over two independent views of a sample, each of the views given."""
    means = features.mean(1)
    return means.T @ means / len(means)


def cross_correlation_parts(features: Views) -> Parts:
    r"""The Barlow Twins loss, split: :math:`L_1 = \sum_i (1 - C_{ii})^2` and :math:`L_2 = \|C - I\|^2`, of standardized
    features; the loss with off-diagonal weight w is :math:`(1 - w) L_1 + w L_2`."""
    correlation = cross_correlation(standardized(features.double()))
    identity = torch.eye(len(correlation), dtype=correlation.dtype, device=correlation.device)
    first = (1 - correlation.diagonal()).square().sum().item()
    return Parts(first, (correlation - identity).square().sum().item())


def cross_correlation_alignment(features: Views) -> Certificate:
    r"""Lemma 2: the cross-correlation loss aligns, :math:`E \|f_1 - f_2\|^2 \le 2 \sqrt{d L_1}`.

    Of standardized features. An equality when all diagonal entries of C are equal.

    References:
        Huang et al. (2023), Lemma 4.1.
    """
    scaled = standardized(features.double())
    first = cross_correlation_parts(features).first
    right = 2 * math.sqrt(scaled.shape[2] * first)
    return Certificate(
        statement="alignment <= 2 sqrt(d L_1) of the cross-correlation",
        source="Huang et al. (2023), Lemma 4.1",
        left=expected_alignment(scaled),
        right=right,
        vacuous=right >= 2 * scaled.shape[2],  # independent views already reach 2 d
        assumptions={"features have mean 0 and mean square 1": "measured"},
        terms={"first part of the loss": first},
    )


def cross_correlation_divergence(
    features: Views,
    labels: Labels,
    *,
    remainder: float | None = None,
    form: Literal["corrected", "published"] = "corrected",
) -> Certificate:
    r"""Theorem 4: a small cross-correlation loss keeps every two centers of classes apart, for standardized features:
    :math:`\mu_k \cdot \mu_l \le \sqrt{\frac{2}{p_k p_l} (L_2 + \tau' - (d - K) / 2)}`.

    Both entries (k, l) and (l, k) count, so the corrected form has 1 for 2. ``remainder`` is :math:`\tau'`, such as
    :func:`derived_remainder`; by default the measured :math:`\|C - \sum_k p_k \mu_k \mu_k^T\|^2`.

    References:
        Huang et al. (2023), Theorem 4; norm sqrt(d) and mean 0 are assumed there, though some versions omit them.
    """
    scaled = standardized(features.double())
    second = cross_correlation_parts(features).second
    remainder = measured_remainder(features, labels) if remainder is None else remainder
    shares = class_centers(scaled, labels)[1]
    inner = second + remainder - (scaled.shape[2] - len(shares)) / 2
    factor = 2 if form == "published" else 1
    return _centers_certificate(
        scaled,
        labels,
        (factor * max(0.0, inner) / (shares[:, None] * shares)).sqrt(),
        largest=float(scaled.shape[2]),
        statement=f"product of two centers <= function of the cross-correlation loss ({form})",
        source="Huang et al. (2023), Theorem 4, remainder derived",
        terms={"second part of the loss": second, "remainder": remainder},
    )


def measured_remainder(features: Views, labels: Labels) -> float:
    r""":math:`\|C - \sum_k p_k \mu_k \mu_k^T\|^2`: how far samples spread around the center of their class."""
    scaled = standardized(features.double())
    centers, shares = class_centers(scaled, labels)
    return (cross_correlation(scaled) - (centers.T * shares) @ centers).square().sum().item()


def derived_remainder(
    shares: Float[Tensor, " k"],
    *,
    sigma: float,
    delta: float,
    epsilon: float,
    unstable: float,
    dimension: int,
    lipschitz: float = 1.0,
) -> float:
    r"""The remainder from concentration, for features of norm sqrt(d):
    :math:`\tau' = [\sum_k p_k (\frac{1}{2} q_k^2 \min(a^2, 4d) + 2d (1 - q_k^2))]^2`, with
    :math:`a = 2 \epsilon + L \delta` and :math:`q_k = (\sigma - R_\epsilon / p_k)^+`."""
    sure = (sigma - unstable / shares).clamp_min(0).square()
    apart = min((2 * epsilon + lipschitz * delta) ** 2, 4 * dimension)
    return (shares * (sure * apart / 2 + 2 * dimension * (1 - sure))).sum().square().item()


def info_nce_error(bound: Certificate, first_part: float, *, eta: float) -> Certificate:
    r"""The error in terms of the InfoNCE loss: :math:`(1 - \sigma) + \eta \sqrt{2 + 2 L_1}`, with
    :math:`L_1 = \frac{1}{2} E \|f_1 - f_2\|^2 - 1` and the condition of ``bound``, a :func:`generalization_bound`.

    References:
        Huang et al. (2023), Sec. 4.1.
    """
    unstable = eta * math.sqrt(max(0.0, 2 + 2 * first_part))
    return _through_loss(bound, unstable, "nearest-center error <= (1 - sigma) + eta * sqrt(2 + 2 L_1)")


def cross_correlation_error(bound: Certificate, first_part: float, *, eta: float, dimension: int) -> Certificate:
    r"""The error in terms of the cross-correlation loss: :math:`(1 - \sigma) + \sqrt 2\, \eta\, d^{1/4} L_1^{1/4}`,
    with :math:`L_1 = \sum_i (1 - C_{ii})^2` and the condition of ``bound``, a :func:`generalization_bound`.

    References:
        Huang et al. (2023), Sec. 4.2.
    """
    unstable = math.sqrt(2) * eta * (dimension * first_part) ** 0.25
    return _through_loss(bound, unstable, "nearest-center error <= (1 - sigma) + sqrt(2) eta d^(1/4) L_1^(1/4)")


def _simple_bound(second: float, unstable: Tensor, epsilon: Tensor, weight: Tensor) -> Tensor:
    exponent = (second + (2 - epsilon) * unstable) / weight
    return _log_difference(exponent, 1 - epsilon)


def _sharper_bound(second: float, unstable: Tensor, epsilon: Tensor, weight: Tensor) -> Tensor:
    aligned = 1 - epsilon.square() / 2
    floor = torch.logaddexp(aligned, torch.tensor(-1.0, dtype=torch.float64))
    exponent = (second + (1 + aligned) * unstable - (1 - 2 * weight) * floor) / (2 * weight)
    return _log_difference(exponent, aligned)


def _log_difference(high: Tensor, low: Tensor) -> Tensor:
    """log(exp(high) - exp(low)) without overflow; hugely negative, a violated bound, where high is not above low."""
    gap = (high - low).clamp_min(1e-300)
    return high + torch.log(-torch.expm1(-gap))


def _centers_certificate(
    features: Tensor,
    labels: Tensor,
    bounds: Tensor,
    *,
    largest: float,
    statement: str,
    source: str,
    terms: dict[str, Tensor | float],
) -> Certificate:
    """The certificate of the two classes with the least slack; the product never exceeds ``largest`` anyway."""
    centers, _ = class_centers(features, labels)
    products = centers @ centers.T
    slack = (bounds - products).fill_diagonal_(math.inf)
    pair = divmod(int(slack.argmin()), len(centers))
    return Certificate(
        statement=statement,
        source=source,
        left=products[pair].item(),
        right=bounds[pair].item(),
        vacuous=bounds[pair].item() >= largest,
        assumptions={"R, over the views given": "estimated from below", "classes do not share views": "assumed"},
        terms={name: float(value[pair]) if isinstance(value, Tensor) else value for name, value in terms.items()},
    )


def _through_loss(bound: Certificate, unstable: float, statement: str) -> Certificate:
    """The bound with R replaced by its bound from the loss; the condition on the centers still has to hold."""
    right = 1 - bound.terms["sigma"] + unstable
    silent = bound.terms["largest product of centers"] >= bound.terms["threshold"]
    return replace(
        bound,
        statement=statement,
        right=1.0 if silent else right,
        vacuous=silent or right >= bound.terms["chance error"],
        assumptions={**bound.assumptions, "eta": "assumed"},
        terms={**bound.terms, "R through the loss": unstable},
        curves={},
    )
