"""Accuracies of frozen features: which rows train a classifier, which test it, and the scores as results hold them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from vergence import evaluation, features
from vergence.diagnostics.arrays import Array
from vergence.diagnostics.reading import comparable
from vergence.evaluation.held_out import held_out
from vergence.runs import assembly, results, starting
from vergence.runs.results import RAW, STARTING, TRAINED, UNTRAINED, Score, record
from vergence.runs.run import Run

PROBED = 10_000  # samples of each split that layers are probed on, at most
FEW = 5  # labels of each class in the few-label setting

Split = tuple[Array, Array, Array, Array]  # training rows and labels, test rows and labels


def accuracies(name: str, data: Split, *, protocol: str = "lbfgs", seed: int = 0) -> Iterator[Score]:
    """Every classifier with all labels, and two of them with five a class."""
    for found, more in judgments(data, protocol=protocol, seed=seed):
        yield score(name, found, **more)


Judgment = tuple[evaluation.Accuracy, dict[str, float]]  # an accuracy, and how many labels were given where not all


def judgments(data: Split, *, protocol: str = "lbfgs", seed: int = 0) -> Iterator[Judgment]:
    """The same as they were measured, with what each classifier said of every test sample."""

    def probe(*parts: Any) -> evaluation.Accuracy:
        return evaluation.linear_probe(*parts, protocol=protocol)

    for classifier in (probe, evaluation.knn, evaluation.nearest_center):
        yield classifier(*data), {}
    for few in (evaluation.nearest_center, probe):
        yield evaluation.few_labels(*data, per_class=FEW, classifier=few, seed=seed), {"per_class": float(FEW)}


def few_labels(name: str, data: Split, *, seed: int = 0) -> Iterator[Score]:
    """The points of a curve of few labels, with the spread over draws of which samples are labeled."""
    for point in evaluation.label_curve(*data, seed=seed):
        choices = {key: point.choices[key] for key in ("per_class", "draws", "spread")}
        yield score(name, point, **choices)


def score(name: str, found: evaluation.Accuracy, **more: Any) -> Score:
    return record(Score, found.to_dict(), features=name, **more)


def labeled(run: Run, train: features.Features, test: features.Features) -> dict[str, Split]:
    """Training and test rows of the trained encoder and of its baselines."""
    sets = {TRAINED: (train, test)}
    started, file = run.path / starting.FEATURES, run.path / "baselines.safetensors"
    if started.exists():
        sets[STARTING] = (features.read(started, "train"), features.read(started, "test"))
    if file.exists():
        if features.holds(file, "untrained_train"):
            sets[UNTRAINED] = (features.read(file, "untrained_train"), features.read(file, "untrained_test"))
        if features.holds(file, "raw_train"):
            kind = (run.read_json("samples.json") or {}).get("kind", "image")
            if kind not in RAW:
                again = f"`vergence train --run {run.path} --resume` makes it again"
                raise ValueError(f"{run.path / 'samples.json'} is damaged: there are no {kind!r} samples; {again}.")
            sets[RAW[kind]] = (features.read(file, "raw_train"), features.read(file, "raw_test"))
    return {name: (seen.h, seen.labels, left.h, left.labels) for name, (seen, left) in sets.items()}


def test_rows(run: Run, test: features.Features) -> dict[str, Any]:
    """The places of the test samples in the data, for each kind of features that a run keeps."""
    file, known = run.path / "baselines.safetensors", {TRAINED: test.rows}
    if (run.path / starting.FEATURES).exists():
        known[STARTING] = features.read(run.path / starting.FEATURES, "test").rows
    if file.exists():
        if features.holds(file, "untrained_test"):
            known[UNTRAINED] = features.read(file, "untrained_test").rows
        if features.holds(file, "raw_test"):
            known |= dict.fromkeys(RAW.values(), features.read(file, "raw_test").rows)
    return known


def probed_layers(run: Run, *, protocol: str = "lbfgs") -> Iterator[results.Layer]:
    """A linear probe after every layer of the encoder and of the projector: where does the critic begin?

    Accuracy rises along the encoder and, where the objective throws away what the labels need, falls in the projector.
    At most 10,000 samples of each split are used.
    """
    parts = assembly.trained(run)
    if parts.samples.labels is None or parts.test.labels is None:
        raise ValueError(f"Probes need labels, and {parts.config.data} has none.")
    encoder, projector = parts.learner.encoder, parts.learner.projector
    chain = nn.Sequential(encoder, projector) if isinstance(projector, nn.Sequential) else encoder
    splits = (parts.samples, parts.test)
    rows = [features.by_layer(chain, samples, parts.recipe, limit=PROBED) for samples in splits]
    seen, left = (samples.labels[features.rows_of(samples, PROBED)] for samples in splits)
    depth = len(features.by_layer(encoder, parts.test, parts.recipe, limit=2))
    for number, (train, test) in enumerate(zip(*rows, strict=True), 1):
        accuracy = evaluation.linear_probe(train, seen, test, left, protocol=protocol)
        part = f"encoder {number}" if number <= depth else f"projector {number - depth}"
        yield record(results.Layer, accuracy.to_dict(), layer=part, width=train.shape[1])


def judgeable(train: features.Features, test: features.Features) -> bool:
    """Whether classifiers can be trained and tested: at least two classes, and not a class for every sample."""
    if train.labels is None or test.labels is None or len(train.labels.unique()) < 2:
        return False
    return comparable(torch.cat([train.labels, test.labels]))


def split(h: Array, labels: Array | None, *, seed: int) -> Split | None:
    """Four fifths of the rows to train on and the rest to test; None where there are no classes to tell apart."""
    if labels is None:
        return None
    values = np.asarray(labels)
    codes = np.unique(values, return_inverse=True)[1]
    if not comparable(torch.from_numpy(codes)):
        return None
    fit, left = held_out(len(values), 0.2, seed=seed)
    return (h[fit], values[fit], h[left], values[left]) if len(np.unique(values[fit])) > 1 else None
