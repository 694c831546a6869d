"""Training a run: the loop with its log, its measurements and its checkpoints, in reading order."""

import time
from collections.abc import Callable

import torch

from vergence import evaluation, features, launch, optim, training
from vergence.assembly import Assembled
from vergence.diagnostics import alignment, effective_rank, thermometer, uniformity
from vergence.progress import Progress
from vergence.run import Checkpoint, Run


def record(parts: Assembled, run: Run, *, leads: bool, quiet: bool) -> None:
    """Train to the end: step, log, measure, save, stop when asked. Only the leading process writes."""
    config = parts.config
    optimiser = optim.optimiser(parts.learner, config.optim)
    start = restore(parts, run, optimiser, rewind=leads)
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


def restore(parts: Assembled, run: Run, optimiser: torch.optim.Optimizer, *, rewind: bool) -> int:
    """Go back to the newest good checkpoint, if there is one; return its step."""
    checkpoint = run.load()
    if checkpoint is not None:
        training.restore(parts.learner, optimiser, checkpoint.tensors)
    step = 0 if checkpoint is None else checkpoint.step
    if rewind:
        run.rewind(step)
    return step


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


def _thermometer(parts: Assembled) -> Callable[[float], float]:
    """A loss to its place between chance (0) and floor (1), for the progress line."""
    method = parts.learner.method
    scale = thermometer(method.objective, n=parts.config.batch, d=parts.learner.width, **method.hyperparameters)
    span = scale.chance - scale.floor
    return lambda loss: (scale.chance - loss) / span if span else float("nan")


def _due(epoch: float, every: int) -> bool:
    return every > 0 and round(epoch) % every == 0
