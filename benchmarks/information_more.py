"""Thirty-six more kinds of dependence with known information, made without a look at those of information_trust.py.

Every kind is a function of (generator, n, d) that returns x, y and the truth in nats: a closed form, a sum, a
quadrature, or the mean log ratio of densities over 200,000 fresh pairs.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import integrate, special, stats

Rows = np.ndarray
Case = tuple[Rows, Rows, float]
Random = np.random.Generator
Kind = Callable[[Random, int, int], Case]
LINE = np.linspace(-40.0, 40.0, 160_001)  # covers every one-dimensional density below


def gaussian(rho: float) -> float:
    return -0.5 * math.log(1 - rho**2)


def entropy(density: Rows, line: Rows = LINE) -> float:
    return float(integrate.trapezoid(special.entr(density), line))


def binary(p: float) -> float:
    return float(special.entr(p) + special.entr(1 - p))


def pairs(n: int, d: int, rho: float, g: Random) -> tuple[Rows, Rows]:
    x = g.normal(size=(n, d))
    return x, rho * x + math.sqrt(1 - rho**2) * g.normal(size=(n, d))


def inert(columns: Rows, d: int, g: Random) -> Rows:
    """The columns, and as many of pure noise as fill d."""
    return np.hstack([columns, g.normal(size=(len(columns), max(0, d - columns.shape[1])))])


def mean_ratio(draw: Callable[[int], tuple[Rows, ...]], ratio: Callable[..., Rows], n: int = 200_000) -> float:
    return float(ratio(*draw(n)).mean())


def sign_of_two(g: Random, n: int, d: int) -> Case:
    """y has the sign of a product of two columns of x, wrong in one of twelve."""
    x = g.normal(size=(n, d))
    sign = np.sign(x[:, :1] * x[:, 1:2]) * np.where(g.random((n, 1)) < 1 / 12, -1, 1)
    return x, sign * np.abs(g.normal(size=(n, 1))), math.log(2) - binary(1 / 12)


def block_signs(g: Random, n: int, d: int) -> Case:
    """x and y have two blocks each; every block of y is its block of x under a random sign of its own."""
    x, y = pairs(n, 2 * d, 0.8, g)
    signs = np.repeat(np.where(g.random((n, 2)) < 0.5, -1, 1), d, axis=1)

    def ratio(x: Rows, y: Rows) -> Rows:
        scores = [stats.norm.logpdf(y, s * 0.8 * x, 0.6).sum(1) for s in (-1, 1)]
        return np.logaddexp(*scores) - math.log(2) - stats.norm.logpdf(y).sum(1)

    def draw(m: int) -> tuple[Rows, Rows]:
        x, y = pairs(m, d, 0.8, g)
        return x, y * np.where(g.random((m, 1)) < 0.5, -1, 1)

    return x, signs * y, 2 * mean_ratio(draw, ratio)


def student_copula(g: Random, n: int, d: int) -> Case:
    """Student's t with four degrees of freedom and correlation .6, its margins made exponential."""
    rho, nu = 0.6, 4

    def draw(m: int) -> tuple[Rows, Rows]:
        scale = np.sqrt(nu / g.chisquare(nu, size=(m, 1)))
        x, y = pairs(m, d, rho, g)
        return x * scale, y * scale

    def log_t(q: Rows, p: int, log_det: float) -> Rows:
        front = special.gammaln((nu + p) / 2) - special.gammaln(nu / 2) - p / 2 * math.log(nu * math.pi) - log_det / 2
        return front - (nu + p) / 2 * np.log1p(q / nu)

    def ratio(x: Rows, y: Rows) -> Rows:
        both = ((x**2 + y**2 - 2 * rho * x * y) / (1 - rho**2)).sum(1)
        joint = log_t(both, 2 * d, d * math.log(1 - rho**2))
        return joint - log_t((x**2).sum(1), d, 0.0) - log_t((y**2).sum(1), d, 0.0)

    x, y = draw(n)
    return *(-np.log(stats.t.sf(v, nu)) for v in (x, y)), mean_ratio(draw, ratio)


def annulus(g: Random, n: int, d: int) -> Case:
    """Angles agree up to von Mises noise; radii are of their own."""
    angle = g.uniform(0, 2 * math.pi, size=(n, 1))
    other = angle + g.vonmises(0, 4.0, size=(n, 1))

    def place(a: Rows) -> Rows:
        return (1 + 0.3 * g.random((n, 1))) * np.hstack([np.cos(a), np.sin(a)])

    truth = math.log(2 * math.pi) - float(stats.vonmises(4.0).entropy())
    return inert(place(angle), d, g), inert(place(other), d, g), truth


def multiplied(g: Random, n: int, d: int) -> Case:
    """y = x e^(s g), column by column: the sign is kept, the logarithm blurred."""
    s = 0.7
    x = g.normal(size=(n, d))
    log_abs = 2 * stats.norm.pdf(np.exp(LINE)) * np.exp(LINE)
    step = LINE[1] - LINE[0]
    blurred = np.convolve(log_abs, stats.norm.pdf(np.arange(-6, 6 + step, step), scale=s), "same") * step
    each = math.log(2) + entropy(np.maximum(blurred, 0)) - float(stats.norm(scale=s).entropy())
    return x, x * np.exp(s * g.normal(size=(n, d))), d * each


def swiss_roll(g: Random, n: int, d: int) -> Case:
    """x lies on a rolled sheet; y are its two coordinates with noise."""
    t, h, s = g.uniform(5, 14, size=(n, 1)), g.uniform(0, 9, size=(n, 1)), 1.0
    x = np.hstack([t * np.cos(t), h, t * np.sin(t)])
    y = np.hstack([t, h]) + s * g.normal(size=(n, 2))
    blurred = (stats.norm.cdf(LINE, 0, s) - stats.norm.cdf(LINE, 9, s)) / 9
    return inert(x, d, g), y, 2 * (entropy(blurred) - float(stats.norm(scale=s).entropy()))


def hurdle(g: Random, n: int, d: int) -> Case:
    """Counts that are zero or not by a logistic of x, and geometric where not."""
    x = g.normal(size=(n, d))
    on = g.random(n) < special.expit(2.5 * x[:, 0])
    p = special.expit(2.5 * LINE)
    noise = float(integrate.trapezoid(stats.norm.pdf(LINE) * (special.entr(p) + special.entr(1 - p)), LINE))
    return x, (on * g.geometric(0.2, size=n))[:, None].astype(float), math.log(2) - noise


def rounded(g: Random, n: int, d: int) -> Case:
    """Correlated Gaussians, both rounded to whole numbers of deviations and a half."""
    rho, step = 0.85, 0.5
    x, y = pairs(n, d, rho, g)
    edges = (np.arange(-13, 14) - 0.5) * step
    fine = np.linspace(0, 1, 41)[:-1] + 1 / 80
    joint = np.zeros((26, 26))
    for i, low in enumerate(edges[:-1]):
        at = low + step * fine
        cut = stats.norm.cdf(edges[None], rho * at[:, None], math.sqrt(1 - rho**2))
        joint[i] = (stats.norm.pdf(at)[:, None] * np.diff(cut, axis=1)).mean(0) * step
    joint /= joint.sum()
    truth = special.entr(joint.sum(0)).sum() + special.entr(joint.sum(1)).sum() - special.entr(joint).sum()
    return np.round(x / step) * step, np.round(y / step) * step, d * float(truth)


def _labeled(
    n: int, weights: Rows, log_densities: Callable[[Rows], Rows], draw: Callable[[Rows], Rows], g: Random
) -> Case:
    """Features of each class; the truth is the mean log ratio of the density of the class to that of the mixture."""

    def some(m: int) -> tuple[Rows, Rows]:
        label = g.choice(len(weights), size=m, p=weights)
        return draw(label), label

    def ratio(x: Rows, label: Rows) -> Rows:
        scores = log_densities(x)
        return scores[np.arange(len(x)), label] - special.logsumexp(scores + np.log(weights), axis=1)

    x, label = some(n)
    return x, label[:, None].astype(float), mean_ratio(some, ratio)


def rare_labels(g: Random, n: int, d: int) -> Case:
    """Three classes of 85, 10 and 5 percent with means and spreads of their own."""
    weights, spreads = np.array([0.85, 0.1, 0.05]), np.array([1.0, 0.7, 1.4])
    means = 1.5 * g.normal(size=(3, d)) / math.sqrt(d)
    return _labeled(
        n,
        weights,
        lambda x: np.stack([stats.norm.logpdf(x, means[k], spreads[k]).sum(1) for k in range(3)], 1),
        lambda label: means[label] + spreads[label][:, None] * g.normal(size=(len(label), d)),
        g,
    )


def ring_labels(g: Random, n: int, d: int) -> Case:
    """Four classes as concentric rings in the first two columns."""
    radii = np.array([1.0, 2.0, 3.0, 4.0])

    def draw(label: Rows) -> Rows:
        angle = g.uniform(0, 2 * math.pi, size=len(label))
        radius = radii[label] + 0.4 * g.normal(size=len(label))
        return inert(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1), d, g)

    def log_densities(x: Rows) -> Rows:
        radius = np.hypot(x[:, 0], x[:, 1])[:, None]
        # A negative radius is the same point on the other side.
        return np.logaddexp(stats.norm.logpdf(radius, radii, 0.4), stats.norm.logpdf(-radius, radii, 0.4))

    return _labeled(n, np.full(4, 0.25), log_densities, draw, g)


def many_labels(g: Random, n: int, d: int) -> Case:
    """Twenty classes of two clusters each."""
    means = 2.0 * g.normal(size=(20, 2, d)) / math.sqrt(d) ** 0.5

    def draw(label: Rows) -> Rows:
        return means[label, g.integers(2, size=len(label))] + g.normal(size=(len(label), d))

    def log_densities(x: Rows) -> Rows:
        both = -0.5 * ((x[:, None, None] - means[None]) ** 2).sum(-1)
        return special.logsumexp(both, axis=2)

    return _labeled(n, np.full(20, 0.05), log_densities, draw, g)


def lagged(g: Random, n: int, d: int) -> Case:
    """An autoregression against its own next row."""
    phi = 0.7
    rows = np.zeros((n + 51, d))
    for t in range(1, len(rows)):
        rows[t] = phi * rows[t - 1] + math.sqrt(1 - phi**2) * g.normal(size=d)
    return rows[50:-1], rows[51:], d * gaussian(phi)


def permuted_columns(g: Random, n: int, d: int) -> Case:
    """Columns of falling correlation, those of y in another order and cubed or exponentiated."""
    rho = np.linspace(0.9, 0.1, d)
    x = g.normal(size=(n, d))
    y = rho * x + np.sqrt(1 - rho**2) * g.normal(size=(n, d))
    y[:, ::2], y[:, 1::2] = y[:, ::2] ** 3, np.exp(2 * y[:, 1::2])
    return x, y[:, g.permutation(d)], float(sum(map(gaussian, rho)))


def low_rank(g: Random, n: int, d: int) -> Case:
    """Three common factors in d columns of noise."""
    a, b = (g.normal(size=(3, d)) * 0.5 for _ in range(2))
    z = g.normal(size=(n, 3))
    joint = np.vstack([a.T, b.T]) @ np.hstack([a, b]) + np.eye(2 * d)
    parts = [np.linalg.slogdet(m)[1] for m in (joint[:d, :d], joint[d:, d:], joint)]
    return z @ a + g.normal(size=(n, d)), z @ b + g.normal(size=(n, d)), float(parts[0] + parts[1] - parts[2]) / 2


def common_curve(g: Random, n: int, d: int) -> Case:
    """One hidden angle, seen through d waves on each side with noise."""
    s, grid = 1.0, np.linspace(0, 2 * math.pi, 400, endpoint=False)
    turn, phases = np.arange(d) % 3 + 1, g.uniform(0, 2 * math.pi, size=(2, d))

    def draw(m: int) -> tuple[Rows, Rows]:
        z = g.uniform(0, 2 * math.pi, size=(m, 1))
        return tuple(np.cos(turn * z + phase) + s * g.normal(size=(m, d)) for phase in phases)

    def ratio(x: Rows, y: Rows) -> Rows:
        # The squares of rows and waves: only the product with the noise-free wave depends on both.
        waves = [np.cos(turn * grid[:, None] + phase) for phase in phases]
        scores = [(v @ w.T - 0.5 * (w**2).sum(1)) / s**2 for v, w in zip((x, y), waves, strict=True)]
        level = math.log(len(grid))
        one = [special.logsumexp(score, axis=1) - level for score in scores]
        return special.logsumexp(scores[0] + scores[1], axis=1) - level - one[0] - one[1]

    return *draw(n), mean_ratio(draw, ratio, 20_000)


def warped(g: Random, n: int, d: int) -> Case:
    """Correlated Gaussians, every column bent by a monotone map of its own."""
    maps = (np.exp, lambda v: np.sinh(2 * v), lambda v: v**5, special.ndtr, lambda v: np.sign(v) * np.sqrt(np.abs(v)))
    x, y = pairs(n, d, 0.7, g)
    for j in range(d):
        x[:, j], y[:, j] = maps[j % 5](x[:, j]), maps[(j + 2) % 5](y[:, j])
    return x, y, d * gaussian(0.7)


def mixed_correlations(g: Random, n: int, d: int) -> Case:
    """Three components of weights .5, .3, .2 with correlations .9, -.6 and 0 and centers of their own."""
    weights, rho = np.array([0.5, 0.3, 0.2]), np.array([0.9, -0.6, 0.0])
    centers = np.array([0.0, 1.5, -1.5])

    def draw(m: int) -> tuple[Rows, Rows]:
        k = g.choice(3, size=m, p=weights)[:, None]
        x = g.normal(size=(m, d))
        y = rho[k] * x + np.sqrt(1 - rho[k] ** 2) * g.normal(size=(m, d))
        return x + centers[k], y + centers[k]

    def ratio(x: Rows, y: Rows) -> Rows:
        u, v = (w[:, None] - centers[:, None] for w in (x, y))
        px, py = stats.norm.logpdf(u).sum(2), stats.norm.logpdf(v).sum(2)
        given = stats.norm.logpdf(v, rho[:, None] * u, np.sqrt(1 - rho**2)[:, None]).sum(2)
        logs = np.log(weights)
        joint, alone = special.logsumexp(logs + px + given, axis=1), special.logsumexp(logs + px, axis=1)
        return joint - alone - special.logsumexp(logs + py, axis=1)

    return *draw(n), mean_ratio(draw, ratio)


def null_gaussian(g: Random, n: int, d: int) -> Case:
    return g.normal(size=(n, d)), g.normal(size=(n, d)), 0.0


def null_heavy(g: Random, n: int, d: int) -> Case:
    """Independent: t with two degrees of freedom against clusters."""
    clusters = 4.0 * g.integers(3, size=(n, 1)) + g.normal(size=(n, d))
    return g.standard_t(2, size=(n, d)), clusters, 0.0


def null_label(g: Random, n: int, d: int) -> Case:
    return g.normal(size=(n, d)), g.integers(5, size=(n, 1)).astype(float), 0.0


def floored(g: Random, n: int, d: int) -> Case:
    """Whole numbers: the floor of three times a blurred column."""
    x = g.normal(size=(n, d))
    y = np.floor(3 * (x[:, :1] + 0.5 * g.normal(size=(n, 1))))
    line, edges = np.linspace(-6, 6, 4001), np.arange(-25, 26) / 3
    given = np.diff(stats.norm.cdf(edges[None], line[:, None], 0.5), axis=1)
    weight = stats.norm.pdf(line) * (line[1] - line[0])
    return x, y, float(special.entr(weight @ given).sum() - weight @ special.entr(given).sum(1))


def largest(g: Random, n: int, d: int) -> Case:
    """y is the largest column of x with noise."""
    x, s = g.normal(size=(n, d)), 0.3
    step = LINE[1] - LINE[0]
    density = d * stats.norm.pdf(LINE) * stats.norm.cdf(LINE) ** (d - 1)
    blurred = np.convolve(density, stats.norm.pdf(np.arange(-3, 3 + step, step), scale=s), "same") * step
    truth = entropy(np.maximum(blurred, 0)) - float(stats.norm(scale=s).entropy())
    return x, x.max(1, keepdims=True) + s * g.normal(size=(n, 1)), truth


def product(g: Random, n: int, d: int) -> Case:
    """y = x1 x2 with noise, the other columns inert."""
    x, s = g.normal(size=(n, d)), 0.5
    line, at = np.linspace(-25, 25, 4001), np.linspace(-6, 6, 1201)
    density = stats.norm.pdf(line[:, None], 0, np.sqrt(at**2 + s**2)) @ stats.norm.pdf(at) * (at[1] - at[0])
    truth = entropy(density, line) - float(stats.norm(scale=s).entropy())
    return x, x[:, :1] * x[:, 1:2] + s * g.normal(size=(n, 1)), truth


def uneven_noise(g: Random, n: int, d: int) -> Case:
    """x says only how wide y is."""
    x = g.normal(size=(n, d))
    line, at = np.linspace(-400, 400, 400_001), np.linspace(-5, 5, 101)
    density = sum(stats.norm.pdf(line, 0, math.exp(a)) * stats.norm.pdf(a) * 0.1 for a in at)
    truth = entropy(density, line) - float(stats.norm.entropy())
    return x, np.exp(x[:, :1]) * g.normal(size=(n, 1)), truth


def waves(g: Random, n: int, d: int) -> Case:
    """y is a fast sine of one column of x."""
    x = g.uniform(0, 1, size=(n, d))
    line, at = np.linspace(-4, 4, 8001), np.linspace(0, 1, 2000, endpoint=False)
    density = stats.norm.pdf(line[:, None], np.sin(2 * math.pi * at), 0.3).mean(1)
    y = np.sin(2 * math.pi * 4 * x[:, :1]) + 0.3 * g.normal(size=(n, 1))
    return x, y, entropy(density, line) - float(stats.norm(scale=0.3).entropy())


def turned(g: Random, n: int, d: int) -> Case:
    """Falling canonical correlations behind random rotations of both sides."""
    rho = 0.95 * 0.8 ** np.arange(d)
    x = g.normal(size=(n, d))
    y = rho * x + np.sqrt(1 - rho**2) * g.normal(size=(n, d))
    turns = [np.linalg.qr(g.normal(size=(d, d)))[0] for _ in range(2)]
    return x @ turns[0], y @ turns[1], float(sum(map(gaussian, rho)))


def frank(g: Random, n: int, d: int) -> Case:
    """Frank's copula with parameter 8, column by column, its margins left uniform."""
    a = 8.0
    u, w = g.random((n, d)), g.random((n, d))
    v = -np.log1p(w * np.expm1(-a) / (w + (1 - w) * np.exp(-a * u))) / a
    at = (np.arange(1500) + 0.5) / 1500
    p, q = np.meshgrid(at, at)
    below = (-np.expm1(-a) - np.expm1(-a * p) * np.expm1(-a * q)) ** 2
    density = -a * np.expm1(-a) * np.exp(-a * (p + q)) / below
    return u, v, d * float((density * np.log(density)).mean())


def label_and_count(g: Random, n: int, d: int) -> Case:
    """Three classes of Poisson counts of rates 2, 5 and 9."""
    rates, label = np.array([2.0, 5.0, 9.0]), g.integers(3, size=n)
    given = stats.poisson.pmf(np.arange(60), rates[:, None])
    truth = special.entr(given.mean(0)).sum() - special.entr(given).sum(1).mean()
    return label[:, None].astype(float), g.poisson(rates[label])[:, None].astype(float), float(truth)


def spiked(g: Random, n: int, d: int) -> Case:
    """y is x with noise in two thirds of the rows, and a row of zeros in the others."""
    x, y = pairs(n, d, 0.8, g)
    return x, y * (g.random((n, 1)) < 2 / 3), d * gaussian(0.8) * 2 / 3


def clipped(g: Random, n: int, d: int) -> Case:
    """Both sides of correlated Gaussians, and y cut off at zero: what a rectifier does."""
    rho = 0.8
    x, y = pairs(n, d, rho, g)
    s = math.sqrt(1 - rho**2)
    line = np.linspace(-8, 8, 2001)
    p = stats.norm.cdf(rho * line / s)
    weight = stats.norm.pdf(line) * (line[1] - line[0])
    positive = np.linspace(0, 9, 2001)
    given = stats.norm.pdf(positive[None], rho * line[:, None], s)
    inner = integrate.trapezoid(special.entr(given), positive, axis=1) + special.entr(1 - p)
    whole = entropy(stats.norm.pdf(positive), positive) + float(special.entr(0.5))
    return x, np.maximum(y, 0), d * (whole - float(weight @ inner))


def flipped_bits(g: Random, n: int, d: int) -> Case:
    """Bits and the same bits with one in ten flipped."""
    x = g.integers(2, size=(n, d))
    return x.astype(float), (x ^ (g.random((n, d)) < 0.1)).astype(float), d * (math.log(2) - binary(0.1))


def waiting(g: Random, n: int, d: int) -> Case:
    """Exponential times plus exponential times: the information is Euler's constant for each column."""
    x = g.exponential(size=(n, d))
    return x, x + g.exponential(size=(n, d)), d * float(np.euler_gamma)


def energy(g: Random, n: int, d: int) -> Case:
    """y is the logarithm of the squared length of x, with noise."""
    x, s = g.normal(size=(n, d)), 0.2
    step = LINE[1] - LINE[0]
    density = stats.chi2.pdf(np.exp(np.minimum(LINE, 20)), d) * np.exp(np.minimum(LINE, 20))
    blurred = np.convolve(density, stats.norm.pdf(np.arange(-2, 2 + step, step), scale=s), "same") * step
    truth = entropy(np.maximum(blurred, 0)) - float(stats.norm(scale=s).entropy())
    return x, np.log((x**2).sum(1, keepdims=True)) + s * g.normal(size=(n, 1)), truth


def tails_only(g: Random, n: int, d: int) -> Case:
    """Beyond one deviation y follows x; within, it does not."""
    x = g.normal(size=(n, d))
    follows = np.abs(x[:, :1]) > 1
    y = np.where(follows, x[:, :1] + 0.3 * g.normal(size=(n, 1)), 0.8 * g.normal(size=(n, 1)))
    line = np.linspace(-8, 8, 3201)
    out = line[np.abs(line) > 1]
    weight = stats.norm.pdf(out) * (line[1] - line[0])
    inside = 2 * stats.norm.cdf(1) - 1
    weight *= (1 - inside) / weight.sum()
    density = inside * stats.norm.pdf(line, 0, 0.8) + stats.norm.pdf(line[:, None], out[None], 0.3) @ weight
    noise = inside * stats.norm(scale=0.8).entropy() + (1 - inside) * stats.norm(scale=0.3).entropy()
    return x, y, entropy(density, line) - float(noise)


def collinear(g: Random, n: int, d: int) -> Case:
    """d columns that are nearly combinations of d // 2 others."""
    half = max(d // 2, 1)
    x, y = pairs(n, half, 0.75, g)
    wide = g.normal(size=(half, d))
    noise = 0.05
    cov = wide.T @ wide + noise**2 * np.eye(d)
    joint = np.block([[cov, 0.75 * wide.T], [0.75 * wide, np.eye(half)]])
    truth = (np.linalg.slogdet(cov)[1] - np.linalg.slogdet(joint)[1]) / 2
    return x @ wide + noise * g.normal(size=(n, d)), y, float(truth)


def copied_columns(g: Random, n: int, d: int) -> Case:
    """Every column twice, and the rows sorted by the first."""
    x, y = pairs(n, d, 0.6, g)
    rows = np.argsort(x[:, 0])
    return np.hstack([x, x])[rows], np.hstack([y, 2 * y + 1])[rows], d * gaussian(0.6)


# The (n, d) of two cases of each kind. Only sign_of_two served a choice (single products, densities in steps).
MORE: dict[Kind, tuple[tuple[int, int], tuple[int, int]]] = {
    sign_of_two: ((1000, 4), (10000, 12)),
    block_signs: ((2000, 4), (10000, 2)),
    student_copula: ((1000, 2), (5000, 10)),
    annulus: ((500, 2), (5000, 4)),
    multiplied: ((1000, 1), (5000, 3)),
    swiss_roll: ((2000, 3), (10000, 6)),
    hurdle: ((500, 1), (5000, 10)),
    rounded: ((2000, 1), (10000, 3)),
    rare_labels: ((500, 3), (5000, 20)),
    ring_labels: ((1000, 2), (5000, 8)),
    many_labels: ((2000, 5), (20000, 20)),
    lagged: ((1000, 1), (5000, 4)),
    permuted_columns: ((1000, 5), (5000, 10)),
    low_rank: ((5000, 50), (20000, 50)),
    common_curve: ((2000, 6), (10000, 20)),
    warped: ((500, 5), (5000, 20)),
    mixed_correlations: ((1000, 1), (5000, 5)),
    null_gaussian: ((200, 1), (5000, 50)),
    null_heavy: ((1000, 2), (5000, 8)),
    null_label: ((500, 2), (5000, 30)),
    floored: ((500, 1), (5000, 5)),
    largest: ((2000, 3), (10000, 8)),
    product: ((1000, 2), (10000, 6)),
    uneven_noise: ((500, 1), (5000, 6)),
    waves: ((1000, 1), (10000, 5)),
    turned: ((2000, 10), (20000, 30)),
    frank: ((500, 1), (5000, 5)),
    label_and_count: ((200, 1), (5000, 1)),
    spiked: ((1000, 1), (5000, 3)),
    clipped: ((1000, 1), (5000, 4)),
    flipped_bits: ((1000, 2), (5000, 6)),
    waiting: ((500, 1), (5000, 6)),
    energy: ((1000, 3), (10000, 20)),
    tails_only: ((1000, 1), (10000, 6)),
    collinear: ((2000, 6), (10000, 20)),
    copied_columns: ((1000, 2), (5000, 6)),
}
