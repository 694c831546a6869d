"""Classifiers on frozen features: a linear probe, nearest neighbors, the nearest class center."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from vergence.evaluation.accuracy import Accuracy, Array, Split, checked_splits, scored
from vergence.evaluation.held_out import held_out_evenly
from vergence.evaluation.logistic import Fit, Logistic, chosen

# Penalties on the mean cross-entropy of features scaled to unit mean square: from "none to speak of" to "heavy".
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
MIDDLE = 1e-3  # where too few rows are labeled to hold any out
ROUGH = 1e-3  # gradient at which a probe is good enough to choose a penalty by
FEW = 500  # rows of fewer than columns up to which a probe is fitted in float64, and to the last digits
TILE = 256  # queries per tile: 256 x 50,000 float32 scores are 50 MB


def linear_probe(
    train_h: Array,
    train_labels: Array,
    test_h: Array,
    test_labels: Array,
    *,
    regularization: float | None = None,
    protocol: str = "lbfgs",
    seed: int = 0,
    regularisation: float | None = None,
) -> Accuracy:
    r"""Multinomial logistic regression on frozen features: minimises mean cross-entropy + regularization x ||W||^2 / 2.

    Features are centered and divided by their root mean square first; with an unpenalised bias centering changes
    nothing but the number of steps. With ``regularization=None`` it is chosen on a fifth of the training samples, then
    the probe is fitted on all of them. ``protocol="saga"`` is the one of Tschannen et al. instead: features scaled to
    [0, 1], C = 10, tolerance 0.1. ``regularisation`` is the former spelling.

    References:
        Tschannen et al. (2020), the official notebook. https://arxiv.org/abs/1907.13625
    """
    (train_h, train_labels), (test_h, test_labels) = checked_splits(train_h, train_labels, test_h, test_labels)
    if protocol == "saga":
        return _saga_probe(train_h, train_labels, test_h, test_labels, seed=seed)
    if protocol != "lbfgs":
        raise ValueError(f"Unknown protocol {protocol!r}. Known: lbfgs, saga")
    classes, targets = np.unique(train_labels, return_inverse=True)
    x, unseen = _standardized(train_h, test_h)
    penalty = regularisation if regularization is None else regularization
    if penalty is not None and not 0 <= penalty < math.inf:
        raise ValueError(f"regularization must be at least 0 and finite; got {penalty:g}")
    fit = fitted_probe(x, torch.from_numpy(targets), len(classes), penalty=penalty, seed=seed)
    predictions = classes[fit.predictions(unseen).numpy()]
    return scored(predictions, test_labels, "linear probe", regularization=fit.penalty, protocol=protocol)


def knn(
    train_h: Array,
    train_labels: Array,
    test_h: Array,
    test_labels: Array,
    *,
    k: int = 20,
    temperature: float = 0.07,
) -> Accuracy:
    """Vote of the k nearest training samples by cosine, each weighted by exp(similarity / temperature).

    References:
        Wu et al. (2018), Sec. 3.4 (temperature 0.07); k = 20 as in Caron et al. (2021). https://arxiv.org/abs/1805.01978
    """
    (train_h, train_labels), (test_h, test_labels) = checked_splits(train_h, train_labels, test_h, test_labels)
    if k < 1 or not 0 < temperature < math.inf:
        raise ValueError(f"kNN takes at least 1 neighbor and a temperature above 0; got {k} and {temperature:g}")
    classes, targets = np.unique(train_labels, return_inverse=True)
    bank, queries = (torch.nn.functional.normalize(torch.from_numpy(h), dim=1) for h in (train_h, test_h))
    votes = _votes(queries, bank, torch.from_numpy(targets), len(classes), k=min(k, len(bank)), temperature=temperature)
    return scored(classes[votes.argmax(dim=1).numpy()], test_labels, "kNN", k=k, temperature=temperature)


@dataclass(frozen=True, eq=False)
class NearestCenter(Accuracy):
    """Accuracy of the nearest class center, with the linear classifier that it equals: ``weight @ h + bias``."""

    classes: np.ndarray = field(default_factory=lambda: np.empty(0))
    weight: np.ndarray = field(default_factory=lambda: np.empty(0))
    bias: np.ndarray = field(default_factory=lambda: np.empty(0))


def nearest_center(
    train_h: Array,
    train_labels: Array,
    test_h: Array,
    test_labels: Array,
    *,
    normalize: bool = True,
    normalise: bool = True,
) -> NearestCenter:
    r"""The class whose training mean is nearest: argmin ||h - mu_k|| = argmax mu_k . h - ||mu_k||^2 / 2.

    Features are put on the unit sphere first, as the theory has them. ``normalise`` is the former spelling.

    References:
        Huang et al. (2023), Sec. 2. https://arxiv.org/abs/2111.00743
    """
    train, test = checked_splits(train_h, train_labels, test_h, test_labels)
    return nearest_centers(train, test, [slice(None)], normalize=normalize and normalise)[0]


def nearest_centers(
    train: Split, test: Split, draws: Sequence[np.ndarray | slice], *, normalize: bool = True
) -> list[NearestCenter]:
    """The same after several draws of training rows, of checked splits: one product with all test rows serves all."""
    (train_h, train_labels), (test_h, test_labels) = train, test
    known = [np.unique(train_labels[rows]) for rows in draws]
    weights = []
    for rows, classes in zip(draws, known, strict=True):
        h, labels = train_h[rows], train_labels[rows]
        h = h / _lengths(h) if normalize else h
        weights.append(np.stack([h[labels == label].mean(axis=0, dtype=np.float64) for label in classes]))
    # Products are divided by the lengths rather than rows: a copy of all of them would take longer than the products.
    products = test_h @ np.concatenate(weights).T.astype(test_h.dtype)
    products /= _lengths(test_h) if normalize else 1
    made, start = [], 0
    for classes, weight in zip(known, weights, strict=True):
        bias = -np.square(weight).sum(axis=1) / 2
        scores = products[:, start : start + len(classes)] + bias
        start += len(classes)
        found = scored(classes[scores.argmax(axis=1)], test_labels, "nearest center")
        made.append(NearestCenter(**vars(found), classes=classes, weight=weight, bias=bias))
    return made


def _votes(queries: Tensor, bank: Tensor, targets: Tensor, classes: int, *, k: int, temperature: float) -> Tensor:
    votes = torch.zeros(len(queries), classes, dtype=bank.dtype)
    room = bank.new_empty(min(TILE, len(queries)), len(bank))  # memory that is new in every tile takes longer than it
    for start in range(0, len(queries), TILE):
        part = queries[start : start + TILE]
        similarity, nearest = torch.mm(part, bank.T, out=room[: len(part)]).topk(k, dim=1)
        # Only ratios of the weights matter, so the nearest gets weight 1: no overflow at small temperatures.
        weight = torch.exp((similarity - similarity[:, :1]) / temperature)
        votes[start : start + TILE].scatter_add_(1, targets[nearest], weight)
    return votes


def _standardized(train_h: np.ndarray, test_h: np.ndarray) -> tuple[Tensor, Tensor]:
    """Rows centered and divided by the root mean square of the training rows, in the span of these where it is small.

    The weights of a penalized probe lie in the span of the rows it is fitted to. Fewer rows than columns are rotated
    into it, which changes no product of two rows, and so no prediction.
    """
    center = train_h.mean(axis=0, dtype=np.float64).astype(train_h.dtype)
    x = train_h - center
    # Squares are summed row by row: a copy of all of them would take longer than the sums.
    scale = float(np.sqrt(np.einsum("ij,ij->i", x, x).sum(dtype=np.float64) / x.size)) or 1.0
    x /= scale
    if len(x) >= x.shape[1]:
        return torch.from_numpy(x), torch.from_numpy(((test_h - center) / scale).astype(x.dtype, copy=False))
    kind = torch.float64 if len(x) <= FEW else torch.from_numpy(x).dtype
    basis, coordinates = torch.linalg.qr(torch.from_numpy(x).T.to(kind))
    axes = basis.to(torch.from_numpy(x).dtype).numpy()
    # The product is shifted rather than the rows: a copy of all test samples would take longer than the product.
    unseen = (test_h.astype(x.dtype, copy=False) @ axes - center @ axes) / scale
    return coordinates.T.contiguous(), torch.from_numpy(unseen).to(kind)


def fitted_probe(x: Tensor, targets: Tensor, classes: int, *, penalty: float | None = None, seed: int = 0) -> Fit:
    """The probe of all rows: with a penalty, or with the one that does best on a held-out fifth of them."""
    # A probe of two classes penalizes the difference of their weights, as everywhere: w, not w / 2 and -w / 2.
    factor = 2.0 if classes == 2 else 1.0
    parts = _held_out(targets, classes, seed=seed) if penalty is None else None
    if parts is None:
        fit = Logistic.of(x, targets, classes).fit(
            factor * (MIDDLE if penalty is None else penalty), tolerance=_fine(x)
        )
        return replace(fit, penalty=fit.penalty / factor)
    order, seen = torch.cat(parts), len(parts[0])
    x, targets = x[order], targets[order]  # one copy, of which both parts and the whole are views
    problem = Logistic.of(x[:seen], targets[:seen], classes)
    start = _chosen(problem, x[seen:], targets[seen:], factor)
    fit = problem.continued(x, targets).fit(start.penalty, start=start, tolerance=_fine(x))
    return replace(fit, penalty=fit.penalty / factor)


def _fine(x: Tensor) -> float:
    """The gradient at which a probe is done: few rows cost nothing, many are in float32, which knows no better."""
    return 1e-6 if x.dtype == torch.float64 else 1e-4


def _held_out(targets: Tensor, classes: int, *, seed: int) -> tuple[Tensor, Tensor] | None:
    """Four fifths of the rows and the rest, every class in both; None where there are too few."""
    n, rare = len(targets), int(targets.bincount(minlength=classes).min())
    held = max(classes, n // 5)
    if rare < 2 or n - held < classes:
        return None
    parts = held_out_evenly(targets.numpy(), held, seed=seed)
    return torch.from_numpy(parts[0]), torch.from_numpy(parts[1])


def _chosen(problem: Logistic, x: Tensor, targets: Tensor, factor: float) -> Fit:
    """The probe whose penalty does best on held-out rows."""
    return chosen(problem, x, targets, [factor * penalty for penalty in PENALTIES], tolerance=ROUGH)


def _saga_probe(
    train_h: np.ndarray, train_labels: np.ndarray, test_h: np.ndarray, test_labels: np.ndarray, *, seed: int
) -> Accuracy:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MinMaxScaler

    scaler = MinMaxScaler().fit(train_h)
    model = LogisticRegression(solver="saga", tol=0.1, C=10.0, random_state=seed)
    model.fit(scaler.transform(train_h), train_labels)
    predictions = model.predict(scaler.transform(test_h))
    return scored(predictions, test_labels, "linear probe, SAGA protocol", C=10.0, protocol="saga")


def _lengths(h: np.ndarray) -> np.ndarray:
    """Of rows, as a column; rows of zeros get the smallest number instead."""
    return np.maximum(np.sqrt(np.einsum("ij,ij->i", h, h)), np.finfo(h.dtype).tiny)[:, None]
