"""Generalization: when alignment, divergence of centers and concentration guarantee a nearest-center classifier."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vergence.tables import UnknownName
from vergence.theory.centers import chance_error, class_centers, nearest_center_classes, nearest_center_error
from vergence.theory.certificate import Certificate, Standing
from vergence.theory.concentration import Concentration, MainPart, concentration, concentration_curve
from vergence.theory.distance import augmented_distance, within_classes
from vergence.theory.stability import Views, view_spread
from vergence.types import Labels, Square

Rho = Literal["corrected", "published", "arxiv", "measured"]

CHOICES = 256  # values of epsilon tried: the bound changes only at the spreads of samples, and slowly
QUANTILES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of distances in classes: deltas


def rho(
    sigma: Tensor | float,
    delta: float,
    epsilon: Tensor | float,
    unstable: Tensor | float,
    share: Tensor | float,
    *,
    lipschitz: float = 1.0,
    radius: float = 1.0,
    form: Rho = "corrected",
) -> Tensor:
    r"""How far, relative to :math:`r^2`, a stable sample of the main part can be from its center:
    :math:`f(x) \cdot \mu_k \ge r^2 (1 - \rho_k)`.

    With :math:`a = (L \delta + 2 \epsilon) / r` and :math:`R = R_\epsilon / p_k`: corrected :math:`2 - q (2 - a)`,
    where :math:`q = (\sigma - R)^+` and a counts at most 2; published :math:`2 (1 - \sigma) + R + \sigma a`; arXiv
    :math:`2 (1 - \sigma) + R + (\sigma - R) a`. The inequality above is false for the last two: the unstable part may
    lie opposite, at :math:`-r^2`, and so counts twice. Where :math:`R > \sigma` the arXiv form even falls as the views
    move apart, and the theorem built on it is false.

    References:
        Huang et al. (2023), Theorem 1; the arXiv form as in Joshi & Mirzasoleiman (2023), Theorem B.1.
    """
    sigma, epsilon, unstable, share = (
        torch.as_tensor(value, dtype=torch.float64) for value in (sigma, epsilon, unstable, share)
    )
    lost, apart = unstable / share, (lipschitz * delta + 2 * epsilon) / radius
    if form == "published":
        return 2 * (1 - sigma) + lost + sigma * apart
    if form == "arxiv":
        return 2 * (1 - sigma) + lost + (sigma - lost) * apart
    if form == "corrected":
        return 2 - (sigma - lost).clamp_min(0) * (2 - apart.clamp_max(2))
    raise UnknownName("form of rho", form, ("corrected", "published", "arxiv"))


def divergence_threshold(rho: Tensor | float, spread: Tensor | float) -> Tensor:
    r"""What the product of two centers must stay below, in units of :math:`r^2`:
    :math:`1 - \rho - \sqrt{2 \rho} - \Delta_\mu / 2`.

    Never above -1, and so out of reach, from :math:`\rho = 3 - \sqrt 5` on.
    """
    rho = torch.as_tensor(rho, dtype=torch.float64).clamp_min(0)  # the arXiv form can be negative
    return 1 - rho - (2 * rho).sqrt() - torch.as_tensor(spread, dtype=torch.float64) / 2


def separation(features: Views, labels: Labels, distance: Square, delta: float, epsilon: float) -> Certificate:
    r"""Lemma 1: a classifier that is right on the stable samples of the main parts errs on at most
    :math:`(1 - \sigma) + R_\epsilon`.

    Whether it is right on them is looked up; when it is not, the lemma is silent and the right side is 1.

    References:
        Huang et al. (2023), Lemma 3.1.
    """
    found = concentration(distance, labels, delta)
    stable = view_spread(features) <= epsilon
    inside = torch.zeros_like(stable).index_fill(0, torch.cat([part.members for part in found.parts]), True)
    wrong = nearest_center_classes(features, labels) != labels
    mistaken = int((wrong & stable & inside).sum())
    unstable = 1 - stable.double().mean().item()
    right = 1 - found.sigma + unstable if mistaken == 0 else 1.0
    return Certificate(
        statement="error <= (1 - sigma) + R, when the stable samples of the main parts are classified correctly",
        source="Huang et al. (2023), Lemma 3.1",
        left=wrong.double().mean().item(),
        right=right,
        vacuous=right >= chance_error(labels),
        assumptions={"stable main samples are classified correctly": "measured", "sigma": "estimated from below"},
        terms={"sigma": found.sigma, "delta": delta, "epsilon": epsilon, "R": unstable, "mistaken": float(mistaken)},
    )


def generalization_bound(
    features: Views,
    labels: Labels,
    *,
    distance: Square | None = None,
    sigma: float | None = None,
    delta: float | Sequence[float] | None = None,
    epsilon: float | None = None,
    lipschitz: float = 1.0,
    radius: float = 1.0,
    rho: Rho = "corrected",
    seconds: float = 2.0,
) -> Certificate:
    r"""Theorem 2: with centers far enough apart, the nearest-center error is at most :math:`(1 - \sigma) + R_\epsilon`.

    The condition is :math:`\mu_k \cdot \mu_l < r^2 (1 - \rho - \sqrt{2 \rho} - \Delta_\mu / 2)` for all classes, with
    :math:`\Delta_\mu = 1 - \min_k \|\mu_k\|^2 / r^2`; where no choice meets it the right side is 1. Features are those
    of the views of each sample, the sample itself first, and are scaled to norm ``radius``. Concentration comes from a
    ``distance`` matrix with the encoder's ``lipschitz`` constant for that distance, or from a known ``sigma`` and
    ``delta``, or else from the features themselves, where the constant is 1 and nothing about the encoder is assumed.
    Delta and epsilon are chosen to make the bound smallest unless given. The measured form of rho counts the stable
    samples of each main part instead of bounding them.

    References:
        Huang et al. (2023), Theorem 1 (Theorem 2 of the talk). https://arxiv.org/abs/2111.00743
    """
    _validate(features, labels, distance, sigma, delta, epsilon, rho)
    features = radius * normalize(features, dim=2)
    parts = _parts(features, labels, distance, sigma, delta, seconds)
    geometry = _geometry(features, labels, radius)
    epsilons = _epsilons(geometry.view_spreads, epsilon)
    choices = [_choice(geometry, part, epsilons, lipschitz, radius, rho) for part in parts]
    best = min(choices, key=lambda choice: (choice.bound, -choice.margin))
    own_space = distance is None and sigma is None
    known: Standing = "assumed" if sigma is not None else "estimated from below"
    return Certificate(
        statement="nearest-center error <= (1 - sigma) + R, when the centers of classes are far enough apart",
        source="Huang et al. (2023), Theorem 1",
        left=geometry.error,
        right=best.bound,
        vacuous=best.bound >= geometry.chance,
        assumptions={
            "centers are far enough apart": "measured",
            "the encoder's Lipschitz constant": "measured" if own_space else "estimated from below",
            "sigma": known,
            "R, over the views given": "estimated from below",
        },
        terms={**best.terms, "largest product of centers": geometry.product, "chance error": geometry.chance},
        curves=best.curves,
    )


@dataclass(frozen=True)
class _Geometry:
    """What the theorem asks of features and labels, measured; products in units of the squared radius."""

    labels: Tensor
    shares: Tensor
    view_spreads: Tensor
    error: float
    product: float
    center_spread: float

    @property
    def chance(self) -> float:
        """The error of always naming the largest class."""
        return chance_error(self.labels)


@dataclass(frozen=True)
class _Choice:
    """The best epsilon at one delta."""

    bound: float
    margin: float
    terms: dict[str, float]
    curves: dict[str, list[float]]


def _geometry(features: Tensor, labels: Tensor, radius: float) -> _Geometry:
    centers, shares = class_centers(features, labels)
    products = (centers @ centers.T / radius**2).double()
    between = products.masked_fill(torch.eye(len(products), dtype=torch.bool, device=products.device), -math.inf)
    return _Geometry(
        labels=labels,
        shares=shares.double(),
        view_spreads=view_spread(features).double(),
        error=nearest_center_error(features, labels),
        product=between.amax().item(),
        center_spread=1 - products.diagonal().amin().item(),
    )


def _choice(
    geometry: _Geometry, part: Concentration, epsilons: Tensor, lipschitz: float, radius: float, form: Rho
) -> _Choice:
    unstable = (geometry.view_spreads > epsilons[:, None]).double().mean(1)
    if form == "measured":
        apart = ((lipschitz * part.delta + 2 * epsilons) / radius).clamp_max(2)
        rhos = 2 - _stable_main_shares(geometry, part, epsilons) * (2 - apart[:, None])
    else:
        lost = (epsilons[:, None], unstable[:, None], geometry.shares)
        rhos = rho(part.sigma, part.delta, *lost, lipschitz=lipschitz, radius=radius, form=form)
    worst = rhos.amax(1)
    margins = divergence_threshold(worst, geometry.center_spread) - geometry.product
    bounds = (1 - part.sigma + unstable).clamp_max(1).where(margins > 0, 1.0)
    best = int(margins.where(bounds == bounds.amin(), -math.inf).argmax())
    terms = {
        "sigma": part.sigma,
        "delta": part.delta,
        "epsilon": epsilons[best].item(),
        "R": unstable[best].item(),
        "rho": worst[best].item(),
        "threshold": (margins[best] + geometry.product).item(),
        "spread of center norms": geometry.center_spread,
        "Lipschitz constant": lipschitz,
    }
    curves = {"epsilon": epsilons, "R": unstable, "rho": worst, "margin": margins, "bound": bounds}
    return _Choice(bounds[best].item(), margins[best].item(), terms, {key: c.tolist() for key, c in curves.items()})


def _stable_main_shares(geometry: _Geometry, part: Concentration, epsilons: Tensor) -> Tensor:
    """For each epsilon and class: the share of the class that is in its main part and stable."""
    spreads = [geometry.view_spreads[main.members] for main in part.parts]
    sizes = [int((geometry.labels == main.label).sum()) for main in part.parts]
    shares = [(s <= epsilons[:, None]).double().sum(1) / size for s, size in zip(spreads, sizes, strict=True)]
    return torch.stack(shares, 1)


def _parts(
    features: Tensor,
    labels: Tensor,
    distance: Tensor | None,
    sigma: float | None,
    delta: float | Sequence[float] | None,
    seconds: float,
) -> Sequence[Concentration]:
    """The concentrations to choose from."""
    if sigma is not None:
        assert isinstance(delta, float | int)
        return [_known(labels, sigma, delta)]
    if distance is None:
        distance = within_classes(labels, lambda own: augmented_distance(features[own]))
    if delta is None:
        within = (labels[:, None] == labels) & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        levels = torch.tensor(QUANTILES, dtype=torch.float64)
        tried = distance[within].double().cpu().quantile(levels).unique().tolist()
        delta = [value for value in tried if 0 < value < math.inf] or [1e-12]  # all views coincide: any delta will do
    return concentration_curve(distance, labels, [delta] if isinstance(delta, float | int) else delta, seconds=seconds)


def _known(labels: Tensor, sigma: float, delta: float) -> Concentration:
    """A concentration given by the caller; which samples are in the main parts is not known."""
    nobody = labels.new_empty(0)
    return Concentration(delta, tuple(MainPart(int(label), nobody, sigma, sigma) for label in labels.unique()))


def _epsilons(spreads: Tensor, epsilon: float | None) -> Tensor:
    if epsilon is not None:
        return spreads.new_tensor([epsilon])
    values = spreads.unique()
    return values[torch.linspace(0, len(values) - 1, min(len(values), CHOICES)).long()]


def _validate(
    features: Tensor,
    labels: Tensor,
    distance: Tensor | None,
    sigma: float | None,
    delta: float | Sequence[float] | None,
    epsilon: float | None,
    form: Rho,
) -> None:
    if features.ndim != 3 or len(features) != len(labels):
        raise ValueError(
            f"Expected features of shape [samples, views, d] with one label a sample, got {list(features.shape)} "
            f"and {len(labels)} labels."
        )
    if not features.isfinite().all() or not features.any(2).all():
        raise ValueError("Features hold NaN or infinite values, or rows of zeros, which have no direction.")
    if len(labels.unique()) < 2:
        raise ValueError("The bound compares classes: expected at least 2, got 1.")
    if sigma is not None and (distance is not None or not isinstance(delta, float | int) or form == "measured"):
        raise ValueError(
            "Give sigma together with one delta and no distance, or a distance and no sigma; the measured rho needs "
            "the samples of the main parts, and so a distance."
        )
    if (sigma is not None and not 0 <= sigma <= 1) or (epsilon is not None and epsilon < 0):
        raise ValueError(f"Expected sigma in [0, 1] and epsilon of at least 0, got {sigma=}, {epsilon=}.")
