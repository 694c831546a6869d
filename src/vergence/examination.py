"""The examination: all that can be said of embeddings, in the order a person needs it: verdict, evidence, advice."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor

from vergence import evaluation
from vergence.diagnostics import Diagnosis, Finding, diagnose
from vergence.diagnostics.arrays import Array
from vergence.diagnostics.label_trials import comparable
from vergence.diagnostics.measures import plain
from vergence.diagnostics.recommendations import recommendations

WHOLE = ("thermometer", "spectrum", "collapse")  # measured things with a place of their own in results.json
CLASSIFIERS = (evaluation.linear_probe, evaluation.knn, evaluation.nearest_centre)
FEW = 5  # labels of each class in the few-label setting

Split = tuple[Array, Array, Array, Array]  # training rows and labels, test rows and labels


@dataclass(frozen=True)
class Examination:
    """What was found. ``to_dict()`` is the content of results.json."""

    diagnosis: Diagnosis
    accuracy: tuple[Mapping[str, Any], ...]
    few_labels: tuple[Mapping[str, Any], ...]
    recommendations: tuple[Mapping[str, Any], ...]

    @property
    def label(self) -> str:
        return self.diagnosis.verdict.label

    @property
    def sentence(self) -> str:
        return self.diagnosis.verdict.sentence

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.diagnosis.findings

    @property
    def measured(self) -> Mapping[str, Any]:
        return {name: entry.value for name, entry in self.diagnosis.measured.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was sampled, and what could not be known."""
        unknown = tuple(finding.sentence for finding in self.findings if finding.level == "unknown")
        return (*self.diagnosis.notes, *unknown)

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of the faults, gravest first."""
        return self.diagnosis.faults

    def to_dict(self) -> dict[str, Any]:
        wholes = {name: self.measured[name].to_dict() for name in WHOLE if name in self.measured}
        numbers = {name: plain(value) for name, value in self.measured.items() if name not in WHOLE}
        return _without_nan(
            {
                "verdict": self.diagnosis.verdict.to_dict(),
                "verdicts": {about: verdict.to_dict() for about, verdict in self.diagnosis.groups.items()},
                "faults": list(self.faults),
                "findings": [finding.to_dict() for finding in self.findings],
                **wholes,
                "accuracy": list(self.accuracy),
                "few_labels": list(self.few_labels),
                "diagnostics": numbers,
                "recommendations": list(self.recommendations),
                "notes": list(self.notes),
            }
        )


def examine(
    h: Array,
    *,
    z1: Array | None = None,
    z2: Array | None = None,
    labels: Array | None = None,
    objective: str | None = None,
    loss: float | None = None,
    train_h: Array | None = None,
    train_labels: Array | None = None,
    batch: int | None = None,
    projector: Mapping[str, Tensor] | None = None,
    compared: bool = True,
    classifiers: tuple[Callable[..., evaluation.Accuracy], ...] = CLASSIFIERS,
    protocol: str = "lbfgs",
    seed: int = 0,
    **hyperparameters: Any,
) -> Examination:
    """Examine representations ``h``; embeddings ``z1, z2`` of two views, labels, an objective and its loss add to it.

    ``projector`` is the state dict of the projection head, empty where there is none; ``compared`` says whether
    training compared the views of a sample. Everything should be held out: of samples that the encoder was not trained
    on. Where there are too many rows to compare all, a sample is compared; the notes say so, and the intervals hold the
    error.
    """
    diagnosis = diagnose(
        h, z1=z1, z2=z2, labels=labels, objective=objective, loss=loss, batch=batch, projector=projector,
        compared=compared, seed=seed, **hyperparameters,
    )  # fmt: skip
    data = _split(h, labels, train_h, train_labels, seed=seed) if classifiers else None
    accuracy = tuple(accuracies(data, classifiers=classifiers, protocol=protocol, seed=seed)) if data else ()
    few = tuple(few_labels("representations", data, seed=seed)) if data else ()
    trained = objective is not None or projector is not None
    return Examination(
        diagnosis, accuracy, few, recommendations(diagnosis.findings, diagnosis.measured, trained=trained)
    )


def accuracies(
    data: Split,
    *,
    classifiers: tuple[Callable[..., evaluation.Accuracy], ...],
    protocol: str = "lbfgs",
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Rows of the table of accuracies; ``protocol`` is how linear probes are fitted."""
    for classifier in classifiers:
        options = {"protocol": protocol} if classifier is evaluation.linear_probe else {}
        yield {"features": "representations", "labels": "all", **classifier(*data, **options).to_dict()}
    few = evaluation.few_labels(*data, per_class=FEW, seed=seed)
    yield {"features": "representations", "labels": f"{FEW} per class", **few.to_dict()}


def few_labels(features: str, data: Split, *, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The points of a curve of few labels, with the spread over draws of which samples are labelled."""
    for point in evaluation.label_curve(*data, seed=seed):
        choices = {name: point.choices[name] for name in ("per_class", "draws", "spread")}
        yield {"features": features, **choices, **point.to_dict()}


def _split(
    h: Array, labels: Array | None, train_h: Array | None, train_labels: Array | None, *, seed: int
) -> Split | None:
    """Training rows and test rows; without training rows, four fifths of ``h`` serve, and the rest is tested."""
    if labels is None:
        return None
    values = np.asarray(labels)
    data = (train_h, train_labels, h, values)
    if train_h is None or train_labels is None:
        fit, held_out = train_test_split(np.arange(len(values)), test_size=0.2, random_state=seed)
        data = (h[fit], values[fit], h[held_out], values[held_out])
    few = len(np.unique(np.asarray(data[1]))) < 2 or not comparable(
        torch.from_numpy(np.unique(values, return_inverse=True)[1])
    )
    return None if few else data


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: nothing known is null."""
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
