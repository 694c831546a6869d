"""Sixteen kinds of dependence with known information; none served a choice.

Written beside the repair for lengths in common, of which ``shared_factor`` is a relative; ``wrapped_noise``,
``factor_and_units`` and ``size_alone`` had been drawn before it, with other sizes, and were right. Every kind is a
function of (generator, n, d) that returns x, y and the truth in nats, like those of information_third.py.
"""

import math

import numpy as np
from scipy import special, stats

from information_more import Case, Kind, Random, Rows, gaussian, inert, mean_ratio, pairs
from information_unseen import NORMAL, blurred, of_response, of_table, shuffled

TURN = 2 * math.pi


def log_cosh(a: Rows) -> Rows:
    return np.logaddexp(a, -a) - math.log(2)


def common_signs(g: Random, n: int, d: int) -> Case:
    """Two blocks of up to four columns, each under a random sign of its own; correlations differ."""
    size, sides, truth = max(1, min(d // 2, 4)), [], 0.0
    for _ in range(2):
        rho = g.uniform(0.5, 0.95)

        def ratio(x: Rows, y: Rows, rho: float = rho) -> Rows:
            even = 0.5 * rho**2 / (1 - rho**2) * (x**2 + y**2).sum(1)
            return log_cosh(rho / (1 - rho**2) * (x * y).sum(1)) - even + size * gaussian(rho)

        truth += mean_ratio(lambda m, rho=rho: pairs(m, size, rho, g), ratio)
        x, y = pairs(n, size, rho, g)
        sides.append((x, y * g.choice([-1, 1], (n, 1))))
    (x1, y1), (x2, y2) = sides
    return np.hstack([x1, x2]), np.hstack([y1, y2]), truth


def noisy_ring(g: Random, n: int, d: int) -> Case:
    """The two coordinates of a ring, each with noise of its own, among inert columns."""
    noise, angle = g.uniform(0.08, 0.4), g.uniform(0, TURN, n)
    grid, turns = np.linspace(-1 - 6 * noise, 1 + 6 * noise, 500), np.linspace(0, TURN, 1200, endpoint=False)
    joint = stats.norm.pdf(grid[:, None], np.cos(turns), noise) @ stats.norm.pdf(np.sin(turns)[:, None], grid, noise)
    x, y = (f(angle)[:, None] + noise * g.normal(size=(n, 1)) for f in (np.cos, np.sin))
    return shuffled(inert(x, min(d, 10), g), g), shuffled(inert(y, min(d, 10), g), g), of_table(joint)


def fast_wave(g: Random, n: int, d: int) -> Case:
    """A sine of many periods with noise, among inert columns."""
    noise, speed = g.uniform(0.2, 0.8), g.uniform(2, 5)
    x = g.normal(size=(n, 1))
    y = np.sin(speed * x) + noise * g.normal(size=(n, 1))
    truth = blurred(np.sin(speed * NORMAL), noise)
    return shuffled(inert(x, min(d, 5), g), g), shuffled(inert(y, min(d, 5), g), g), truth


def cauchy_noise(g: Random, n: int, d: int) -> Case:
    """A normal variable with Cauchy noise, among inert columns."""
    scale, x = g.uniform(0.05, 0.5), g.normal(size=(n, 1))
    place = np.linspace(-math.pi / 2 + 1e-5, math.pi / 2 - 1e-5, 6001)
    density = np.array([stats.cauchy.pdf(v, NORMAL, scale).mean() for v in np.tan(place)])
    truth = float(np.trapezoid(special.entr(density) / np.cos(place) ** 2, place)) - math.log(4 * math.pi * scale)
    return inert(x, min(d, 10), g), inert(x + scale * g.standard_cauchy((n, 1)), min(d, 10), g), truth


def sliding_window(g: Random, n: int, d: int) -> Case:
    """A whole number, and it plus a number between 0 and 2 (Gao et al. 2017, Sec. 5)."""
    values = int(g.integers(3, 9))
    x = g.integers(0, values, (n, 1)).astype(float)
    return x, x + 2 * g.random((n, 1)), math.log(values) - (values - 1) * math.log(2) / values


def missing_as_zero(g: Random, n: int, d: int) -> Case:
    """x with noise, or 0 where it was not measured."""
    share, noise, x = g.uniform(0.2, 0.6), g.uniform(0.3, 1), g.normal(size=(n, 1))
    y = np.where(g.random((n, 1)) < share, 0.0, x + noise * g.normal(size=(n, 1)))
    return x, y, (1 - share) * 0.5 * math.log1p(noise**-2)


def label_of_product(g: Random, n: int, d: int) -> Case:
    """A label whose chance is a steep function of the product of two columns; the others are inert."""
    slope, d = g.uniform(2, 6), max(2, min(d, 10))
    x = g.normal(size=(n, d))
    chance = special.expit(slope * np.prod(g.normal(size=(400_000, 2)), axis=1))
    label = g.random(n) < special.expit(slope * x[:, 0] * x[:, 1])
    return shuffled(x, g), label.astype(int), of_response(np.stack([chance, 1 - chance], axis=1))


def square_of_a_series(g: Random, n: int, d: int) -> Case:
    """An autoregression and its square with noise."""
    slow, noise, x = g.uniform(0.5, 0.95), g.uniform(0.4, 1.2), g.normal(size=n)
    for t in range(1, n):
        x[t] = slow * x[t - 1] + math.sqrt(1 - slow**2) * x[t]
    return x[:, None], (x**2 + noise * g.normal(size=n))[:, None], blurred(NORMAL**2, noise)


def next_of_a_vector(g: Random, n: int, d: int) -> Case:
    """A vector autoregression and its next moment."""
    d = min(d, 5)
    step = g.normal(size=(d, d))
    step *= g.uniform(0.4, 0.9) / np.abs(np.linalg.eigvals(step)).max()
    spread = np.eye(d)
    for _ in range(2000):
        spread = step @ spread @ step.T + np.eye(d)
    rows = [np.linalg.cholesky(spread) @ g.normal(size=d)]
    for noise in g.normal(size=(n, d)):
        rows.append(step @ rows[-1] + noise)
    return np.array(rows[:-1]), np.array(rows[1:]), float(np.linalg.slogdet(spread)[1] / 2)


def wrapped_noise(g: Random, n: int, d: int) -> Case:
    """Numbers between 0 and 1 that go round, with uniform noise, in up to two columns; truth -d ln(width)."""
    width, d = g.uniform(0.1, 0.8), min(d, 2)
    x = g.random((n, d))
    return x, (x + width * g.random((n, d))) % 1, -d * math.log(width)


def factor_and_units(g: Random, n: int, d: int) -> Case:
    """The exponential of x with noise, each column in units of its own."""
    noise, d = g.uniform(0.2, 1), min(d, 10)
    x = g.normal(size=(n, d))
    y = np.exp(x + noise * g.normal(size=(n, d))) * g.choice([0.01, 1.0, 100.0], d)
    return x, y, d * 0.5 * math.log1p(noise**-2)


def size_alone(g: Random, n: int, d: int) -> Case:
    """The logarithm of |x| with noise, among inert columns."""
    noise, x = g.uniform(0.3, 1), g.normal(size=(n, 1))
    y = np.log(np.abs(x)) + noise * g.normal(size=(n, 1))
    return inert(x, min(d, 5), g), inert(y, min(d, 5), g), blurred(np.log(np.abs(NORMAL)), noise)


def rounded_pairs(g: Random, n: int, d: int) -> Case:
    """Correlated normal columns, rounded to tenths, which loses next to nothing."""
    rho, d = g.uniform(0.4, 0.9), min(d, 5)
    return *(np.round(side, 1) for side in pairs(n, d, rho, g)), d * gaussian(rho)


def confused_categories(g: Random, n: int, d: int) -> Case:
    """One of up to 40 categories, and the same or a random one."""
    values, kept = int(g.integers(5, 40)), g.uniform(0.3, 0.9)
    x = g.integers(0, values, n)
    y = np.where(g.random(n) < kept, x, g.integers(0, values, n))
    return x, y, of_table(kept * np.eye(values) / values + (1 - kept) / values**2)


def one_of_many(g: Random, n: int, d: int) -> Case:
    """One pair of columns among up to fifty that are inert, the one of y bent."""
    nats, d = g.uniform(0.2, 1.5), max(10, d)
    x, y = pairs(n, 1, math.sqrt(-math.expm1(-2 * nats)), g)
    return shuffled(inert(x, d, g), g), shuffled(inert(np.sinh(y), d, g), g), nats


def shared_factor(g: Random, n: int, d: int) -> Case:
    """Columns that share one log-normal factor a row and are independent otherwise."""
    spread, d = g.uniform(0.5, 1.2), max(2, min(d, 10))
    factors = spread * stats.norm.ppf((np.arange(201) + 0.5) / 201)

    def draw(m: int) -> tuple[Rows, Rows]:
        factor = np.exp(spread * g.normal(size=(m, 1)))
        return factor * g.normal(size=(m, d)), factor * g.normal(size=(m, d))

    def of_lengths(squares: Rows, columns: int) -> Rows:
        terms = -0.5 * squares[:, None] * np.exp(-2 * factors) - columns * factors
        return special.logsumexp(terms, axis=1) - math.log(len(factors))

    def ratio(x: Rows, y: Rows) -> Rows:
        a, b = (x**2).sum(1), (y**2).sum(1)
        return of_lengths(a + b, 2 * d) - of_lengths(a, d) - of_lengths(b, d)

    return *draw(n), mean_ratio(draw, ratio, n=30_000)


FOURTH: tuple[Kind, ...] = (
    common_signs, noisy_ring, fast_wave, cauchy_noise, sliding_window, missing_as_zero, label_of_product,
    square_of_a_series, next_of_a_vector, wrapped_noise, factor_and_units, size_alone, rounded_pairs,
    confused_categories, one_of_many, shared_factor,
)  # fmt: skip
