"""Claims about alignment, divergence and concentration."""

import math
from collections.abc import Iterator
from typing import Any

import networkx
import torch
from torch import Tensor
from torch.nn.functional import normalize

from vergence.claims.claim import Outcome, claim, within
from vergence.claims.draws import directions, gaussian
from vergence.objectives import barlow_twins, linear_contrastive
from vergence.theory import (
    Certificate,
    augmented_distance,
    class_centers,
    concentration,
    concentration_curve,
    cover_clique,
    cross_correlation,
    cross_correlation_alignment,
    cross_correlation_divergence,
    cross_correlation_parts,
    derived_remainder,
    divergence_threshold,
    eta,
    generalization_bound,
    info_nce_divergence,
    info_nce_parts,
    maximum_clique,
    measured_remainder,
    nearest_center_classes,
    rho,
    separation,
    stability,
    standardized,
    unstable_share,
)

RATES: dict[str, Any] = {"lipschitz": 1.5, "smoothness": 0.8, "discrete": 3}


def _toys(count: int, *, views: int = 3) -> Iterator[tuple[Tensor, Tensor]]:
    """Features of unit norm of samples and their views, and labels: from no class structure to perfect classes."""
    for seed in range(count):
        classes, d = 2 + seed % 3, 2 + seed % 4
        labels = torch.arange(8 * classes) % classes
        scale = 10.0 ** -(seed % 7 / 2)
        samples = directions(classes, d, seed)[labels] + scale * gaussian(len(labels), d, seed=-seed)
        drawn = samples[:, None] + scale * gaussian(len(labels), views, d, seed=seed + 1000)
        yield normalize(torch.cat([samples[:, None], drawn], 1), dim=2), labels


def _signs(seed: int) -> tuple[Tensor, Tensor]:
    """Features with entries 1 and -1, and classes in opposite pairs: norm sqrt(d), mean 0 and mean square 1 at once."""
    centers = gaussian(2, 6, seed=seed).sign()
    rows = centers.repeat(4, 1)[:, None].repeat(1, 3, 1)
    flips = torch.rand(rows.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) < 0.05 * (
        seed % 4
    )
    half = torch.where(flips, -rows, rows)
    return torch.cat([half, -half]), torch.tensor([0, 1]).repeat(4).repeat(2) + 2 * (torch.arange(16) >= 8)


def _none_violated(certificates: list[Certificate]) -> Outcome:
    """The outcome of a theorem checked on many toys."""
    informative = [certificate for certificate in certificates if not certificate.vacuous]
    violated = sum(not certificate.holds for certificate in certificates)
    least = min(certificate.slack for certificate in certificates)
    count = f"{len(certificates)} pipelines ({len(informative)} informative)"
    words = f"{violated} violations in {count}, least slack {least:.3g}"
    return Outcome(violated == 0, words)


@claim(21, "InfoNCE with one negative is L_1 + L_2, with L_1 half the alignment minus 1.", tolerance="1e-12")
def info_nce_splits() -> Outcome:
    features, _ = next(_toys(1))
    everyone = features.flatten(0, 1)
    positive = torch.einsum("nad,nbd->nab", features, features)[..., None]
    negative = torch.einsum("nad,kd->nak", features, everyone)[:, :, None]
    loss = (torch.logaddexp(positive, negative) - positive).mean().item()
    parts = info_nce_parts(features)
    return within(abs(parts.first + parts.second - loss), 1e-12)


@claim(22, "The nearest-center classifier is linear: rows mu_k, biases -|mu_k|^2 / 2.", tolerance="exact")
def nearest_center_is_linear() -> Outcome:
    different = 0
    for features, labels in _toys(50):
        centers, _ = class_centers(features, labels)
        nearest = torch.cdist(features[:, 0], centers).argmin(1)
        different += int((nearest != nearest_center_classes(features, labels)).sum())
    return Outcome(different == 0, f"{different} different answers over 50 pipelines")


@claim(23, "Lemma 1: right on stable main samples means an error of at most (1 - sigma) + R.")
def separation_bounds_the_error() -> Outcome:
    choices = [(delta, epsilon) for delta in (0.1, 0.5) for epsilon in (0.1, 0.5)]
    toys = [(*toy, augmented_distance(toy[0])) for toy in _toys(50)]
    return _none_violated([separation(*toy, *choice) for toy in toys for choice in choices])


@claim(24, "The closed form of eta is its infimum over h.", tolerance="1e-3, relative")
def eta_closed_form() -> Outcome:
    worst = 0.0
    for n in (1, 2, 3):
        speed = 2 * math.sqrt(n) * RATES["lipschitz"] * RATES["smoothness"]
        for epsilon in (0.1, 1.0, 30.0):
            h = torch.linspace(0, min(1.0, epsilon / speed), 20_002, dtype=torch.float64)[1:-1]
            grid = 4 * h.pow(-2 * n).clamp_min(RATES["discrete"] ** 2) / (epsilon - speed * h)
            closed = eta(epsilon, continuous=n, form="published", **RATES)
            worst = max(worst, abs(grid.min().item() / closed - 1))
    return within(worst, 1e-3, "largest relative difference from a grid")


def _slope(epsilon: float, n: int) -> float:
    values = [eta(scale * epsilon, continuous=n, form="published", **RATES) for scale in (1, 1.01)]
    return math.log(values[1] / values[0]) / math.log(1.01)


@claim(25, "eta grows like epsilon^-(2n+1) near 0 and like 1/epsilon far from it.", tolerance="1e-2")
def eta_slopes() -> Outcome:
    errors = [abs(_slope(1e-4, n) + 2 * n + 1) for n in (1, 2, 3)] + [abs(_slope(1e5, n) + 1) for n in (1, 2, 3)]
    return within(max(errors), 1e-2)


@claim(125, "eta(epsilon) = O(1/epsilon).", false=True, tolerance="slope -1 within 1e-2")
def eta_is_inverse() -> Outcome:
    return Outcome(abs(_slope(1e-4, 2) + 1) <= 1e-2, f"log-log slope near 0 with two parameters: {_slope(1e-4, 2):.2f}")


def _shifts(frequency: float) -> Tensor:
    """A point on a line moved by up to 1, or left alone, each half of the time, and mapped onto the circle."""
    moves = torch.cat([torch.zeros(200, dtype=torch.float64), (torch.arange(200, dtype=torch.float64) + 0.5) / 200])
    angles = frequency * (torch.linspace(0, 3, 20, dtype=torch.float64)[:, None] + moves)
    return torch.stack([angles.cos(), angles.sin()], 2)


@claim(26, "R is at most eta sqrt(L_align), and at most the sharper bound linear in L_align.")
def stability_follows_from_alignment() -> Outcome:
    certificates = []
    for frequency in (1e-4, 1e-3, 0.01, 0.1, 1.0):
        rates: dict[str, Any] = {"lipschitz": frequency, "smoothness": 1.0, "discrete": 1, "continuous": 1}
        certificates += [stability(_shifts(frequency), e, **rates) for e in (0.5 * frequency, 0.05, 0.5)]
    return _none_violated(certificates)


@claim(27, "Centers far enough apart mean an error of at most (1 - sigma) + R, with the corrected rho.")
def generalization_holds() -> Outcome:
    toys = list(_toys(60))
    return _none_violated([generalization_bound(*toy, rho=form) for toy in toys for form in ("corrected", "measured")])


@claim(127, "The same with the arXiv form of rho, whatever the unstable share.", false=True, tolerance="exact")
def arxiv_form_holds() -> Outcome:
    """Random features, and 15 % of the samples with an opposite view: R / p = 1.5 makes rho small instead of 2."""
    labels = torch.arange(1000) % 10
    own = normalize(gaussian(1000, 3, seed=0), dim=1)
    features = torch.stack([own, torch.where(torch.arange(1000)[:, None] < 150, -own, own)], 1)
    certificate = generalization_bound(features, labels, sigma=1.0, delta=2.0, epsilon=0.45, rho="arxiv")
    words = (
        f"condition met with rho {certificate.terms['rho']:.2f}; error {certificate.left:.2f} > {certificate.right:.2f}"
    )
    return Outcome(certificate.holds, words)


@claim(28, "A stable main sample has f(x) . mu >= r^2 (1 - rho) with the published rho.", false=True, tolerance="exact")
def published_step_holds() -> Outcome:
    share = 0.1
    features = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(10, 2, 1)
    features[0] *= -1  # one in ten lies opposite: unstable in the worst case that R allows for
    product = (features[1, 0] @ features.mean((0, 1))).item()
    bound = 1 - rho(1.0, 0.0, 0.0, share, 1.0, form="published").item()
    corrected = 1 - rho(1.0, 0.0, 0.0, share, 1.0).item()
    words = f"f . mu = {product:.2f}, below 1 - rho = {bound:.2f} as published; corrected {corrected:.2f}"
    return Outcome(product >= bound - 1e-12, words)


@claim(29, "With sigma 1 and delta, epsilon, R all 0 the threshold is 1 and the error 0.", tolerance="exact")
def perfect_case() -> Outcome:
    threshold = divergence_threshold(rho(1.0, 0.0, 0.0, 0.0, 0.5), 0.0).item()
    labels = torch.arange(12) % 3
    certificate = generalization_bound(torch.eye(3, dtype=torch.float64)[labels][:, None].repeat(1, 2, 1), labels)
    return Outcome(
        (threshold, certificate.left, certificate.right) == (1, 0, 0), f"{threshold=}, bound {certificate.right}"
    )


@claim(30, "Theorem 3, with the remainder (2 - epsilon) R.", tolerance="0 violations")
def info_nce_separates_centers() -> Outcome:
    choices = (None, 0.1, 1.45)
    return _none_violated([info_nce_divergence(*toy, epsilon=e, form="simple") for toy in _toys(60) for e in choices])


@claim(31, "The sharper Theorem 3 is never above the simple one, and holds.", tolerance="0 violations")
def sharper_is_sharper() -> Outcome:
    toys = list(_toys(100))
    sharper = [info_nce_divergence(*toy) for toy in toys]
    simple = [info_nce_divergence(*toy, form="simple") for toy in toys]
    above = sum(one.slack > other.slack + 1e-9 for one, other in zip(sharper, simple, strict=True))
    outcome = _none_violated(sharper)
    return Outcome(outcome.holds and above == 0, f"{outcome.measured}; {above} above the simple form")


@claim(
    32,
    "The linear contrastive loss is L_1 + w |E f|^2, and the limit of 2T (InfoNCE - log 2) for high temperatures.",
    tolerance="1e-3",
)
def linear_contrastive_is_a_limit() -> Outcome:
    z1, z2 = normalize(gaussian(2, 6, 3, seed=1), dim=2)
    many = [z.repeat(2000, 1) for z in (z1, z2)]  # a law: distinct rows of the batch become independent draws
    mean = torch.cat([z1, z2]).mean(0).square().sum()
    apart = abs(linear_contrastive(*many, weight=0.7) - (0.7 * mean - (z1 * z2).sum(1).mean())).item()
    views, temperature = torch.stack([z1, z2], 1), 1e3
    positive = (z1 * z2).sum(1)[:, None, None, None]
    gaps = (torch.einsum("nad,kbd->nakb", views, views) - positive)[
        ~torch.eye(6, dtype=torch.bool)[:, None, :].expand(6, 2, 6)
    ]
    limit = 2 * temperature * (torch.nn.functional.softplus(gaps / temperature).mean() - math.log(2))
    return within(max(apart, abs(linear_contrastive(z1, z2) - limit).item()), 1e-3)


@claim(33, "The Barlow Twins loss is (1 - w) L_1 + w L_2.", tolerance="1e-12, relative")
def barlow_twins_splits() -> Outcome:
    features = gaussian(10, 3, 5, seed=0)
    z1, z2 = features.repeat_interleave(3, 1).flatten(0, 1), features.repeat(1, 3, 1).flatten(0, 1)
    parts = cross_correlation_parts(features)
    return within(
        abs(barlow_twins(z1, z2, off_diagonal=0.3).item() / (0.7 * parts.first + 0.3 * parts.second) - 1), 1e-12
    )


@claim(34, "Lemma 2: alignment <= 2 sqrt(d L_1), equal when the diagonal of C is constant.", tolerance="1e-10")
def cross_correlation_aligns() -> Outcome:
    outcome = _none_violated([cross_correlation_alignment(features) for features, _ in _toys(100)])
    line = gaussian(10, 3, 1, seed=0)
    equal = abs(cross_correlation_alignment(torch.cat([line, -line, line], 2)).slack)
    return Outcome(outcome.holds and equal < 1e-10, f"{outcome.measured}; slack {equal:.2g} with a constant diagonal")


@claim(35, "|U U' - I_d|^2 = |U' U - I_K|^2 + d - K.", tolerance="1e-10")
def center_identity() -> Outcome:
    worst = 0.0
    for features, labels in _toys(50):
        centers, shares = class_centers(features, labels)
        u = (centers * shares.sqrt()[:, None]).T
        outer, inner = u @ u.T - torch.eye(len(u)), u.T @ u - torch.eye(len(shares))
        worst = max(worst, abs(outer.square().sum() - inner.square().sum() - len(u) + len(shares)).item())
    return within(worst, 1e-10)


@claim(36, "C minus the centers' part is the mean covariance within classes, so not negative.", tolerance="1e-10")
def what_the_centers_leave() -> Outcome:
    worst, least = 0.0, 0.0
    for features, labels in _toys(50):
        scaled = standardized(features)
        centers, shares = class_centers(scaled, labels)
        left = cross_correlation(scaled) - (centers.T * shares) @ centers
        means = [scaled[labels == label].mean(1) for label in labels.unique()]
        within_classes = sum(
            p * (m - m.mean(0)).T @ (m - m.mean(0)) / len(m) for p, m in zip(shares, means, strict=True)
        )
        worst = max(worst, (left - within_classes).abs().max().item())
        least = min(least, torch.linalg.eigvalsh(left)[0].item())
    return Outcome(worst <= 1e-10 and least >= -1e-10, f"largest error {worst:.2g}, least eigenvalue {least:.2g}")


@claim(37, "Theorem 4 and its remainder, also with the factor 1 instead of 2.", tolerance="0 violations")
def cross_correlation_separates_centers() -> Outcome:
    certificates, short = [], 0
    for features, labels in [_signs(seed) for seed in range(40)]:
        found = concentration(augmented_distance(features), labels, 2.0)
        shares = class_centers(features, labels)[1]
        derived = derived_remainder(
            shares, sigma=found.sigma, delta=2.0, epsilon=2.0, unstable=unstable_share(features, 2.0), dimension=6
        )
        short += derived < measured_remainder(features, labels) - 1e-9
        certificates += [
            cross_correlation_divergence(features, labels, remainder=remainder, form=form)
            for remainder in (None, derived)
            for form in ("corrected", "published")
        ]
    outcome = _none_violated(certificates)
    return Outcome(outcome.holds and short == 0, f"{outcome.measured}; {short} remainders too small")


@claim(38, "More views never increase d_A; sigma never falls with delta or with more views.", tolerance="exact")
def concentration_is_monotone() -> Outcome:
    falls, deltas = 0, [0.1, 0.3, 0.6, 1.0]
    for features, labels in _toys(40, views=5):
        few, many = augmented_distance(features[:, :3]), augmented_distance(features)
        curves = [[c.sigma for c in concentration_curve(d, labels, deltas)] for d in (few, many)]
        falls += bool((many > few + 1e-12).any()) + (curves[0] > curves[1]) + any(c != sorted(c) for c in curves)
        falls += any(less > more for less, more in zip(*curves, strict=True))
    return Outcome(falls == 0, f"{falls} falls in 40 pipelines")


@claim(39, "The vertex-cover clique has 1 - sigma <= 1 - sigma' <= 2 (1 - sigma).", tolerance="exact")
def cover_is_within_two() -> Outcome:
    wrong, n = 0, 16
    for seed in range(60):
        edges = torch.rand(n, n, generator=torch.Generator().manual_seed(seed)).triu(1) > 1 - seed / 60
        graph = edges | edges.T
        largest = len(networkx.max_weight_clique(networkx.from_numpy_array(graph.numpy()), weight=None)[0])
        found, cover = maximum_clique(graph), len(cover_clique(graph).members)
        wrong += len(found.members) != largest or not n - largest <= n - cover <= 2 * (n - largest)
    return Outcome(wrong == 0, f"{wrong} of 60 graphs wrong")


@claim(40, "d_A is no metric: it violates the triangle inequality.", tolerance="exact")
def no_triangle_inequality() -> Outcome:
    views = torch.tensor([[[0.0], [0.0]], [[0.0], [1.0]], [[1.0], [5.0]]])
    d = augmented_distance(views)
    found = (d[0, 1].item(), d[1, 2].item(), d[0, 2].item())
    return Outcome(found == (0, 0, 1), f"d(1,2), d(2,3), d(1,3) = {found}")
