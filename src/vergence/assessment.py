"""After training: a run's features and its baselines' as files, and from those files alone its results."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn.functional import normalize

from vergence import assembly, evaluation, features, training
from vergence.assembly import Assembled
from vergence.examination import FEW, Split, examine, few_labels
from vergence.methods import customised
from vergence.run import Run
from vergence.theory import Certificate, generalisation_bound, limit_of_contrastive

BASELINE_SAMPLES = 10_000  # the untrained encoder and the raw pixels are compared on at most this many samples


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
    baselines: dict[str, torch.Tensor] = {}
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


def assess(run: Run) -> dict[str, Any]:
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
    results["certificates"] = [certificate.to_dict() for certificate in certificates(file)]
    if train.labels is not None and test.labels is not None:
        sets = labelled(run, train, test)
        results["accuracy"] = [row for name, arrays in sets.items() for row in accuracies(name, arrays)]
        results["few_labels"] = [row for name, arrays in sets.items() for row in few_labels(name, arrays)]
    results |= run.read_json("samples.json") or {}
    run.write_json("results.json", results)
    return results


def certificates(file: Path) -> Iterator[Certificate]:
    """The theorems that a run's features can be held against."""
    stored = load_file(file)
    if "test_labels" in stored and "test_views" in stored:
        stacks = stored["test_views"]
        if stacks.any(2).all():  # the theorem is about directions, and nought has none
            yield generalisation_bound(stacks, stored["test_labels"][: len(stacks)])
    if "test_z1" in stored and "test_z2" in stored:
        z1, z2 = (normalize(stored[name], dim=1) for name in ("test_z1", "test_z2"))
        yield limit_of_contrastive(z1, z2)


def _projector(run: Run) -> dict[str, torch.Tensor] | None:
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


def accuracies(name: str, arrays: Split) -> Iterator[dict[str, Any]]:
    """Every classifier with all labels, and with five a class."""
    for classifier in (evaluation.linear_probe, evaluation.knn, evaluation.nearest_centre):
        yield {"features": name, "labels": "all", **classifier(*arrays).to_dict()}
    for classifier in (evaluation.nearest_centre, evaluation.linear_probe):
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
