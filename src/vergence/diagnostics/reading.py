"""Readers of labels: what rows say of the label of each row, which none of them sees, and how sure they are.

Five readers predict every label without it, and one model weighs them. From it follow how much rows know of their
labels, and how many labels are wrong. Nothing here depends on the names of classes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import chdtri, expit, log_softmax, ndtr
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.arrays import unit
from vergence.diagnostics.trials import Bench, K

# In nats: above, labels are known; below, at chance. Of 66 permutations of 11 development sets none exceeds 4. Between,
# labels are at chance if one of the permutations of these very labels is predicted as well.
ABOVE, BELOW, PERMUTATIONS = 6.0, 4.0, 39
# Shares of wrong labels: careful data have at most CAREFUL, the null hypothesis; up to USUAL nothing is said. The test
# sets of Northcutt et al. (2021) have .2 to 10 %. Of few wrong labels about half are found.
CAREFUL, USUAL = 0.005, 0.02
LINEAR = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)  # penalties of kernels whose diagonal is 1 on average
GAUSSIAN = (0.003, 0.03, 0.3, 3.0)
CLUSTERED = 0.3  # share of the rows of every class that are inside, from which classes are clusters
PURE = 0.95  # share of 20 neighbors that are guessed as a row is, from which it is inside of a cluster
ROOM = 100_000  # rows times classes that a fit sees: beyond, it sees a part of the rows


@dataclass(frozen=True, eq=False)
class Readers:
    """Votes of 20 neighbors; ridges with a linear and a Gaussian kernel, of directions and of standardized columns."""

    nearest: Tensor
    ridges: tuple["Ridge", ...]

    def scores(self, labels: Tensor) -> np.ndarray:
        """Scores of each class for each row by each reader, made without the row's own label.

        Of mean 0 over classes and over rows: how common a class is stands in no score, or it would count twice.
        """
        targets = torch.nn.functional.one_hot(labels).double()
        weights = torch.full(self.nearest.shape, 1 / self.nearest.shape[1], dtype=torch.float64)
        votes = torch.zeros_like(targets).scatter_add_(1, labels[self.nearest], weights)
        scores = torch.stack([votes, *(ridge.left_out(targets) for ridge in self.ridges)])
        rows = np.linspace(0, len(labels) - 1, min(len(labels), max(1, ROOM // targets.shape[1]))).astype(int)
        centered = (scores - scores.mean(dim=2, keepdim=True)).numpy()[:, rows]
        centered = centered - centered.mean(axis=1, keepdims=True)
        return centered / np.maximum(centered.std(axis=(1, 2), keepdims=True), 1e-12)


@dataclass(frozen=True, eq=False)
class Ridge:
    """A kernel ridge with several penalties: eigenvectors, what each penalty leaves of them, and leverages of rows."""

    vectors: Tensor
    shrink: Tensor  # [eigenvectors, penalties]
    leverage: Tensor  # [rows, penalties]

    @classmethod
    def of(cls, values: Tensor, vectors: Tensor, penalties: tuple[float, ...]) -> "Ridge":
        kept = values.clamp(min=0)[:, None]
        shrink = kept / (kept + kept.new_tensor(penalties))
        return cls(vectors, shrink, vectors.square() @ shrink + 1 / len(vectors))

    def left_out(self, targets: Tensor) -> Tensor:
        """Leave-one-out predictions, (Hy - h y) / (1 - h), with the penalty that predicts best."""
        prior = targets.mean(dim=0)
        apart = targets - prior
        turned = self.shrink.T[:, :, None] * (self.vectors.T @ apart)  # of each penalty
        fitted = (self.vectors @ turned.transpose(0, 1).flatten(1)).unflatten(1, turned.shape[::2])
        own = self.leverage[:, :, None]
        found = (fitted - own * apart[:, None]) / (1 - own).clamp(min=1e-6)
        losses = (found - apart[:, None]).square().sum(dim=(0, 2))
        return found[:, int(losses.argmin())] + prior


@dataclass(frozen=True)
class Judged:
    """What readers know of labels: balanced accuracy, what guessing gives, and nats gained over the classes' shares."""

    accuracy: float
    chance: float
    nats: float

    @property
    def above_chance(self) -> bool:
        return self.nats > ABOVE

    @property
    def at_chance(self) -> bool:
        return self.nats < BELOW


@dataclass(frozen=True)
class Replaced:
    """``share`` of the labels was replaced by any other class alike.

    ``evidence`` is the log-likelihood ratio of that share against that of careful data or less; ``error`` the share of
    labels that the readers contradict, ``surest`` that among the quarter of rows of which they are surest.
    """

    share: float
    evidence: float
    error: float
    surest: float
    in_clusters: bool = False  # told by clusters, not by the likelihood


def comparable(labels: Tensor) -> bool:
    """Two classes at least, and two samples a class on average: not one class, and not names of samples."""
    classes = len(torch.unique(labels))
    return 2 <= classes <= len(labels) // 2


def readers(body: Bench) -> Readers | None:
    """The readers of some rows; None where labels name samples, or are all equal."""
    if body.labels is None or not comparable(body.labels):
        return None
    clipped = trials.clipped(body.rows)
    ridges = []
    for rows in (trials.centered(unit(trials.centered(clipped))), trials.standardized(clipped)):
        products = rows @ rows.T
        squares = products.diagonal()
        apart = (squares[:, None] + squares[None, :] - 2 * products).clamp(min=0)
        # Twice the distance of the tenth neighbor: the row itself is the first of eleven.
        width = float(apart.topk(min(K + 1, len(apart)), dim=1, largest=False).values[:, -1].median())
        ridges.append(Ridge.of(*_thin(rows, products, float(squares.mean().clamp(min=1e-300))), LINEAR))
        values, vectors = torch.linalg.eigh(torch.exp(-apart / max(4 * width, 1e-12)))
        ridges.append(Ridge.of(values, vectors, GAUSSIAN))
    return Readers(body.nearest[1], tuple(ridges))


def _thin(rows: Tensor, products: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Eigenvalues and vectors of the products over ``scale``; without those of value 0 where columns are fewer."""
    if rows.shape[1] >= len(rows):
        values, vectors = torch.linalg.eigh(products / scale)
        return values, vectors
    vectors, lengths, _ = torch.linalg.svd(rows, full_matrices=False)
    return lengths.square() / scale, vectors


def judged(readers: Readers, body: Bench) -> Judged:
    r"""How much better than the shares of classes the readers predict, in nats summed over rows.

    With :math:`p = \mathrm{softmax}(\log \pi + \sum_m w_m s_m)` and weights of at least 0: of labels that do not belong
    to the rows nothing is predicted, weights are 0 and so is the gain, but for luck. Where luck may
    explain the gain, permuted labels say how much of it these rows have.
    """
    labels = torch.unique(body.labels, return_inverse=True)[1]
    found = _judged(readers, labels)
    if not BELOW <= found.nats <= ABOVE:
        return found
    generator = torch.Generator().manual_seed(0)
    orders = (torch.randperm(len(labels), generator=generator) for _ in range(PERMUTATIONS))
    lucky = any(_judged(readers, labels[order]).nats >= found.nats for order in orders)
    return replace(found, nats=0.0) if lucky else found


def _judged(readers: Readers, labels: Tensor) -> Judged:
    from scipy.optimize import minimize

    scores = readers.scores(labels)
    known = _kept(labels, scores)
    shares = np.log(np.bincount(labels.numpy()) / len(labels))
    own = (np.arange(len(known)), known)

    def surprise(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logs = log_softmax(shares + np.tensordot(weights, scores, 1), axis=1)
        slope = np.exp(logs)
        slope[own] -= 1
        return -float(logs[own].sum()), np.tensordot(scores, slope, 2)

    nothing = np.zeros(len(scores))
    fit = minimize(surprise, nothing, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(scores))
    right = torch.from_numpy(np.tensordot(fit.x if fit.x.any() else nothing + 1, scores, 1).argmax(axis=1) == known)
    accuracy = _balanced(right, torch.from_numpy(known))
    return Judged(accuracy, 1 / len(shares), (surprise(nothing)[0] - float(fit.fun)) * len(labels) / len(known))


def replaced(readers: Readers, body: Bench) -> Replaced:
    r"""The share of labels that were replaced, by maximum likelihood.

    Where classes overlap, a contradicted label is the readers' second guess; a replaced label is any guess, however
    sure they are. With :math:`p = \mathrm{softmax}(b + \sum_m w_m s_m)` a label y has the chance :math:`(1 - e) p_y +
    e (1 - p_y) / (K - 1)`. Weights, b and e are fitted together, and again with e at most .5 %. Where readers are
    never sure, wrong labels cannot be told from overlap, and the evidence is near 0.

    References:
        Northcutt, Jiang & Chuang (2021), confident learning. https://arxiv.org/abs/1911.00068
    """
    labels = torch.unique(body.labels, return_inverse=True)[1]
    scores = readers.scores(labels)
    return replaced_share(scores, _kept(labels, scores), readers.nearest)


def blind(readers: Readers, body: Bench, found: Callable[[Replaced], bool], *, part: float = 0.15) -> bool:
    """Whether that share of labels, replaced on trial, is missed twice: then nothing is known of wrong labels."""
    labels = torch.unique(body.labels, return_inverse=True)[1]
    classes = int(labels.max()) + 1
    generator = torch.Generator().manual_seed(0)
    missed = 0
    for trial in range(3):
        wrong = torch.rand(len(labels), generator=generator) < part
        others = (labels + torch.randint(1, classes, labels.shape, generator=generator)) % classes
        again = torch.unique(torch.where(wrong, others, labels), return_inverse=True)[1]
        scores = readers.scores(again)
        missed += not found(replaced_share(scores, _kept(again, scores), readers.nearest))
        if missed == 2 or (trial == 1 and not missed):  # the third trial would change nothing
            break
    return missed == 2


def replaced_share(scores: np.ndarray, labels: np.ndarray, nearest: Tensor | None = None) -> Replaced:
    """The same from scores of shape [readers, rows, classes]; with neighbors, from clusters too."""
    most = 0.9 * (scores.shape[2] - 1) / scores.shape[2]  # of labels drawn anew (K - 1) / K are wrong
    usual, _, _ = _fitted(scores, labels, CAREFUL)
    free, logits, share = _fitted(scores, labels, most)
    ordered = np.sort(logits, axis=1)
    wrong = logits.argmax(axis=1) != labels
    surest = np.argsort(ordered[:, -2] - ordered[:, -1], kind="stable")[: max(1, len(labels) // 4)]
    errors = (float(wrong.mean()), float(wrong[surest].mean()))
    found = Replaced(share, max(0.0, usual - free), *errors)
    if nearest is None or len(nearest) != len(labels):
        return found
    inner = Replaced(*_in_clusters(logits, labels, nearest.numpy()), *errors, in_clusters=True)
    return inner if inner.evidence > found.evidence else found


def lucky(readers: Readers, body: Bench, found: Replaced, *, draws: int = 12) -> bool:
    """Whether labels drawn from what the readers believe, none of them replaced, show as much evidence once.

    The readers' own doubt is then all that contradicts labels: so classes that overlap look on these very rows.
    """
    labels = torch.unique(body.labels, return_inverse=True)[1]
    scores = readers.scores(labels)
    if scores.shape[1] < len(labels):
        return False  # of so many rows a part is seen, and their evidence is beyond luck
    _, logits, _ = _fitted(scores, labels.numpy(), CAREFUL)
    chances = np.exp(log_softmax(logits, axis=1))
    generator = np.random.default_rng(0)
    for _ in range(draws):
        drawn = (chances.cumsum(axis=1) > generator.random((len(chances), 1))).argmax(axis=1)
        again = torch.unique(torch.from_numpy(drawn), return_inverse=True)[1]
        if replaced_share(readers.scores(again), again.numpy()).evidence >= found.evidence:
            return True
    return False


def _in_clusters(logits: np.ndarray, labels: np.ndarray, nearest: np.ndarray) -> tuple[float, float]:
    """The share of contradicted labels inside of clusters, and its log-likelihood ratio against careful data.

    In a cluster all neighbors are guessed alike, and readers are equally sure of all rows: there wrong labels look like
    one common doubt. But doubt between classes that overlap names the neighboring class; replaced labels are as often
    any other, in every cluster, and of these rows readers are as sure as of others. Where they are not, there is no
    evidence.
    """
    guesses = logits.argmax(axis=1)
    inside = (guesses[nearest] == guesses[:, None]).mean(axis=1) >= PURE
    wrong = inside & (guesses != labels)
    n, count = int(inside.sum()), int(wrong.sum())
    share = count / max(1, n)
    if n < len(labels) / 2 or not USUAL < share < 1 or not _scattered(guesses[inside], labels[inside]):
        return 0.0, 0.0
    sizes = np.bincount(guesses)
    if (np.bincount(guesses[inside], minlength=len(sizes)) < CLUSTERED * sizes).any():
        return 0.0, 0.0
    if _less_sure(logits, inside & ~wrong, wrong):
        return 0.0, 0.0
    evidence = count * math.log(share / CAREFUL) + (n - count) * (math.log1p(-share) - math.log1p(-CAREFUL))
    return share, evidence


def _less_sure(logits: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> bool:
    r"""Whether readers are less sure of contradicted rows, as between classes that overlap, by the test of ranks.

    With U the pairs in which they are surer of the contradicted row, :math:`z = (U - nm/2) / \sqrt{nm(n + m + 1)/12}`.

    References:
        Mann & Whitney (1947), On a test of whether one of two random variables is stochastically larger.
    """
    margins = np.diff(np.sort(logits, axis=1)[:, -2:], axis=1)[:, 0]
    doubted, others = margins[wrong], np.sort(margins[right])
    n, m = len(doubted), len(others)
    below = np.searchsorted(others, doubted, "left") + np.searchsorted(others, doubted, "right")
    z = (below.sum() / 2 - n * m / 2) / math.sqrt(max(1, n * m * (n + m + 1) / 12))
    return float(ndtr(z)) < 0.003


def _scattered(guesses: np.ndarray, labels: np.ndarray) -> bool:
    """Whether contradicted labels are spread over guesses and other classes as replaced ones are, by chi-square."""
    classes = int(max(guesses.max(), labels.max())) + 1
    table = np.zeros((classes, classes))
    np.add.at(table, (guesses, labels), 1)
    sizes, wrong = table.sum(axis=1), table * (1 - np.eye(classes))
    expected = np.outer(sizes, np.ones(classes)) * (1 - np.eye(classes)) / (classes - 1) * wrong.sum() / sizes.sum()
    cells = expected > 0
    statistic = float((np.square(wrong - expected)[cells] / expected[cells]).sum())
    return statistic < float(chdtri(int(cells.sum()) - 1, 0.05))


def _fitted(scores: np.ndarray, labels: np.ndarray, most: float) -> tuple[float, np.ndarray, float]:
    """Minus the log-likelihood, the logits and the share of wrong labels, of at most ``most``, that fit best.

    Logits are weighted scores and a bias for each class, which starts at the logarithm of its share of the labels.
    """
    from scipy.optimize import minimize

    readers, _, classes = scores.shape
    shares = np.log((np.bincount(labels, minlength=classes) + 0.5) / (len(labels) + 0.5 * classes))
    starts = [np.r_[np.full(readers, -1.0), shares, logit] for logit in (-3.0, 0.0)]
    fits = [minimize(_surprise, start, (scores, labels, most), jac=True, method="L-BFGS-B") for start in starts]
    best = min(fits, key=lambda found: found.fun)
    return float(best.fun), _logits(best.x, scores), float(most * expit(best.x[-1]))


def _logits(parameters: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Scores weighted by the exponentials of the first parameters, plus the biases of classes that follow."""
    weights = np.exp(np.clip(parameters[: len(scores)], -8, 4))
    return np.tensordot(weights, scores, 1) + parameters[len(scores) : -1]


def _surprise(parameters: np.ndarray, scores: np.ndarray, labels: np.ndarray, most: float) -> tuple[float, np.ndarray]:
    """Minus the log-likelihood of labels; its slope by the weights' logarithms, the biases and the share's logit."""
    weights, part = np.exp(np.clip(parameters[: len(scores)], -8, 4)), expit(parameters[-1])
    share, own = most * part, (np.arange(len(labels)), labels)
    chances = np.exp(log_softmax(_logits(parameters, scores), axis=1))
    right, others = chances[own], scores.shape[2] - 1
    likely = np.clip((1 - share) * right + share * (1 - right) / others, 1e-12, 1)
    pull = (1 - share - share / others) * right / likely
    slope = pull[:, None] * chances
    slope[own] -= pull
    by_weights = weights * np.tensordot(scores, slope, 2)
    by_share = -float(((1 - right) / others - right) @ (1 / likely)) * most * part * (1 - part)
    return -float(np.log(likely).sum()), np.r_[by_weights, slope.sum(axis=0), by_share]


def _kept(labels: Tensor, scores: np.ndarray) -> np.ndarray:
    """Labels of the rows that scores are of."""
    return labels.numpy()[np.linspace(0, len(labels) - 1, scores.shape[1]).astype(int)]


def _balanced(right: Tensor, labels: Tensor) -> float:
    """The mean over classes of the share of rows that are classified correctly."""
    counts = torch.bincount(labels).double()
    sums = torch.zeros_like(counts).index_add_(0, labels, right.double())
    return float((sums / counts)[counts > 0].mean())
