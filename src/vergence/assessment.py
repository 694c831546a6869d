"""After training: a run's features and its baselines' as files, and from those files alone its results."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import normalize

from vergence import assembly, evaluation, features, training
from vergence.assembly import Assembled
from vergence.diagnostics.arrays import labels_for
from vergence.examination import FEW, Split, examine, few_labels
from vergence.methods import customised
from vergence.run import Run
from vergence.theory import Certificate, generalisation_bound, limit_of_contrastive

BASELINE_SAMPLES = 10_000  # the untrained encoder and the raw pixels are compared on at most this many samples
CERTIFIED = 300  # rows of anyone's embeddings that theorems are held against, as many as a run keeps views of


def freeze(parts: Assembled, run: Run) -> None:
    """Freeze the run's features, and those of its baselines, into two files."""
    learner, recipe = parts.learner, parts.recipe
    train = features.extract(learner.encoder, parts.samples, recipe)
    test = features.extract(learner.encoder, parts.test, recipe, branches=learner.branches, seed=parts.config.seed)
    pictures = features.thumbnails(parts.test)
    stacks = features.of_views(learner.encoder, parts.test, recipe, seed=parts.config.seed)
    trained = {**train.tensors("train"), **test.tensors("test"), "test_views": stacks, **pictures}
    features.save(run.path / "features.safetensors", trained)
    run.write_json("samples.json", _facts(parts))
    encoder = assembly.untrained(parts)
    baselines: dict[str, Tensor] = {}
    for split, samples in (("train", parts.samples), ("test", parts.test)):
        made = features.extract(encoder, samples, parts.recipe, limit=BASELINE_SAMPLES)
        baselines |= made.tensors(f"untrained_{split}")
        if samples.kind != "text":
            raw = features.pixels(samples, parts.recipe, limit=BASELINE_SAMPLES)
            labels = None if made.labels is None else made.labels.clone()  # safetensors refuses shared memory
            baselines |= features.Features(raw, labels=labels).tensors(f"raw_{split}")
    features.save(run.path / "baselines.safetensors", baselines)


def _facts(parts: Assembled) -> dict[str, Any]:
    """What the page says about the samples besides their features."""
    names = parts.test.names
    return {
        "classes": list(parts.test.classes),
        "names": None if names is None else [str(name) for name in names[: features.THUMBNAILS]],
        "skipped": [list(pair) for pair in parts.samples.skipped + parts.test.skipped],
    }


def assess(run: Run, *, protocol: str = "lbfgs") -> dict[str, Any]:
    """Diagnose a run from its files alone, and leave results.json."""
    config, file = run.config, run.path / "features.safetensors"
    if not file.exists():
        raise FileNotFoundError(
            f"{run.path} has no features yet: `vergence train --run {run.path} --resume` makes them."
        )
    train, test = features.read(file, "train"), features.read(file, "test")
    rows = run.rows()
    final = [row["loss"] for row in rows if row["epoch"] > rows[-1]["epoch"] - 1]
    method = customised(config.method, heads=config.heads, objective=config.objective)
    results = examine(
        test.h,
        z1=test.z1,
        z2=test.z2,
        labels=test.labels,
        train_h=train.h,
        train_labels=train.labels,
        objective=method.objective,
        loss=float(np.mean(final)) if final else None,
        batch=config.batch,
        seed=config.seed,
        classifiers=(),
        projector=_projector(run),
        compared=method.compares,
        **(method.reading() if method.objective is not None else {}),
    ).to_dict()
    results = certified(results, load_file(file))
    if train.labels is not None and test.labels is not None:
        sets = labelled(run, train, test)
        results["accuracy"] = [
            row for name, arrays in sets.items() for row in accuracies(name, arrays, protocol=protocol)
        ]
        results["few_labels"] = [row for name, arrays in sets.items() for row in few_labels(name, arrays)]
    results |= run.read_json("samples.json") or {}
    run.write_json("results.json", results)
    return results


def certified(results: Mapping[str, Any], stored: Mapping[str, Tensor]) -> dict[str, Any]:
    """Results with the theorems that features can be held against; a violated one is evidence beside the verdict's."""
    found = list(certificates(stored))
    violated = [f"Violated: {c.statement}: {c.left:.3g} > {c.right:.3g}." for c in found if not c.holds]
    verdict = {**results["verdict"], "evidence": [*results["verdict"]["evidence"], *violated]}
    return {**results, "verdict": verdict, "certificates": [certificate.to_dict() for certificate in found]}


def certificates(stored: Mapping[str, Tensor]) -> Iterator[Certificate]:
    """The theorems that features can be held against, named as in a run's file of features."""
    if "test_labels" in stored and "test_views" in stored:
        stacks = stored["test_views"]
        labels = stored["test_labels"][: len(stacks)]
        counts = labels.unique(return_counts=True)[1]
        # The theorem is about directions, and nought has none; a main part takes two samples.
        if stacks.any(2).all() and len(counts) > 1 and counts.min() > 1:
            yield generalisation_bound(stacks, labels)
    if "test_z1" in stored and "test_z2" in stored:
        z1, z2 = (stored[name] for name in ("test_z1", "test_z2"))
        if z1.any(1).all() and z2.any(1).all():
            yield limit_of_contrastive(normalize(z1, dim=1), normalize(z2, dim=1))


def pairs(z1: Any, z2: Any, labels: Any = None) -> dict[str, Tensor]:
    """Embeddings of two views of each sample, the first of many, named as in a run's file of features."""
    if z1 is None or z2 is None:
        return {}
    first, second = (torch.as_tensor(np.asarray(z[:CERTIFIED])).float() for z in (z1, z2))
    stored = {"test_z1": first, "test_z2": second, "test_views": torch.stack((first, second), 1)}
    return stored if labels is None else {**stored, "test_labels": labels_for(labels, len(z1))}


def _projector(run: Run) -> dict[str, Tensor] | None:
    """The weights of the projection head, in which a frozen one shows; empty where there is no head."""
    checkpoint = run.load(best=True)
    if checkpoint is None:
        return None
    prefix = "model.projector."
    return {name.removeprefix(prefix): value for name, value in checkpoint.tensors.items() if name.startswith(prefix)}


def labelled(run: Run, train: features.Features, test: features.Features) -> dict[str, Split]:
    """Training and test rows of the trained encoder and of its baselines."""
    sets = {"trained encoder": (train, test)}
    file = run.path / "baselines.safetensors"
    if file.exists():
        sets["untrained encoder"] = (features.read(file, "untrained_train"), features.read(file, "untrained_test"))
        if features.holds(file, "raw_train"):
            sets["raw pixels"] = (features.read(file, "raw_train"), features.read(file, "raw_test"))
    return {name: (seen.h, seen.labels, left.h, left.labels) for name, (seen, left) in sets.items()}


def accuracies(name: str, arrays: Split, *, protocol: str = "lbfgs") -> Iterator[dict[str, Any]]:
    """Every classifier with all labels, and with five a class."""
    probe = partial(evaluation.linear_probe, protocol=protocol)
    for classifier in (probe, evaluation.knn, evaluation.nearest_centre):
        yield {"features": name, "labels": "all", **classifier(*arrays).to_dict()}
    for classifier in (evaluation.nearest_centre, probe):
        few = evaluation.few_labels(*arrays, per_class=FEW, classifier=classifier)
        yield {"features": name, "labels": f"{FEW} per class", **few.to_dict()}


def trained(run: Run) -> Assembled:
    """The parts of a finished run with its weights: the best, where a criterion was set, or the last."""
    parts = assembly.assemble(run.config)
    checkpoint = run.load(best=True)
    if checkpoint is None:
        raise FileNotFoundError(f"{run.path} has no checkpoint yet: train it first, or continue it with --resume.")
    training.restore(parts.learner, None, checkpoint.tensors)
    return parts
