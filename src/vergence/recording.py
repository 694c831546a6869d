"""Training a run: the loop with its log, its measurements and its checkpoints, in reading order."""

import math
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import torch

from vergence import evaluation, features, launch, optim, training
from vergence.assembly import Assembled
from vergence.config import Config
from vergence.diagnostics import alignment, effective_rank, thermometer, uniformity
from vergence.distributed import gather
from vergence.progress import Progress
from vergence.run import Checkpoint, Run, environment
from vergence.tracking import tracked

CRITERIA = {
    "effective_rank": 1,
    "uniformity": -1,
    "knn": 1,
}  # what the best checkpoint may be chosen by; the sign of better


def record(parts: Assembled, run: Run, *, leads: bool, quiet: bool) -> None:
    """Train to the end: step, measure, log, save, stop when asked. Only the leading process writes."""
    config = parts.config
    if config.saving.best == "knn" and parts.samples.labels is None:
        raise ValueError("saving.best knn needs labels, and the data has none: choose effective_rank or uniformity.")
    optimiser = optim.optimiser(parts.learner, config.optim)
    told = max((row["step"] for row in run.rows()), default=0)
    start = restore(parts, run, optimiser, rewind=leads)
    if leads:
        run.write_json("env.json", environment())
    total = training.steps_per_epoch(len(parts.samples), config.batch) * config.epochs
    heat = _thermometer(parts)
    steps = training.fit(parts.learner, optimiser, parts.samples, parts.recipe, config, start=start)
    bar = Progress(total, start=start, quiet=quiet)
    with bar, launch.Signals() as signals, tracked(run, config.track if leads else (), told=told) as tell:
        for step in steps:
            stopping, last = signals.anywhere(), step.number == total
            bar.advance(step.samples, loss=step.loss, position=heat(step.loss))
            if leads:
                row = _row(parts, step, measured=_due(step, config.watching.every, last))
                if is_best(row, run.rows, config.saving.best):
                    run.save(_checkpoint(parts, optimiser, step.number), keep=1, series="best")
                run.log(row)
                run.log({"step": step.number, "seconds": round(bar.seconds, 3)}, name="timing.jsonl")
                tell(row)
                if last or stopping or _due(step, config.saving.every, last):
                    run.save(_checkpoint(parts, optimiser, step.number), keep=config.saving.keep)
            if stopping and not last:
                raise launch.Stopped(f"Stopped after step {step.number} of {total}; saved. --resume continues.")
    if leads and not total:
        run.save(_checkpoint(parts, optimiser, 0), keep=1)  # nothing to train, but something to use
    if leads and run.checkpoints("best"):
        training.restore(parts.learner, None, run.load(best=True).tensors)  # type: ignore[union-attr]


def restore(parts: Assembled, run: Run, optimiser: torch.optim.Optimizer, *, rewind: bool) -> int:
    """Go back to the newest good checkpoint, if there is one; return its step."""
    checkpoint = run.load()
    if checkpoint is not None:
        _check_origin(checkpoint, parts.config)
        training.restore(parts.learner, optimiser, checkpoint.tensors)
    step = 0 if checkpoint is None else checkpoint.step
    if len(gather(torch.tensor([step])).unique()) > 1:
        raise RuntimeError(f"The processes see different checkpoints: all nodes must share the folder {run.path}.")
    if rewind:
        run.rewind(step, keep=parts.config.saving.keep)
    return step


def is_best(row: Mapping[str, Any], rows: Callable[[], list[dict[str, Any]]], criterion: str) -> bool:
    """Whether a row holds the best value of the criterion so far; the first of equals wins."""
    if criterion not in row:
        return False
    sign = CRITERIA[criterion]
    before = [sign * earlier[criterion] for earlier in rows() if criterion in earlier]
    return sign * row[criterion] > max(before, default=-math.inf)


def watch(parts: Assembled) -> dict[str, float]:
    """What is measured along training, on samples held out from it: geometry, rank and, with labels, two accuracies."""
    config, learner = parts.config, parts.learner
    # At most a quarter of what is trained on: every ten epochs, that takes less than 5 % of the time.
    limit = max(2, min(config.watching.samples, len(parts.samples) // 4))
    options = {"branches": learner.branches, "limit": limit, "seed": config.seed}
    made = features.extract(learner.encoder, parts.validation, parts.recipe, **options)
    measured = {
        "alignment": alignment(made.z1, made.z2).value,
        "uniformity": uniformity(made.z1).value,
        "effective_rank": effective_rank(made.h),
    }
    known = parts.samples.labels
    if made.labels is not None and known is not None and len(known[: 4 * limit].unique()) > 1:
        bank = features.extract(learner.encoder, parts.samples, parts.recipe, limit=4 * limit)
        split = (bank.h, bank.labels, made.h, made.labels)
        measured["knn"] = evaluation.knn(*split).accuracy
        # The middle of the probe's penalties: choosing one would take seven fits.
        measured["probe"] = evaluation.linear_probe(*split, regularisation=1e-3).accuracy
    return measured


def _thermometer(parts: Assembled) -> Callable[[float], float]:
    """A loss to its place between chance (0) and floor (1), for the progress line."""
    method = parts.learner.method
    if method.objective is None:
        return lambda loss: float("nan")  # a loss without a scale has no place on it
    scale = thermometer(method.objective, n=parts.config.batch, d=parts.learner.width, **method.reading())
    span = scale.chance - scale.floor
    return lambda loss: (scale.chance - loss) / span if span else float("nan")


def _row(parts: Assembled, step: training.Step, *, measured: bool) -> dict[str, Any]:
    """A line of the log: what the step did and, when it is due, what was measured after it."""
    row = {"step": step.number, "epoch": step.epoch, "loss": step.loss, "learning_rate": step.learning_rate}
    return row | watch(parts) if measured else row


def _checkpoint(parts: Assembled, optimiser: torch.optim.Optimizer, step: int) -> Checkpoint:
    facts = {"method": parts.config.method, "version": metadata.version("vergence")}
    return Checkpoint(step, training.state(parts.learner, optimiser), facts)


def _check_origin(checkpoint: Checkpoint, config: Config) -> None:
    """Refuse a checkpoint of another method, or of a release that need not continue it to the bit."""
    method, version = checkpoint.facts["method"], checkpoint.facts.get("version", "0.0")
    here = metadata.version("vergence")
    if method != config.method:
        raise ValueError(f"The checkpoint is of {method}, this run of {config.method}: start another run.")
    if version.split(".")[:2] != here.split(".")[:2]:
        raise ValueError(
            f"The checkpoint is of vergence {version}, which {here} does not continue exactly: "
            f"pip install vergence=={version}, or start another run."
        )


def _due(step: training.Step, every: int, last: bool) -> bool:
    """Whether something that is done every so many epochs is done after this step."""
    return every > 0 and step.ends_epoch and (last or round(step.epoch) % every == 0)
