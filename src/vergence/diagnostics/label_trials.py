"""Labels on trial: what rows say of their labels, by neighbors and by a linear map, each row left out of its own vote.

Nothing here depends on the names of classes.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import expit, logsumexp
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.arrays import unit
from vergence.diagnostics.trials import Bench, K

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # of the ridge, in units of the strongest direction
KERNEL_PENALTIES = (0.03, 0.3, 3.0)  # of a kernel that is 1 on its diagonal
SHUFFLES = 20  # permutations that show what chance gives
SHIFTS = 20  # rows that labels or views are looked for in either direction


@dataclass(frozen=True)
class Judged:
    """Scores of each class for each row; the accuracy balanced over classes, and what permuted labels give."""

    scores: Tensor
    accuracy: float
    chance: float
    chance_error: float
    error: float  # share of rows whose label is not the one with the highest score
    once_standardized: bool = False  # at chance as rows are, and not once columns are standardized

    @property
    def above_chance(self) -> bool:
        """By more than three standard deviations of permuted labels, and by a hundredth; rescaled columns count."""
        return self.once_standardized or self.accuracy > self.chance + max(0.01, 3 * self.chance_error)


def judged(body: Bench, seed: int = 0) -> Judged | None:
    """Votes of 20 neighbors plus a leave-one-out ridge; None where labels name samples, or are all equal."""
    if body.labels is None or not comparable(body.labels):
        return None
    found = _judged(body, seed)
    if found.above_chance or not bool(body.rows.std(dim=0).any()):
        return found
    # One column in other units drowns what the others know: that is a fault of rows, not of labels.
    standard = Bench(trials.standardized(body.rows), body.labels, body.index, body.scale)
    return replace(found, once_standardized=_judged(standard, seed).above_chance)


def _judged(body: Bench, seed: int) -> Judged:
    labels = torch.unique(body.labels, return_inverse=True)[1]
    basis = _basis(body.rows)
    generator = torch.Generator().manual_seed(seed)
    scores = _scores(body.nearest[1], basis, labels)
    permuted = []
    for _ in range(SHUFFLES):
        shuffled = labels[torch.randperm(len(labels), generator=generator)]
        permuted.append(balanced(_scores(body.nearest[1], basis, shuffled), shuffled))
    error = float((scores.argmax(dim=1) != labels).double().mean())
    return Judged(scores, balanced(scores, labels), float(np.mean(permuted)), float(np.std(permuted, ddof=1)), error)


def examined(judged: Judged, body: Bench) -> Tensor:
    """Scores with a kernel ridge added: it bends where a linear map cannot, and errs less where classes are curved."""
    labels = torch.unique(body.labels, return_inverse=True)[1]
    return judged.scores + _kernel_ridge(body.rows, labels)


def comparable(labels: Tensor) -> bool:
    """Two classes at least, and two samples a class on average: not one class, and not names of samples."""
    classes = len(torch.unique(labels))
    return 2 <= classes <= len(labels) // 2


def balanced(scores: Tensor, labels: Tensor) -> float:
    """The mean over classes of the share of rows that are classified correctly."""
    right = (scores.argmax(dim=1) == labels).double()
    sums = torch.zeros(int(labels.max()) + 1, dtype=torch.float64).index_add_(0, labels, right)
    counts = torch.bincount(labels).double()
    return float((sums / counts)[counts > 0].mean())


@dataclass(frozen=True)
class Noise:
    """``share`` of the labels is wrong at random; ``surest`` is the error of the surest quarter of rows.

    ``evidence`` is the log-likelihood ratio of that share against none.
    """

    share: float
    surest: float
    evidence: float


def noise_share(scores: Tensor, labels: Tensor) -> Noise:
    """The share of labels that are wrong at random, and the error among the surest quarter.

    The chance of an error falls with the margin between the two best classes, P = e + (1 - e) sigmoid(a - b margin).
    Where classes overlap it falls to zero, and e is 0; labels that are wrong at random leave a floor. Maximum
    likelihood over e, a and b.
    """
    from scipy.optimize import minimize

    labels = torch.unique(labels, return_inverse=True)[1]
    best = scores.topk(2, dim=1)
    margin = (best.values[:, 0] - best.values[:, 1]).numpy()
    wrong = (best.indices[:, 0] != labels).numpy()
    margin = margin / max(margin.std(), 1e-12)
    surest = np.argsort(-margin, kind="stable")[: max(1, len(margin) // 4)]

    def surprise(parameters: np.ndarray) -> float:
        floor = 0.5 * expit(parameters[2]) if len(parameters) > 2 else 0.0
        chance = floor + (1 - floor) * expit(parameters[0] - np.exp(parameters[1]) * margin)
        chance = np.clip(chance, 1e-9, 1 - 1e-9)
        return -float(np.log(np.where(wrong, chance, 1 - chance)).sum())

    fits = [minimize(surprise, [0.0, 0.0, start], method="L-BFGS-B") for start in (-3.0, -1.0)]
    fit = min(fits, key=lambda found: found.fun)
    without = minimize(surprise, [0.0, 0.0], method="L-BFGS-B")
    return Noise(float(0.5 * expit(fit.x[2])), float(wrong[surest].mean()), float(without.fun - fit.fun))


def uniform_noise(scores: Tensor, labels: Tensor) -> tuple[float, float]:
    """The share of labels that were replaced by any other class alike, and its log-likelihood ratio against none.

    Where classes overlap, a contradicted label is the second guess; labels wrong at random are any guess. So
    P(y) = (1 - e) p(y) + e (1 - p(y)) / (K - 1) with p the softmax of b times the scores; maximum likelihood over e, b.
    On the 77 development sets of benchmarks/foreign e was .03 at most with the labels as they are.
    """
    from scipy.optimize import minimize

    labels = torch.unique(labels, return_inverse=True)[1]
    centered = (scores - scores.mean(dim=1, keepdim=True)).numpy()
    centered = centered / max(centered.std(), 1e-12)
    own, others = (np.arange(len(labels)), labels.numpy()), scores.shape[1] - 1

    def surprise(parameters: np.ndarray) -> float:
        logits = np.exp(min(parameters[0], 20.0)) * centered
        right = np.exp(logits[own] - logsumexp(logits, axis=1))
        floor = 0.5 * expit(parameters[1]) if len(parameters) > 1 else 0.0
        return -float(np.log(np.clip((1 - floor) * right + floor * (1 - right) / others, 1e-12, 1)).sum())

    fits = [minimize(surprise, [1.0, start], method="L-BFGS-B") for start in (-3.0, -1.0)]
    fit = min(fits, key=lambda found: found.fun)
    without = minimize(surprise, [1.0], method="L-BFGS-B")
    return float(0.5 * expit(fit.x[1])), float(without.fun - fit.fun)


@dataclass(frozen=True)
class Shifted:
    """Rows on trial for a shift of their labels: neighbors by cosine and the basis of a ridge, made once."""

    nearest: Tensor
    basis: tuple[Tensor, Tensor]
    labels: Tensor

    def moved(self, shift: int, place: float = 0.0) -> Tensor:
        """Labels if, from a place of the file on, row i has the label ``shift`` rows later."""
        start = int(place * len(self.labels))
        return torch.cat([self.labels[:start], self.labels[start:].roll(-shift)])

    def right(self, labels: Tensor) -> Tensor:
        """Which rows their neighbors classify correctly."""
        return trials.voted(self.nearest, labels, K) == labels

    def votes(self, labels: Tensor) -> Tensor:
        """The share of a row's neighbors that have its label: less noisy than whether most have it."""
        return (labels[self.nearest] == labels[:, None]).double().mean(dim=1)

    def fitted(self, labels: Tensor) -> Tensor:
        """What a leave-one-out ridge with one penalty gives a row's own label."""
        u, values = self.basis
        shrink = values**2 / (values**2 + PENALTIES[1] * values.max() ** 2)
        leverage = (u.square() * shrink).sum(dim=1) + 1 / len(labels)
        targets = torch.nn.functional.one_hot(labels, int(self.labels.max()) + 1).double()
        targets = targets - targets.mean(dim=0)
        fit = ((u * shrink) * (u.T @ targets).T[labels]).sum(dim=1)
        own = targets.gather(1, labels[:, None]).squeeze(1)
        return (fit - leverage * own) / (1 - leverage).clamp(min=1e-6)


def shifted(rows: Tensor, labels: Tensor) -> Shifted:
    """The trial of consecutive rows, with labels 0 ... K - 1."""
    clipped = trials.clipped(rows)
    nearest = trials.cosine(trials.centered(clipped)).topk(min(2 * K, len(rows) - 1), dim=1).indices
    return Shifted(nearest, _basis(clipped), labels)


def standard_score(change: Tensor) -> float:
    """The mean of paired changes over its standard error."""
    return float(change.mean() / (change.std() / len(change) ** 0.5).clamp(min=1e-12))


def _basis(rows: Tensor, columns: int = 100) -> tuple[Tensor, Tensor]:
    """Left singular vectors and values of the centered directions of the rows, the strongest hundred."""
    middle = trials.centered(unit(trials.centered(trials.clipped(rows))))
    u, values, _ = trials.strongest(middle, max(1, min(columns, len(rows) // 5, rows.shape[1])))
    kept = values > 1e-5 * values[0]
    return (u[:, kept], values[kept]) if bool(kept.any()) else (u[:, :1], values[:1] + 1.0)


def _scores(nearest: Tensor, basis: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
    votes = torch.zeros(len(nearest), int(labels.max()) + 1, dtype=torch.float64)
    weights = (1 + 1e-3 * 0.5 ** torch.arange(nearest.shape[1], dtype=torch.float64)) / nearest.shape[1]
    votes.scatter_add_(1, labels[nearest], weights.expand(nearest.shape).contiguous())
    return votes + _ridge(basis, labels)


def _kernel_ridge(rows: Tensor, labels: Tensor) -> Tensor:
    """Leave-one-out predictions of one-hot labels by a Gaussian kernel of twice the distance of the tenth neighbor.

    With A = K + penalty a row left out is predicted as y - (A^-1 y) / diag(A^-1).
    """
    squares = -trials.euclidean(trials.centered(unit(trials.clipped(rows))))
    width = float(squares.topk(min(K + 1, len(squares)), dim=1, largest=False).values[:, -1].median())
    kernel = torch.exp(-squares.fill_diagonal_(0).clamp(min=0) / max(4 * width, 1e-12))
    targets = torch.nn.functional.one_hot(labels).double()
    prior = targets.mean(dim=0)
    found = []
    for penalty in KERNEL_PENALTIES:
        root = torch.linalg.cholesky(kernel + penalty * torch.eye(len(kernel), dtype=kernel.dtype))
        inverse = torch.cholesky_inverse(root)
        rest = inverse @ (targets - prior) / inverse.diagonal()[:, None]
        found.append((float(rest.square().sum()), targets - rest))
    return min(found, key=lambda each: each[0])[1]


def _ridge(basis: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
    """Leave-one-out predictions of one-hot labels, with the penalty that predicts best: (Hy - h y) / (1 - h)."""
    u, values = basis
    n = len(labels)
    targets = torch.nn.functional.one_hot(labels).double()
    prior = targets.mean(dim=0)
    targets = targets - prior
    best, found = torch.inf, targets
    for penalty in PENALTIES:
        shrink = values**2 / (values**2 + penalty * values.max() ** 2)
        leverage = (u.square() * shrink).sum(dim=1, keepdim=True) + 1 / n
        left_out = ((u * shrink) @ (u.T @ targets) - leverage * targets) / (1 - leverage).clamp(min=1e-6)
        loss = float((left_out - targets).square().sum())
        if loss < best:
            best, found = loss, left_out
    return found + prior
