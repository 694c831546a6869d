"""Whether trust can be trusted: ``python benchmarks/information_trust.py SUITE [--seed 0]``.

Dependences whose information is known in closed form or by quadrature (or, for some mixtures, as the mean of the exact
log ratio over 200,000 draws, with an error below 0.005). ``development`` are the kinds on which widths and rules were
chosen; ``fresh`` are other kinds, run once when everything was settled; ``more`` are those of information_more.py, made
later; ``first`` and ``last`` those of information_unseen.py, made later still; ``third`` and ``fourth`` those of
information_third.py and information_fourth.py. Sizes are from 200 to 20,000 pairs and from 1 to 50 dimensions. For each
word of trust it prints the share of answers and how many 90 % intervals cover the truth, and the worst kind beside the
mean. ``large`` measures 100,000 pairs, in seconds and peak memory.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.special import gammaln, i0e, i1e, logsumexp
from scipy.stats import chi2, nbinom, norm, poisson
from scipy.stats import t as student_t

from information_fourth import FOURTH
from information_more import MORE
from information_third import THIRD
from information_unseen import FIRST, LAST
from vergence.information import estimate
from vergence.information.exact import correlated_information, student_information, uniform_noise_information

Random = np.random.Generator
Drawn = tuple[np.ndarray, np.ndarray, float]
Kind = Callable[[Random, int, int], Drawn]

SIZES = (200, 500, 1000, 2000, 5000, 10_000, 20_000)
# How often each size occurs, in turn: large ones take most of the time.
TURNS = (200, 2000, 500, 10_000, 1000, 500, 5000, 200, 2000, 1000, 500, 20_000, 2000, 1000, 200, 5000, 500, 1000, 2000)
DRAWS = 200_000  # for the mean of an exact log ratio
FINE = np.linspace(-12, 12, 4001)  # a grid for quadrature over a standard normal variable


# --- truths ----------------------------------------------------------------------------------------------------------


def entropy_on(grid: np.ndarray, density: np.ndarray) -> float:
    """-int p log p by the trapezoid rule, for a density that need not be normalized exactly."""
    density = density / np.trapezoid(density, grid)
    return float(-np.trapezoid(density * np.log(np.maximum(density, 1e-300)), grid))


def noisy_function(f: Callable[[np.ndarray], np.ndarray], noise: float) -> float:
    """What a standard normal X shares with f(X) + noise N(0, 1): the entropy of the sum less that of the noise."""
    x = norm.ppf((np.arange(4000) + 0.5) / 4000)
    values = f(x)
    grid = np.linspace(values.min() - 8 * noise, values.max() + 8 * noise, 3000)
    density = np.array([norm.pdf(y, values, noise).mean() for y in grid])
    return entropy_on(grid, density) - (0.5 * math.log(2 * math.pi * math.e) + math.log(noise))


def binary_entropy(p: np.ndarray) -> np.ndarray:
    return -p * np.log(np.maximum(p, 1e-300)) - (1 - p) * np.log(np.maximum(1 - p, 1e-300))


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def rotation(random: Random, d: int) -> np.ndarray:
    return np.linalg.qr(random.normal(size=(d, d)))[0]


def correlated(random: Random, n: int, d: int, nats: float) -> tuple[np.ndarray, np.ndarray]:
    rho = math.sqrt(-math.expm1(-2 * nats / d))
    x = random.normal(size=(n, d))
    return x, rho * x + math.sqrt(1 - rho**2) * random.normal(size=(n, d))


def with_inert(random: Random, rows: np.ndarray, d: int, *, rotate: bool = False) -> np.ndarray:
    """The columns among independent normal ones, d in all, in random order or rotated."""
    extra = random.normal(size=(len(rows), max(0, d - rows.shape[1])))
    rows = np.hstack([rows, extra])
    return rows @ rotation(random, rows.shape[1]) if rotate else rows[:, random.permutation(rows.shape[1])]


# --- kinds for development -------------------------------------------------------------------------------------------


def gaussian(random: Random, n: int, d: int) -> Drawn:
    """Correlated Gaussians of random strength, rotated, with columns bent monotonically."""
    nats = random.uniform(0.1, 4)
    x, y = correlated(random, n, d, nats)
    return np.sinh(x), (y @ rotation(random, d)) ** 3, nats


def common_sign(random: Random, n: int, d: int) -> Drawn:
    """y = x plus noise with one random sign a row; the sign costs its part, by the exact ratio."""
    nats = random.uniform(0.5, 3)
    rho = math.sqrt(-math.expm1(-2 * nats / d))
    x, y = correlated(random, DRAWS, d, nats)
    inner = rho / (1 - rho**2) * (x * y).sum(1)
    square = 0.5 * rho**2 / (1 - rho**2) * ((x**2).sum(1) + (y**2).sum(1))
    truth = float((np.logaddexp(inner, -inner) - math.log(2) - square).mean() - 0.5 * d * math.log(1 - rho**2))
    return x[:n], y[:n] * random.choice([-1, 1], size=(n, 1)), truth


def each_sign(random: Random, n: int, d: int) -> Drawn:
    """y = x plus noise with a random sign for every entry of three columns; the others are inert."""
    active, rho = min(3, d), random.uniform(0.7, 0.97)
    one = correlated(random, DRAWS, 1, correlated_information(rho))
    x, y = (side[:, 0] for side in one)
    inner = rho / (1 - rho**2) * x * y
    terms = np.logaddexp(inner, -inner) - math.log(2) - 0.5 * rho**2 / (1 - rho**2) * (x**2 + y**2)
    truth = active * float(terms.mean() - 0.5 * math.log(1 - rho**2))
    x, y = correlated(random, n, active, active * correlated_information(rho))
    y = y * random.choice([-1, 1], size=y.shape)
    return with_inert(random, x, d), with_inert(random, y, d), truth


def inert_sine(random: Random, n: int, d: int) -> Drawn:
    """One column of y is a noisy sine of one column of x; all others are inert."""
    speed, noise = random.uniform(1.5, 3), random.uniform(0.2, 0.6)
    x = random.normal(size=(n, 1))
    y = np.sin(speed * x) + noise * random.normal(size=(n, 1))
    truth = noisy_function(lambda v: np.sin(speed * v), noise)
    return with_inert(random, x, d), with_inert(random, y, max(1, d // 2)), truth


def student(random: Random, n: int, d: int) -> Drawn:
    degrees = int(random.integers(2, 6))
    d = min(d, 10)
    z = random.normal(size=(n, 2 * d)) / np.sqrt(random.chisquare(degrees, size=(n, 1)) / degrees)
    return z[:, :d], z[:, d:], student_information(float(degrees), dx=d, dy=d)


def spiral(random: Random, n: int, d: int) -> Drawn:
    d = max(2, min(d, 5))
    nats = random.uniform(0.5, 2)
    x, y = correlated(random, n, d, nats)
    angle = random.uniform(0.5, 1.5) * (x**2).mean(1)
    turned = x.copy()
    turned[:, 0] = x[:, 0] * np.cos(angle) - x[:, 1] * np.sin(angle)
    turned[:, 1] = x[:, 0] * np.sin(angle) + x[:, 1] * np.cos(angle)
    return turned, y, nats


def edges(random: Random, n: int, d: int) -> Drawn:
    """Uniform variables with uniform noise, in one to three columns."""
    width, d = random.uniform(0.1, 0.75), min(d, 3)
    x = random.uniform(size=(n, d))
    return x, x + width * random.uniform(-1, 1, size=(n, d)), d * uniform_noise_information(width)


def clusters(random: Random, n: int, d: int) -> Drawn:
    """Both variables scatter around centers that a shared class chooses."""
    k, spread = int(random.integers(2, 8)), random.uniform(0.3, 1.0)
    return _clusters(random, n, d, k, spread, lambda away: -0.5 * (away**2).sum(-1), random.normal)


def _clusters(random: Random, n: int, d: int, k: int, spread: float, log_density: Callable, noise: Callable) -> Drawn:
    center_x, center_y = random.normal(size=(2, k, d)) * 2 / math.sqrt(d)
    label = random.integers(0, k, DRAWS // 4)
    x, y = (center[label] + spread * noise(size=(len(label), d)) for center in (center_x, center_y))
    of_x, of_y = (
        np.stack([log_density((rows - c) / spread) for c in center], axis=1)
        for rows, center in ((x, center_x), (y, center_y))
    )
    truth = logsumexp(of_x + of_y, axis=1) - logsumexp(of_x, axis=1) - logsumexp(of_y, axis=1) + math.log(k)
    return x[:n], y[:n], float(truth.mean())


def product(random: Random, n: int, d: int) -> Drawn:
    """y is the product of two columns of x, plus noise; the other columns are inert."""
    noise, d = random.uniform(0.2, 0.8), max(2, d)
    x = random.normal(size=(n, 2))
    y = x[:, :1] * x[:, 1:] + noise * random.normal(size=(n, 1))
    # Given the first factor a, the sum is normal with variance a^2 + noise^2.
    a = norm.ppf((np.arange(4000) + 0.5) / 4000)
    grid = np.sinh(np.linspace(-4.5, 4.5, 3001))
    density = np.array([norm.pdf(v, 0, np.sqrt(a**2 + noise**2)).mean() for v in grid])
    truth = entropy_on(grid, density) - (0.5 * math.log(2 * math.pi * math.e) + math.log(noise))
    return with_inert(random, x, d), y, truth


def nothing(random: Random, n: int, d: int) -> Drawn:
    """Independent variables with dependent columns."""
    x, y = (random.normal(size=(n, d)) @ random.normal(size=(d, d)) for _ in range(2))
    return x + 0.3 * x**2, np.tanh(y), 0.0


def tanh_map(random: Random, n: int, d: int) -> Drawn:
    """Correlated Gaussians, one of them through an invertible network of one layer."""
    nats = random.uniform(1, 6)
    x, y = correlated(random, n, d, nats)
    return x, np.tanh(1.5 * y @ rotation(random, d)) @ rotation(random, d), nats


def gaussian_label(random: Random, n: int, d: int) -> Drawn:
    """A label whose classes are Gaussians with their own centers and variances."""
    k = int(random.integers(2, 6))
    center = random.normal(size=(k, d)) * random.uniform(0.5, 2) / math.sqrt(d)
    scale = random.uniform(0.7, 1.3, size=(k, d)) if random.random() < 0.5 else np.ones((k, d))
    label = random.integers(0, k, DRAWS // 4)
    x = center[label] + scale[label] * random.normal(size=(len(label), d))
    terms = np.stack([(-0.5 * ((x - c) / s) ** 2 - np.log(s)).sum(1) for c, s in zip(center, scale, strict=True)], 1)
    truth = float((terms[np.arange(len(x)), label] - logsumexp(terms, axis=1)).mean() + math.log(k))
    return x[:n], label[:n], truth


def uniform_classes(random: Random, n: int, d: int) -> Drawn:
    """A class from 0 to m - 1 and a number uniform on [class, class + 2]: Gao et al. (2017), Sec. 5."""
    m = int(random.integers(3, 9))
    label = random.integers(0, m, n)
    return label, label + 2 * random.uniform(size=n), math.log(m) - (m - 1) / m * math.log(2)


def autoregression(random: Random, n: int, d: int) -> Drawn:
    """A Gaussian series and the same some steps later."""
    phi, lag, d = random.uniform(0.5, 0.97), int(random.integers(1, 4)), min(d, 3)
    series = _autoregressive(random, n + lag, d, phi)
    return series[:-lag], series[lag:], correlated_information(phi**lag, d=d)


def _autoregressive(random: Random, n: int, d: int, phi: float) -> np.ndarray:
    series = random.normal(size=(n, d))
    for t in range(1, n):
        series[t] = phi * series[t - 1] + math.sqrt(1 - phi**2) * series[t]
    return series


DEVELOPMENT: dict[str, Kind] = {
    "gaussian": gaussian, "common sign": common_sign, "each sign": each_sign, "inert sine": inert_sine,
    "student": student, "spiral": spiral, "edges": edges, "clusters": clusters, "product": product,
    "nothing": nothing, "tanh map": tanh_map, "gaussian label": gaussian_label, "uniform classes": uniform_classes,
    "autoregression": autoregression,
}  # fmt: skip


# --- other kinds, not used for any choice ----------------------------------------------------------------------------


def ring(random: Random, n: int, d: int) -> Drawn:
    """x and y are the coordinates of a noisy point on a circle."""
    s = random.uniform(0.1, 0.4)
    r, angle = np.linspace(0, 1 + 10 * s, 20_001), (np.arange(4000) + 0.5) * 2 * math.pi / 4000
    joint = np.exp(-((r - 1) ** 2) / (2 * s**2)) * i0e(r / s**2) / (2 * math.pi * s**2)
    both = -np.trapezoid(2 * math.pi * r * joint * np.log(np.maximum(joint, 1e-300)), r)
    x = np.linspace(-1 - 10 * s, 1 + 10 * s, 3001)
    alone = entropy_on(x, np.array([norm.pdf(v, np.cos(angle), s).mean() for v in x]))
    theta = random.uniform(0, 2 * math.pi, n)
    rows = np.stack([np.cos(theta), np.sin(theta)], axis=1) + s * random.normal(size=(n, 2))
    return rows[:, :1], rows[:, 1:], 2 * alone - float(both)


def circles(random: Random, n: int, d: int) -> Drawn:
    """Two points on circles whose angles agree up to von Mises noise, among inert columns, rotated."""
    kappa = random.uniform(1, 15)
    truth = -float(np.log(i0e(kappa)) + kappa) + kappa * float(i1e(kappa) / i0e(kappa))
    theta = random.uniform(0, 2 * math.pi, n)
    phi = theta + random.vonmises(0, kappa, n)
    sides = [
        np.exp(0.1 * random.normal(size=(n, 1))) * np.stack([np.cos(a), np.sin(a)], axis=1) * 1.4 for a in (theta, phi)
    ]
    return *(with_inert(random, side, max(2, d), rotate=d <= 10) for side in sides), truth


def cauchy(random: Random, n: int, d: int) -> Drawn:
    """Cauchy variables with Cauchy noise, in up to five columns: log((1 + g) / g) each."""
    scale, d = random.uniform(0.1, 1.5), min(d, 5)
    x = random.standard_cauchy(size=(n, d))
    return x, x + scale * random.standard_cauchy(size=(n, d)), d * math.log((1 + scale) / scale)


def volatility(random: Random, n: int, d: int) -> Drawn:
    """x says how far y scatters, and nothing about its sign; the other columns are inert."""
    a = random.uniform(0.4, 1.2)
    scale = np.exp(a * norm.ppf((np.arange(4000) + 0.5) / 4000))
    grid = np.sinh(np.linspace(-9, 9, 6001))
    truth = entropy_on(grid, np.array([norm.pdf(v, 0, scale).mean() for v in grid]))
    truth -= 0.5 * math.log(2 * math.pi * math.e)
    x = random.normal(size=(n, 1))
    return with_inert(random, x, d), random.normal(size=(n, 1)) * np.exp(a * x), truth


def checkerboard(random: Random, n: int, d: int) -> Drawn:
    """Uniform on the black squares of a board, in one or two columns: log 2 each."""
    m, d = int(random.choice([2, 4])), min(d, 2)
    x = random.uniform(size=(n, d)) * m
    cell = (2 * random.integers(0, m // 2, size=(n, d)) + (np.floor(x) % 2)).astype(int)
    return x, cell + random.uniform(size=(n, d)), d * math.log(2)


def several_maps(random: Random, n: int, d: int) -> Drawn:
    """y is x under one of a few random rotations, plus noise; which one is not told."""
    k, d = int(random.integers(2, 4)), max(2, min(d, 10))
    rho = math.sqrt(-math.expm1(-2 * random.uniform(1.5, 4) / d))
    maps = [rotation(random, d) for _ in range(k)]
    x, noise, which = random.normal(size=(DRAWS, d)), random.normal(size=(DRAWS, d)), random.integers(0, k, DRAWS)
    y = math.sqrt(1 - rho**2) * noise + rho * sum((which == i)[:, None] * (x @ q) for i, q in enumerate(maps))
    given = np.stack([-0.5 * ((y - rho * x @ q) ** 2).sum(1) / (1 - rho**2) for q in maps], axis=1)
    ratio = logsumexp(given, axis=1) - math.log(k) - 0.5 * d * math.log(1 - rho**2) + 0.5 * (y**2).sum(1)
    return x[:n], y[:n], float(ratio.mean())


def heavy_clusters(random: Random, n: int, d: int) -> Drawn:
    """Clusters that both variables share, with Student-t noise."""
    k, spread, degrees = int(random.integers(2, 6)), random.uniform(0.2, 0.7), 3.0
    log_density = lambda away: student_t.logpdf(away, degrees).sum(-1)
    noise = lambda size: random.standard_t(degrees, size=size)
    return _clusters(random, n, min(d, 10), k, spread, log_density, noise)


def sparse_even(random: Random, n: int, d: int) -> Drawn:
    """Two columns of y are noisy even functions of two columns of x; all others are inert."""
    noise, active = random.uniform(0.3, 1), min(2, d)
    f = np.abs if random.random() < 0.5 else np.square
    x = random.normal(size=(n, active))
    y = f(x) + noise * random.normal(size=(n, active))
    return with_inert(random, x, d), with_inert(random, y, d), active * noisy_function(f, noise)


def single_index(random: Random, n: int, d: int) -> Drawn:
    """y is a noisy wave of one direction of x, spread over all columns."""
    noise, speed = random.uniform(0.2, 0.7), random.uniform(0.5, 1.5)
    f = lambda v: np.cos(speed * v) + 0.3 * v
    direction = random.normal(size=d)
    x = random.normal(size=(n, d))
    y = f(x @ direction / np.linalg.norm(direction)) + noise * random.normal(size=n)
    return x, y, noisy_function(f, noise)


def laplace(random: Random, n: int, d: int) -> Drawn:
    """Gaussian columns with Laplace noise, up to five."""
    b, d = random.uniform(0.2, 1), min(d, 5)
    grid = np.linspace(-12 - 12 * b, 12 + 12 * b, 6001)
    x = norm.ppf((np.arange(4000) + 0.5) / 4000)
    density = np.array([np.exp(-np.abs(v - x) / b).mean() / (2 * b) for v in grid])
    truth = entropy_on(grid, density) - 1 - math.log(2 * b)
    rows = random.normal(size=(n, d))
    return rows, rows + random.laplace(scale=b, size=(n, d)), d * truth


def logistic_label(random: Random, n: int, d: int) -> Drawn:
    """A label whose log odds are linear in x."""
    slope, offset = random.uniform(0.5, 4), random.normal()
    p = sigmoid(slope * FINE + offset)
    weight = norm.pdf(FINE) * (FINE[1] - FINE[0])
    truth = float(binary_entropy((weight * p).sum()) - (weight * binary_entropy(p)).sum())
    direction = random.normal(size=d)
    x = random.normal(size=(n, d))
    chance = sigmoid(slope * x @ direction / np.linalg.norm(direction) + offset)
    return x, (random.uniform(size=n) < chance).astype(int), truth


def radius_label(random: Random, n: int, d: int) -> Drawn:
    """A label that depends on how far out x is."""
    d, slope = max(2, min(d, 20)), random.uniform(1, 6)
    squares = chi2.ppf((np.arange(20_000) + 0.5) / 20_000, d)
    p = sigmoid(slope * (squares - d) / math.sqrt(2 * d))
    truth = float(binary_entropy(p.mean()) - binary_entropy(p).mean())
    x = random.normal(size=(n, d))
    chance = sigmoid(slope * ((x**2).sum(1) - d) / math.sqrt(2 * d))
    return x, (random.uniform(size=n) < chance).astype(int), truth


def exclusive_or(random: Random, n: int, d: int) -> Drawn:
    """A label that depends on the product of two columns of x; the others are inert."""
    slope, d = random.uniform(1, 8), max(2, d)
    grid = norm.ppf((np.arange(1500) + 0.5) / 1500)
    p = sigmoid(slope * grid[:, None] * grid)
    x = random.normal(size=(n, 2))
    label = (random.uniform(size=n) < sigmoid(slope * x[:, 0] * x[:, 1])).astype(int)
    return with_inert(random, x, d), label, float(binary_entropy(p.mean()) - binary_entropy(p).mean())


def poisson_counts(random: Random, n: int, d: int) -> Drawn:
    """A gamma rate and a Poisson count of it; inert columns beside the rate."""
    shape, scale = random.uniform(1, 4), random.uniform(0.5, 3)
    counts = np.arange(400)
    rates = np.exp(np.linspace(-14, 6, 4001))
    weight = np.exp((shape - 1) * np.log(rates / scale) - rates / scale - gammaln(shape)) / scale
    given = poisson.entropy(rates[::10])
    conditional = np.trapezoid(weight * np.interp(rates, rates[::10], given), rates)
    marginal = nbinom.pmf(counts, shape, 1 / (1 + scale))
    truth = float(-(marginal * np.log(np.maximum(marginal, 1e-300))).sum() - conditional)
    rate = random.gamma(shape, scale, size=(n, 1))
    return with_inert(random, rate, min(d, 5)), random.poisson(rate[:, 0]), truth


def zero_inflated(random: Random, n: int, d: int) -> Drawn:
    """x is zero in a third of the rows, y is x with Gaussian noise."""
    noise = random.uniform(0.2, 0.7)
    density = norm.pdf(FINE, 0, noise) / 3 + 2 * norm.pdf(FINE, 0, math.sqrt(1 + noise**2)) / 3
    truth = entropy_on(FINE, density) - 0.5 * math.log(2 * math.pi * math.e) - math.log(noise)
    x = random.normal(size=n) * (random.uniform(size=n) > 1 / 3)
    return x, x + noise * random.normal(size=n), truth


def clayton(random: Random, n: int, d: int) -> Drawn:
    """Clayton's copula, which ties the lower tails, with exponential margins, in up to three columns."""
    theta, d = random.uniform(0.5, 4), min(d, 3)
    u, w = random.uniform(size=(2, DRAWS, d))
    v = (u**-theta * (w ** (-theta / (1 + theta)) - 1) + 1) ** (-1 / theta)
    log_ratio = math.log1p(theta) - (1 + theta) * np.log(u * v) - (2 + 1 / theta) * np.log(u**-theta + v**-theta - 1)
    return -np.log(u[:n]), -np.log(v[:n]), d * float(log_ratio.mean())


def observed_series(random: Random, n: int, d: int) -> Drawn:
    """A series seen through noise, and the same some steps later, bent monotonically."""
    phi, lag, share, d = random.uniform(0.6, 0.95), int(random.integers(1, 3)), random.uniform(0.5, 1), min(d, 5)
    series = math.sqrt(share) * _autoregressive(random, n + lag, d, phi)
    series = series + math.sqrt(1 - share) * random.normal(size=series.shape)
    return np.sinh(series[:-lag]), series[lag:] ** 3, correlated_information(share * phi**lag, d=d)


def moving_average(random: Random, n: int, d: int) -> Drawn:
    """A moving average of noise and the same one step later."""
    a = random.uniform(0.3, 1)
    noise = random.normal(size=(n + 2, 1))
    series = noise[1:] + a * noise[:-1]
    return series[:-1], series[1:], correlated_information(a / (1 + a**2))


FRESH: dict[str, Kind] = {
    "ring": ring, "circles": circles, "cauchy": cauchy, "volatility": volatility, "checkerboard": checkerboard,
    "several maps": several_maps, "heavy clusters": heavy_clusters, "sparse even": sparse_even,
    "single index": single_index, "laplace": laplace, "logistic label": logistic_label, "radius label": radius_label,
    "exclusive or": exclusive_or, "poisson counts": poisson_counts, "zero inflated": zero_inflated,
    "clayton": clayton, "observed series": observed_series, "moving average": moving_average,
}  # fmt: skip
SUITES = {
    "development": (DEVELOPMENT, 5),
    "fresh": (FRESH, 12),
    "more": ({kind.__name__: kind for kind in MORE}, 2),
    "first": ({kind.__name__: kind for kind in FIRST}, 5),
    "last": ({kind.__name__: kind for kind in LAST}, 5),
    "third": ({kind.__name__: kind for kind in THIRD}, 5),
    "fourth": ({kind.__name__: kind for kind in FOURTH}, 5),
}


# --- running ---------------------------------------------------------------------------------------------------------


def designs(suite: str, draws: int, seed: int) -> list[tuple[str, int, int, int]]:
    """Kind, pairs, columns and seed of every case: sizes in turn, columns at random but most of them few."""
    kinds = SUITES[suite][0]
    if suite == "more":
        sizes = [(kind.__name__, *size) for kind, pair in MORE.items() for size in pair]
        return [(*case, int(np.random.default_rng([seed, at]).integers(2**31))) for at, case in enumerate(sizes)]
    cases = []
    for number, name in enumerate(kinds):
        for draw in range(draws):
            random = np.random.default_rng([seed, number, draw, len(kinds)])
            n = TURNS[(5 * number + draw) % len(TURNS)]
            d = int(random.choice([1, 2, 3, 5, 10, 20, 50], p=[0.2, 0.2, 0.15, 0.15, 0.15, 0.1, 0.05]))
            cases.append((name, n, d, int(random.integers(2**31))))
    return cases


def judged(kinds: dict[str, Kind], name: str, n: int, d: int, seed: int) -> dict:
    x, y, truth = kinds[name](np.random.default_rng(seed), n, d)
    start = time.process_time()
    found = estimate(x, y)
    low, high = found.interval
    return {
        "kind": name, "n": n, "d": d, "seed": seed, "truth": truth, "nats": found.nats, "low": low, "high": high,
        "covered": bool(low <= truth <= high), "trust": found.trust.word, "why": found.trust.sentence,
        "estimator": found.estimator, "reasons": found.reasons, "seconds": time.process_time() - start,
    }  # fmt: skip


def line(row: dict) -> str:
    return (
        f"{row['kind']:16} n {row['n']:6} d {row['d']:3} truth {row['truth']:7.3f} said {row['nats']:7.3f} "
        f"[{row['low']:7.3f}, {row['high']:7.3f}] {'covered' if row['covered'] else 'MISSED '} {row['trust']:8} "
        f"{row['estimator']:9} {row['seconds']:5.1f} s  {row['why']}"
    )


def summary(rows: list[dict]) -> str:
    lines = []
    for word in ("high", "moderate", "low"):
        said = [row for row in rows if row["trust"] == word]
        if not said:
            continue
        kinds = {row["kind"] for row in said}
        by_kind = {kind: [row["covered"] for row in said if row["kind"] == kind] for kind in kinds}
        worst = min(by_kind, key=lambda kind: np.mean(by_kind[kind]))
        covered = sum(row["covered"] for row in said)
        share, rate = len(said) / len(rows), covered / len(said)
        lines.append(
            f"{word:9} {len(said):4} answers ({share:.0%}), {covered} cover ({rate:.1%}); "
            f"worst kind: {worst}, {sum(by_kind[worst])} of {len(by_kind[worst])}"
        )
    errors = [abs(row["nats"] - row["truth"]) for row in rows if row["trust"] != "low"]
    seconds = [row["seconds"] for row in rows]
    lines.append(f"mean absolute error of high and moderate: {np.mean(errors):.3f} nats")
    lines.append(f"CPU seconds: median {np.median(seconds):.1f}, largest {max(seconds):.1f}, in all {sum(seconds):.0f}")
    return "\n".join(lines)


# Kinds of information_more.py and their columns, for 100,000 pairs.
LARGE = {"waves": 1, "hurdle": 1, "student_copula": 5, "rare_labels": 50, "turned": 50, "energy": 20, "clipped": 5}
ALONE = """
import sys, numpy as np, torch
from vergence.information import estimate
torch.set_num_threads(1)
print(estimate(np.load(sys.argv[1]), np.load(sys.argv[2])))
"""


def large(kinds: list[str]) -> None:
    """100,000 pairs of each kind, in a process of its own: its seconds and its peak memory."""
    functions = {kind.__name__: kind for kind in MORE}
    for name in kinds:
        x, y, truth = functions[name](np.random.default_rng(5), 100_000, LARGE[name])
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{side}.npy" for side in "xy"]
            np.save(files[0], x), np.save(files[1], y)
            began = time.monotonic()
            process = subprocess.Popen([sys.executable, "-c", ALONE, *files])
            used = os.wait4(process.pid, 0)[2]
        seconds, wall = used.ru_utime + used.ru_stime, time.monotonic() - began
        peak = used.ru_maxrss / 2**20
        print(
            f"{name}, d = {LARGE[name]}, {truth:.3f} nats: {seconds:.0f} s of CPU, {wall:.0f} s, {peak:.2f} GiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=[*SUITES, "large"])
    parser.add_argument("--draws", type=int, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, default=20_000, help="no case of more pairs")
    parser.add_argument("--kinds", nargs="+", help="only these")
    parser.add_argument(
        "--to", type=Path, help="write every row here, as lines of JSON; what is there is not run again"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.suite == "large":
        return large(arguments.kinds or list(LARGE))
    kinds, draws = SUITES[arguments.suite]
    there = arguments.to and arguments.to.exists()
    rows = [json.loads(text) for text in arguments.to.read_text().splitlines()] if there else []
    seen = {(row["kind"], row["n"], row["d"], row["seed"]) for row in rows}
    for case in designs(arguments.suite, arguments.draws or draws, arguments.seed):
        if case[1] > arguments.largest or (arguments.kinds and case[0] not in arguments.kinds) or case in seen:
            continue
        rows.append(judged(kinds, *case))
        print(line(rows[-1]), flush=True)
        if arguments.to:
            with arguments.to.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print(summary(rows))


if __name__ == "__main__":
    main()
