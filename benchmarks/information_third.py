"""Thirty kinds of dependence with known information, written before any of them was run; none served a choice.

Every kind is a function of (generator, n, d) that returns x, y and the truth in nats: a closed form, a sum, a
quadrature, or the mean log ratio of densities over fresh pairs. A kind takes as many of d columns as it knows a truth
for.
"""

import math

import numpy as np
from scipy import linalg, signal, special, stats

from information_more import Case, Kind, Random, Rows, binary, gaussian, inert, mean_ratio, pairs
from information_unseen import HALF_LOG, NORMAL, blurred, of_response, of_table, rotated, shuffled

TURN = 2 * math.pi
LINE = np.linspace(-9, 9, 40_001)  # covers a standard normal variable


def von_mises_loss(kappa: float) -> float:
    """What an angle shares with itself turned by von Mises noise: log(2 pi) less the entropy of the noise."""
    return float(kappa * special.i1e(kappa) / special.i0e(kappa) - kappa - np.log(special.i0e(kappa)))


def both_tails(g: Random, n: int, d: int) -> Case:
    """Clayton's copula in half of the rows, its mirror in the others, a fair coin for each column; t margins."""
    theta, d = g.uniform(1, 5), min(d, 3)

    def draw(m: int) -> tuple[Rows, Rows]:
        u, w = g.random((2, m, d)).clip(1e-9, 1 - 1e-9)
        v = ((w ** (-theta / (1 + theta)) - 1) * u**-theta + 1) ** (-1 / theta)
        mirror = g.random((m, d)) < 0.5
        return np.where(mirror, 1 - u, u).clip(1e-9, 1 - 1e-9), np.where(mirror, 1 - v, v).clip(1e-9, 1 - 1e-9)

    def log_density(u: Rows, v: Rows) -> Rows:
        return math.log1p(theta) - (1 + theta) * np.log(u * v) - (2 + 1 / theta) * np.log(u**-theta + v**-theta - 1)

    def ratio(u: Rows, v: Rows) -> Rows:
        return (np.logaddexp(log_density(u, v), log_density(1 - u, 1 - v)) - math.log(2)).sum(1)

    u, v = draw(n)
    return stats.t.ppf(u, 3), stats.t.ppf(v, 3), mean_ratio(draw, ratio)


def torus(g: Random, n: int, d: int) -> Case:
    """Angles in numbers from 0 to a turn, and the same angles with von Mises noise, in up to three columns."""
    kappa, d = g.uniform(1, 20), min(d, 3)
    x = g.uniform(0, TURN, (n, d))
    return x, (x + g.vonmises(0, kappa, (n, d))) % TURN, d * von_mises_loss(kappa)


def sum_of_phases(g: Random, n: int, d: int) -> Case:
    """x holds two angles as points of circles, y their sum as a point, with noise; the other columns are inert."""
    kappa = g.uniform(2, 20)
    one, two = g.uniform(0, TURN, (2, n))
    sum_ = one + two + g.vonmises(0, kappa, n)
    x = np.stack([np.cos(one), np.sin(one), np.cos(two), np.sin(two)], axis=1)
    return inert(x, min(d, 20), g), np.stack([np.cos(sum_), np.sin(sum_)], axis=1), von_mises_loss(kappa)


def latent_rate(g: Random, n: int, d: int) -> Case:
    """Two Poisson counts of one hidden gamma rate, in up to three columns."""
    shape, mean, d = g.uniform(0.7, 4), g.uniform(2, 8), min(d, 3)
    rate = g.gamma(shape, mean / shape, (n, d))
    a, b = np.meshgrid(np.arange(150), np.arange(150), indexing="ij")
    p = shape / mean  # the rate of the gamma density
    joint = special.gammaln(a + b + shape) - special.gammaln(shape) - special.gammaln(a + 1) - special.gammaln(b + 1)
    joint += shape * math.log(p) - (a + b + shape) * math.log(p + 2)
    return g.poisson(rate), g.poisson(rate), d * of_table(np.exp(joint))


def blocked_noise(g: Random, n: int, d: int) -> Case:
    """Exponential columns with triangular noise, up to three."""
    width, d = g.uniform(0.3, 2), min(d, 3)
    x = g.exponential(size=(n, d))
    y = x + width * (g.random((n, d)) - g.random((n, d)))
    fine = np.linspace(-width, 40, 400_001)
    step = fine[1] - fine[0]
    start = stats.triang(0.5, loc=-width, scale=2 * width).pdf(fine)
    # The convolution with e^-x solves f' = noise - f; a first-order filter is its exact solution for a step function.
    density = signal.lfilter([1 - math.exp(-step)], [1, -math.exp(-step)], start)
    truth = float(np.trapezoid(special.entr(density), fine)) - (0.5 + math.log(width))
    return x, y, d * truth


def gamma_factors(g: Random, n: int, d: int) -> Case:
    """Gamma variables times gamma factors of mean 1, up to four columns."""
    first, second, d = g.uniform(0.8, 4), g.uniform(1, 10), min(d, 4)

    def draw(m: int) -> tuple[Rows, Rows]:
        x = g.gamma(first, 1, (m, d))
        return x, x * g.gamma(second, 1 / second, (m, d))

    line = np.linspace(-25, 8, 3301)
    log_x = stats.gamma.pdf(np.exp(line), first) * np.exp(line)
    log_noise = stats.gamma.pdf(np.exp(line), second, scale=1 / second) * np.exp(line)
    step = line[1] - line[0]
    density = np.convolve(log_x, log_noise) * step
    noise = float(np.sum(special.entr(log_noise)) * step)
    return *draw(n), d * (float(np.sum(special.entr(density)) * step) - noise)


def wrong_partners(g: Random, n: int, d: int) -> Case:
    """Both sides come from clusters; mostly from those that belong together, else from any."""
    k, loss, d = int(g.integers(3, 9)), g.uniform(0.05, 0.4), min(d, 20)
    centers = 3 * g.normal(size=(2, k, d)) / math.sqrt(d) * 2
    table = (1 - loss) * np.eye(k) / k + loss / k**2

    def draw(m: int) -> tuple[Rows, Rows]:
        a = g.integers(0, k, m)
        b = np.where(g.random(m) < loss, g.integers(0, k, m), a)
        return centers[0, a] + g.normal(size=(m, d)), centers[1, b] + g.normal(size=(m, d))

    def ratio(x: Rows, y: Rows) -> Rows:
        p, q = (
            np.stack([stats.norm.logpdf(z, c).sum(1) for c in own], 1) for z, own in zip((x, y), centers, strict=True)
        )
        p, q = (np.exp(part - part.max(1, keepdims=True)) for part in (p, q))
        return np.log(np.einsum("ni,ij,nj->n", p, table, q)) - np.log(p.mean(1) * q.mean(1))

    return *draw(n), mean_ratio(draw, ratio)


def hidden_states(g: Random, n: int, d: int) -> Case:
    """What a hidden Markov chain shows, against what it shows at the next moment."""
    k, stay, d = 3, g.uniform(0.6, 0.95), min(d, 5)
    centers = 2.5 * g.normal(size=(k, d))
    table = (stay * np.eye(k) + (1 - stay) * (1 - np.eye(k)) / (k - 1)) / k

    def states(m: int) -> Rows:
        moves = np.where(g.random(m) < stay, 0, g.integers(1, k, m))
        return np.cumsum(moves) % k

    def shown(m: int) -> tuple[Rows, Rows]:
        z = states(m + 1)
        rows = centers[z] + g.normal(size=(m + 1, d))
        return rows[:-1], rows[1:]

    def ratio(x: Rows, y: Rows) -> Rows:
        p, q = (np.exp(np.stack([stats.norm.logpdf(z, c).sum(1) for c in centers], 1)) for z in (x, y))
        return np.log(np.einsum("ni,ij,nj->n", p, table, q)) - np.log(p.mean(1) * q.mean(1))

    return *shown(n), mean_ratio(shown, ratio)


def detection_limit(g: Random, n: int, d: int) -> Case:
    """Correlated lognormal columns; on both sides, what is below the limit of detection is written as half of it."""
    rho, cut, d = g.uniform(0.5, 0.95), g.uniform(-1, 0), min(d, 3)
    left, deviation = stats.norm.cdf(cut), math.sqrt(1 - rho**2)
    x, y = pairs(n, d, rho, g)
    line = np.linspace(cut, 9, 2001)
    # Four parts: both below, one below, the other below, both above.
    below = np.trapezoid(stats.norm.pdf(LINE) * stats.norm.cdf(cut, rho * LINE, deviation) * (cut > LINE), LINE)
    parts = below * math.log(below / left**2)
    one = stats.norm.cdf(cut, rho * line, deviation)
    parts += 2 * np.trapezoid(stats.norm.pdf(line) * special.xlogy(one, one / left), line)
    a, b = line[::4, None], line[None, ::4]
    log = stats.norm.logpdf(b, rho * a, deviation) - stats.norm.logpdf(b)
    both = np.exp(stats.norm.logpdf(a) + stats.norm.logpdf(b, rho * a, deviation)) * log
    parts += np.trapezoid(np.trapezoid(both, line[::4], axis=1), line[::4])
    limit = math.exp(cut)
    x, y = (np.where(z < cut, limit / 2, np.exp(z)) for z in (x, y))
    return x, y, d * float(parts)


def turned_vector(g: Random, n: int, d: int) -> Case:
    """x is a rotation of the plane, as the four numbers of its matrix; y is a fixed vector so turned, with noise."""
    noise = g.uniform(0.1, 0.7)
    angle = g.uniform(0, TURN, n)
    x = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=1)
    y = np.stack([np.cos(angle), np.sin(angle)], axis=1) + noise * g.normal(size=(n, 2))
    r = np.linspace(1e-9, 1 + 9 * noise, 20_001)
    log = -((r - 1) ** 2) / (2 * noise**2) - math.log(TURN * noise**2) + np.log(special.i0e(r / noise**2))
    entropy = -np.trapezoid(TURN * r * np.exp(log) * log, r)
    return inert(x, min(d, 10), g), y, float(entropy) - 2 * (HALF_LOG + math.log(noise))


def one_hot_pair(g: Random, n: int, d: int) -> Case:
    """Categories on both sides as columns of zeros and a one."""
    k = int(np.clip(d, 3, 10))
    table = g.dirichlet(np.full(k, 0.5), size=k) * g.dirichlet(np.full(k, 5.0))[:, None]
    both = g.choice(k * k, n, p=table.ravel() / table.sum())
    return np.eye(k)[both // k], np.eye(k)[both % k], of_table(table)


def one_hot_numbers(g: Random, n: int, d: int) -> Case:
    """A category of six as columns of zeros and a one, and numbers whose means and widths depend on it."""
    k, d = 6, min(d, 10)
    means, widths = 2 * g.normal(size=(k, d)) / math.sqrt(d), g.uniform(0.4, 1.5, (k, d))

    def draw(m: int) -> tuple[Rows, Rows]:
        label = g.integers(0, k, m)
        return label, means[label] + widths[label] * g.normal(size=(m, d))

    def ratio(label: Rows, y: Rows) -> Rows:
        log = np.stack([stats.norm.logpdf(y, means[c], widths[c]).sum(1) for c in range(k)], axis=1)
        return log[np.arange(len(y)), label] - special.logsumexp(log, axis=1) + math.log(k)

    label, y = draw(n)
    return np.eye(k)[label], y, mean_ratio(draw, ratio)


def absent_together(g: Random, n: int, d: int) -> Case:
    """Amounts that are often zero, together more often than by chance; where both are present they are correlated."""
    rho, agree, d = g.uniform(0.3, 0.95), g.uniform(0.55, 0.95), min(d, 3)
    there = g.random((n, d)) < 0.6
    table = np.array([[0.4 * agree, 0.4 * (1 - agree)], [0.6 * (1 - agree), 0.6 * agree]])
    other = np.where(g.random((n, d)) < agree, there, ~there)
    x, y = pairs(n, d, rho, g)
    alone = g.normal(size=(n, d))
    y = np.where(there, y, alone)  # an amount beside an absent one has the same law as any
    truth = of_table(table) + table[1, 1] * gaussian(rho)
    return np.where(there, np.exp(x), 0), np.where(other, np.exp(y), 0), d * truth


def parity_of_three_bits(g: Random, n: int, d: int) -> Case:
    """The parity of three among up to twelve bits, wrong in one of ten."""
    x = g.integers(0, 2, size=(n, int(np.clip(d, 3, 12))))
    label = x[:, :3].sum(1) % 2 ^ (g.random(n) < 0.1)
    return shuffled(x, g), label.astype(int), math.log(2) - binary(0.1)


def vector_series(g: Random, n: int, d: int) -> Case:
    """A vector autoregression against itself two steps later."""
    d = min(d, 5)
    step = g.normal(size=(d, d))
    step *= g.uniform(0.5, 0.9) / np.abs(np.linalg.eigvals(step)).max()
    rows, state = np.empty((n + 202, d)), np.zeros(d)
    for t, noise in enumerate(g.normal(size=rows.shape)):
        rows[t] = state = step @ state + noise
    spread = linalg.solve_discrete_lyapunov(step, np.eye(d))
    left = spread - step @ step @ spread @ step.T @ step.T
    truth = 0.5 * (np.linalg.slogdet(spread)[1] - np.linalg.slogdet(left)[1])
    return rows[200:-2], rows[202:], float(truth)


def plackett(g: Random, n: int, d: int) -> Case:
    """Plackett's copula with Pareto margins, in up to three columns."""
    theta, d = math.exp(g.uniform(1, 4)), min(d, 3)

    def draw(m: int) -> tuple[Rows, Rows]:
        u, w = g.random((2, m, d)).clip(1e-9, 1 - 1e-9)
        a = w * (1 - w)
        b = theta + a * (theta - 1) ** 2
        c = 2 * a * (u * theta**2 + 1 - u) + theta * (1 - 2 * a)
        root = np.sqrt(theta) * np.sqrt(theta + 4 * a * u * (1 - u) * (1 - theta) ** 2)
        return u, ((c - (1 - 2 * w) * root) / (2 * b)).clip(1e-9, 1 - 1e-9)

    def ratio(u: Rows, v: Rows) -> Rows:
        above = theta * (1 + (theta - 1) * (u + v - 2 * u * v))
        below = ((1 + (theta - 1) * (u + v)) ** 2 - 4 * theta * (theta - 1) * u * v) ** 1.5
        return np.log(above / below).sum(1)

    u, v = draw(n)
    return stats.pareto.ppf(u, 2.5), stats.pareto.ppf(v, 2.5), mean_ratio(draw, ratio)


def order_of_columns(g: Random, n: int, d: int) -> Case:
    """A label: in which order of size three columns stand, wrong in one of ten; the rest is inert."""
    x = g.normal(size=(n, int(np.clip(d, 3, 10))))
    order = x[:, :3].argsort(1) @ np.array([9, 3, 1])
    _, label = np.unique(order, return_inverse=True)
    wrong = g.random(n) < 0.1
    label = np.where(wrong, (label + g.integers(1, 6, n)) % 6, label)
    return x, label, math.log(6) - binary(0.1) - 0.1 * math.log(5)


def distance_of_two(g: Random, n: int, d: int) -> Case:
    """y is how far two columns are from each other, with noise; the rest is inert."""
    noise = g.uniform(0.1, 0.6)
    x = g.normal(size=(n, max(2, d)))
    y = np.abs(x[:, :1] - x[:, 1:2]) + noise * g.normal(size=(n, 1))
    return shuffled(x, g), y, blurred(np.abs(NORMAL) * math.sqrt(2), noise)


def tilted_label(g: Random, n: int, d: int) -> Case:
    """A label says which way pairs of columns are correlated; each column alone tells nothing."""
    rho, half = g.uniform(0.4, 0.9), int(np.clip(d // 2, 1, 5))

    def draw(m: int) -> tuple[Rows, Rows]:
        label = g.integers(0, 2, m)
        a, b = pairs(m, half, rho, g)
        return label, np.hstack([a, b * np.where(label, 1, -1)[:, None]])

    def ratio(label: Rows, y: Rows) -> Rows:
        a, b = y[:, :half], y[:, half:]
        log = np.stack([stats.norm.logpdf(b, s * rho * a, math.sqrt(1 - rho**2)).sum(1) for s in (-1, 1)], axis=1)
        return log[np.arange(len(y)), label] - special.logsumexp(log, axis=1) + math.log(2)

    label, y = draw(n)
    return y, label, mean_ratio(draw, ratio)


def tilted_by_sign(g: Random, n: int, d: int) -> Case:
    """The sign of a column of x says which way two columns of y are correlated."""
    rho = g.uniform(0.6, 0.95)
    x = g.normal(size=(n, min(d, 10)))
    a, b = pairs(n, 1, rho, g)
    y = np.hstack([a, b * np.where(x[:, :1] > 0, 1, -1)])

    def draw(m: int) -> tuple[Rows, Rows, Rows]:
        sign = np.where(g.random((m, 1)) < 0.5, 1, -1)
        a, b = pairs(m, 1, rho, g)
        return sign, a, b * sign

    def ratio(sign: Rows, a: Rows, b: Rows) -> Rows:
        deviation = math.sqrt(1 - rho**2)
        log = [stats.norm.logpdf(b, s * rho * a, deviation) for s in (sign, -sign)]
        return (log[0] - np.logaddexp(*log) + math.log(2))[:, 0]

    return x, y, mean_ratio(draw, ratio)


def proportions(g: Random, n: int, d: int) -> Case:
    """Shares that add up to one, and how often each came up in twelve tries."""
    k, tries = int(np.clip(d, 2, 8)), 12
    alpha = g.uniform(0.4, 2, k)

    def draw(m: int) -> tuple[Rows, Rows]:
        p = g.dirichlet(alpha, m).clip(1e-12)
        return p, g.multinomial(tries, p / p.sum(1, keepdims=True))

    def ratio(p: Rows, counts: Rows) -> Rows:
        given = special.xlogy(counts, p).sum(1)
        total = special.gammaln(alpha.sum()) - special.gammaln(tries + alpha.sum())
        return given - total - (special.gammaln(counts + alpha) - special.gammaln(alpha)).sum(1)

    return *draw(n), mean_ratio(draw, ratio)


def bump(g: Random, n: int, d: int) -> Case:
    """x is a noisy line of pixels with a bump somewhere, y a noisy reading of where it is."""
    d, noise, blur = int(np.clip(d, 3, 20)), g.uniform(0.2, 0.8), g.uniform(0.05, 0.3)
    pixels, places = np.linspace(0, 1, d), (np.arange(300) + 0.5) / 300

    def shown(place: Rows) -> Rows:
        return np.exp(-((pixels - place[:, None]) ** 2) / (2 * 0.12**2))

    def draw(m: int) -> tuple[Rows, Rows]:
        place = g.random(m)
        return shown(place) + noise * g.normal(size=(m, d)), place[:, None] + blur * g.normal(size=(m, 1))

    def ratio(x: Rows, y: Rows) -> Rows:
        shapes = shown(places)
        p = (x @ shapes.T - (shapes**2).sum(1) / 2) / noise**2
        q = -((y - places) ** 2) / (2 * blur**2)
        both = special.logsumexp(p + q, axis=1) + math.log(len(places))
        return both - special.logsumexp(p, axis=1) - special.logsumexp(q, axis=1)

    return *draw(n), mean_ratio(draw, ratio, 40_000)


def heavy_regression(g: Random, n: int, d: int) -> Case:
    """One direction of x with Student-t noise of three degrees."""
    noise = g.uniform(0.2, 1)
    x = g.normal(size=(n, d))
    way = g.normal(size=d)
    y = x @ way / np.linalg.norm(way) + noise * g.standard_t(3, n)
    line = np.concatenate(
        [-np.geomspace(6, 2000, 1500)[::-1], np.linspace(-6, 6, 2401)[1:-1], np.geomspace(6, 2000, 1500)]
    )
    density = np.array([stats.t.pdf((v - NORMAL) / noise, 3).mean() / noise for v in line])
    truth = np.trapezoid(special.entr(density), line) - stats.t.entropy(3) - math.log(noise)
    return x, y[:, None], float(truth)


def variable_noise_series(g: Random, n: int, d: int) -> Case:
    """A series whose next step is as wide as the last one was large (ARCH), against that next step."""
    base, weight = 0.4, g.uniform(0.3, 0.8)

    def series(m: int) -> Rows:
        rows, last = np.empty(m + 300), 0.0
        for t, noise in enumerate(g.normal(size=m + 300)):
            rows[t] = last = math.sqrt(base + weight * last**2) * noise
        return rows[300:]

    seen = series(n + 1)
    long = series(20_001)
    widths = np.sqrt(base + weight * long[::10] ** 2)
    given = stats.norm.logpdf(long[1:], 0, np.sqrt(base + weight * long[:-1] ** 2))
    alone = np.log([stats.norm.pdf(v, 0, widths).mean() for v in long[1:]])
    return seen[:-1, None], seen[1:, None], float((given - alone).mean())


def line_and_square(g: Random, n: int, d: int) -> Case:
    """y is one column of x plus the square of another, with noise; the rest is inert."""
    noise = g.uniform(0.2, 1)
    x = g.normal(size=(n, max(2, d)))
    y = x[:, :1] + x[:, 1:2] ** 2 + noise * g.normal(size=(n, 1))
    truth = blurred(NORMAL**2, math.sqrt(1 + noise**2), 6000) + math.log(math.sqrt(1 + noise**2) / noise)
    return shuffled(x, g), y, truth


def branches(g: Random, n: int, d: int) -> Case:
    """y is the root of the size of a column of x, of either sign, with noise; the rest is inert."""
    noise = g.uniform(0.05, 0.3)
    x = g.normal(size=(n, min(d, 10)))
    sign = np.where(g.random((n, 1)) < 0.5, 1, -1)
    y = sign * np.sqrt(np.abs(x[:, :1])) + noise * g.normal(size=(n, 1))
    roots = np.sqrt(np.abs(NORMAL))
    line = np.linspace(-3.5, 3.5, 2001)
    given = 0.5 * (stats.norm.pdf(line, roots[:, None], noise) + stats.norm.pdf(line, -roots[:, None], noise))
    inside = np.trapezoid(special.entr(given), line, axis=1).mean()
    return x, y, float(np.trapezoid(special.entr(given.mean(0)), line) - inside)


def patterns(g: Random, n: int, d: int) -> Case:
    """Both sides are bits: one of a few patterns, the same on both, with flipped bits."""
    k, d, wrong = int(g.integers(3, 9)), int(np.clip(d, 3, 20)), g.uniform(0.05, 0.3)
    shapes = g.integers(0, 2, size=(2, k, d))

    def draw(m: int) -> tuple[Rows, Rows]:
        which = g.integers(0, k, m)
        flips = g.random((2, m, d)) < wrong
        return shapes[0, which] ^ flips[0], shapes[1, which] ^ flips[1]

    def ratio(x: Rows, y: Rows) -> Rows:
        odds = math.log((1 - wrong) / wrong)
        p, q = (-odds * (z[:, None] != own).sum(2) for z, own in zip((x, y), shapes, strict=True))
        both = special.logsumexp(p + q, axis=1) + math.log(k)
        return both - special.logsumexp(p, axis=1) - special.logsumexp(q, axis=1)

    return *draw(n), mean_ratio(draw, ratio, 100_000)


def choice_among(g: Random, n: int, d: int) -> Case:
    """A choice among four, whose chances are a softmax of linear scores of x."""
    d = min(d, 20)
    weights = 2 * g.normal(size=(d, 4)) / math.sqrt(d)
    x = g.normal(size=(n, d))
    label = (x @ weights + g.gumbel(size=(n, 4))).argmax(1)
    return x, label, of_response(special.softmax(g.normal(size=(200_000, d)) @ weights, axis=1))


def null_series(g: Random, n: int, d: int) -> Case:
    """Two slow autoregressions that know nothing of each other."""
    d, slow = min(d, 3), g.uniform(0.8, 0.98)
    rows, state = np.empty((n + 200, 2 * d)), np.zeros(2 * d)
    for t, noise in enumerate(g.normal(size=rows.shape)):
        rows[t] = state = slow * state + noise
    return rows[200:, :d], rows[200:, d:], 0.0


def null_hot(g: Random, n: int, d: int) -> Case:
    """Independent: a category as columns of zeros and a one, and rotated columns with heavy tails."""
    return np.eye(4)[g.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])], rotated(g.standard_t(2.5, (n, min(d, 20))), g), 0.0


THIRD: tuple[Kind, ...] = (
    both_tails, torus, sum_of_phases, latent_rate, blocked_noise, gamma_factors, wrong_partners, hidden_states,
    detection_limit, turned_vector, one_hot_pair, one_hot_numbers, absent_together, parity_of_three_bits,
    vector_series, plackett, order_of_columns, distance_of_two, tilted_label, tilted_by_sign, proportions, bump,
    heavy_regression, variable_noise_series, line_and_square, branches, patterns, choice_among, null_series, null_hot,
)  # fmt: skip
