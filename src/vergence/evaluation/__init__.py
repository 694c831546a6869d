"""What frozen features are worth downstream: classifiers on top of them, with intervals. Labels needed.

Arrays or tensors go in; every classifier returns an :class:`Accuracy`. Nothing here trains the encoder.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler
from torch import Tensor

from vergence.diagnostics import estimate
from vergence.tables import Table

Array = Any  # a numpy array or a torch tensor

# Penalties on the mean cross-entropy of features scaled to unit mean square: from "none to speak of" to "heavy".
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
LABELS = (1, 2, 5, 10, 20, 50)  # of each class, along a curve of few labels
TILE = 1024  # queries per tile: 1024 x 50,000 float32 scores are 200 MB


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The share of test samples classified correctly, in [0, 1], with a 95 % interval over the drawing of test samples.

    The interval is Wilson's; it does not include the luck of the training run.
    """

    accuracy: float
    interval: tuple[float, float]
    n: int
    predictions: np.ndarray
    classifier: str
    choices: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {"classifier": self.classifier, "accuracy": self.accuracy, "low": low, "high": high, "n": self.n}


def linear_probe(
    train_h: Array,
    train_labels: Array,
    test_h: Array,
    test_labels: Array,
    *,
    regularization: float | None = None,
    protocol: str = "lbfgs",
    seed: int = 0,
) -> Accuracy:
    r"""Multinomial logistic regression on frozen features: minimizes mean cross-entropy + regularization x ||W||^2 / 2.

    Features are centered and divided by their root mean square first; with an unpenalized bias the centering changes
    nothing but the number of steps. With ``regularization=None`` it is chosen on a fifth of the training samples, then
    the probe is fitted on all of them. ``protocol="saga"`` is the one of Tschannen et al. instead: features scaled to
    [0, 1], C = 10, tolerance 0.1.

    References:
        Tschannen et al. (2020), the official notebook. https://arxiv.org/abs/1907.13625
    """
    (train_h, train_labels), (test_h, test_labels) = _pairs(train_h, train_labels, test_h, test_labels)
    if protocol == "saga":
        return _saga_probe(train_h, train_labels, test_h, test_labels, seed=seed)
    if protocol != "lbfgs":
        raise ValueError(f"Unknown protocol {protocol!r}. Known: lbfgs, saga")
    center = train_h.mean(axis=0, dtype=np.float64).astype(train_h.dtype)
    scale = float(np.sqrt(np.mean(np.square(train_h - center), dtype=np.float64))) or 1.0
    train_h, test_h = (train_h - center) / scale, (test_h - center) / scale
    if regularization is None:
        regularization = _chosen_penalty(train_h, train_labels, seed=seed)
    model = _logistic(regularization, len(train_h)).fit(train_h, train_labels)
    predictions = model.predict(test_h)
    return _scored(predictions, test_labels, "linear probe", regularization=regularization, protocol=protocol)


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
    (train_h, train_labels), (test_h, test_labels) = _pairs(train_h, train_labels, test_h, test_labels)
    classes, targets = np.unique(train_labels, return_inverse=True)
    bank, queries = (torch.nn.functional.normalize(torch.from_numpy(h), dim=1) for h in (train_h, test_h))
    votes = _votes(queries, bank, torch.from_numpy(targets), len(classes), k=min(k, len(bank)), temperature=temperature)
    return _scored(classes[votes.argmax(dim=1).numpy()], test_labels, "kNN", k=k, temperature=temperature)


@dataclass(frozen=True, eq=False)
class NearestCenter(Accuracy):
    """Accuracy of the nearest class center, with the linear classifier that it equals: ``weight @ h + bias``."""

    classes: np.ndarray = field(default_factory=lambda: np.empty(0))
    weight: np.ndarray = field(default_factory=lambda: np.empty(0))
    bias: np.ndarray = field(default_factory=lambda: np.empty(0))


def nearest_center(
    train_h: Array, train_labels: Array, test_h: Array, test_labels: Array, *, normalize: bool = True
) -> NearestCenter:
    r"""The class whose training mean is nearest: argmin ||h - mu_k|| = argmax mu_k . h - ||mu_k||^2 / 2.

    Features are put on the unit sphere first, as the theory has them.

    References:
        Huang et al. (2023), Sec. 2. https://arxiv.org/abs/2111.00743
    """
    (train_h, train_labels), (test_h, test_labels) = _pairs(train_h, train_labels, test_h, test_labels)
    if normalize:
        train_h, test_h = _unit(train_h), _unit(test_h)
    classes = np.unique(train_labels)
    weight = np.stack([train_h[train_labels == label].mean(axis=0, dtype=np.float64) for label in classes])
    bias = -np.square(weight).sum(axis=1) / 2
    scored = _scored(classes[(test_h @ weight.T + bias).argmax(axis=1)], test_labels, "nearest center")
    return NearestCenter(**vars(scored), classes=classes, weight=weight, bias=bias)


nearest_centre = nearest_center  # as it was spelled in the first release

EVALUATIONS = Table(
    "evaluation", {"linear probe": linear_probe, "kNN": knn, "nearest center": nearest_center}, room="evaluation"
)


def few_labels(
    train_h: Array,
    train_labels: Array,
    test_h: Array,
    test_labels: Array,
    *,
    per_class: int = 5,
    draws: int = 10,
    classifier: Callable[..., Accuracy] = nearest_center,
    seed: int = 0,
) -> Accuracy:
    """Mean accuracy of a classifier that sees ``per_class`` labels of each class, over several draws of them.

    The interval is Student's over the draws: the luck of which samples were labeled. Predictions are the last draw's.
    """
    (train_h, train_labels), (test_h, test_labels) = _pairs(train_h, train_labels, test_h, test_labels)
    generator = np.random.default_rng(seed)
    results = []
    for _ in range(draws):
        chosen = _per_class(train_labels, per_class, generator)
        results.append(classifier(train_h[chosen], train_labels[chosen], test_h, test_labels))
    accuracies = np.array([result.accuracy for result in results])
    low, high = _student(accuracies)
    last = results[-1]
    spread = float(accuracies.std(ddof=1)) if draws > 1 else 0.0
    choices = {"per_class": per_class, "draws": draws, "spread": spread}
    return Accuracy(float(accuracies.mean()), (low, high), last.n, last.predictions, last.classifier, choices)


def label_curve(
    train_h: Array,
    train_labels: Array,
    test_h: Array,
    test_labels: Array,
    *,
    counts: Sequence[int] = LABELS,
    draws: int = 10,
    classifier: Callable[..., Accuracy] = nearest_center,
    seed: int = 0,
) -> tuple[Accuracy, ...]:
    """Accuracy against labels a class: ``few_labels`` at each of ``counts`` that every class has, and at last all.

    ``per_class`` of the last point is the mean over classes, and its interval is the classifier's own.
    """
    data = (train_h, train_labels, test_h, test_labels)
    _, available = np.unique(_numpy(train_labels), return_counts=True)
    known = [count for count in counts if count <= available.min() and count < available.mean()]
    curve = [few_labels(*data, per_class=count, draws=draws, classifier=classifier, seed=seed) for count in known]
    everything = classifier(*data)
    choices = {**everything.choices, "per_class": float(available.mean()), "draws": 1, "spread": 0.0}
    return *curve, replace(everything, choices=choices)


def layers(
    train: Mapping[str, Array], train_labels: Array, test: Mapping[str, Array], test_labels: Array, **options: Any
) -> dict[str, Accuracy]:
    """A linear probe on every layer, by name: where does what these labels need begin, and where does it end?"""
    return {name: linear_probe(train[name], train_labels, test[name], test_labels, **options) for name in train}


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
    return _scored(predictions, test_labels, "linear probe, SAGA protocol", C=10.0, protocol="saga")


def _scored(predictions: np.ndarray, labels: np.ndarray, classifier: str, **choices: Any) -> Accuracy:
    correct, n = int((predictions == labels).sum()), len(labels)
    return Accuracy(correct / n, estimate.wilson(correct / n, n), n, predictions, classifier, choices)


def _student(values: np.ndarray) -> tuple[float, float]:
    if len(values) < 2:
        return 0.0, 1.0
    low, high = estimate.mean(values).interval
    return max(0.0, low), min(1.0, high)


def _per_class(labels: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    chosen = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen.append(generator.choice(members, size=min(count, len(members)), replace=False))
    return np.concatenate(chosen)


def _unit(h: np.ndarray) -> np.ndarray:
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), np.finfo(h.dtype).tiny)


def _pairs(
    train_h: Array, train_labels: Array, test_h: Array, test_labels: Array
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Both splits as checked numpy arrays."""
    train, test = _checked(train_h, train_labels, "train"), _checked(test_h, test_labels, "test")
    if train[0].shape[1] != test[0].shape[1]:
        raise ValueError(f"train_h has {train[0].shape[1]} columns, test_h has {test[0].shape[1]}: expected as many")
    if len(np.unique(train[1])) < 2:
        raise ValueError(f"All {len(train[1])} training labels are {train[1][0]!r}: a classifier needs two classes")
    return train, test


def _checked(h: Array, labels: Array, split: str) -> tuple[np.ndarray, np.ndarray]:
    h, labels = _numpy(h), _numpy(labels)
    if h.ndim != 2 or not len(h):
        raise ValueError(f"{split}_h must be rows of features [n, d], not an array of shape {list(h.shape)}")
    if labels.shape != (len(h),):
        raise ValueError(f"{split}_h has {len(h)} rows, but {split}_labels has the shape {list(labels.shape)}")
    h = h.astype(np.float32 if h.dtype != np.float64 else np.float64, copy=False)
    bad = np.flatnonzero(~np.isfinite(h).all(axis=1))
    if len(bad):
        raise ValueError(f"{len(bad)} of {len(h)} rows of {split}_h hold NaN or infinity, first at row {bad[0]}")
    return h, labels


def _numpy(values: Array) -> np.ndarray:
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()
