"""The critic of ``estimate``: a log ratio chosen among several models of the pairs, and what a network adds to it."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vergence.information.copula import Canonical, canonical, significant
from vergence.information.critics import perceptron
from vergence.information.crossfit import Split, fit, two_way, two_way_terms
from vergence.information.mixtures import MixtureScores, fitted, starts
from vergence.information.preprocessing import Described, Rows, evenly, gaussianized, tensor, with_products
from vergence.information.screening import MOST_PRODUCTS, PAIRS_PER_PRODUCT, dependence, matched, relevant
from vergence.information.surfaces import Surfaces
from vergence.types import Square

Factors = tuple[Tensor, Tensor]
Scores = Callable[[Tensor], Square]

# Variates enter the network clipped: beyond five deviations there is no sample to learn from.
CLIP = 5.0
# Up to this many columns the network sees them all; beyond, only those that depend on the other side, and variates, or
# it would learn the noise.
FEW_COLUMNS = 10
MOST_VARIATES = 4
# Correlations of the Gaussian part stay below this, so that one pair of rows cannot outweigh all others.
LARGEST = 0.9999
# More matched columns than this are rarely worth their noise.
MOST_SURFACES = 12
# A richer model replaces a simpler one if it gains so many standard errors on the stopping part.
CLEAR_GAIN = 2.0
# With so many, no network on top of the simpler one is tried.
FAR_GAIN = 6.0
# Ten components are tried where the pairs have at most so many columns and at least so many training rows.
MANY_COMPONENTS = (10, 12, 400)
# In more columns only two components are tried, and only of many rows: with 500 columns more took half a minute.
MIXTURE_COLUMNS = 100
# A mixture is fitted to at most so many rows, or ten for each number in its covariances' diagonals.
MIXTURE_ROWS = 3000


class CompositeCritic(nn.Module):
    """f(x) . g(y) + a(x) + b(y), as factors of the scores; zero until it is trained."""

    def __init__(self, dx: int, dy: int, *, width: int = 64, embedding: int = 16):
        super().__init__()
        self.x = perceptron(dx, width=width, out=embedding + 1, layers=2)
        self.y = perceptron(dy, width=width, out=embedding + 1, layers=2)
        for network, silent in ((self.x, slice(embedding, None)), (self.y, slice(None))):
            last = network[-1]
            assert isinstance(last, nn.Linear)
            nn.init.zeros_(last.bias)
            last.weight.data[silent] = 0

    def forward(self, x: Tensor, y: Tensor) -> Factors:
        left, right = self.x(x), self.y(y)
        return _factors(left[:, :-1], left[:, -1], right[:, :-1], right[:, -1])


class Model(NamedTuple):
    """A candidate for the log ratio: its name and its scores for all pairs of chosen rows."""

    name: str
    scores: Scores


class Composite:
    """A critic for one fold: a model and a network on top of it, fitted to the training rows.

    A network learns on top of the simplest model. If a richer model is clearly better than that on the stopping rows,
    it gets a network of its own, and the better of the two stays. ``learned`` says that more than correlation was
    found.
    """

    def __init__(self, x: Described, y: Described, split: Split, *, network: bool = True, seed: int = 0):
        train = split.train.numpy()
        turned = significant(canonical(x.turned[train], y.turned[train]), len(train)).first(MOST_VARIATES)
        strength = dependence(x.columns[train], y.columns[train])
        quadratic = _quadratic_variates(x, y, train)
        variates = _Gaussian(x.turned, y.turned, turned)
        self.x = _inputs(variates.x, x, relevant(strength, 0, most=FEW_COLUMNS), quadratic and quadratic[0])
        self.y = _inputs(variates.y, y, relevant(strength, 1, most=FEW_COLUMNS), quadratic and quadratic[1])
        self.split, self.network, self.seed = split, network, seed
        simple = _best(_gaussians(x, y, train, turned), split.stop)
        model = _clearly_best(simple, _richer(x, y, train, strength, quadratic, seed), split.stop)
        if model is not simple and _gain(model, simple, split.stop) > FAR_GAIN:
            self._stand_on(model)
        else:
            self._stand_on(simple)
            if model is not simple:
                self._try(model)
        self.learned = self.epochs > 0 or self.model.name not in ("linear", "independent")

    def _stand_on(self, model: Model) -> None:
        """Take this model and train a new network on top of it."""
        self.model = model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.critic = CompositeCritic(self.x.shape[1], self.y.shape[1])
        # On a rich model little is left to learn, and every step costs more.
        options: dict[str, Any] = {} if isinstance(model.scores, _Gaussian) else {"patience": 3, "epochs": 12}
        self.epochs = fit(self.critic, self, self.split, seed=self.seed, **options) if self.network else 0

    @torch.no_grad()
    def _value(self) -> float:
        return two_way(self(self.split.stop)).item()

    def _try(self, model: Model) -> None:
        """Stand on this model unless the one before it, with its network, is better on the stopping rows."""
        before, value = (self.model, self.critic, self.epochs), self._value()
        with torch.enable_grad():
            self._stand_on(model)
        if self._value() < value:
            self.model, self.critic, self.epochs = before

    @property
    def name(self) -> str:
        return self.model.name + (" with a network" if self.epochs else "")

    def __call__(self, rows: Tensor) -> Square:
        if self.network:
            left, right = self.critic(self.x[rows], self.y[rows])
            return self.model.scores(rows) + left @ right.T
        return self.model.scores(rows)


class _Gaussian:
    """The log ratio of correlated Gaussian variates, for all pairs of chosen rows."""

    def __init__(self, x: Rows, y: Rows, variates: Canonical):
        self.x = tensor(((x - variates.mean_x) @ variates.weight_x).clip(-CLIP, CLIP))
        self.y = tensor(((y - variates.mean_y) @ variates.weight_y).clip(-CLIP, CLIP))
        self.correlation = tensor(np.minimum(variates.correlation, LARGEST))

    def __call__(self, rows: Tensor) -> Square:
        x, y, rho = self.x[rows], self.y[rows], self.correlation
        remaining = 1 - rho**2
        weight = 0.5 * rho**2 / remaining
        of_x, of_y = -(x**2) @ weight - 0.5 * remaining.log().sum(), -(y**2) @ weight
        left, right = _factors(x * (rho / remaining), of_x, y, of_y)
        return left @ right.T


def _gaussians(x: Described, y: Described, train: np.ndarray, turned: Canonical) -> list[Model]:
    linear = significant(canonical(x.columns[train], y.columns[train]), len(train))
    models = [Model("linear", _Gaussian(x.columns, y.columns, linear))]
    for k in range(len(turned.correlation) + 1):
        name = f"{k} turned variates" if k else "independent"
        models.append(Model(name, _Gaussian(x.turned, y.turned, turned.first(k))))
    return models


def _richer(
    x: Described, y: Described, train: np.ndarray, strength: np.ndarray, quadratic: tuple[Rows, Rows] | None, seed: int
) -> Iterator[Model]:
    """Models of other kinds, the simpler ones first: surfaces of matched columns and of variates, mixtures."""
    pairs = matched(strength, most=MOST_SURFACES)
    if pairs:
        i, j = (list(side) for side in zip(*pairs, strict=True))
        yield Model("surfaces of columns", Surfaces(x.columns[:, i], y.columns[:, j], train, seed=seed))
    if x.radius.shape[1] and y.radius.shape[1]:
        lengths = [(x.radius[:, [place]], y.radius[:, [place]]) for place in (0, -1)]  # near and far, see Described
        left, right = max(lengths, key=lambda pair: dependence(pair[0][train], pair[1][train]).item())
        yield Model("a surface of lengths", Surfaces(left, right, train, seed=seed))
    if quadratic is not None:
        left, right = (gaussianized(side) for side in quadratic)
        chosen = matched(dependence(left[train], right[train]), most=MOST_VARIATES)
        for most in {1, len(chosen)} if chosen else ():
            i, j = (list(side) for side in zip(*chosen[:most], strict=True))
            yield Model("surfaces of products", Surfaces(left[:, i], right[:, j], train, seed=seed))
        yield from _single_products(x, y, train, seed)
    keep = relevant(strength, 0, most=x.columns.shape[1]), relevant(strength, 1, most=y.columns.shape[1])
    d = x.columns.shape[1] + y.columns.shape[1]
    if all(map(len, keep)) and len(keep[0]) + len(keep[1]) < d:
        yield from _mixtures("relevant columns", x.columns[:, keep[0]], y.columns[:, keep[1]], train, seed)
    yield from _mixtures("all columns", x.columns, y.columns, train, seed)


def _mixtures(name: str, x: Rows, y: Rows, train: np.ndarray, seed: int) -> Iterator[Model]:
    rows, n = np.hstack([x, y]), len(train)
    d = rows.shape[1]
    sizes = [2] * (n >= 20 * d) if d > MIXTURE_COLUMNS else [k for k in (2, 4) if n >= 2 * k * d]
    many, columns, least = MANY_COMPONENTS
    sizes += [many] if d <= columns and n >= least else []
    strength = dependence(x[train], y[train])
    i, j = map(int, np.unravel_index(strength.argmax(), strength.shape))
    for k in sizes:
        part = rows[train[evenly(n, max(MIXTURE_ROWS, 10 * k * d))]]
        fits = [fitted(part, start) for start in starts(part, k, pair=(i, x.shape[1] + j), seed=seed)]
        mixture = max(fits, key=lambda fit: fit[1])[0]
        yield Model(f"{k} Gaussians of {name}", MixtureScores(mixture, x, y))


def _quadratic_variates(x: Described, y: Described, train: np.ndarray) -> tuple[Rows, Rows] | None:
    """The combinations of columns and their products that correlate most, or none if there are too many columns."""
    most = len(train) // PAIRS_PER_PRODUCT
    left, right = with_products(x.columns, y.columns, most)
    if left.shape[1] + right.shape[1] > most:
        return None
    variates = significant(canonical(left[train], right[train]), len(train)).first(MOST_VARIATES)
    return (left - variates.mean_x) @ variates.weight_x, (right - variates.mean_y) @ variates.weight_y


def _single_products(x: Described, y: Described, train: np.ndarray, seed: int) -> Iterator[Model]:
    """Surfaces of single products: where one of them matters, a combination of all is mostly noise."""
    left, right = with_products(x.columns, y.columns, min(MOST_PRODUCTS, len(train) // PAIRS_PER_PRODUCT))
    pairs = matched(dependence(left[train], right[train]), most=MOST_VARIATES)
    counts = [
        k for k in (1, len(pairs)) if any(i >= x.columns.shape[1] or j >= y.columns.shape[1] for i, j in pairs[:k])
    ]
    for k in sorted(set(counts)):
        i, j = (list(side) for side in zip(*pairs[:k], strict=True))
        chosen = gaussianized(left[:, i]), gaussianized(right[:, j])
        yield Model("surfaces of single products", Surfaces(*chosen, train, seed=seed))


def _factors(f: Tensor, a: Tensor, g: Tensor, b: Tensor) -> Factors:
    """Two matrices whose product is f(x) . g(y) + a(x) + b(y): one pass over n x n scores instead of four."""
    one = torch.ones_like(a)
    return torch.column_stack([f, a, one]), torch.column_stack([g, one, b])


def _best(models: list[Model], stop: Tensor) -> Model:
    values = [two_way(model.scores(stop)).item() for model in models]
    return models[max(range(len(values)), key=lambda i: -math.inf if math.isnan(values[i]) else values[i])]


def _clearly_best(simple: Model, richer: Iterator[Model], stop: Tensor) -> Model:
    """The simple model, or a richer one that is better than every simpler one by two standard errors."""
    best, terms = simple, two_way_terms(simple.scores(stop))
    for model in richer:
        other = two_way_terms(model.scores(stop))
        if _errors(other - terms) > CLEAR_GAIN and (other - terms).mean() > 1e-3:
            best, terms = model, other
    return best


def _gain(model: Model, than: Model, stop: Tensor) -> float:
    return _errors(two_way_terms(model.scores(stop)) - two_way_terms(than.scores(stop)))


def _errors(gain: Tensor) -> float:
    """How many standard errors the mean is above zero."""
    return float(gain.mean() / (gain.std() / math.sqrt(len(gain)) + 1e-12))


def _inputs(variates: Tensor, rows: Described, chosen: np.ndarray, quadratic: Rows | None) -> Tensor:
    seen = [variates, tensor(rows.radius)]
    if quadratic is not None and rows.columns.shape[1] > 1:
        seen.append(tensor(gaussianized(quadratic)))
    few = rows.columns.shape[1] <= FEW_COLUMNS
    seen.append(tensor(rows.columns if few else rows.columns[:, np.sort(chosen)]))
    return torch.cat(seen, dim=1)
