"""Forty-three kinds of dependence with known information, made after the estimators and in two halves.

``FIRST`` was run first, and what it showed was repaired; ``LAST`` was run once, when that was done. Every kind is a
function of (generator, n, d) that returns x, y and the truth in nats: a closed form, a sum, a quadrature, or the mean
log ratio of densities over fresh pairs. A kind takes as many of d columns as it knows a truth for.
"""

import math

import numpy as np
from scipy import special, stats

from information_more import Case, Kind, Random, Rows, binary, gaussian, inert, mean_ratio, pairs

NORMAL = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)  # equally likely values of a standard normal variable
HALF_LOG = 0.5 * math.log(2 * math.pi * math.e)


def rotated(columns: Rows, g: Random) -> Rows:
    return columns @ np.linalg.qr(g.normal(size=(columns.shape[1],) * 2))[0]


def shuffled(columns: Rows, g: Random) -> Rows:
    return columns[:, g.permutation(columns.shape[1])]


def of_table(joint: Rows) -> float:
    """The information of a table of probabilities."""
    joint = joint / joint.sum()
    both = special.entr(joint).sum()
    return float(special.entr(joint.sum(0)).sum() + special.entr(joint.sum(1)).sum() - both)


def blurred(values: Rows, noise: float, points: int = 3000) -> float:
    """What equally likely values share with themselves plus N(0, noise^2)."""
    grid = np.linspace(values.min() - 8 * noise, values.max() + 8 * noise, points)
    density = np.array([stats.norm.pdf(v, values, noise).mean() for v in grid])
    return float(np.trapezoid(special.entr(density), grid)) - HALF_LOG - math.log(noise)


def of_response(chances: Rows) -> float:
    """Equally likely conditions (rows) and the chances of each answer (columns) under them."""
    return float(special.entr(chances.mean(0)).sum() - special.entr(chances).sum(1).mean())


# --- first half ------------------------------------------------------------------------------------------------------


def parity_of_three(g: Random, n: int, d: int) -> Case:
    """A label that is the parity of the signs of three columns, wrong in one of ten; the rest is inert."""
    x = g.normal(size=(n, max(3, min(d, 10))))
    label = (np.prod(x[:, :3], axis=1) > 0) ^ (g.random(n) < 0.1)
    return shuffled(x, g), label.astype(int), math.log(2) - binary(0.1)


def parity_of_bits(g: Random, n: int, d: int) -> Case:
    """The parity of two among d bits, wrong in one of eight."""
    x = g.integers(0, 2, size=(n, max(2, min(d, 20))))
    return x, (x[:, 0] ^ x[:, 1] ^ (g.random(n) < 1 / 8)).astype(int), math.log(2) - binary(1 / 8)


def stripes(g: Random, n: int, d: int) -> Case:
    """A label by the stripe of a plane that a point lies on, with soft edges."""
    speed, d = g.uniform(1, 3), min(d, 20)
    x = g.normal(size=(n, d))
    chance = special.expit(4 * np.sin(speed * NORMAL))
    way = g.normal(size=min(d, 2))
    along = x[:, : len(way)] @ way / np.linalg.norm(way)
    label = (g.random(n) < special.expit(4 * np.sin(speed * along))).astype(int)
    return x, label, of_response(np.stack([chance, 1 - chance], axis=1))


def gumbel(g: Random, n: int, d: int) -> Case:
    """Gumbel's copula, which ties the upper tails, with Gaussian margins, in up to three columns."""
    theta, d = g.uniform(1.3, 4), min(d, 3)

    def draw(m: int) -> tuple[Rows, Rows]:
        a = 1 / theta  # a positive stable variable, by Chambers, Mallows and Stuck
        angle, e = g.uniform(0, math.pi, (m, d)), g.exponential(size=(m, d))
        stable = np.sin(a * angle) / np.sin(angle) ** theta * (np.sin((1 - a) * angle) / e) ** (theta - 1)
        times = [np.exp(-((g.exponential(size=(m, d)) / stable) ** a)) for _ in range(2)]
        return times[0].clip(1e-12, 1 - 1e-12), times[1].clip(1e-12, 1 - 1e-12)

    def ratio(u: Rows, v: Rows) -> Rows:
        a, b = -np.log(u), -np.log(v)
        s = (a**theta + b**theta) ** (1 / theta)
        log = -s + a + b + (theta - 1) * np.log(a * b) + (1 - 2 * theta) * np.log(s) + np.log(s + theta - 1)
        return log.sum(1)

    u, v = draw(n)
    return special.ndtri(u), special.ndtri(v), mean_ratio(draw, ratio)


def partly_permuted(g: Random, n: int, d: int) -> Case:
    """y follows x, but a part of the rows of y was shuffled among themselves."""
    share, rho = g.uniform(0.1, 0.6), g.uniform(0.8, 0.97)

    def draw(m: int) -> tuple[Rows, Rows]:
        x, y = pairs(m, d, rho, g)
        return x, np.where(g.random((m, 1)) < share, g.normal(size=(m, d)), y)

    def ratio(x: Rows, y: Rows) -> Rows:
        follows = (stats.norm.logpdf(y, rho * x, math.sqrt(1 - rho**2)) - stats.norm.logpdf(y)).sum(1)
        return np.logaddexp(math.log1p(-share) + follows, math.log(share))

    return *draw(n), mean_ratio(draw, ratio)


def coupled_flow(g: Random, n: int, d: int) -> Case:
    """Correlated Gaussians, one side through four affine couplings, which can be undone."""
    d, nats = max(2, min(d, 10)), g.uniform(0.3, 3)
    x, y = pairs(n, d, math.sqrt(-math.expm1(-2 * nats / d)), g)
    half = d // 2
    for _ in range(4):
        y = shuffled(y, g)
        weight = 0.5 * g.normal(size=(2, half, d - half)) / math.sqrt(half)
        scale, shift = np.tanh(y[:, :half] @ weight[0]), np.sin(2 * y[:, :half] @ weight[1])
        y = np.hstack([y[:, :half], y[:, half:] * np.exp(scale) + shift])
    return x, y, nats


def ordinal(g: Random, n: int, d: int) -> Case:
    """Correlated Gaussians that were cut into five levels on both sides, in up to six columns."""
    rho, d = g.uniform(0.4, 0.95), min(d, 6)
    x, y = pairs(n, d, rho, g)
    cuts = np.array([-1.2, -0.3, 0.4, 1.3])
    fine = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    edges = stats.norm.cdf((np.r_[-np.inf, cuts, np.inf] - rho * fine[:, None]) / math.sqrt(1 - rho**2))
    level = np.searchsorted(cuts, fine)
    joint = np.stack([np.diff(edges, axis=1)[level == k].sum(0) for k in range(5)])
    return np.digitize(x, cuts), np.digitize(y, cuts), d * of_table(joint)


def common_shocks(g: Random, n: int, d: int) -> Case:
    """Two counts that share a Poisson part, in up to three columns."""
    own, shared, d = g.uniform(0.5, 4), g.uniform(0.5, 6), min(d, 3)
    k = np.arange(60)
    each, both = stats.poisson.pmf(k, own), stats.poisson.pmf(k, shared)
    joint = np.zeros((120, 120))
    for c in k:
        joint[c : c + 60, c : c + 60] += both[c] * np.outer(each, each)
    common = g.poisson(shared, (n, d))
    return common + g.poisson(own, (n, d)), common + g.poisson(own, (n, d)), d * of_table(joint)


def log_rate(g: Random, n: int, d: int) -> Case:
    """Counts whose log rate is a direction of x."""
    slope, base = g.uniform(0.4, 1), g.uniform(0, 1.5)
    counts = np.arange(600)
    chances = stats.poisson.pmf(counts, np.exp(base + slope * NORMAL[::4])[:, None])
    x = g.normal(size=(n, d))
    way = g.normal(size=d)
    return x, g.poisson(np.exp(base + slope * x @ way / np.linalg.norm(way))), of_response(chances)


def successes(g: Random, n: int, d: int) -> Case:
    """Successes in eight tries, whose chance is a curve of one column; the rest is inert."""
    slope, d = g.uniform(1, 3), min(d, 10)
    chance = special.expit(slope * (NORMAL**2 - 1))
    x = g.normal(size=(n, d))
    y = g.binomial(8, special.expit(slope * (x[:, 0] ** 2 - 1)))
    return x, y, of_response(stats.binom.pmf(np.arange(9), 8, chance[:, None]))


def rotating_series(g: Random, n: int, d: int) -> Case:
    """A plane that turns as it decays, in noise, against itself some steps later."""
    phi, angle, lag = g.uniform(0.6, 0.95), g.uniform(0.2, 1), int(g.integers(1, 4))
    turn = phi * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    rows = g.normal(size=(n + lag, 2))
    for t in range(1, n + lag):
        rows[t] = turn @ rows[t - 1] + math.sqrt(1 - phi**2) * rows[t]
    return rows[:-lag], rows[lag:], 2 * gaussian(phi**lag)


def chain(g: Random, n: int, d: int) -> Case:
    """A chain that keeps its state or draws another, against the next."""
    k, stay = int(g.integers(3, 8)), g.uniform(0.3, 0.9)
    states = [0]
    for moves, other in zip(g.random(n) >= stay, g.integers(0, k, n), strict=True):
        states.append(int(other) if moves else states[-1])
    rows = np.array(states)
    return rows[:-1], rows[1:], of_table(stay * np.eye(k) + (1 - stay) / k)


def null_cauchy(g: Random, n: int, d: int) -> Case:
    """Independent, with Cauchy columns on both sides, those of x dependent on each other."""
    x = g.standard_cauchy((n, d)) @ g.normal(size=(d, d))
    return x, g.standard_cauchy((n, min(d, 5))), 0.0


def null_classes(g: Random, n: int, d: int) -> Case:
    """Independent: a label of four unequal classes and lognormal columns with a common factor."""
    x = np.exp(g.normal(size=(n, d)) + g.normal(size=(n, 1)))
    return x, g.choice(4, size=n, p=[0.55, 0.25, 0.15, 0.05]), 0.0


def null_counts(g: Random, n: int, d: int) -> Case:
    """Independent counts."""
    d = min(d, 5)
    return g.negative_binomial(2, 0.3, (n, d)), g.poisson(3, (n, d)), 0.0


def ring_numbers(g: Random, n: int, d: int) -> Case:
    """Both sides lie on one of three rings, the same one; where on it, each by itself."""
    radii, noise = np.array([1.0, 2.5, 4.0]), g.uniform(0.2, 0.6)

    def draw(m: int) -> tuple[Rows, Rows]:
        radius = radii[g.integers(0, 3, m)][:, None]
        sides = []
        for _ in range(2):
            angle = g.uniform(0, 2 * math.pi, (m, 1))
            sides.append(radius * np.hstack([np.cos(angle), np.sin(angle)]) + noise * g.normal(size=(m, 2)))
        return sides[0], sides[1]

    def logs(rows: Rows) -> Rows:
        r = np.linalg.norm(rows, axis=1, keepdims=True)
        return -((r - radii) ** 2) / (2 * noise**2) + np.log(special.i0e(r * radii / noise**2))

    def ratio(x: Rows, y: Rows) -> Rows:
        a, b = logs(x), logs(y)
        return special.logsumexp(a + b, 1) - special.logsumexp(a, 1) - special.logsumexp(b, 1) + math.log(3)

    x, y = draw(n)
    return inert(x, min(d, 10), g), inert(y, min(d, 5), g), mean_ratio(draw, ratio)


def random_field(g: Random, n: int, d: int) -> Case:
    """The left and right halves of a smooth random image with noise, its values bent."""
    side = 2 if d < 5 else 4 if d < 20 else 6
    place = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    distance = np.linalg.norm(place[:, None] - place, axis=2)
    cov = np.exp(-distance / g.uniform(1, 3)) + g.uniform(0.05, 0.5) * np.eye(len(place))
    left = place[:, 0] < side // 2
    parts = [np.linalg.slogdet(cov[np.ix_(own, own)])[1] for own in (left, ~left, left | ~left)]
    image = np.sinh(g.multivariate_normal(np.zeros(len(place)), cov, n, method="cholesky"))
    return image[:, left], image[:, ~left], (parts[0] + parts[1] - parts[2]) / 2


def switched(g: Random, n: int, d: int) -> Case:
    """y is one column of x or another, with noise; the sign of a third says which."""
    noise, d = g.uniform(0.3, 0.8), max(3, d)
    x = g.normal(size=(n, d))
    y = np.where(x[:, 2] > 0, x[:, 0], x[:, 1]) + noise * g.normal(size=n)
    return shuffled(x, g), y, 0.5 * math.log1p(1 / noise**2)


def both_products(g: Random, n: int, d: int) -> Case:
    """The sign of a product of two columns of x is that of a product of two of y, wrong in one of ten."""
    d = max(2, min(d, 6))
    x, y = g.normal(size=(2, n, d))
    wanted = np.sign(x[:, 0] * x[:, 1]) * np.where(g.random(n) < 0.1, -1, 1)
    y[:, 0] *= np.sign(y[:, 0] * y[:, 1]) * wanted
    return x, y, math.log(2) - binary(0.1)


def two_scales(g: Random, n: int, d: int) -> Case:
    """Both sides are wide together or narrow together; directions are independent."""
    wide = g.uniform(1.5, 4)

    def draw(m: int) -> tuple[Rows, Rows]:
        scale = np.where(g.random((m, 1)) < 0.5, 1.0, wide)
        return scale * g.normal(size=(m, d)), scale * g.normal(size=(m, d))

    def logs(rows: Rows) -> Rows:
        square = (rows**2).sum(1, keepdims=True)
        return np.hstack([-square / 2, -square / (2 * wide**2) - d * math.log(wide)])

    def ratio(x: Rows, y: Rows) -> Rows:
        a, b = logs(x), logs(y)
        return special.logsumexp(a + b, 1) - special.logsumexp(a, 1) - special.logsumexp(b, 1) + math.log(2)

    return *draw(n), mean_ratio(draw, ratio)


def masked(g: Random, n: int, d: int) -> Case:
    """y is x with noise, and in every column zero in a part of the rows, at random."""
    rho, gone, d = g.uniform(0.5, 0.95), g.uniform(0.2, 0.6), min(d, 5)
    x, y = pairs(n, d, rho, g)
    return x, y * (g.random((n, d)) > gone), d * (1 - gone) * gaussian(rho)


def sphere(g: Random, n: int, d: int) -> Case:
    """Two points of a sphere near each other, among inert columns, rotated."""
    kappa = g.uniform(2, 20)
    mean = 1 / math.tanh(kappa) - 1 / kappa
    truth = math.log(kappa / math.sinh(kappa)) + kappa * mean
    x = g.normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    along = 1 + np.log(g.random((n, 1)) * (1 - math.exp(-2 * kappa)) + math.exp(-2 * kappa)) / kappa
    side = g.normal(size=(n, 3))
    side -= (side * x).sum(1, keepdims=True) * x
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    y = along * x + np.sqrt(1 - along**2) * side
    return rotated(inert(x, min(d, 10), g), g), rotated(inert(y, min(d, 10), g), g), truth


# --- last half -------------------------------------------------------------------------------------------------------


def parity_and_size(g: Random, n: int, d: int) -> Case:
    """y has the sign of a product of two columns (wrong in one of six) and, by itself, the size of a third."""
    noise, d = 0.5, max(3, min(d, 12))
    x = g.normal(size=(n, d))
    sign = np.sign(x[:, 0] * x[:, 1]) * np.where(g.random(n) < 1 / 6, -1, 1)
    y = np.stack([sign * np.abs(g.normal(size=n)), x[:, 2] + noise * g.normal(size=n)], axis=1)
    return x, y, math.log(2) - binary(1 / 6) + 0.5 * math.log1p(1 / noise**2)


def arcs(g: Random, n: int, d: int) -> Case:
    """Two half moons: a label that says which, features with noise; the rest is inert."""
    noise = g.uniform(0.1, 0.5)
    angle = (np.arange(400) + 0.5) * math.pi / 400
    moons = [np.stack([np.cos(angle), np.sin(angle)], 1), np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], 1)]

    def draw(m: int) -> tuple[Rows, Rows]:
        label = g.integers(0, 2, m)
        at = np.stack(moons)[label, g.integers(0, 400, m)]
        return at + noise * g.normal(size=(m, 2)), label

    def ratio(x: Rows, label: Rows) -> Rows:
        square = [((x[:, None] - moon) ** 2).sum(2) for moon in moons]
        logs = np.stack([special.logsumexp(-part / (2 * noise**2), axis=1) for part in square], axis=1)
        return logs[np.arange(len(x)), label] - special.logsumexp(logs, axis=1) + math.log(2)

    x, label = draw(n)
    return inert(x, min(d, 20), g), label, mean_ratio(draw, ratio, 20_000)


def rolled_label(g: Random, n: int, d: int) -> Case:
    """Which fifth of a rolled sheet a point lies on; the sheet is exact, the label wrong in a sixth."""
    place, height = g.uniform(4, 13, n), g.uniform(0, 8, n)
    label = np.minimum((place - 4) / 9 * 5, 4).astype(int)
    label = np.where(g.random(n) < 1 / 6, g.integers(0, 5, n), label)
    x = np.stack([place * np.cos(place), height, place * np.sin(place)], axis=1)
    return inert(x, min(d, 8), g), label, of_table(np.eye(5) * 5 / 6 + np.full((5, 5), 1 / 30))


def joe(g: Random, n: int, d: int) -> Case:
    """Joe's copula by inversion, one column of each, with Cauchy margins."""
    theta = g.uniform(1.5, 5)
    step = np.linspace(0, 1, 2001)[1:-1]

    def draw(m: int) -> tuple[Rows, Rows]:
        u, w = g.random((2, m))
        low, high = np.zeros(m), np.ones(m)
        a = (1 - u) ** theta
        for _ in range(50):
            v = (low + high) / 2
            b = (1 - v) ** theta
            given = (a + b - a * b) ** (1 / theta - 1) * (1 - u) ** (theta - 1) * (1 - b)
            low, high = np.where(given < w, v, low), np.where(given < w, high, v)
        return u[:, None], ((low + high) / 2)[:, None]

    def ratio(u: Rows, v: Rows) -> Rows:
        a, b = (1 - u) ** theta, (1 - v) ** theta
        s = a + b - a * b
        return ((1 / theta - 2) * np.log(s) + (theta - 1) * np.log((1 - u) * (1 - v)) + np.log(theta - 1 + s)).sum(1)

    assert abs(np.exp(ratio(np.full((1999, 1), 0.3), step[:, None])).mean() - 1) < 0.01
    u, v = draw(n)
    return np.tan(math.pi * (u - 0.5)), np.tan(math.pi * (v - 0.5)), mean_ratio(draw, ratio)


def lagged_sum(g: Random, n: int, d: int) -> Case:
    """A moving sum of five noises against itself two steps later, cubed."""
    noise = g.normal(size=n + 6)
    rows = np.convolve(noise, np.ones(5), "valid")[: n + 2]
    return rows[:-2, None], rows[2:, None] ** 3, gaussian(0.6)


def seasonal(g: Random, n: int, d: int) -> Case:
    """A slow autoregression of lag seven against itself seven steps later."""
    phi = g.uniform(0.5, 0.9)
    rows = g.normal(size=n + 7)
    for t in range(7, n + 7):
        rows[t] = phi * rows[t - 7] + math.sqrt(1 - phi**2) * rows[t]
    return rows[:-7, None], rows[7:, None], gaussian(phi)


def triangular_map(g: Random, n: int, d: int) -> Case:
    """Correlated Gaussians behind a rotation, then every column bent by those before it: both can be undone."""
    d, nats = max(2, min(d, 20)), g.uniform(0.3, 4)
    x, y = pairs(n, d, math.sqrt(-math.expm1(-2 * nats / d)), g)
    x, y = rotated(x, g), rotated(y, g)
    for j in range(1, d):
        y[:, j] += 0.7 * y[:, j - 1] ** 2
    return x, y, nats


def hidden_circle(g: Random, n: int, d: int) -> Case:
    """An angle behind two columns of x and, with noise, behind one number of y; rotated among inert columns."""
    noise = g.uniform(0.2, 0.6)
    angle = g.uniform(0, 2 * math.pi, n)
    x = np.stack([np.cos(angle), np.sin(angle)], 1) * np.exp(0.2 * g.normal(size=(n, 1)))
    y = np.cos(3 * angle) + noise * g.normal(size=n)
    even = (np.arange(4000) + 0.5) * math.pi / 4000
    return rotated(inert(x, min(d, 6), g), g), y, blurred(np.cos(even), noise)


def skewed_noise(g: Random, n: int, d: int) -> Case:
    """Gaussian columns with exponential noise, up to four."""
    b, d = g.uniform(0.2, 1.5), min(d, 4)
    grid = np.linspace(-8, 8 + 25 * b, 8001)
    density = stats.exponnorm.pdf(grid, b, loc=0, scale=1.0)
    truth = float(np.trapezoid(special.entr(density), grid)) - 1 - math.log(b)
    x = g.normal(size=(n, d))
    return x, x + g.exponential(b, (n, d)), d * truth


def gated(g: Random, n: int, d: int) -> Case:
    """y is one of two columns of x with noise; which one is not told."""
    noise, d = g.uniform(0.2, 0.6), max(2, min(d, 20))

    def draw(m: int) -> tuple[Rows, Rows]:
        x = g.normal(size=(m, 2))
        return x, np.where(g.random(m) < 0.5, x[:, 0], x[:, 1])[:, None] + noise * g.normal(size=(m, 1))

    def ratio(x: Rows, y: Rows) -> Rows:
        given = np.logaddexp(*(stats.norm.logpdf(y[:, 0], x[:, k], noise) for k in range(2))) - math.log(2)
        return given - stats.norm.logpdf(y[:, 0], 0, math.sqrt(1 + noise**2))

    x, y = draw(n)
    return shuffled(inert(x, d, g), g), y, mean_ratio(draw, ratio)


def mixed_columns(g: Random, n: int, d: int) -> Case:
    """x holds a class as a whole number and numbers; y is the mean of the class plus a number, with noise."""
    means, slope = g.normal(size=5) * 2, g.uniform(0.3, 1)
    label, x = g.integers(0, 5, n), g.normal(size=(n, min(d, 10)))
    y = means[label] + slope * x[:, 0] + 0.5 * g.normal(size=n)
    sums = (means[:, None] + slope * NORMAL).ravel()
    return np.hstack([label[:, None], x]), y, blurred(sums[::5], 0.5)


def topics(g: Random, n: int, d: int) -> Case:
    """A topic and the counts of d words, whose rates it sets."""
    k, d = 4, max(5, d)
    rates = g.gamma(0.5, 3 / d, (k, d)) + 0.05

    def draw(m: int) -> tuple[Rows, Rows]:
        label = g.integers(0, k, m)
        return g.poisson(rates[label]).astype(float), label

    def ratio(x: Rows, label: Rows) -> Rows:
        logs = x @ np.log(rates).T - rates.sum(1)
        return logs[np.arange(len(x)), label] - special.logsumexp(logs, axis=1) + math.log(k)

    return *draw(n), mean_ratio(draw, ratio)


def chirp(g: Random, n: int, d: int) -> Case:
    """y is a sine that quickens, with noise; the rest of x is inert."""
    noise, speed = g.uniform(0.15, 0.5), g.uniform(0.7, 1.5)
    x = g.normal(size=(n, min(d, 10)))
    y = np.sin(speed * (x[:, 0] + 2) ** 2) + noise * g.normal(size=n)
    return x, y, blurred(np.sin(speed * (NORMAL + 2) ** 2), noise)


def steps_with_noise(g: Random, n: int, d: int) -> Case:
    """y is which of several steps a column of x is on, with noise; the rest is inert."""
    noise = g.uniform(0.1, 0.5)
    x = g.normal(size=(n, min(d, 20)))
    return x, np.floor(1.5 * x[:, 0]) + noise * g.normal(size=n), blurred(np.floor(1.5 * NORMAL), noise)


def quadratic_form(g: Random, n: int, d: int) -> Case:
    """y is a quadratic form of all columns of x with noise."""
    d = max(2, min(d, 10))
    form = g.normal(size=(d, d)) / math.sqrt(d)
    form, noise = (form + form.T) / 2, g.uniform(0.4, 1)
    of = lambda x: ((x @ form) * x).sum(1)
    x = g.normal(size=(n, d))
    truth = np.mean([blurred(of(g.normal(size=(20_000, d))), noise, 1200) for _ in range(2)])
    return x, of(x) + noise * g.normal(size=n), float(truth)


def weak(g: Random, n: int, d: int) -> Case:
    """Hardly correlated columns."""
    rho, d = g.uniform(0.05, 0.2), min(d, 5)
    x, y = pairs(n, d, rho, g)
    return np.exp(x), y, d * gaussian(rho)


def rare_link(g: Random, n: int, d: int) -> Case:
    """In one row of twelve both sides jump to the same far place; otherwise they are independent."""
    d, jump, share = min(d, 5), g.uniform(3, 6), 1 / 12

    def draw(m: int) -> tuple[Rows, Rows]:
        far = (g.random((m, 1)) < share) * jump
        x, y = g.normal(size=(2, m, d))
        x[:, :1] += far
        y[:, :1] -= far
        return x, y

    def ratio(x: Rows, y: Rows) -> Rows:
        a, b = x[:, 0] * jump - jump**2 / 2, -y[:, 0] * jump - jump**2 / 2
        one = np.logaddexp(math.log(share) + a + b, math.log1p(-share))
        return one - sum(np.logaddexp(math.log(share) + side, math.log1p(-share)) for side in (a, b))

    return *draw(n), mean_ratio(draw, ratio)


def gamma_scale(g: Random, n: int, d: int) -> Case:
    """y is a gamma variable whose scale is the exponential of a direction of x."""
    shape, slope, d = g.uniform(0.7, 4), g.uniform(0.3, 1.2), min(d, 10)
    way = g.normal(size=d)
    x = g.normal(size=(n, d))
    y = g.gamma(shape, size=n) * np.exp(slope * x @ way / np.linalg.norm(way))
    grid = np.linspace(-25, 15, 6001)  # of log y, where the direction is a shift
    log = np.exp(shape * grid - np.exp(grid) - special.gammaln(shape))
    moved = np.mean([np.interp(grid - slope * v, grid, log, 0, 0) for v in NORMAL[::4]], axis=0)
    both = [float(np.trapezoid(special.entr(part), grid)) for part in (moved, log)]
    return x, y, both[0] - both[1]


def many_answers(g: Random, n: int, d: int) -> Case:
    """A category of twelve, answered rightly in a part of the cases, as numbers on both sides."""
    right = g.uniform(0.3, 0.95)
    x = g.integers(0, 12, n)
    y = np.where(g.random(n) < right, (5 * x + 3) % 12, g.integers(0, 12, n))
    return x, y, of_table(right * np.eye(12) + (1 - right) / 12)


def null_ordinal(g: Random, n: int, d: int) -> Case:
    """Independent columns of few levels on both sides."""
    d = min(d, 6)
    return g.binomial(4, 0.4, (n, d)), g.binomial(6, 0.5, (n, d)), 0.0


def null_wide(g: Random, n: int, d: int) -> Case:
    """Independent: clusters on one side, t with one and a half degrees of freedom on the other."""
    return g.normal(size=(n, d)) + 4 * g.integers(0, 3, (n, 1)), stats.t.rvs(1.5, size=(n, d), random_state=g), 0.0


FIRST: tuple[Kind, ...] = (
    parity_of_three, parity_of_bits, stripes, gumbel, partly_permuted, coupled_flow, ordinal, common_shocks, log_rate,
    successes, rotating_series, chain, null_cauchy, null_classes, null_counts, ring_numbers, random_field, switched,
    both_products, two_scales, masked, sphere,
)  # fmt: skip
LAST: tuple[Kind, ...] = (
    parity_and_size, arcs, rolled_label, joe, lagged_sum, seasonal, triangular_map, hidden_circle, skewed_noise, gated,
    mixed_columns, topics, chirp, steps_with_noise, quadratic_form, weak, rare_link, gamma_scale, many_answers,
    null_ordinal, null_wide,
)  # fmt: skip
