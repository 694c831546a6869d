"""The stages: train, embed, doctor, compare, report. Each reads the files of the one before.

The command line is made from the signatures here (see ``cli.py``); GLOSSARY holds the meaning of their options.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vergence import assembly, distributed, evaluation, features, launch, optim, report, training
from vergence import data as datasets
from vergence.assembly import Assembled
from vergence.config import Config
from vergence.data.files import label_file
from vergence.diagnostics import alignment, effective_rank, thermometer, uniformity
from vergence.embeddings import read_embeddings
from vergence.examination import examine
from vergence.progress import Progress
from vergence.run import Checkpoint, Run, environment, write_bytes
from vergence.tables import Rows

Array = Any  # a path to a file of embeddings, a numpy array or a tensor
BASELINE_SAMPLES = 10_000  # the untrained encoder and the raw pixels are compared on at most this many samples
FEW = 5  # labels a class in the few-label figures

GLOSSARY = {
    "run": "the run directory",
    "runs": "run directories",
    "resume": "continue the run that is in the directory, exactly where it stopped",
    "overwrite": "replace the run that is in the directory",
    "devices": "processes that share every batch, one on each accelerator or processor",
    "quiet": "no progress, only the result",
    "data": "other data to embed, written as for train; by default the run's own",
    "split": "which part of the data: train, validation or test",
    "output": "where to write",
    "target": "a run directory, or a file of embeddings (.npy, .npz, .safetensors, .parquet, .csv, .pt)",
    "labels": "a file with a label for each row",
    "z1": "embeddings of one view of the same samples",
    "z2": "embeddings of another view of the same samples",
    "second_view": "embeddings of a second view of the same samples, row by row",
    "objective": "the objective the loss belongs to (see vergence list objectives)",
    "loss": "a loss, to see where it stands between chance and floor",
    "batch": "samples in the batch that gave the loss",
    "width": "dimensions of the embeddings that gave the loss",
    "drop_nan": "leave out rows that hold NaN or infinity",
    "fail_on": "exit with status 1 on any of these verdicts, separated by commas, such as collapse,impossible",
}


@dataclass(frozen=True)
class Answer:
    """What a stage found: lines for a person, values for a program, and whether a pipeline should stop."""

    lines: tuple[str, ...]
    values: dict[str, Any]
    failed: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        return self.values


def train(
    settings: Config,
    *,
    run: str | Path = "runs/latest",
    resume: bool = False,
    overwrite: bool = False,
    devices: int = 1,
    quiet: bool = False,
) -> Answer:
    """Train an encoder on unlabelled data; leave a checkpoint, features, a diagnosis and a page in a run directory."""
    together = launch.joined()
    parts = assembly.assemble(settings)
    leads = distributed.rank() == 0
    place = Run.create(run, parts.config, overwrite=overwrite, resume=resume) if leads else Run(run)
    if devices > 1 and not together:
        return _train_together(place, devices)
    with place.locked() if leads else nullcontext():
        _optimise(parts, place, leads=leads, quiet=quiet or not leads)
        if not leads:
            return Answer((), {})
        place.write_json("env.json", environment())
        _embed_run(parts, place)
        _examine_run(place, skipped=parts.samples.skipped + parts.test.skipped)
    return write_report(place.path)


def embed(run: Path, *, data: str | None = None, split: str = "test", output: Path | None = None) -> Answer:
    """Write the representations of any data under a trained run's encoder to a file (.npy, or .safetensors)."""
    place = Run(run)
    config = place.config
    parts = _trained(place)
    samples = assembly.load(config, split) if data is None else datasets.load(data, split=split)
    if samples.shape != parts.samples.shape and samples.kind != "image":
        raise ValueError(f"The run was trained on samples of shape {parts.samples.shape}; these are {samples.shape}.")
    made = features.extract(parts.learner.encoder, samples, parts.recipe, seed=config.seed)
    path = Path(output) if output else Path(run) / f"{split}_h.npy"
    features.write(path, made)
    n, d = made.h.shape
    return Answer((f"{n:,} representations of {d} dimensions: {path}",), {"path": str(path), "n": n, "d": d})


def doctor(
    target: Array | None = None,
    *,
    labels: Array | None = None,
    second_view: Array | None = None,
    z1: Array | None = None,
    z2: Array | None = None,
    objective: str | None = None,
    loss: float | None = None,
    batch: int | None = None,
    width: int = 128,
    drop_nan: bool = False,
    fail_on: str = "",
    output: Path | None = None,
    **hyperparameters: Any,
) -> Answer:
    """Say what you have: a run, anyone's embeddings, or a loss alone; the verdict first, then its evidence.

    ``target`` is a run directory, a file of embeddings, or an array of representations ``h``; ``z1`` and ``z2`` are the
    embeddings of two views of the same samples (``second_view`` pairs ``target`` itself with another view).
    """
    if target is None:
        results = _loss_alone(objective, loss, batch=batch, width=width, **hyperparameters)
    elif isinstance(target, str | Path) and (Path(target) / "config.yaml").exists():
        results = _examine_run(Run(target))
        report.write(target)
    else:
        h, z1, z2 = (_embeddings(source, drop_nan=drop_nan) for source in (target, z1, z2))
        if second_view is not None:
            z1, z2 = h, _embeddings(second_view, drop_nan=drop_nan)
        options = {"objective": objective, "loss": loss, "batch": batch, **hyperparameters}
        results = examine(h, z1=z1, z2=z2, labels=_labels(labels), **options).to_dict()
        if output is not None:
            Path(output).mkdir(parents=True, exist_ok=True)
            Run(output).write_json("results.json", results)
            report.write(output)
    return Answer(tuple(_spoken(results)), results, failed=_alarmed(results, fail_on))


def compare(runs: tuple[Path, ...], *, output: Path | None = None) -> Answer:
    """Set several runs side by side: accuracies, thermometers, geometry, and the settings in which they differ."""
    rows = {str(path): _row(Run(path)) for path in runs}
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    width = max(len(name) for name in rows)
    lines = [" " * width + "  " + "  ".join(columns)]
    for name, row in rows.items():
        lines.append(f"{name:{width}}  " + "  ".join(f"{row.get(key, ''):>{len(key)}}" for key in columns))
    if output is not None:
        write_bytes(Path(output), report.compare([Path(path) for path in runs]).encode())
        lines.append(f"Page: {output}")
    return Answer(tuple(lines), {"runs": rows})


def write_report(run: Path) -> Answer:
    """Write a run's page again from its files."""
    page = report.write(Run(run).path)
    return Answer((*report.summary(run), f"Report: {page}"), {"report": str(page)})


def _train_together(place: Run, devices: int) -> Answer:
    """Hand a created run to several processes; the first of them finishes it."""
    launch.available(devices)
    status = launch.start(launch.resuming(place.path), devices=devices)
    if status:
        finished = place.load()
        raise launch.Stopped(f"The processes ended with status {status} at step {finished.step if finished else 0}.")
    return write_report(place.path)


def _optimise(parts: Assembled, run: Run, *, leads: bool, quiet: bool) -> None:
    """The loop as ordinary statements: step, log, measure, save, stop when asked."""
    config = parts.config
    optimiser = optim.optimiser(parts.learner, config.optim)
    start = _restore(parts, run, optimiser, rewind=leads)
    total = training.steps_per_epoch(len(parts.samples), config.batch) * config.epochs
    heat = _thermometer(parts)
    clock = time.monotonic()
    steps = training.fit(parts.learner, optimiser, parts.samples, parts.recipe, config, start=start)
    with Progress(total, start=start, quiet=quiet) as progress, launch.Signals() as signals:
        for step in steps:
            stopping, last = signals.anywhere(), step.number == total
            progress.advance(step.samples, loss=step.loss, position=heat(step.loss))
            if leads:
                row = {"step": step.number, "epoch": step.epoch, "loss": step.loss, "learning_rate": step.learning_rate}
                if step.ends_epoch and (last or _due(step.epoch, config.watching.every)):
                    row |= watch(parts)
                run.log(row)
                run.log({"step": step.number, "seconds": round(time.monotonic() - clock, 3)}, name="timing.jsonl")
                if last or stopping or (step.ends_epoch and _due(step.epoch, config.saving.every)):
                    tensors = training.state(parts.learner, optimiser)
                    run.save(Checkpoint(step.number, tensors, {"method": config.method}), keep=config.saving.keep)
            if stopping and not last:
                raise launch.Stopped(f"Stopped after step {step.number} of {total}; saved. --resume continues.")


def _restore(parts: Assembled, run: Run, optimiser: torch.optim.Optimizer, *, rewind: bool) -> int:
    """Go back to the newest good checkpoint, if there is one; return its step."""
    checkpoint = run.load()
    if checkpoint is not None:
        training.restore(parts.learner, optimiser, checkpoint.tensors)
    step = 0 if checkpoint is None else checkpoint.step
    if rewind:
        run.rewind(step)
    return step


def _trained(run: Run) -> Assembled:
    """The parts of a finished run with its weights."""
    parts = assembly.assemble(run.config)
    checkpoint = run.load()
    if checkpoint is None:
        raise FileNotFoundError(f"{run.path} has no checkpoint yet: train it first, or continue it with --resume.")
    training.restore(parts.learner, None, checkpoint.tensors)
    return parts


def watch(parts: Assembled) -> dict[str, float]:
    """What is measured along training, on samples that are not trained on: geometry, rank and, with labels, kNN."""
    config, learner = parts.config, parts.learner
    options = {"projector": learner.projector, "limit": config.watching.samples, "seed": config.seed}
    made = features.extract(learner.encoder, parts.test, parts.recipe, **options)
    measured = {
        "alignment": alignment(made.z1, made.z2).value,
        "uniformity": uniformity(made.z1).value,
        "effective_rank": effective_rank(made.h),
    }
    if made.labels is not None and parts.samples.labels is not None:
        bank = features.extract(learner.encoder, parts.samples, parts.recipe, limit=4 * config.watching.samples)
        measured["knn"] = evaluation.knn(bank.h, bank.labels, made.h, made.labels).accuracy
    return measured


def _embed_run(parts: Assembled, run: Run) -> None:
    """Freeze the run's features, and those of its baselines, into two files."""
    learner, recipe = parts.learner, parts.recipe
    train = features.extract(learner.encoder, parts.samples, recipe)
    test = features.extract(learner.encoder, parts.test, recipe, projector=learner.projector, seed=parts.config.seed)
    pictures = features.thumbnails(parts.test)
    trained = {**train.tensors("train"), **test.tensors("test"), **pictures}
    features.save(run.path / "features.safetensors", trained)
    encoder = assembly.untrained(parts)
    baselines: dict[str, torch.Tensor] = {}
    for split, samples in (("train", parts.samples), ("test", parts.test)):
        made = features.extract(encoder, samples, parts.recipe, limit=BASELINE_SAMPLES)
        baselines |= made.tensors(f"untrained_{split}")
        if samples.kind != "text":
            raw = features.pixels(samples, parts.recipe, limit=BASELINE_SAMPLES)
            baselines |= features.Features(raw, labels=made.labels).tensors(f"raw_{split}")
    features.save(run.path / "baselines.safetensors", baselines)


def _examine_run(run: Run, *, skipped: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """Diagnose a run from its files alone, and leave results.json."""
    config, file = run.config, run.path / "features.safetensors"
    if not file.exists():
        raise FileNotFoundError(
            f"{run.path} has no features yet: `vergence train --run {run.path} --resume` makes them."
        )
    train, test = features.read(file, "train"), features.read(file, "test")
    rows = run.rows()
    final = [row["loss"] for row in rows if row["epoch"] > rows[-1]["epoch"] - 1]
    method = assembly.customised(config.method, heads=config.heads, objective=config.objective)
    results = examine(
        test.h,
        z1=test.z1,
        z2=test.z2,
        labels=test.labels,
        train_h=train.h,
        train_labels=train.labels,
        objective=method.objective,
        loss=float(np.mean(final)),
        batch=config.batch,
        seed=config.seed,
        **method.hyperparameters,
    ).to_dict()
    if train.labels is not None and test.labels is not None:
        results["accuracy"] = list(_accuracies(run, train, test))
    results["skipped"] = [list(pair) for pair in skipped]
    run.write_json("results.json", results)
    return results


def _accuracies(run: Run, train: features.Features, test: features.Features) -> Iterator[dict[str, Any]]:
    """Every classifier with all labels and with five a class, on the trained encoder and on its baselines."""
    sets = {"trained encoder": (train, test)}
    file = run.path / "baselines.safetensors"
    if file.exists():
        sets["untrained encoder"] = (features.read(file, "untrained_train"), features.read(file, "untrained_test"))
        if features.holds(file, "raw_train"):
            sets["raw pixels"] = (features.read(file, "raw_train"), features.read(file, "raw_test"))
    classifiers = (evaluation.linear_probe, evaluation.knn, evaluation.nearest_centre)
    for name, (seen, held_out) in sets.items():
        arrays = (seen.h, seen.labels, held_out.h, held_out.labels)
        for classifier in classifiers:
            yield {"features": name, "labels": "all", **classifier(*arrays).to_dict()}
        for classifier in (evaluation.nearest_centre, evaluation.linear_probe):
            few = evaluation.few_labels(*arrays, per_class=FEW, classifier=classifier)
            yield {"features": name, "labels": f"{FEW} per class", **few.to_dict()}


def _thermometer(parts: Assembled) -> Callable[[float], float]:
    """A loss to its place between chance (0) and floor (1), for the progress line."""
    config = parts.config
    method = assembly.customised(config.method, heads=config.heads, objective=config.objective)
    scale = thermometer(method.objective, n=config.batch, d=parts.learner.width, **method.hyperparameters)
    span = scale.chance - scale.floor
    return lambda loss: (scale.chance - loss) / span if span else float("nan")


def _due(epoch: float, every: int) -> bool:
    return every > 0 and round(epoch) % every == 0


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
    if source is None or not isinstance(source, str | Path):
        return source
    return read_embeddings(source, drop_nan=drop_nan)


def _labels(source: Array | None) -> Any:
    return label_file(str(source)) if isinstance(source, str | Path) else source


def _alarmed(results: Mapping[str, Any], fail_on: str) -> bool:
    """Whether the verdict, or the kind of collapse, is one that the caller named."""
    said = {str(results["verdict"]["label"]), str(results.get("collapse", {}).get("kind", "none"))}
    named = {word.strip() for word in fail_on.split(",") if word.strip()}
    if "collapse" in named:
        named |= {"collapsed", "complete", "dimensional", "cluster"}
    return bool(said & named)


def _spoken(results: Mapping[str, Any]) -> Iterator[str]:
    """Results as lines for a person."""
    verdict = results["verdict"]
    yield f"{verdict['label'].upper()}: {verdict['sentence']}"
    yield from (f"  - {line}" for line in verdict.get("evidence", ()))
    reading = results.get("thermometer")
    if reading:
        yield f"Thermometer ({reading['objective']}): chance {reading['chance']:.4f}, floor {reading['floor']:.4f}"
        if reading.get("loss") is not None:
            yield f"  loss {reading['loss']:.4f}: {reading['position']:.2f} of the way from chance (0) to the floor (1)"
    for name, entry in results.get("diagnostics", {}).items():
        if isinstance(entry, Mapping) and "value" in entry:
            interval = f" [{entry['low']:.4g}, {entry['high']:.4g}]" if entry.get("low") is not None else ""
            yield f"  {name.replace('_', ' '):24} {entry['value']:.4g}{interval}"
    for row in results.get("accuracy", ()):
        what = ", ".join(str(row[key]) for key in ("features", "classifier", "labels") if key in row)
        yield f"  accuracy {row['accuracy']:.3f}  ({what})"
    for number, advice in enumerate(results.get("recommendations", ()), 1):
        yield f"{number}. {advice['sentence']} ({advice['measurement']}) {advice.get('override', '')}".rstrip()


def _row(run: Run) -> dict[str, str]:
    """A run as one line of a comparison."""
    results, config = run.read_json("results.json") or {}, run.config
    row = {"method": config.method, "encoder": config.encoder, "epochs": str(config.epochs)}
    row["verdict"] = results.get("verdict", {}).get("label", "not examined")
    for entry in results.get("accuracy", ()):
        if entry["features"] == "trained encoder":
            row[f"{entry['classifier']}, {entry['labels']}"] = f"{entry['accuracy']:.3f}"
    for name in ("alignment", "uniformity", "effective_rank"):
        if name in results.get("diagnostics", {}):
            row[name] = f"{results['diagnostics'][name]['value']:.3f}"
    return row


STAGES = Rows(
    "verb",
    {"train": train, "embed": embed, "doctor": doctor, "compare": compare, "report": write_report},
)
