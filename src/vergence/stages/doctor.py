"""``vergence doctor``: what you have; of a run, of arrays, of a loss, of several. The verdict, then its evidence."""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import normalize

from vergence import evaluation, features, tables, values
from vergence import report as pages
from vergence.data.embeddings import read_embeddings
from vergence.data.files import label_file, label_values, usable_numbers
from vergence.diagnostics import faults, parts, thermometer
from vergence.diagnostics.arrays import Array, labels_for, shape
from vergence.diagnostics.faults import Finding
from vergence.diagnostics.recommendations import recommendations
from vergence.diagnostics.thermometer import Verdict
from vergence.methods import customized
from vergence.report.plain import spoken
from vergence.runs import assembly
from vergence.runs.results import Answer
from vergence.runs.run import Run
from vergence.stages import compare
from vergence.theory import Certificate, generalization_bound, limit_of_contrastive

BASELINE_SAMPLES = 10_000  # samples of each split that layers are probed on, at most
CERTIFIED = 300  # rows of anyone's embeddings that theorems are held against, as many as a run keeps views of
WHOLE = ("thermometer", "spectrum", "collapse")  # measured things with a place of their own in results.json
CLASSIFIERS = (evaluation.linear_probe, evaluation.knn, evaluation.nearest_center)
FEW = 5  # labels of each class in the few-label setting

WIDTH = 128  # dimensions of the embeddings that a loss alone is taken to come from
LABELS = ("collapsed", "impossible", "faulty", "healthy", *get_args(Verdict))  # every word a verdict may be

# Which options each kind of target uses; any other is refused by name.
USED = {
    "run": {"layers"},
    "several": {"labels", "drop_nan", "layers"},
    "embeddings": {"labels", "second_view", "z1", "z2", "objective", "loss", "batch", "drop_nan", "output"},
    "encoder": {"data", "labels", "second_view", "z1", "z2", "objective", "loss", "batch", "drop_nan", "output"},
    "loss": {"objective", "loss", "batch", "width"},
}
KINDS = {
    "run": "a run, which has labels, views and a loss of its own",
    "several": "several runs or files",
    "embeddings": "embeddings",
    "encoder": "an encoder",
    "loss": "a loss alone",
}

Split = tuple[Array, Array, Array, Array]  # training rows and labels, test rows and labels


def doctor(
    target: Array | None = None,
    others: tuple[str, ...] = (),
    *,
    labels: Array | None = None,
    second_view: Array | None = None,
    z1: Array | None = None,
    z2: Array | None = None,
    objective: str | None = None,
    loss: float | None = None,
    batch: int | None = None,
    width: int = WIDTH,
    drop_nan: bool = False,
    fail_on: str = "",
    output: Path | None = None,
    data: Array | None = None,
    layers: bool = False,
    protocol: Literal["lbfgs", "saga"] = "lbfgs",
    **hyperparameters: Any,
) -> Answer:
    """Say what you have: a run, anyone's embeddings, or a loss alone; the verdict first, then its evidence.

    ``target`` is a run directory, a file of embeddings, or an array of representations ``h``; ``z1`` and ``z2`` are the
    embeddings of two views of the same samples (``second_view`` pairs ``target`` itself with another view). From
    Python, ``target`` may be an encoder, with the ``data`` to encode. With ``others``, runs or files, all are ranked.
    """
    given = {
        "labels": labels, "second_view": second_view, "z1": z1, "z2": z2, "objective": objective, "loss": loss,
        "batch": batch, "width": None if width == WIDTH else width, "drop_nan": drop_nan or None, "output": output,
        "data": data, "layers": layers or None,
    }  # fmt: skip
    refuse_unused(target_kind(target, others), {name for name, value in given.items() if value is not None})
    _check_alarms(fail_on)
    hyperparameters = _checked_hyperparameters(objective, hyperparameters)
    if others:
        choices = {"labels": labels, "drop_nan": drop_nan, "fail_on": fail_on, "layers": layers, "protocol": protocol}
        return _ranked((target, *others), **choices)
    if isinstance(target, torch.nn.Module):
        target = features.encoded(target, _embeddings(data, drop_nan=drop_nan))
    if target is None:
        results = _loss_alone(objective, loss, batch=batch, width=width, **hyperparameters)
    elif isinstance(target, str | Path) and (Path(target) / "config.yaml").exists():
        results = of_run(Run(target), protocol=protocol)
        if layers:
            results["layers"] = probed_layers(Run(target), protocol=protocol)
            Run(target).write_json("results.json", results)
        pages.write(target)
    else:
        h, z1, z2 = (_embeddings(source, drop_nan=drop_nan) for source in (target, z1, z2))
        if second_view is not None:
            z1, z2 = h, _embeddings(second_view, drop_nan=drop_nan)
        options = {"objective": objective, "loss": loss, "batch": batch, "protocol": protocol, **hyperparameters}
        labels = _labels(labels)
        results = certified(examine(h, z1=z1, z2=z2, labels=labels, **options).to_dict(), pairs(z1, z2, labels))
        if output is not None:
            Path(output).mkdir(parents=True, exist_ok=True)
            Run(output).write_json("results.json", results)
            features.save(Path(output) / "features.safetensors", features.from_arrays(h, labels).tensors("test"))
            pages.write(output)
    return Answer(tuple(spoken(results)), results, failed=_alarmed(results, fail_on))


def target_kind(target: Any, others: tuple[str, ...] = ()) -> str:
    """What the doctor is asked about, as a key of USED."""
    if others:
        return "several"
    if target is None:
        return "loss"
    if isinstance(target, torch.nn.Module):
        return "encoder"
    is_run = isinstance(target, str | Path) and (Path(target) / "config.yaml").exists()
    return "run" if is_run else "embeddings"


def refuse_unused(kind: str, given: set[str]) -> None:
    """Refuse options that the target would ignore: whoever gave one believes that it counted."""
    unused = sorted(given - USED[kind])
    if unused:
        words = ", ".join(f"--{name.replace('_', '-')}" for name in unused)
        raise ValueError(f"{words} would not be used: the target is {KINDS[kind]}.")
    if kind in ("embeddings", "encoder") and given & {"loss", "batch"} and "objective" not in given:
        raise ValueError("--loss and --batch are read with --objective NAME, which is missing.")
    if "second_view" in given and given & {"z1", "z2"}:
        raise ValueError(
            "--second-view pairs the target itself with another view; give it, or --z1 and --z2, not both."
        )


def _checked_hyperparameters(objective: str | None, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters of an objective, each of its type and in range."""
    known = tables.keywords("objectives", objective) if objective else {}
    plain = {name: parameter for name, parameter in known.items() if name != "negatives"}
    given = {key: value for key, value in hyperparameters.items() if value is not None}
    return values.checked(given, plain, objective or "")


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
    notes = _notes(n, measured)
    if labels is not None and classifiers and data is None:
        seen = labels if train_labels is None else train_labels
        notes += (unclassifiable(seen, labels) or "Too few samples share a class, so accuracies are left out.",)
    return Examination(label, sentence, evidence, findings, measured, accuracy, few, advice, notes)


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
    """The points of a curve of few labels, with the spread over draws of which samples are labeled."""
    for point in evaluation.label_curve(*data, seed=seed):
        choices = {name: point.choices[name] for name in ("per_class", "draws", "spread")}
        yield {"features": features, **choices, **point.to_dict()}


def _split(
    h: Array, labels: Array | None, train_h: Array | None, train_labels: Array | None, *, seed: int
) -> Split | None:
    """Training rows and test rows; without training rows, four fifths of ``h`` serve, and the rest is tested."""
    if labels is None:
        return None
    named = np.asarray(labels)
    data = (train_h, train_labels, h, named)
    if train_h is None or train_labels is None:
        fit, held_out = train_test_split(np.arange(len(named)), test_size=0.2, random_state=seed)
        data = (h[fit], named[fit], h[held_out], named[held_out])
    return None if unclassifiable(data[1], data[3]) else data


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
        f"Neighbors contradict {100 * contradicted:.0f} % of the labels: in these features wrong labels cannot be "
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


def of_run(run: Run, *, protocol: str = "lbfgs") -> dict[str, Any]:
    """Diagnose a run from its files alone, and leave results.json."""
    config, file = run.config, run.path / "features.safetensors"
    if not file.exists():
        raise FileNotFoundError(
            f"{run.path} has no features yet: `vergence train --run {run.path} --resume` makes them."
        )
    for name in ("features.safetensors", "baselines.safetensors"):
        _require_sound(run, name)
    train, test = features.read(file, "train"), features.read(file, "test")
    rows = run.rows()
    rows = [row for row in rows if {"loss", "epoch"} <= set(row)]
    final = [row["loss"] for row in rows if row["epoch"] > rows[-1]["epoch"] - 1]
    method = customized(config.method, heads=config.heads, objective=config.objective)
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
    if note := unclassifiable(train.labels, test.labels):
        results["notes"] = [*results["notes"], note]
    elif train.labels is not None and test.labels is not None:
        sets = labeled(run, train, test)
        results["accuracy"] = [
            row for name, arrays in sets.items() for row in run_accuracies(name, arrays, protocol=protocol)
        ]
        results["few_labels"] = [row for name, arrays in sets.items() for row in few_labels(name, arrays)]
    results |= run.read_json("samples.json") or {}
    run.write_json("results.json", results)
    return results


def _require_sound(run: Run, name: str) -> None:
    """Say how a damaged file of features is made again."""
    try:
        if (run.path / name).exists():
            safe_open(run.path / name, framework="pt")
    except SafetensorError as error:
        again = f"`vergence train --run {run.path} --resume` makes it again."
        raise ValueError(f"{run.path / name} is damaged ({error}). {again}") from error


def unclassifiable(train: Array | None, test: Array | None) -> str:
    """Why labels cannot say how good features are; empty where they can, or where there are none."""
    if train is None or test is None:
        return ""
    train, test = np.asarray(train), np.asarray(test)
    if len(np.unique(train)) < 2:
        return "All training labels are equal, so accuracies say nothing and are left out."
    if not np.isin(test, train).any():
        return "No class has samples in both splits, so accuracies say nothing and are left out."
    return ""


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
            yield generalization_bound(stacks, labels)
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


def labeled(run: Run, train: features.Features, test: features.Features) -> dict[str, Split]:
    """Training and test rows of the trained encoder and of its baselines."""
    sets = {"trained encoder": (train, test)}
    file = run.path / "baselines.safetensors"
    if file.exists():
        sets["untrained encoder"] = (features.read(file, "untrained_train"), features.read(file, "untrained_test"))
        if features.holds(file, "raw_train"):
            sets["raw pixels"] = (features.read(file, "raw_train"), features.read(file, "raw_test"))
    return {name: (seen.h, seen.labels, left.h, left.labels) for name, (seen, left) in sets.items()}


def run_accuracies(name: str, arrays: Split, *, protocol: str = "lbfgs") -> Iterator[dict[str, Any]]:
    """Every classifier with all labels, and with five a class."""
    probe = partial(evaluation.linear_probe, protocol=protocol)
    for classifier in (probe, evaluation.knn, evaluation.nearest_center):
        yield {"features": name, "labels": "all", **classifier(*arrays).to_dict()}
    for classifier in (evaluation.nearest_center, probe):
        few = evaluation.few_labels(*arrays, per_class=FEW, classifier=classifier)
        yield {"features": name, "labels": f"{FEW} per class", **few.to_dict()}


def probed_layers(run: Run, *, protocol: str = "lbfgs") -> list[dict[str, Any]]:
    """A linear probe after every layer of the encoder and of the projector: where does the critic begin?

    Accuracy rises along the encoder and, where the objective throws away what the labels need, falls in the projector.
    At most 10,000 samples of each split are used.
    """
    parts = assembly.trained(run)
    if parts.samples.labels is None or parts.test.labels is None:
        raise ValueError(f"Probes need labels, and {parts.config.data} has none.")
    encoder, projector = parts.learner.encoder, parts.learner.projector
    chain = nn.Sequential(encoder, projector) if isinstance(projector, nn.Sequential) else encoder
    rows = [
        features.by_layer(chain, samples, parts.recipe, limit=BASELINE_SAMPLES)
        for samples in (parts.samples, parts.test)
    ]
    depth = len(features.by_layer(encoder, parts.test, parts.recipe, limit=2))
    found = []
    for number, (train, test) in enumerate(zip(*rows, strict=True), 1):
        data = (train, parts.samples.labels[: len(train)], test, parts.test.labels[: len(test)])
        accuracy = evaluation.linear_probe(*data, protocol=protocol)
        part = f"encoder {number}" if number <= depth else f"projector {number - depth}"
        found.append({"layer": part, "width": train.shape[1], **accuracy.to_dict()})
    return found


def _loss_alone(
    objective: str | None, loss: float | None, *, batch: int | None, width: int, **hyperparameters: Any
) -> dict[str, Any]:
    """The results for a loss without embeddings: the thermometer, and what it cannot know."""
    if objective is None or batch is None:
        raise ValueError("Give embeddings or a run; or for a loss alone --objective NAME --batch N, and --loss VALUE.")
    reading = thermometer(objective, n=batch, d=width, loss=loss, **hyperparameters)
    verdict = {"label": reading.verdict, "sentence": reading.sentence, "evidence": list(reading.coincidences)}
    return {"verdict": verdict, "thermometer": reading.to_dict()}


def _embeddings(source: Array | None, *, drop_nan: bool) -> Any:
    if source is None:
        return None
    if not isinstance(source, str | Path):
        return usable_numbers(source, "The array") if hasattr(source, "dtype") else source
    return read_embeddings(source, drop_nan=drop_nan)


def _labels(source: Array | None) -> Any:
    if source is None or isinstance(source, Tensor):
        return source
    return label_file(str(source)) if isinstance(source, str | Path) else label_values(np.asarray(source))


def _alarmed(results: Mapping[str, Any], fail_on: str) -> bool:
    """Whether the verdict or a fault is one that the caller named; ``collapse`` stands for all its kinds."""
    said = {str(results["verdict"]["label"]), *results.get("faults", ())}
    return any(_named(word, name) for word in _alarms(fail_on) for name in said)


def _alarms(fail_on: str) -> list[str]:
    return [word.strip() for word in fail_on.split(",") if word.strip()]


def _named(word: str, name: str) -> bool:
    """Whether a word is a name or whole words of it: ``collapse`` of "dimensional collapse", but not ``colla``."""
    return f" {word} " in f" {name} "


def _check_alarms(fail_on: str) -> None:
    """Refuse a verdict that nothing is ever called: a gate with a misspelled name would never close."""
    known = list(dict.fromkeys([*LABELS, *faults.GRAVITY]))
    words = {word for name in known for word in (name, *name.split())}
    for word in _alarms(fail_on):
        if not any(_named(word, name) for name in known):
            near = difflib.get_close_matches(word, words, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"--fail-on {word}: no verdict and no fault is called so. Known: {', '.join(known)}.{hint}"
            )


def _ranked(targets: tuple[Array, ...], **options: Any) -> Answer:
    """Several runs or files of embeddings: the verdict on each, and their order by every label-free score."""
    answers = {str(target): doctor(target, **options) for target in targets}
    found = {name: answer.to_dict() for name, answer in answers.items()}
    rankings = compare.label_free(found) if len(found) > 1 else ()
    lines = [f"{name}: {answer.lines[0]}" for name, answer in answers.items()] + list(map(compare.order, rankings))
    both = {"targets": found, "selection": [ranking.to_dict() for ranking in rankings]}
    return Answer(tuple(lines), both, failed=any(answer.failed for answer in answers.values()))
