"""``vergence doctor``: what you have; of a run, of arrays, of a loss, of several. The verdict, then its evidence."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from safetensors.torch import load_file
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from vergence import diagnostics, evaluation, features, tables, values
from vergence import report as pages
from vergence.counters import drawn
from vergence.data.embeddings import read_embeddings
from vergence.data.files import label_file, label_values, usable_numbers
from vergence.diagnostics import FAULTS, SCALES, Diagnosis, thermometer
from vergence.diagnostics.arrays import Array, labels_for
from vergence.diagnostics.label_trials import comparable
from vergence.diagnostics.measures import plain
from vergence.diagnostics.recommendations import recommendations
from vergence.methods import customized
from vergence.report.plain import spoken
from vergence.runs import assembly, results
from vergence.runs.results import RAW, TRAINED, UNTRAINED, Answer, Results, Score, record
from vergence.runs.run import Run
from vergence.stages import compare
from vergence.tables import UnknownName
from vergence.theory import RESULTS, Certificate

PROBED = 10_000  # samples of each split that layers are probed on, at most
CERTIFIED = 300  # rows of anyone's embeddings that theorems are held against, as many as a run keeps views of
FEW = 5  # labels of each class in the few-label setting

Split = tuple[Array, Array, Array, Array]  # training rows and labels, test rows and labels

WIDTH = 128  # dimensions of the embeddings that a loss alone is taken to come from

# Which options each kind of target uses; any other is refused by name.
USED = {
    "run": {"layers", "protocol"},
    "several": {"labels", "drop_nan", "layers", "protocol"},
    "embeddings": {
        "labels", "second_view", "z1", "z2", "objective", "loss", "batch", "drop_nan", "output", "protocol",
    },
    "encoder": {
        "data", "labels", "second_view", "z1", "z2", "objective", "loss", "batch", "drop_nan", "output", "protocol",
    },
    "loss": {"objective", "loss", "batch", "width"},
}  # fmt: skip
KINDS = {
    "run": "a run, which has labels, views and a loss of its own",
    "several": "several runs or files",
    "embeddings": "embeddings",
    "encoder": "an encoder",
    "loss": "a loss alone",
}


def doctor(
    target: Any | None = None,
    others: tuple[str, ...] = (),
    *,
    labels: Any | None = None,
    second_view: Any | None = None,
    z1: Any | None = None,
    z2: Any | None = None,
    objective: str | None = None,
    loss: float | None = None,
    batch: int | None = None,
    width: int = WIDTH,
    drop_nan: bool = False,
    fail_on: str = "",
    output: Path | None = None,
    data: Any | None = None,
    layers: bool = False,
    protocol: Literal["lbfgs", "saga"] = "lbfgs",
    **hyperparameters: Any,
) -> Answer:
    """Say what you have: a run, anyone's embeddings, or a loss alone; the verdict first, then its evidence.

    ``target`` is a run directory, a file of embeddings, or an array of representations ``h``; ``z1`` and ``z2`` are the
    embeddings of two views of the same samples (``second_view`` pairs ``target`` itself with another view). From
    Python, ``target`` may be an encoder, with the ``data`` to encode. With ``others``, runs or files, all are ranked.
    """
    check_alarms(fail_on)
    given = {
        "labels": labels, "second_view": second_view, "z1": z1, "z2": z2, "objective": objective, "loss": loss,
        "batch": batch, "width": None if width == WIDTH else width, "drop_nan": drop_nan or None, "output": output,
        "data": data, "layers": layers or None, "protocol": None if protocol == "lbfgs" else protocol,
    }  # fmt: skip
    kind = target_kind(target, others)
    refuse_unused(kind, {name for name, value in given.items() if value is not None})
    hyperparameters = _checked_hyperparameters(objective, hyperparameters)
    if kind == "several":
        choices = {"labels": labels, "drop_nan": drop_nan, "layers": layers, "protocol": protocol}
        return of_several((target, *others), fail_on=fail_on, **{key: value for key, value in choices.items() if value})
    if kind == "loss":
        found = of_loss(objective, loss, batch=batch, width=width, **hyperparameters)
        return _answer(found, fail_on)
    if kind == "run":
        assert target is not None
        found = of_run(Run(target), protocol=protocol, layers=layers)
        page = pages.write(target)
        return _answer(found, fail_on, f"Rewritten: {Path(target) / results.FILE}, {page}")
    if isinstance(target, nn.Module):
        target = features.encoded(target, _embeddings(data, drop_nan=drop_nan))
    h, z1, z2 = (_embeddings(source, drop_nan=drop_nan) for source in (target, z1, z2))
    if second_view is not None:
        z1, z2 = h, _embeddings(second_view, drop_nan=drop_nan)
    known = _labels(labels)
    options = {"objective": objective, "loss": loss, "batch": batch, "protocol": protocol, **hyperparameters}
    found = of_arrays(h, z1=z1, z2=z2, labels=known, **options)
    return _answer(found, fail_on, *(_paged(found, h, known, Path(output)) if output is not None else ()))


def of_run(run: Run, *, protocol: str = "lbfgs", layers: bool = False) -> Results:
    """Diagnose a run from its files alone, and leave its results among them."""
    config, file = run.config, run.path / "features.safetensors"
    if not file.exists():
        raise FileNotFoundError(
            f"{run.path} has no features yet: `vergence train --run {run.path} --resume` makes them."
        )
    train, test = features.read(file, "train"), features.read(file, "test")
    rows = run.rows()
    final = [row["loss"] for row in rows if row["epoch"] > rows[-1]["epoch"] - 1]
    method = customized(config.method, heads=config.heads, objective=config.objective)
    scaled = method.objective in SCALES
    diagnosis = diagnostics.diagnose(
        test.h,
        z1=test.z1,
        z2=test.z2,
        labels=test.labels,
        objective=method.objective if scaled else None,
        loss=float(np.mean(final)) if final else None,
        batch=config.batch,
        seed=config.seed,
        projector=_projector(run),
        compared=method.compares,
        **(method.reading() if scaled else {}),
    )
    split = _judgeable(train, test)
    sets = labeled(run, train, test) if split else {}
    found = assembled(
        diagnosis,
        trained=True,
        stored=load_file(file),
        accuracy=tuple(row for name, arrays in sets.items() for row in accuracies(name, arrays, protocol=protocol)),
        few_labels=tuple(row for name, arrays in sets.items() for row in few_labels(name, arrays)),
        layers=tuple(probed_layers(run, protocol=protocol)) if layers else (),
        facts=run.read_json("samples.json") or {},
        unjudged=test.labels is not None and not split,
    )
    found.write(run.path)
    return found


def of_arrays(
    h: Array,
    *,
    z1: Array | None = None,
    z2: Array | None = None,
    labels: Array | None = None,
    protocol: str = "lbfgs",
    seed: int = 0,
    **options: Any,
) -> Results:
    """Diagnose anyone's representations; views, labels, an objective and its loss add to it.

    With labels, four fifths of the rows train classifiers and the rest is tested.
    """
    diagnosis = diagnostics.diagnose(h, z1=z1, z2=z2, labels=labels, seed=seed, **options)
    split = _split(h, labels, seed=seed)
    return assembled(
        diagnosis,
        trained=options.get("objective") is not None or options.get("projector") is not None,
        stored=_pairs(z1, z2, labels),
        accuracy=tuple(accuracies("representations", split, protocol=protocol, seed=seed)) if split else (),
        few_labels=tuple(few_labels("representations", split, seed=seed)) if split else (),
        unjudged=labels is not None and not split,
    )


def of_loss(
    objective: str | None, loss: float | None, *, batch: int | None, width: int = 128, **hyperparameters: Any
) -> Results:
    """What a loss says without embeddings: where it stands on its scale, and what that cannot tell."""
    if objective is None or batch is None:
        raise ValueError("Give embeddings or a run; or for a loss alone --objective NAME --batch N, and --loss VALUE.")
    options = {key: value for key, value in hyperparameters.items() if value is not None}
    reading = thermometer(objective, n=batch, d=width, loss=loss, **options)
    verdict = results.Verdict(reading.verdict, reading.sentence, tuple(reading.coincidences))
    return Results(verdict=verdict, thermometer=record(results.Reading, reading.to_dict()))


def of_several(targets: tuple[Any, ...], *, fail_on: str = "", **options: Any) -> Answer:
    """Several runs or files of embeddings: the verdict on each, and which of them may be ranked, by what."""
    found = {str(target): _one(target, **options) for target in targets}
    settings = {str(target): compare.alike_by(Run(target)) if _is_run(target) else {} for target in targets}
    rankings, refusal = compare.label_free(found, settings) if len(found) > 1 else ((), None)
    lines = [f"{name}: {next(iter(spoken(each)))}" for name, each in found.items()]
    lines += [*([refusal] if refusal else []), *(compare.order(ranking) for ranking in rankings)]
    answer = {
        "targets": {name: each.to_dict() for name, each in found.items()},
        "selection": [ranking.to_dict() for ranking in rankings],
        "not_ranked": refusal,
    }
    return Answer(tuple(lines), answer, failed=any(_alarmed(each, fail_on) for each in found.values()))


def _one(target: Any, **options: Any) -> Results:
    if _is_run(target):
        used = {key: value for key, value in options.items() if key in ("protocol", "layers")}
        return of_run(Run(target), **used)
    labels, drop_nan = _labels(options.get("labels")), bool(options.get("drop_nan"))
    return of_arrays(_embeddings(target, drop_nan=drop_nan), labels=labels, protocol=options.get("protocol", "lbfgs"))


# The results from their parts


def assembled(
    diagnosis: Diagnosis,
    *,
    trained: bool,
    stored: Mapping[str, Tensor],
    facts: Mapping[str, Any] | None = None,
    unjudged: bool = False,
    **parts: Any,
) -> Results:
    """Results from a diagnosis, the theorems that hold of the stored features, and what else is given."""
    proofs = tuple(certificates(stored))
    violated = tuple(
        f"Violated: {each.statement}: {each.left:.3g} > {each.right:.3g}." for each in proofs if not each.holds
    )
    verdict = results.Verdict(
        diagnosis.verdict.label, diagnosis.verdict.sentence, (*diagnosis.verdict.evidence, *violated)
    )
    measured = {name: plain(entry.value) for name, entry in diagnosis.measured.items()}
    wholes = {name: measured.pop(name, None) for name in ("thermometer", "spectrum")}
    known = {field: value for field, value in (facts or {}).items() if field in FACTS and value is not None}
    return Results(
        verdict=verdict,
        verdicts={about: record(results.Verdict, each.to_dict()) for about, each in diagnosis.groups.items()},
        findings=tuple(_found(finding) for finding in diagnosis.findings),
        thermometer=record(results.Reading, wholes["thermometer"]) if wholes["thermometer"] else None,
        diagnostics={name: _number(diagnosis, name, value) for name, value in measured.items()},
        singular_values=tuple((wholes["spectrum"] or {}).get("singular_values", ())),
        certificates=tuple(record(results.Proof, proof.to_dict()) for proof in proofs),
        recommendations=tuple(
            record(results.Advice, row)
            for row in recommendations(diagnosis.findings, diagnosis.measured, trained=trained)
        ),
        notes=(
            *[UNJUDGED] * unjudged,
            *diagnosis.notes,
            *(each.sentence for each in diagnosis.findings if each.level == "unknown"),
        ),
        **_typed(known),
        **parts,
    )


UNJUDGED = "Accuracies are left out: the labels hold no two classes with samples to train and to test on."
FACTS = ("kind", "shape", "classes", "names", "skipped")


def _typed(known: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a run's samples as the results hold them."""
    made = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    return {**made, "skipped": tuple(tuple(pair) for pair in made.get("skipped", ()))}


def _number(diagnosis: Diagnosis, name: str, value: Any) -> results.Number:
    entry = diagnosis.measured[name]
    return results.number(value, title=entry.title, meaning=entry.meaning, heading=entry.heading)


def _found(finding: Any) -> results.Found:
    amounts = {
        name: msgspec.to_builtins(results.number(plain(value)))
        for name in ("cost", "gain")
        if (value := getattr(finding, name)) is not None
    }
    words = {key: value for key, value in vars(finding).items() if key not in ("cost", "gain")}
    return record(results.Found, {**words, **amounts})


def certificates(stored: Mapping[str, Tensor]) -> Iterator[Certificate]:
    """Every row of RESULTS whose arguments the features have, named as in a run's file of features."""
    views, labels = stored.get("test_views"), stored.get("test_labels")
    rows = stored.get("test_views_rows")
    given: dict[str, Any] = {}
    if views is not None and labels is not None:
        own = labels[rows] if rows is not None else labels[: len(views)]
        counts = own.unique(return_counts=True)[1]
        # The theorem is about directions, and a row of zeros has none; a main part takes two samples.
        if views.any(2).all() and len(counts) > 1 and counts.min() > 1:
            given |= {"features": views, "labels": own}
    z1, z2 = (stored.get(name) for name in ("test_z1", "test_z2"))
    if z1 is not None and z2 is not None and z1.shape == z2.shape and z1.any(1).all() and z2.any(1).all():
        given |= {"z1": nn.functional.normalize(z1, dim=1), "z2": nn.functional.normalize(z2, dim=1)}
    yield from certified(given)


def certified(given: Mapping[str, Any]) -> Iterator[Certificate]:
    """The theorems of RESULTS whose arguments, filled by name, are all given."""
    from vergence.diagnostics.by_name import Given, needed

    known = Given(dict(given))
    for _, theorem in RESULTS.every():
        if needed(theorem) and known.has_all_for(theorem):
            yield known.call(theorem)


def accuracies(name: str, data: Split, *, protocol: str = "lbfgs", seed: int = 0) -> Iterator[Score]:
    """Every classifier with all labels, and two of them with five a class."""

    def probe(*parts: Any) -> evaluation.Accuracy:
        return evaluation.linear_probe(*parts, protocol=protocol)

    for classifier in (probe, evaluation.knn, evaluation.nearest_center):
        yield _score(name, classifier(*data))
    for few in (evaluation.nearest_center, probe):
        yield _score(name, evaluation.few_labels(*data, per_class=FEW, classifier=few, seed=seed), per_class=float(FEW))


def few_labels(name: str, data: Split, *, seed: int = 0) -> Iterator[Score]:
    """The points of a curve of few labels, with the spread over draws of which samples are labeled."""
    for point in evaluation.label_curve(*data, seed=seed):
        choices = {key: point.choices[key] for key in ("per_class", "draws", "spread")}
        yield _score(name, point, **choices)


def _score(name: str, found: evaluation.Accuracy, **more: Any) -> Score:
    return record(Score, found.to_dict(), features=name, **more)


def labeled(run: Run, train: features.Features, test: features.Features) -> dict[str, Split]:
    """Training and test rows of the trained encoder and of its baselines."""
    sets = {TRAINED: (train, test)}
    file = run.path / "baselines.safetensors"
    if file.exists():
        sets[UNTRAINED] = (features.read(file, "untrained_train"), features.read(file, "untrained_test"))
        if features.holds(file, "raw_train"):
            kind = (run.read_json("samples.json") or {}).get("kind", "image")
            sets[RAW[kind]] = (features.read(file, "raw_train"), features.read(file, "raw_test"))
    return {name: (seen.h, seen.labels, left.h, left.labels) for name, (seen, left) in sets.items()}


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
    splits = [
        samples.take(drawn(len(samples), PROBED, groups=samples.labels)) for samples in (parts.samples, parts.test)
    ]
    rows = [features.by_layer(chain, samples, parts.recipe) for samples in splits]
    depth = len(features.by_layer(encoder, splits[1].take(torch.arange(2)), parts.recipe))
    for number, (train, test) in enumerate(zip(*rows, strict=True), 1):
        accuracy = evaluation.linear_probe(train, splits[0].labels, test, splits[1].labels, protocol=protocol)
        part = f"encoder {number}" if number <= depth else f"projector {number - depth}"
        yield record(results.Layer, accuracy.to_dict(), layer=part, width=train.shape[1])


# At the door


def target_kind(target: Any, others: tuple[str, ...] = ()) -> str:
    """What the doctor is asked about, as a key of USED."""
    if others:
        return "several"
    if target is None:
        return "loss"
    if isinstance(target, nn.Module):
        return "encoder"
    return "run" if _is_run(target) else "embeddings"


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
    """Hyperparameters of an objective, each of its type and in range; the number of negatives beside them."""
    known = tables.keywords("objectives", objective) if objective else {}
    own = {name: parameter for name, parameter in known.items() if name not in tables.FROM_LEARNER}
    given = {key: value for key, value in hyperparameters.items() if value is not None}
    counts: dict[str, Any] = {
        key: given.pop(key) for key in ("negatives", "classes") if key in given and key not in own
    }
    return {**values.checked(given, own, objective or ""), **counts}


ALARMS = ("collapse", "collapsed", "faulty", "impossible", "not started", "too few rows", "cannot tell", "healthy")


def check_alarms(fail_on: str) -> None:
    """Refuse the name of a verdict or fault that does not exist: a gate that never fires is no gate."""
    known = {*ALARMS, *FAULTS, "learning", "near the floor", "chance", "unknown"}
    for word in _words(fail_on):
        if not any(word in name for name in known):
            raise UnknownName("verdict or fault in --fail-on", word, known)


def _words(fail_on: str) -> set[str]:
    return {word.strip() for word in fail_on.split(",") if word.strip()}


def _alarmed(found: Results, fail_on: str) -> bool:
    """Whether the verdict or a fault is one that the caller named; ``collapse`` stands for all its kinds."""
    said = {found.verdict.label, *found.faults}
    return any(word in fault for word in _words(fail_on) for fault in said)


def _answer(found: Results, fail_on: str, *lines: str) -> Answer:
    return Answer((*spoken(found), *lines), found.to_dict(), failed=_alarmed(found, fail_on))


def _paged(found: Results, h: Array, labels: Any, folder: Path) -> tuple[str, ...]:
    """A page of foreign rows: the results and what the map shows, as files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found.write(folder)
    features.save(folder / "features.safetensors", features.from_arrays(h, labels).tensors("test"))
    return (f"Page: {pages.write(folder)}",)


def _is_run(target: Any) -> bool:
    return isinstance(target, str | Path) and (Path(target) / "config.yaml").exists()


def _judgeable(train: features.Features, test: features.Features) -> bool:
    """Whether classifiers can be trained and tested: at least two classes, and not a class for every sample."""
    if train.labels is None or test.labels is None or len(train.labels.unique()) < 2:
        return False
    return comparable(torch.cat([train.labels, test.labels]))


def _split(h: Array, labels: Array | None, *, seed: int) -> Split | None:
    """Four fifths of the rows to train on and the rest to test; None where there are no classes to tell apart."""
    if labels is None:
        return None
    values = np.asarray(labels)
    codes = np.unique(values, return_inverse=True)[1]
    if not comparable(torch.from_numpy(codes)):
        return None
    fit, held_out = train_test_split(np.arange(len(values)), test_size=0.2, random_state=seed)
    return (h[fit], values[fit], h[held_out], values[held_out]) if len(np.unique(values[fit])) > 1 else None


def _pairs(z1: Any, z2: Any, labels: Any = None) -> dict[str, Tensor]:
    """Embeddings of two views of each sample, some drawn evenly from many, named as in a run's file of features."""
    if z1 is None or z2 is None or np.shape(z1) != np.shape(z2):
        return {}
    codes = None if labels is None else labels_for(labels, len(z1))
    chosen = drawn(len(z1), CERTIFIED, groups=codes)
    first, second = (torch.as_tensor(np.asarray(z[chosen.numpy()])).float() for z in (z1, z2))
    stored = {"test_z1": first, "test_z2": second, "test_views": torch.stack((first, second), 1)}
    return stored if codes is None else {**stored, "test_labels": codes[chosen]}


def _projector(run: Run) -> dict[str, Tensor] | None:
    """The weights of the projection head, in which a frozen one shows; empty where there is no head."""
    checkpoint = run.load(best=True)
    if checkpoint is None:
        return None
    prefix = "model.projector."
    return {name.removeprefix(prefix): value for name, value in checkpoint.tensors.items() if name.startswith(prefix)}


def _embeddings(source: Any | None, *, drop_nan: bool) -> Any:
    if source is None:
        return None
    if not isinstance(source, str | Path):
        return usable_numbers(source, "The array") if hasattr(source, "dtype") else source
    return read_embeddings(source, drop_nan=drop_nan)


def _labels(source: Any | None) -> Any:
    if source is None or isinstance(source, Tensor):
        return source
    return label_file(str(source)) if isinstance(source, str | Path) else label_values(np.asarray(source))
