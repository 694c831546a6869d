"""Classifiers on frozen features: a linear probe, nearest neighbors, the nearest class center."""

from dataclasses import dataclass, field

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler
from torch import Tensor

from vergence.evaluation.accuracy import Accuracy, Array, checked_splits, scored

# Penalties on the mean cross-entropy of features scaled to unit mean square: from "none to speak of" to "heavy".
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
TILE = 1024  # queries per tile: 1024 x 50,000 float32 scores are 200 MB


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
    center = train_h.mean(axis=0, dtype=np.float64).astype(train_h.dtype)
    scale = float(np.sqrt(np.mean(np.square(train_h - center), dtype=np.float64))) or 1.0
    train_h, test_h = (train_h - center) / scale, (test_h - center) / scale
    penalty = regularisation if regularization is None else regularization
    if penalty is None:
        penalty = _chosen_penalty(train_h, train_labels, seed=seed)
    predictions = _logistic(penalty, len(train_h)).fit(train_h, train_labels).predict(test_h)
    return scored(predictions, test_labels, "linear probe", regularization=penalty, protocol=protocol)


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
    (train_h, train_labels), (test_h, test_labels) = checked_splits(train_h, train_labels, test_h, test_labels)
    if normalize and normalise:
        train_h, test_h = _unit(train_h), _unit(test_h)
    classes = np.unique(train_labels)
    weight = np.stack([train_h[train_labels == label].mean(axis=0, dtype=np.float64) for label in classes])
    bias = -np.square(weight).sum(axis=1) / 2
    found = scored(classes[(test_h @ weight.T + bias).argmax(axis=1)], test_labels, "nearest center")
    return NearestCenter(**vars(found), classes=classes, weight=weight, bias=bias)


def _votes(queries: Tensor, bank: Tensor, targets: Tensor, classes: int, *, k: int, temperature: float) -> Tensor:
    votes = torch.zeros(len(queries), classes, dtype=bank.dtype)
    for start in range(0, len(queries), TILE):
        similarity, nearest = (queries[start : start + TILE] @ bank.T).topk(k, dim=1)
        # Only ratios of the weights matter, so the nearest gets weight 1: no overflow at small temperatures.
        weight = torch.exp((similarity - similarity[:, :1]) / temperature)
        votes[start : start + TILE].scatter_add_(1, targets[nearest], weight)
    return votes


def _logistic(penalty: float, n: int) -> LogisticRegression:
    return LogisticRegression(C=1 / (penalty * n), max_iter=1000)


def _chosen_penalty(h: np.ndarray, labels: np.ndarray, *, seed: int) -> float:
    """The penalty that does best on a held-out fifth; the heaviest of equals."""
    _, counts = np.unique(labels, return_counts=True)
    held_out = max(len(counts), len(h) // 5)
    if counts.min() < 2 or len(h) - held_out < len(counts):
        return 1e-3  # Too few samples to hold any out: the middle of the grid.
    parts = train_test_split(h, labels, test_size=held_out, stratify=labels, random_state=seed)
    fit_h, check_h, fit_labels, check_labels = parts
    model = _logistic(PENALTIES[-1], len(fit_h)).set_params(warm_start=True, tol=1e-3)
    scores = {}
    for penalty in reversed(PENALTIES):
        model.set_params(C=1 / (penalty * len(fit_h))).fit(fit_h, fit_labels)
        scores[penalty] = model.score(check_h, check_labels)
    return max(scores, key=scores.__getitem__)


def _saga_probe(
    train_h: np.ndarray, train_labels: np.ndarray, test_h: np.ndarray, test_labels: np.ndarray, *, seed: int
) -> Accuracy:
    scaler = MinMaxScaler().fit(train_h)
    model = LogisticRegression(solver="saga", tol=0.1, C=10.0, random_state=seed)
    model.fit(scaler.transform(train_h), train_labels)
    predictions = model.predict(scaler.transform(test_h))
    return scored(predictions, test_labels, "linear probe, SAGA protocol", C=10.0, protocol="saga")


def _unit(h: np.ndarray) -> np.ndarray:
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), np.finfo(h.dtype).tiny)
