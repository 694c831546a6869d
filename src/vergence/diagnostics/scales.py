"""Scales: what each objective is worth at collapse, at random and at its floor, for a batch of n pairs in d dimensions.

All floors come from three facts about points on a sphere. (1) The objective is convex in the scores, so replacing each
anchor's negatives by their mean only lowers it. (2) ||sum of all embeddings||^2 >= 0, so negatives cannot all be
opposite: their mean similarity is at least -(1 + P) / (2n - 2) when positives have mean similarity P. (3) d dimensions
hold no more than d orthogonal directions (Welch). The best case is P = 1 with the n pairs on a regular simplex.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.special import betaln, logsumexp
from torch import Tensor

from vergence import objectives
from vergence.objectives import characteristic, nearest

DRAWS = 1_000_000  # similarities drawn for a Monte Carlo value: a tenth of a second
CODES = "0 is also what collapse to one prototype gives: look at how many prototypes are used"
LARGEST = 2048  # pairs in a drawn batch: beyond, the value no longer depends on n to two digits


@dataclass(frozen=True)
class Scale:
    """Marks of an objective; ``attained`` says whether some batch reaches the floor, or it is only a bound.

    ``random_error`` is the standard error of ``random``, zero where it is a closed form. ``ceiling`` is the largest
    value that any batch has. ``unrelated`` is the least that views without relation to each other reach, where that is
    below chance: to get there nothing need be learned of samples. ``marks`` are further values that have a meaning.
    ``least`` is what no batch can pass where the floor holds in the mean over batches only; else it is the floor.
    """

    chance: float
    random: float
    floor: float
    attained: bool
    random_error: float = 0.0
    note: str = ""
    ceiling: float = math.inf
    unrelated: float = math.inf
    marks: Mapping[str, float] = field(default_factory=dict)
    least: float = math.inf


def info_nce(
    n: int, d: int, *, temperature: float, negatives: int | None = None, hard_negatives: int | None = None
) -> Scale:
    r"""Queries against n keys; or, with ``negatives``, against the own key and that many of a queue.

    The own key and the K others belong to K + 1 samples, any of which could have been the query's. Averaged over which
    one it is, positives exceed negatives by :math:`\frac{1}{K} \sum_i (q_i - \bar q)(k_i - \bar k) \le (K + 1) / K`, so
    the floor is :math:`\log(1 + K e^{-(K + 1) / (K T)})` whatever the encoders: the simplex of K + 1 points, of n in a
    batch. One batch with a queue may pass it, if all keys of the queue happen to be opposite to all queries: ``least``.
    With ``hard_negatives`` explicit ones of each sample, all of the batch stand beside the keys: n (1 + m) candidates.
    """
    if hard_negatives:
        return _with_hard_negatives(n, d, hard_negatives, temperature)
    others = n - 1 if negatives is None else negatives
    random, error = _random_contrast(d, others, temperature=temperature, positive=True)
    floor = _softplus(math.log(others) - (others + 1) / (others * temperature))
    least = floor if negatives is None else _softplus(math.log(others) - 2 / temperature)
    ceiling = _softplus(math.log(others) + 2 / temperature)  # the positive opposite, all others equal to the anchor
    return Scale(math.log(others + 1), random, floor, d >= others, error, ceiling=ceiling, least=least)


def _with_hard_negatives(n: int, d: int, each: int, temperature: float) -> Scale:
    r"""n keys and n m explicit negatives, which every query is contrasted with.

    Let the mean query have length :math:`\sin a` and the mean key :math:`\sin b`. Positives have a mean similarity of
    at most :math:`\cos(a - b)`, other keys are at most :math:`\cos a \cos b\, n / (n - 1)` below them, and explicit
    negatives have at least :math:`-\sin a`. The floor is the least over a and b, which pairs on a simplex reach that
    are moved along one further direction, the negatives opposite to it.
    """
    from scipy.optimize import minimize

    others = n - 1 + n * each
    random, error = _random_contrast(d, others, temperature=temperature, positive=True)

    def contrast(angles: Any) -> Any:
        a, b = angles
        keys = math.log(n - 1) - np.cos(a) * np.cos(b) * n / (n - 1) / temperature
        return np.logaddexp(keys, math.log(n * each) - (np.sin(a) + np.cos(a - b)) / temperature)

    grid = np.stack(np.meshgrid(*[np.linspace(0, math.pi / 2, 65)] * 2)).reshape(2, -1)
    start = grid[:, contrast(grid).argmin()]
    least = minimize(contrast, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun
    floor = _softplus(float(least))
    ceiling = _softplus(math.log(others) + 2 / temperature)
    return Scale(math.log(others + 1), random, floor, d >= n, error, ceiling=ceiling)


def two_modal(n: int, d: int, *, temperature: float) -> Scale:
    """The mean of two ``info_nce``, which one simplex minimizes together."""
    return info_nce(n, d, temperature=temperature)


def nt_xent(n: int, d: int, *, temperature: float) -> Scale:
    """log(1 + (2n - 2) exp(-n / ((n - 1) T))) at the floor, log(2n - 1) at collapse."""
    random, error = _random_contrast(d, 2 * n - 2, temperature=temperature, positive=True)
    floor = _softplus(math.log(2 * n - 2) - n / ((n - 1) * temperature))
    ceiling = _softplus(math.log(2 * n - 2) + 2 / temperature)
    return Scale(math.log(2 * n - 1), random, floor, d >= n - 1, error, ceiling=ceiling)


def supervised(n: int, d: int, *, temperature: float, classes: int | None = None) -> Scale:
    """With ``classes`` equally frequent in the batch: the simplex of class centers; else the floor for any labels.

    References:
        Graf et al. (2021), Theorem 2. https://arxiv.org/abs/2102.08817
    """
    scale = nt_xent(n, d, temperature=temperature)
    if classes is None:
        note = "a bound for any labels"
        return Scale(scale.chance, scale.random, scale.floor, False, scale.random_error, note, scale.ceiling)
    members = 2 * n / classes
    away = math.log(2 * n - members) - classes / ((classes - 1) * temperature)
    floor = float(np.logaddexp(math.log(members - 1), away))
    note = "for a batch with equally frequent classes; other batches may be lower"
    return Scale(scale.chance, scale.random, floor, d >= classes - 1, scale.random_error, note, scale.ceiling)


def decoupled(n: int, d: int, *, temperature: float) -> Scale:
    """log(2n - 2) at collapse; n / ((n - 1) T) below that at the floor."""
    random, error = _random_contrast(d, 2 * n - 2, temperature=temperature, positive=False)
    chance = math.log(2 * n - 2)
    floor = chance - n / ((n - 1) * temperature)
    return Scale(chance, random, floor, d >= n - 1, error, ceiling=chance + 2 / temperature)


def flat_nce(n: int, d: int, *, temperature: float) -> Scale:
    """Always 1: the value carries no information, only the gradient does."""
    return Scale(
        1.0, 1.0, 1.0, True, note="this objective is always 1; watch nt_xent or decoupled instead", ceiling=1.0
    )


def revised_info_nce(n: int, d: int, *, temperature: float, weight: float | None) -> Scale:
    """E ||z - z+||^2 + weight E log sum exp(z . z- / T)."""
    weight = 2 * temperature if weight is None else weight
    random, error = _random_contrast(d, 2 * n - 2, temperature=temperature, positive=False)
    count = math.log(2 * n - 2)
    floor = weight * (count - 1 / ((n - 1) * temperature))
    chance = weight * (count + 1 / temperature)
    return Scale(chance, 2 + weight * random, floor, d >= n - 1, weight * error, ceiling=4 + chance)


def linear_contrastive(n: int, d: int, *, weight: float) -> Scale:
    """-E z . z+ + weight E z . z-: any aligned batch with mean zero is at the floor, two points are enough."""
    return Scale(weight - 1, 0.0, -1 - weight / (n - 1), True, ceiling=1 + weight)


def triplet(n: int, d: int, *, margin: float, mining: str) -> Scale:
    """The margin at collapse; zero when negatives are farther by the margin, which is at most 4 on the sphere."""
    random, error = _drawn(objectives.triplet, n, d, margin=margin, mining=mining)
    simplex = d >= n - 1 and margin <= 2 * n / (n - 1)
    return Scale(margin, random, max(0.0, margin - 4), simplex, error, ceiling=margin + 4)


def alignment(n: int, d: int, *, alpha: float) -> Scale:
    """Zero at collapse and at the floor; at random 2^alpha B(a + alpha / 2, a) / B(a, a) with a = (d - 1) / 2."""
    half = (d - 1) / 2
    random = 2.0**alpha * math.exp(betaln(half + alpha / 2, half) - betaln(half, half)) if d > 1 else 2 ** (alpha - 1)
    note = "perfect alignment is also what collapse gives"
    return Scale(0.0, random, 0.0, True, note=note, ceiling=2.0**alpha)


def uniformity(n: int, d: int, *, t: float) -> Scale:
    """Zero at collapse; at random the floor of any law; the floor is that of n distinct points."""
    floor = objectives.uniformity_floor
    return Scale(0.0, floor(d, t=t), floor(d, t=t, n=n), n <= d + 1, ceiling=0.0)


def align_uniform(n: int, d: int, *, align_weight: float, uniform_weight: float, alpha: float, t: float) -> Scale:
    """The weighted sum; both terms reach their floor together. Unrelated views can be spread as evenly as any."""
    spread, close = uniformity(n, d, t=t), alignment(n, d, alpha=alpha)
    random = align_weight * close.random + uniform_weight * spread.random
    floor, ceiling = uniform_weight * spread.floor, align_weight * close.ceiling
    return Scale(0.0, random, floor, spread.attained, ceiling=ceiling, unrelated=align_weight * close.random + floor)


def spectral(n: int, d: int, *, mu: float) -> Scale:
    """mu - 2 at collapse on the boundary of the ball; -2 + mu (n - d) / (d (n - 1)) at the floor when n > d, else -2.

    For n > d: a matrix of rank d has squared norm at least trace^2 / d. With P the mean positive product and
    products of at most mu this leaves -2P + max(0, nP^2 / d - mu P) / (n - 1), minimized over P.
    """
    rigorous = 2 * (n - 1) >= mu * (2 * n / d + 1)  # else negative products could pay, and only -2 is safe
    best = min(mu, max(d * mu / n, d * (2 * (n - 1) + mu) / (2 * n)))
    floor = (-2 * best + max(0.0, n * best**2 / d - mu * best) / (n - 1)) / mu if rigorous else -2.0
    note = f"a collapsed encoder that may shrink settles at {-1 / max(1, mu):.4g}"
    return Scale(mu - 2, mu / d, floor, n <= d, note=note, ceiling=2 + mu)


def barlow_twins(n: int, d: int, *, off_diagonal: float) -> Scale:
    """d at collapse (constant columns correlate with nothing); zero at the floor if d < n.

    A correlation matrix of n rows has rank n - 1; with c the mean of its diagonal the loss is at least
    d - 2dc + (1 - w) d c^2 + w d^2 c^2 / (n - 1), minimized over c. At random E C_ij^2 = 1 / (n - 1).
    """
    rank, crowded = n - 1, d > n - 1 and off_diagonal <= 1
    floor = d * (1 - 1 / (1 - off_diagonal + off_diagonal * d / rank)) if crowded else 0.0
    random = d * (1 + 1 / rank) + off_diagonal * d * (d - 1) / rank
    return Scale(float(d), random, floor, d <= rank, ceiling=4.0 * d + off_diagonal * d * (d - 1))


def vicreg(n: int, d: int, *, invariance: float, variance: float, covariance: float) -> Scale:
    """0.99 of the variance weight at collapse (the root of the 1e-4 in the hinge); zero at the floor if d < n.

    Embeddings need not be on the sphere here; ``random`` is for those that are, like the other rows. Unrelated views
    with deviation s have 2 s^2 invariance + (1 - s) variance, least at s = variance / (4 invariance).
    """
    hyperparameters = {"invariance": invariance, "variance": variance, "covariance": covariance}
    random, error = _drawn(objectives.vicreg, n, d, **hyperparameters)
    spread = min(1.0, variance / (4 * invariance)) if invariance else 1.0
    unrelated = 2 * invariance * spread**2 + variance * (1 - spread)
    return Scale(0.99 * variance, random, 0.0, d < n, error, unrelated=unrelated)


def negative_cosine(n: int, d: int) -> Scale:
    """-1 at collapse and at the floor, zero at random."""
    return Scale(-1.0, 0.0, -1.0, True, note="-1 is also what collapse gives", ceiling=1.0)


def sigreg(n: int, d: int, *, slices: int, knots: int, limit: float, seed: int) -> Scale:
    r"""0.40205 n where all rows are 0, the least a batch that coincides can have; 1.0525 for Gaussian rows.

    Independent rows whose projections have the characteristic function f give
    :math:`\int (1 - |f|^2) w + n \int |f - g|^2 w`: for directions, f is :math:`{}_0F_1(; d/2; -t^2/4)`.
    """
    t, gaussian, weights = (part.numpy() for part in characteristic.grid(knots, limit))

    def independent(f: np.ndarray) -> float:
        return float((weights * (1 - f**2)).sum() + n * (weights * (f - gaussian) ** 2).sum())

    marks = {
        "independent Gaussian rows": independent(gaussian),
        "rows of length 1": independent(_coordinate(t, d)),
        "rows of length sqrt(d), evenly on their sphere": independent(_coordinate(math.sqrt(d) * t, d)),
    }
    chance = n * float((weights * (1 - gaussian) ** 2).sum())
    random = marks["rows of length 1"]
    note = f"independent Gaussian rows give {marks['independent Gaussian rows']:.4f}"
    return Scale(
        chance, random, 0.0, False, note=note, ceiling=n * float((weights * (1 + gaussian) ** 2).sum()), marks=marks
    )


def _coordinate(t: np.ndarray, d: int) -> np.ndarray:
    r"""The characteristic function of a coordinate of a random direction: the series of :math:`{}_0F_1(; d/2; -t^2/4)`.

    scipy's ``hyp0f1`` is not a number from d = 256 on. The terms grow to :math:`e^{t^2/2d}` at most before they fall.
    """
    term = total = np.ones_like(t)
    k = 0
    while np.abs(term).max() > 1e-17:  # below the last bit of 1
        k += 1
        term = term * -(t**2) / (4 * k * (d / 2 + k - 1))
        total = total + term
    return total


def lejepa(n: int, d: int, *, weight: float, slices: int, knots: int, limit: float, seed: int) -> Scale:
    """SIGReg's share, where the rows of each view are 0 or Gaussian, and the distance of two views to their mean.

    Views without relation that have variance s are at s / 2 of their mean and at SIGReg's value for that variance.
    """
    one = sigreg(n, d, slices=slices, knots=knots, limit=limit, seed=seed)
    marks = {name: weight * value for name, value in one.marks.items()}
    t, gaussian, weights = (part.numpy() for part in characteristic.grid(knots, limit))
    apart = []
    for variance in np.linspace(0.0, 1.0, 101):
        f = np.exp(-variance * t**2 / 2)
        value = (weights * (1 - f**2)).sum() + n * (weights * (f - gaussian) ** 2).sum()
        apart.append(weight * value + (1 - weight) * variance / 2)
    random = weight * one.random + (1 - weight) / (2 * d)
    unrelated = min(float(min(apart)), weight * one.chance)
    return Scale(weight * one.chance, random, 0.0, False, note=one.note, unrelated=unrelated, marks=marks)


def siglip(n: int, d: int, *, temperature: float, bias: float) -> Scale:
    """Own pairs at 1 and others at 1 at collapse, at -1/(n - 1) at the floor: the simplex, as for InfoNCE.

    Of views without relation own and other pairs have cosines of one law, so no less than the least over one cosine.
    """

    def pairs(own: Any, other: Any) -> Any:
        own, other = (np.logaddexp(0, sign * (temperature * cosine + bias)) for sign, cosine in ((-1, own), (1, other)))
        return own + (n - 1) * other

    # Of losses convex in the scores, whose mean off the diagonal is at least -1/(n - 1).
    floor, ceiling = pairs(1.0, -1 / (n - 1)), pairs(-1.0, 1.0)
    cosines = (
        2 * np.random.default_rng(0).beta((d - 1) / 2, (d - 1) / 2, DRAWS // 4) - 1 if d > 1 else np.array([-1.0, 1.0])
    )
    own, other = (np.logaddexp(0, sign * (temperature * cosines + bias)) for sign in (-1, 1))
    error = math.hypot(own.std(), (n - 1) * other.std()) / math.sqrt(len(cosines)) if d > 1 else 0.0
    random, every = float(own.mean() + (n - 1) * other.mean()), np.linspace(-1, 1, 100_001)
    chance, floor, ceiling = float(pairs(1.0, 1.0)), float(floor), float(ceiling)
    unrelated = float(pairs(every, every).min())
    return Scale(chance, random, floor, d >= n - 1, error, ceiling=ceiling, unrelated=unrelated)


def koleo(n: int, d: int) -> Scale:
    """18.42 where rows coincide, by the epsilon; minus log of the simplex's distance at the floor (by concavity)."""
    random, error = _drawn(lambda z, _: objectives.koleo(z), n, d)
    chance = -math.log(nearest.SMALLEST)
    return Scale(chance, random, -0.5 * math.log(2 * n / (n - 1)), d >= n - 1, error, ceiling=chance)


def swav(n: int, d: int, *, temperature: float, epsilon: float, iterations: int) -> Scale:
    """log K where all of the d = K scores are equal; 0 where every query is sure of the prototype that its key has."""
    random, error = _drawn(objectives.swav, n, d, temperature=temperature, epsilon=epsilon, iterations=iterations)
    return Scale(math.log(d), random, 0.0, False, error, note=CODES)


def dino(n: int, d: int, *, temperature: float, key_temperature: float) -> Scale:
    """log K where teacher and student are uniform over the d = K prototypes; 0 where both are sure of one."""
    random, error = _drawn(objectives.dino, n, d, temperature=temperature, key_temperature=key_temperature)
    return Scale(math.log(d), random, 0.0, False, error, note=CODES)


def tico(n: int, d: int, *, memory: float, weight: float) -> Scale:
    """weight (1 - memory) at collapse without a past; at the floor, directions fill all that there are (Welch)."""
    share = weight * (1 - memory)
    floor, alike = share / min(n, d), share * (1 / n + (1 - 1 / n) / d)
    note = f"once the memory is full, multiply the repulsion by 1 / {1 - memory:.3g}: {weight:.4g} at collapse"
    return Scale(share, 1 + alike, floor, True, note=note, ceiling=2 + share)


def w_mse(n: int, d: int, *, epsilon: float) -> Scale:
    """2 at collapse, which has nothing to whiten, and for unrelated views; 0 where views agree."""
    random, error = _drawn(objectives.w_mse, n, d, epsilon=epsilon)
    return Scale(2.0, random, 0.0, True, error, ceiling=4.0)


def mmcr(n: int, d: int, *, weight: float) -> Scale:
    """-sqrt(n) at collapse; -sqrt(n min(n, d)) where the centers have length 1 and fill all directions alike."""
    random, error = _drawn(objectives.mmcr, n, d, weight=weight)
    close = weight * math.sqrt(2)  # two equal views of a sample; two orthogonal ones have 2
    return Scale(close - math.sqrt(n), random, close - math.sqrt(n * min(n, d)), True, error, ceiling=2.0 * weight)


def frossl(n: int, d: int, *, invariance: float) -> Scale:
    """0 at collapse, where correlations have one direction; -2 log min(n, d) where two views fill all of them."""
    random, error = _drawn(objectives.frossl, n, d, invariance=invariance)
    return Scale(0.0, random, -2 * math.log(min(n, d)), d <= n, error)


def _drawn(objective: Callable[..., Tensor], n: int, d: int, **hyperparameters: Any) -> tuple[float, float]:
    """Mean and standard error of an objective over eight batches of independent uniform embeddings."""
    generator = torch.Generator().manual_seed(0)
    pairs = [torch.randn(2, min(n, LARGEST), d, generator=generator, dtype=torch.float64) for _ in range(8)]
    values = [float(objective(*torch.nn.functional.normalize(pair, dim=2), **hyperparameters)) for pair in pairs]
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


@cache
def _random_contrast(d: int, others: int, *, temperature: float, positive: bool) -> tuple[float, float]:
    """E log(exp(p / T) [if positive] + sum exp(s / T)) for independent uniform embeddings, and its standard error.

    The loss is this minus p / T, whose mean is zero: left out, it does not add to the error. A similarity of uniform
    unit vectors is 2B - 1 with B from Beta((d - 1) / 2, (d - 1) / 2), so no embeddings need be drawn.
    """
    # Of very many candidates a part is drawn: the log of their mean no longer depends on how many there are.
    candidates = min(others + int(positive), DRAWS // 16)
    anchors = min(4096, max(16, DRAWS // candidates))
    generator = np.random.default_rng(0)
    shape = (d - 1) / 2
    drawn = (
        generator.beta(shape, shape, (anchors, candidates))
        if d > 1
        else generator.integers(0, 2, (anchors, candidates))
    )
    values = logsumexp((2 * drawn - 1) / temperature, axis=1) + math.log((others + int(positive)) / candidates)
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(anchors))


def _softplus(x: float) -> float:
    return float(np.logaddexp(0.0, x))
