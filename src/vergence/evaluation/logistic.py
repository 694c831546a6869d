r"""Multinomial logistic regression: the minimizer of mean cross-entropy + penalty ||W||^2 / 2, bias not penalized.

The loss is far from round: raw pixels have a covariance whose eigenvalues span six orders of magnitude, and a
quasi-Newton method takes hundreds of steps to learn that. As long as most rows are in doubt, the Hessian is about
h X'X / n + penalty I with one number h, the mean of p (1 - p). In the coordinates V = C' W, where C C' is that matrix,
the problem is nearly round: a few dozen steps do. The Gram matrix X'X is made once and serves every penalty; each
starts from the one before.

References:
    Böhning (1992), for a bound of this form on the Hessian. https://doi.org/10.1007/BF00048682
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn.functional import linear

STEPS = 1000  # of the quasi-Newton method, at most
ROUND = 100  # steps after which the coordinates are chosen anew; the method forgets what it learned of the loss then
SURE = 0.4  # of the doubt of uniform predictions; with less, plain coordinates take fewer steps
SMALL = 500  # rows up to which starting operations takes longer than the operations
NEAR = 2**19  # numbers in 2 MB, which a core's own cache holds
SPARE = 1e-6  # of the mean of the diagonal, at least, added to it: rounding must not make the matrix indefinite


@dataclass(frozen=True, eq=False)
class Fit:
    """A linear classifier ``weight @ x + bias``; ``value`` is the penalized loss it reached, ``steps`` what it took."""

    weight: Tensor
    bias: Tensor
    penalty: float
    value: float
    steps: int

    def predictions(self, x: Tensor) -> Tensor:
        """The place of the class with the highest score."""
        return linear(x, self.weight, self.bias).argmax(dim=1)


@dataclass(frozen=True, eq=False)
class Moments:
    """What rows sum up to: how many they are, their sum and X'X. Those of two sets of rows are added and subtracted."""

    count: int
    total: Tensor
    gram: Tensor

    @classmethod
    def of(cls, x: Tensor) -> "Moments":
        return cls(len(x), x.sum(dim=0, dtype=torch.float64), _products(x))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.count + other.count, self.total + other.total, self.gram + other.gram)

    def __sub__(self, other: "Moments") -> "Moments":
        return Moments(self.count - other.count, self.total - other.total, self.gram - other.gram)

    @property
    def mean_square(self) -> float:
        """The mean square of the rows about their mean."""
        squares = self.gram.diagonal().double() / self.count - (self.total / self.count).square()
        return max(float(squares.mean()), 1e-24)


@dataclass(frozen=True, eq=False)
class Logistic:
    """Rows ``x`` (centered, of unit mean square) and their classes, as numbers from 0; ``gram`` is X'X / n."""

    x: Tensor
    targets: Tensor
    classes: int
    gram: Tensor

    @classmethod
    def of(cls, x: Tensor, targets: Tensor, classes: int) -> "Logistic":
        return cls(x, targets, classes, _products(x).div_(len(x)))

    def continued(self, x: Tensor, targets: Tensor) -> "Logistic":
        """The problem of rows that begin with these; its Gram matrix is the sum of theirs and that of the rest."""
        seen = len(self.x)
        gram = _products(x[seen:]).add_(self.gram, alpha=seen).div_(len(x))
        return Logistic(x, targets, self.classes, gram)

    def beginning(self, count: int) -> "Logistic":
        """The problem of the first so many rows; its Gram matrix is what that of the others leaves."""
        gram = (len(self.x) * self.gram).sub_(_products(self.x[count:])).div_(count)
        return Logistic(self.x[:count], self.targets[:count], self.classes, gram)

    def fit(self, penalty: float, *, start: Fit | None = None, tolerance: float = 1e-4) -> Fit:
        """The minimizer, to a gradient of ``tolerance`` in the round coordinates."""
        found, steps, done = start, 0, False
        while not done and steps < STEPS:
            found, done = self._improved(penalty, found, tolerance)
            steps += found.steps
        assert found is not None
        return replace(found, steps=steps)

    def _improved(self, penalty: float, start: Fit | None, tolerance: float) -> tuple[Fit, bool]:
        """Quasi-Newton steps in coordinates that suit the start; whether they were enough."""
        from scipy.optimize import minimize

        d, kinds = self.x.shape[1], self.classes
        factor = self._factor(penalty, start)
        most = STEPS if factor is None else ROUND

        def weights(flat: np.ndarray) -> tuple[Tensor, Tensor]:
            rounded = torch.from_numpy(flat).to(self.x.dtype).view(kinds, d + 1)
            weight = rounded[:, :d] if factor is None else solve_triangular(factor.T, rounded[:, :d].T, upper=True).T
            return weight, rounded[:, d]

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weight, bias = weights(flat)
            value, of_weight, of_bias = self._loss(weight, bias, penalty)
            if factor is not None:
                of_weight = solve_triangular(factor, of_weight.T, upper=False).T
            return value, torch.cat([of_weight, of_bias[:, None]], dim=1).double().numpy().ravel()

        first = np.zeros((d + 1) * kinds)
        if start is not None:
            rounded = start.weight if factor is None else start.weight @ factor
            first = torch.cat([rounded, start.bias[:, None]], dim=1).double().numpy().ravel()
        options = {"maxiter": most, "gtol": tolerance, "ftol": 64 * np.finfo(np.float64).eps}
        small = len(self.x) <= SMALL and self.x.dtype == torch.float64
        found = minimize(
            self._turned_loss(factor, penalty) if small else loss, first, jac=True, method="L-BFGS-B", options=options
        )
        return Fit(*weights(found.x), penalty, float(found.fun), int(found.nit)), found.nit < most

    def _factor(self, penalty: float, start: Fit | None) -> Tensor | None:
        """The Cholesky factor of about the Hessian: of uniform predictions, or of those at the start.

        None where most rows are classified with certainty: only the others bend the loss then, and the Gram matrix of
        all rows leads astray.
        """
        most = (1 - 1 / self.classes) / self.classes
        doubt = most
        if start is not None:
            chance = torch.addmm(start.bias[:, None], start.weight, self.x.T).softmax(dim=0)
            doubt = float((chance * (1 - chance)).mean())
        if doubt < SURE * most:
            return None
        spare = max(penalty, SPARE * doubt * float(self.gram.diagonal().mean()))
        # A coordinate system of a slightly rounder matrix is one as well: what it finds does not change.
        while (factor := _cholesky(doubt * self.gram, spare)) is None:
            spare *= 10
        return factor

    def _turned_loss(self, factor: Tensor | None, penalty: float) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """The same of flat coordinates, for few rows: these are turned once, and numpy starts an operation sooner."""
        n, d = self.x.shape
        root = torch.eye(d, dtype=self.x.dtype) if factor is None else factor
        turned = np.hstack([solve_triangular(root, self.x.T, upper=False).T.numpy(), np.ones((n, 1))])
        inverse = solve_triangular(root, torch.eye(d, dtype=self.x.dtype), upper=False).numpy()
        bend, own = penalty * inverse @ inverse.T, (self.targets.numpy(), np.arange(n))

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            rounded = flat.reshape(self.classes, d + 1)
            scores = rounded @ turned.T
            scores -= scores.max(axis=0)
            chances = np.exp(scores)
            total = chances.sum(axis=0)
            bent = rounded[:, :d] @ bend
            value = float((np.log(total) - scores[own]).mean()) + float((rounded[:, :d] * bent).sum()) / 2
            chances /= total
            chances[own] -= 1
            slope = chances @ turned / n
            slope[:, :d] += bent
            return value, slope.ravel()

        return loss

    def _loss(self, weight: Tensor, bias: Tensor, penalty: float) -> tuple[float, Tensor, Tensor]:
        """The penalized loss and its gradient.

        A column a sample: products in this order and a softmax down short columns take a fifth of the time of rows. So
        many rows at once as a core keeps at hand are used twice while they are there.
        """
        value, of_weight, of_bias = 0.0, torch.zeros_like(weight), torch.zeros_like(bias)
        part = max(1, NEAR // self.x.shape[1])
        for rows, targets in zip(self.x.split(part), self.targets.split(part), strict=True):
            slope = torch.addmm(bias[:, None], weight, rows.T).log_softmax(dim=0)
            value -= float(slope.gather(0, targets[None]).double().sum())
            slope.exp_()[targets, torch.arange(len(rows))] -= 1
            of_weight.addmm_(slope, rows)
            of_bias += slope.sum(dim=1)
        value = value / len(self.x) + penalty / 2 * float(weight.double().square().sum())
        return value, of_weight / len(self.x) + penalty * weight, of_bias / len(self.x)


def chosen(problem: Logistic, x: Tensor, targets: Tensor, penalties: Sequence[float], *, tolerance: float) -> Fit:
    """The fit whose penalty does best on held-out rows; the heaviest of equals.

    Penalties are tried from heavy to light, each from the fit before. One that is worse than the best by more than two
    standard errors ends the search: lighter ones follow the training rows more closely still.
    """
    best: Fit | None = None
    fit: Fit | None = None
    most = torch.zeros(len(targets))
    for penalty in sorted(penalties, reverse=True):
        fit = problem.fit(penalty, start=fit, tolerance=tolerance)
        right = (fit.predictions(x) == targets).double()
        if best is None or right.sum() > most.sum():
            best, most = fit, right
        lost = most - right
        if float(lost.sum()) > 2 * float(lost.abs().sum()) ** 0.5:
            break
    assert best is not None
    return best


def _products(x: Tensor) -> Tensor:
    """X'X: numpy computes half of a matrix that it knows to be symmetric, torch all of it."""
    rows = x.numpy()
    return torch.from_numpy(rows.T @ rows)


def _cholesky(matrix: Tensor, spare: float) -> Tensor | None:
    """The lower factor of a symmetric matrix with ``spare`` on its diagonal, in the matrix's place; None without one.

    LAPACK's own takes half the time of torch's, which copies.
    """
    from scipy.linalg.lapack import get_lapack_funcs

    rows = matrix.numpy()
    rows[np.diag_indices_from(rows)] += rows.dtype.type(spare)
    (decompose,) = get_lapack_funcs(("potrf",), (rows,))
    # LAPACK has columns where numpy has rows: its upper factor of the transpose is the transpose of the lower one.
    factor, failed = decompose(rows.T, lower=0, clean=1, overwrite_a=1)
    return None if failed else torch.from_numpy(factor.T)
