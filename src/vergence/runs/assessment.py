"""Assessment: a run's files, or anyone's arrays, become results: diagnosis, accuracies, certificates, advice."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import wraps
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from vergence import diagnostics, features
from vergence.counters import drawn
from vergence.diagnostics import DIAGNOSTICS, SCALES, Diagnosis
from vergence.diagnostics.arrays import Array, labels_for
from vergence.diagnostics.extrapolation import batch_worth
from vergence.diagnostics.measures import evenness, hubs, plain
from vergence.diagnostics.merging import State
from vergence.diagnostics.recommendations import recommendations
from vergence.methods import Method, customized
from vergence.objectives import Objective
from vergence.runs import finetuned, hits, results, sentences, threads
from vergence.runs.accuracies import (
    Judgment,
    accuracies,
    few_labels,
    judgeable,
    judgments,
    labeled,
    probed_layers,
    score,
    split,
    test_rows,
)
from vergence.runs.changed import since_the_start
from vergence.runs.results import TRAINED, Results, record
from vergence.runs.run import Run
from vergence.theory.certified import certificates

Judged = tuple[tuple[results.Score, ...], tuple[results.Score, ...]]  # with all labels, and with few

ELSEWHERE = (evenness, hubs)  # diagnostics that no other needs, and that take long
CERTIFIED = 300  # rows of anyone's embeddings that theorems are held against, as many as a run keeps views of


def of_run(
    run: Run,
    *,
    protocol: str = "lbfgs",
    layers: bool = False,
    evaluate: tuple[str, ...] | None = None,
    saying: Callable[[str], None] = lambda text: None,
) -> Results:
    """Diagnose a run from its files alone, and leave its results among them; ``saying`` is told what is done now.

    Runs on texts are judged on ``evaluate`` too; what they were judged on before stands where it is None.
    """
    config, file = run.config, run.path / "features.safetensors"
    before = results.read(run.path) if evaluate is None else None
    evaluate = config.evaluate if evaluate is None else evaluate
    if not file.exists():
        raise FileNotFoundError(
            f"{run.path} has no features yet: `vergence train --run {run.path} --resume` makes them."
        )
    train, test = features.read(file, "train"), features.read(file, "test")
    rows = run.rows()
    final = [row["loss"] for row in rows if row["epoch"] > rows[-1]["epoch"] - 1]
    method = customized(config.method, heads=config.heads, objective=config.objective)
    scaled = method.objective in SCALES
    judged = judgeable(train, test)
    sets = labeled(run, train, test) if judged else {}
    judged_by: dict[str, tuple[Judgment, ...]] = {}
    for name, arrays in sets.items():
        saying(f"classifiers on the features of the {name}")
        judged_by[name] = tuple(judgments(arrays, protocol=protocol))
    saying("diagnosis of the rows, pairs and learning")
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
        steps=rows[-1]["step"] if rows else 0,
        read_elsewhere=max((each[0][0].accuracy for name, each in judged_by.items() if name != TRAINED), default=0.0),
        words=features.stored(file).get("test_words"),
        **(method.reading(hard_negatives=config.view.get("negatives", 0)) | _learned(run, method) if scaled else {}),
    )
    places = test_rows(run, test)
    right = hits.hits(judged_by, {name: arrays[3] for name, arrays in sets.items()}, places)
    hits.save_hits(run.path, right)
    saying("few labels, certificates")
    found = assembled(
        diagnosis,
        trained=True,
        curves=_curves(rows, test, config.batch) if method.compares else {},
        stored=features.stored(file),
        accuracy=tuple(score(name, one, **more) for name, each in judged_by.items() for one, more in each),
        gains=(*hits.gains(right), *hits.few_gains(judged_by, places)),
        few_labels=tuple(row for name, arrays in sets.items() for row in few_labels(name, arrays)),
        layers=tuple(probed_layers(run, protocol=protocol)) if layers else (),
        sentences=before.sentences if before and before.sentences else _sentences(run, evaluate, saying),
        changes=since_the_start(run, train, test),
        finetuning=finetuned.read_all(run),
        facts=run.read_json("samples.json") or {},
        unjudged=test.labels is not None and not judged,
    )
    found.write(run.path)
    return found


def _sentences(run: Run, evaluate: tuple[str, ...], saying: Callable[[str], None]) -> tuple[results.Judged, ...]:
    return sentences.of_run(run, evaluate, saying) if evaluate else ()


def of_arrays(
    h: Array,
    *,
    z1: Array | None = None,
    z2: Array | None = None,
    labels: Array | None = None,
    protocol: str = "lbfgs",
    seed: int = 0,
    judging: Callable[[], Judged] | None = None,
    **options: Any,
) -> Results:
    """Diagnose anyone's representations; views, labels, an objective and its loss add to it.

    With labels, four fifths of the rows train classifiers and the rest is tested, unless ``judging`` already does.
    """
    with ThreadPoolExecutor(1) as beside:  # neither needs anything of the other
        if judging is None and torch.get_num_threads() > 1:
            judging = beside.submit(_judged, h, labels, protocol, seed).result
        diagnosis = diagnostics.diagnose(h, z1=z1, z2=z2, labels=labels, seed=seed, **options)
        judged = judging() if judging else _judged(h, labels, protocol, seed)
    return assembled(
        diagnosis,
        trained=options.get("objective") is not None or options.get("projector") is not None,
        stored=_pairs(z1, z2, labels),
        accuracy=judged[0],
        few_labels=judged[1],
        unjudged=labels is not None and not judged[0],
    )


def _judged(h: Array, labels: Array | None, protocol: str, seed: int) -> Judged:
    """Accuracies with all labels and with few, or none of them."""
    parts, name = split(h, labels, seed=seed), "representations"
    if not parts:
        return (), ()
    found = tuple(accuracies(name, parts, protocol=protocol, seed=seed))
    return found, tuple(few_labels(name, parts, seed=seed))


def of_state(state: State, *, protocol: str = "lbfgs", seed: int = 0, pool: Executor | None = None) -> Results:
    """Diagnose rows by what is known of all of them, and by the sample that was kept.

    With a pool of processes one of them judges the labels on half of the threads and measures what nothing else needs:
    parts of a program that share their threads and the interpreter wait for each other.
    """
    h, labels = state.rows()
    if pool is None or labels is None:
        return of_arrays(h, labels=labels, protocol=protocol, seed=seed, known=state.known)
    count = torch.get_num_threads()
    made = pool.submit(_beside, max(1, count // 2), h.numpy(), labels, protocol, seed)
    table = {
        name: _awaited(row, made, ELSEWHERE.index(row)) if row in ELSEWHERE else row
        for name, row in DIAGNOSTICS.every()
    }
    with threads.used(max(1, count - count // 2)):
        options: dict[str, Any] = {"known": state.known, "diagnostics": table}
        return of_arrays(h, labels=labels, protocol=protocol, seed=seed, judging=lambda: made.result()[0], **options)


def _beside(number: int, h: Array, labels: Array, protocol: str, seed: int) -> tuple[Judged, list[Any]]:
    """What another process can find on so many threads: accuracies, and rows of the table of diagnostics."""
    with threads.used(number):
        return _judged(h, labels, protocol, seed), [row(h=h, seed=seed) for row in ELSEWHERE]


def _awaited(row: Callable[..., Any], made: Future[Any], place: int) -> Callable[..., Any]:
    """A row of a table, whose value another process makes."""
    return wraps(row)(lambda **given: made.result()[1][place])


def assembled(
    diagnosis: Diagnosis,
    *,
    trained: bool,
    curves: Mapping[str, Any] | None = None,
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
            for row in recommendations(diagnosis.findings, diagnosis.measured, trained=trained, **(curves or {}))
        ),
        notes=(
            *[UNJUDGED] * unjudged,
            *diagnosis.notes,
            *(each.sentence for each in diagnosis.findings if each.level == "unknown"),
        ),
        **_typed(known),
        **parts,
    )


def _curves(rows: Sequence[Mapping[str, Any]], test: features.Features, batch: int) -> dict[str, Any]:
    """The loss of every whole epoch, and what the held-out pairs say of the batch."""
    by_epoch: dict[int, list[float]] = {}
    for row in rows:
        by_epoch.setdefault(math.ceil(row["epoch"] - 1e-9), []).append(row["loss"])
    losses = [float(np.mean(by_epoch[epoch])) for epoch in sorted(by_epoch)]
    pairs = test.z1 is not None and test.z2 is not None and test.z1.shape == test.z2.shape
    worth = batch_worth(test.z1, test.z2, batch) if pairs else None  # type: ignore[arg-type]
    return {"losses": losses, "worth": worth, "batch": batch}


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


def _pairs(z1: Any, z2: Any, labels: Any = None) -> dict[str, Tensor]:
    """Embeddings of two views of each sample, some drawn evenly from many, named as in a run's file of features."""
    if z1 is None or z2 is None or np.shape(z1) != np.shape(z2):
        return {}
    codes = None if labels is None else labels_for(labels, len(z1))
    chosen = drawn(len(z1), CERTIFIED, groups=codes)
    first, second = (torch.as_tensor(np.asarray(z[chosen.numpy()])).float() for z in (z1, z2))
    stored = {"test_z1": first, "test_z2": second, "test_views": torch.stack((first, second), 1)}
    return stored if codes is None else {**stored, "test_labels": codes[chosen]}


def _learned(run: Run, method: Method) -> dict[str, float]:
    """The hyperparameters that were trained with the encoder, as they are at the end, by which its loss is read."""
    checkpoint, prefix = run.load() if method.learnable else None, "model.objective."
    if checkpoint is None:
        return {}
    objective = Objective(str(method.objective), learnable=method.learnable, **method.hyperparameters)
    own = {name: value for name, value in checkpoint.tensors.items() if name.startswith(prefix)}
    objective.load_state_dict({name.removeprefix(prefix): value for name, value in own.items()})
    return {name: value.item() for name, value in objective.learned().items()}


def _projector(run: Run) -> dict[str, Tensor] | None:
    """The weights of the projection head, in which a frozen one shows; empty where there is no head."""
    checkpoint = run.load(best=True)
    if checkpoint is None:
        return None
    prefix = "model.projector."
    return {name.removeprefix(prefix): value for name, value in checkpoint.tensors.items() if name.startswith(prefix)}
