"""The examination: all that can be said of embeddings, in the order a person needs it: verdict, evidence, advice."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from torch import Tensor

from vergence import evaluation
from vergence.diagnostics import faults, parts
from vergence.diagnostics.arrays import Array, labels_for, shape
from vergence.diagnostics.faults import Finding
from vergence.diagnostics.recommendations import recommendations

WHOLE = ("thermometer", "spectrum", "collapse")  # measured things with a place of their own in results.json
CLASSIFIERS = (evaluation.linear_probe, evaluation.knn, evaluation.nearest_centre)
FEW = 5  # labels of each class in the few-label setting

Split = tuple[Array, Array, Array, Array]  # training rows and labels, test rows and labels


@dataclass(frozen=True)
class Examination:
    """What was found. ``to_dict()`` is the content of results.json."""

    label: str
    sentence: str
    evidence: tuple[str, ...]
    findings: tuple[Finding, ...]
    measured: Mapping[str, Any]
    accuracy: tuple[Mapping[str, Any], ...]
    few_labels: tuple[Mapping[str, Any], ...]
    recommendations: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of the faults, gravest first."""
        return tuple(finding.fault for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        wholes = {name: self.measured[name].to_dict() for name in WHOLE if name in self.measured}
        numbers = {name: _plain(value) for name, value in self.measured.items() if name not in WHOLE}
        return _without_nan(
            {
                "verdict": {"label": self.label, "sentence": self.sentence, "evidence": list(self.evidence)},
                "faults": list(self.faults),
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
    n, _ = shape(h)
    if (z1 is None) != (z2 is None):
        raise ValueError("Give both views, z1 and z2, or neither")
    if z1 is not None and z2 is not None and not (shape(z1, "z1") == shape(z2, "z2") and len(z1) == n):
        raise ValueError(f"z1 {list(z1.shape)} and z2 {list(z2.shape)} must be alike, with a row for each of {n} of h")
    targets = labels_for(labels, n) if labels is not None else None
    looks = [parts.representation(h, seed=seed)]
    if z1 is not None:
        projected = projector is None or bool(projector)
        looks.append(parts.views(h, z1, z2, projected=projected, compared=compared, seed=seed))
    if targets is not None:
        looks.append(parts.classes(h, targets, seed=seed))
    if objective is not None:
        looks.append(parts.reading(z1, z2, targets, objective, loss=loss, batch=batch, seed=seed, **hyperparameters))
    if projector is not None:
        looks.append(parts.Part({}, (faults.frozen_projector(projector),)))
    measured = {name: value for look in looks for name, value in look.measured.items()}
    found = {finding.fault: finding for look in looks for finding in look.findings if finding is not None}
    findings = tuple(sorted(found.values(), key=lambda finding: faults.GRAVITY.index(finding.fault)))
    label, sentence, evidence = verdict(findings, measured, n=n)
    data = _split(h, labels, train_h, train_labels, seed=seed) if classifiers else None
    accuracy = tuple(accuracies(data, classifiers=classifiers, protocol=protocol, seed=seed)) if data else ()
    few = tuple(few_labels("representations", data, seed=seed)) if data else ()
    advice = recommendations(findings, measured)
    return Examination(label, sentence, evidence, findings, measured, accuracy, few, advice, _notes(n, measured))


def verdict(findings: tuple[Finding, ...], measured: Mapping[str, Any], *, n: int) -> tuple[str, str, tuple[str, ...]]:
    """A label, one sentence a person can act on, and the evidence: the gravest fault, else where the loss stands."""
    scale = measured.get("thermometer")
    if findings:
        collapse = findings[0].fault.endswith("collapse")
        label = "collapsed" if collapse else "impossible" if findings[0].fault == "impossible loss" else "faulty"
        sentence = f"{findings[0].fault.capitalize()}. {findings[0].advice}"
        return label, sentence, tuple(finding.sentence for finding in findings)
    evidence = (*measured["collapse"].evidence, *_matching_evidence(measured))
    if scale is None or scale.verdict == "unknown":
        judge = "the accuracies say" if "tolerance" in measured else "labels would say"
        return "healthy", f"No fault found in {n:,} rows; {judge} what they are good for.", evidence
    if scale.verdict in ("collapsed", "not started"):
        sentence = f"The loss {scale.loss:.4g} is that of collapse ({scale.chance:.4g}), but rows are apart: train on."
        return "not started", sentence, (scale.sentence, *evidence)
    return scale.verdict, f"No fault found: {scale.sentence}", evidence


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
    return data if len(np.unique(np.asarray(data[1]))) > 1 else None


def _matching_evidence(measured: Mapping[str, Any]) -> tuple[str, ...]:
    match, mapped = (measured.get(name) for name in ("matching", "matching_through_a_map"))
    if match is None:
        return ()
    found, how = (match, "") if mapped is None else (mapped, ", seen through a linear map")
    return (f"A sample's own other view is the closer one in {100 * found.value:.1f} % of comparisons{how}.",)


def _notes(n: int, measured: Mapping[str, Any]) -> tuple[str, ...]:
    """What was sampled, and what could not be known."""
    sampling = (
        "All rows were compared with each other; nothing was sampled."
        if n <= parts.PAIRS
        else f"Spectrum, lengths and exact duplicates are of all {n:,} rows. Pairs are those of {parts.PAIRS:,} rows "
        "drawn at random with at most 50,000 others; their intervals hold the error of the sample."
    )
    contradicted = measured.get("confident_errors", {"overall": 0.0})["overall"]
    if contradicted <= faults.HIDDEN:
        return (sampling,)
    blind = (
        f"Neighbours contradict {100 * contradicted:.0f} % of the labels: in these features wrong labels cannot be "
        "told from classes that overlap, so label noise was not looked for."
    )
    return sampling, blind


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return {"value": value} if isinstance(value, int | float) else value


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: nothing known is null."""
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
