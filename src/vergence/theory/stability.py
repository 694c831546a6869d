"""Stability: the share of samples whose views have nearby features, measured, and bounded by the alignment loss."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.theory.certificate import Certificate
from vergence.types import Vector

Views = Float[Tensor, "n m d"]
Form = Literal["corrected", "published"]


def view_spread(features: Views) -> Vector:
    r"""The largest distance between the features of two views of each sample.

    A sample is in :math:`S_\epsilon` when its spread is at most :math:`\epsilon`. Over sampled views the spread can
    only be too small.
    """
    return torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist").amax((1, 2))


def unstable_share(features: Views, epsilon: float) -> float:
    r""":math:`R_\epsilon`: the share of samples outside :math:`S_\epsilon`, with views farther apart than that."""
    return (view_spread(features) > epsilon).double().mean().item()


def expected_alignment(features: Views) -> float:
    r""":math:`L_{align} = E \|f(x_1) - f(x_2)\|^2` over two independent views, which may be the same view."""
    features = features.double()
    return (2 * features.var(1, unbiased=False).sum(1)).mean().item()


def eta(
    epsilon: float, *, lipschitz: float, smoothness: float, discrete: int, continuous: int, form: Form = "corrected"
) -> float:
    r"""The factor of :math:`R_\epsilon \le \eta(\epsilon) \sqrt{L_{align}}`.

    :math:`\eta = \inf_h 4 \max(m^2, h^{-2n}) / (\epsilon - c h)`, :math:`c = 2 \sqrt n L M`, for m ``discrete``
    transformations and n ``continuous`` parameters in [0, 1] that move a view at most M (``smoothness``) times as far
    as they move. The published form takes the infimum over all h; the corrected one over h = 1/integer, because cubes
    of side h must tile. Not O(1/epsilon), as is printed: near zero it grows like :math:`\epsilon^{-(2n+1)}`.

    References:
        Huang et al. (2023), Theorem 2. https://arxiv.org/abs/2111.00743
    """
    return _infimum(epsilon, 1, lipschitz, smoothness, discrete, continuous, form)


def eta_squared(
    epsilon: float, *, lipschitz: float, smoothness: float, discrete: int, continuous: int, form: Form = "corrected"
) -> float:
    r"""The factor of the bound that is linear in alignment, :math:`R_\epsilon \le \eta_2(\epsilon) L_{align}`.

    :math:`\inf_h 4 \max(m^2, h^{-2n}) / (\epsilon - c h)^2`: Markov's inequality on the square instead of Jensen's.
    Sharper than :func:`eta` when views are well aligned.
    """
    return _infimum(epsilon, 2, lipschitz, smoothness, discrete, continuous, form)


def stability(
    features: Views,
    epsilon: float,
    *,
    lipschitz: float,
    smoothness: float,
    discrete: int,
    continuous: int,
    form: Form = "corrected",
) -> Certificate:
    r"""Theorem 1, aligned encoders keep views together:
    :math:`R_\epsilon \le \min(\eta \sqrt{L_{align}}, \eta_2 L_{align})`.

    The published form has the first only. Both are loose by orders of magnitude: read the measured left side.

    References:
        Huang et al. (2023), Theorem 2 (Theorem 1 of the talk).
    """
    aligned = expected_alignment(features)
    jensen = _infimum(epsilon, 1, lipschitz, smoothness, discrete, continuous, form) * math.sqrt(aligned)
    markov = _infimum(epsilon, 2, lipschitz, smoothness, discrete, continuous, form) * aligned
    right = jensen if form == "published" else min(jensen, markov)
    return Certificate(
        statement="share of samples with views farther than epsilon <= eta * sqrt(alignment)",
        source="Huang et al. (2023), Theorem 2",
        left=unstable_share(features, epsilon),
        right=right,
        vacuous=right >= 1,  # a share is at most 1 without any theorem
        assumptions={
            "the encoder's Lipschitz constant": "estimated from below",
            "how far parameters move a view": "assumed",
            "half of the views are discrete transformations, half continuous": "assumed",
            "unstable share, over sampled views": "estimated from below",
        },
        terms={"epsilon": epsilon, "alignment": aligned, "eta bound": jensen, "linear bound": markov},
    )


def lipschitz_estimate(
    inputs: Float[Tensor, "n m *shape"], features: Views, *, pairs: int = 100_000, seed: int = 0
) -> float:
    """The largest ratio of feature distance to input distance over sampled pairs of views: a Lipschitz constant cannot
    be smaller, and may be larger."""
    points, images = inputs.flatten(2).flatten(0, 1), features.flatten(0, 1)
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randint(len(points), (2, pairs), generator=generator).to(points.device)
    ratios = []
    for one, other in zip(first.split(4096), second.split(4096), strict=True):
        moved = (points[one] - points[other]).norm(dim=1)
        ratios.append(((images[one] - images[other]).norm(dim=1) / moved)[moved > 0])
    return torch.cat(ratios).amax().item()


def _infimum(
    epsilon: float, power: int, lipschitz: float, smoothness: float, discrete: int, continuous: int, form: Form
) -> float:
    if epsilon <= 0 or discrete < 1 or continuous < 0 or min(lipschitz, smoothness) < 0:
        raise ValueError(
            "Expected epsilon above 0, at least 1 discrete transformation (the identity) and constants of at least 0, "
            f"got {epsilon=}, {discrete=}, {continuous=}, {lipschitz=}, {smoothness=}."
        )
    speed = 2 * math.sqrt(continuous) * lipschitz * smoothness
    if continuous == 0 or speed == 0:
        return 4 * discrete**2 / epsilon**power

    def value(side: float) -> float:
        gap = epsilon - speed * side
        return 4 * max(discrete**2, side ** (-2 * continuous)) / gap**power if gap > 0 else math.inf

    balance = 2 * continuous / power  # where the derivative of h^(-2n) (epsilon - c h)^(-power) vanishes
    side = min(discrete ** (-1 / continuous), balance * epsilon / ((balance + 1) * speed))
    if form == "published":
        return value(side)
    return min(value(1 / math.ceil(1 / side)), value(1 / max(1, math.floor(1 / side))))
