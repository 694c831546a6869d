"""``vergence train``: from data to an encoder; the loop with its log, measurements and checkpoints, in order."""

import gc
import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence import config as configs
from vergence import evaluation, features
from vergence import report as pages
from vergence.config import Config
from vergence.data import Samples, tokens
from vergence.diagnostics import SCALES, alignment, effective_rank, thermometer, uniformity
from vergence.learning import collectives, loop, optimizers, sharding
from vergence.learning.collectives import gather
from vergence.runs import assembly, assessment, compute, launch, precision, sentences, sharded, starting, threads
from vergence.runs.assembly import Assembled
from vergence.runs.progress import After, Progress
from vergence.runs.results import Answer
from vergence.runs.run import Checkpoint, Run, environment
from vergence.runs.tracking import check_trackers, tracked
from vergence.stages import report

KEPT_TEXTS = 20_000  # texts without labels whose features a run keeps, of each part: as many as the doctor examines
BASELINE_SAMPLES = 10_000  # the untrained encoder and the raw pixels are compared on at most this many samples
PARTS = 7  # of the assessment: features, diagnosis, three kinds of features, few labels, the page
CRITERIA = {
    "effective_rank": 1,
    "uniformity": -1,
    "knn": 1,
}  # what the best checkpoint may be chosen by; the sign of better


def train(
    settings: Config | None = None,
    *,
    run: str | Path = "runs/latest",
    resume: bool = False,
    overwrite: bool = False,
    devices: int = 1,
    quiet: bool = False,
    **options: Any,
) -> Answer:
    """Train an encoder on unlabeled data; leave a checkpoint, features, a diagnosis and a page in a run directory.

    From Python, settings may be given by name beside a config or instead of one, and data, method, encoder, views and
    objective may be objects: ``train(data=x, encoder=MyNet(), objective=my_loss, epochs=10)``.
    """
    launch.available(devices)
    if resume and overwrite:
        raise ValueError("--resume continues a run and --overwrite replaces it: give one of them.")
    was = Run(run).config if resume and (Path(run) / "config.yaml").exists() else None
    settings = configs.given(was if settings is None else settings, **options)
    settings = settings if was is None else threads.recorded(settings, was)
    with launch.Signals(patient=False, saying=lambda: "Stopped before training began; nothing was changed."):
        together = launch.joined()
        if was is None and collectives.rank() == 0:  # before anything large is read or built
            Run(run).check_free(overwrite=overwrite)
        if not quiet and collectives.rank() == 0:
            print(f"Reading {settings.data}", file=sys.stderr, flush=True)
        sentences.check(settings.evaluate)
        usable = precision.usable(settings, assembly.device(settings))
        stored = tokens.stored(Path(run)) if resume else None
        parts = assembly.assemble(usable, start=not (resume and Run(run).saved), tokens=stored)
        check(parts)
        choice = ""
        if devices == 1 and not together and was is None:
            parts, choice = threads.settled(parts)
        leads = collectives.rank() == 0
        place = Run.create(run, parts.config, overwrite=overwrite, resume=resume) if leads else Run(run)
        if leads and parts.samples.tokens is not None:
            for name, content in tokens.files(parts.samples.tokens).items():
                place.write_text(name, content)
    if devices > 1 and not together:
        del parts  # the processes load the data and build the model themselves
        gc.collect()
        return _train_together(place, devices, quiet=quiet)
    stoppable = launch.Signals(patient=False, saying=lambda: f"Stopped. {place.kept()}")
    with stoppable, place.locked() if leads else nullcontext(), threads.used(parts.config.compute.threads):
        if leads:
            place.check_same(parts.config)  # another process may have overwritten it before it was locked
            begin(parts, place)
        if leads and not quiet:
            print("\n".join(filter(None, (opening(parts), choice))), file=sys.stderr, flush=True)
        with launch.speaking_of_loss(place.kept):
            parts = record(parts, place, leads=leads, quiet=quiet or not leads)
        if not leads:
            return Answer((), {})
        return assess(parts, place, quiet=quiet)


def check(parts: Assembled) -> None:
    """Refuse what would end a run later, before anything is written or an older run is cleared away."""
    config = parts.config
    if len(parts.test) < 2:
        few = f"{len(parts.samples) + len(parts.test)} samples, too few to hold two of them out for the diagnosis"
        raise ValueError(f"{config.data} gives {few}: about 10 are the least.")
    loop.steps_per_epoch(len(parts.samples), config.batch)
    if config.saving.best == "knn" and parts.samples.labels is None:
        raise ValueError("saving.best knn needs labels, and the data has none: choose effective_rank or uniformity.")
    if config.evaluate and parts.samples.kind != "text":
        raise ValueError(f"--evaluate is for runs on texts; {config.data} holds {parts.samples.kind} samples.")
    check_trackers(config.track)


def assess(parts: Assembled, place: Run, *, quiet: bool) -> Answer:
    """What follows training: features, diagnosis, map and page, each named while it is made."""
    with After(PARTS + len(place.config.evaluate), quiet=quiet) as after:
        after.begin("features of the encoder and of the baselines")
        freeze(parts, place)
        assessment.of_run(place, evaluate=place.config.evaluate, saying=after.begin)
        after.begin("map and page")
        page = pages.write(place.path, told=after.part)
    return report.written(page)


def opening(parts: Assembled) -> str:
    """What is about to happen: what was read, how much of it is held out, by what it is encoded, seen and trained."""
    config, samples = parts.config, parts.samples
    weights = sum(weight.numel() for weight in parts.learner.encoder.parameters())
    reasons, named = (
        Counter(reason for _, reason in samples.skipped),
        {reason: name for name, reason in samples.skipped},
    )
    skipped = "".join(
        f" {count if count > 1 else named[reason]} skipped: {reason}." for reason, count in reasons.most_common(3)
    )
    remarks = f" {samples.remarks}" if samples.remarks else ""
    watched = f"{len(parts.validation):,} more to watch training by, " if config.watching.held_out else ""
    return (
        f"{samples}; {watched}{len(parts.test):,} more to judge it at the end.{skipped}{remarks} "
        f"{config.method} with {config.encoder} ({weights / 1e6:.1f} M weights), views {parts.recipe.description}, "
        f"{config.epochs} epoch{'s' * (config.epochs != 1)} in batches of {config.batch}."
    )


def begin(parts: Assembled, run: Run) -> None:
    """Write down where the run started, and the features of its encoder before the first step."""
    if parts.start is None:  # from the seed, or from a checkpoint of its own
        return
    starting.say(parts.start)
    made: dict[str, Tensor] = {}
    for split, samples in (("train", parts.samples), ("test", parts.test)):
        made |= features.extract(parts.learner.encoder, samples, parts.recipe, limit=BASELINE_SAMPLES).tensors(split)
    stacks, rows = features.of_views(parts.learner.encoder, parts.test, parts.recipe, seed=parts.config.seed)
    features.save(run.path / starting.FEATURES, {**made, "test_views": stacks, "test_views_rows": rows})
    run.write_json(starting.FILE, parts.start.to_dict())


def record(parts: Assembled, run: Run, *, leads: bool, quiet: bool) -> Assembled:
    """Train to the end: step, measure, log, save, stop when asked. Only the leading process writes.

    Returns the parts with the trained weights. Where these are sharded all processes measure and save together.
    """
    config = parts.config
    together = spread(parts)
    optimizer = optimizers.optimizer(parts.learner, config.optim, layer_decay=config.starting.layer_decay)
    if together:
        for group in optimizer.param_groups:
            group["foreach"] = False  # sharded weights and whole scalars cannot be updated in one go
    told = max((row["step"] for row in run.rows()), default=0)
    start = restore(parts, run, optimizer, rewind=leads)
    if leads:
        run.write_json("env.json", environment())
    total = loop.steps_per_epoch(len(parts.samples), config.batch) * config.epochs
    heat = _thermometer(parts)
    recipe = compute.compiled(parts.learner, parts.recipe, config.compute)
    steps = loop.fit(parts.learner, optimizer, parts.samples, recipe, config, start=start)
    bar = Progress(total, start=start, quiet=quiet, then="the assessment")
    with bar, launch.Signals(patient=True) as signals, tracked(run, config.track if leads else (), told=told) as tell:
        waiting: list[loop.Step] = []
        row: dict[str, Any] = {}
        loss = math.nan
        for step in steps:
            stopping, last = signals.anywhere(), step.number == total
            waiting.append(step)
            if stopping:
                loop.read(waiting)
            loss = step.loss if step.known else loss
            bar.advance(step.samples, loss=loss, position=heat(loss))
            if not step.known:
                continue  # its loss is still on the accelerator: the lines of several steps are written together
            earlier, waiting = waiting[:-1], []
            for before in earlier if leads else ():
                row = _row(parts, before, measured=False)
                run.log(row)
                run.log({"step": before.number, "seconds": round(bar.seconds, 3)}, name="timing.jsonl")
                tell(row)
            saves = last or stopping or _due(step, config.saving.every, last)
            row = {}
            if leads or together:
                row = _row(parts, step, measured=_due(step, config.watching.every, last) and _measurable(parts))
            if leads:
                if is_best(row, run.rows, config.saving.best):
                    run.save(_checkpoint(parts, optimizer, step.number), keep=1, series="best")
                run.log(row)
                run.log({"step": step.number, "seconds": round(bar.seconds, 3)}, name="timing.jsonl")
                tell(row)
                if saves and not together:
                    run.save(_checkpoint(parts, optimizer, step.number), keep=config.saving.keep)
            if saves and together:
                keep, method = config.saving.keep, config.method
                sharded.save(run, parts.learner, optimizer, step=step.number, method=method, keep=keep)
            if stopping and not last:
                raise launch.Stopped(f"Stopped after step {step.number} of {total}; saved. --resume continues.")
    if signals.received is not None:
        raise launch.Stopped(f"Stopped after the last step, before the assessment. {run.kept()}")
    if together:
        return _gathered(parts, run, total, leads=leads)
    if leads and not total:
        run.save(_checkpoint(parts, optimizer, 0), keep=1)  # nothing to train, but something to use
    if leads and run.checkpoints("best"):
        loop.restore(parts.learner, None, run.load(best=True).tensors)  # type: ignore[union-attr]
    return parts


def spread(parts: Assembled) -> bool:
    """Recompute activations and shard weights as the config says; whether the weights are sharded."""
    config, learner = parts.config, parts.learner
    if config.sharding.recompute:
        sharding.recompute(learner.encoder)
    if config.sharding.weights and collectives.world() == 1:
        warnings.warn("sharding.weights does nothing on one process: start several, with --devices or torchrun.")
    if not config.sharding.weights or collectives.world() == 1:
        return False
    sharding.shard(learner, precision=loop.precision(config.precision, assembly.device(config)))
    return True


def _gathered(parts: Assembled, run: Run, total: int, *, leads: bool) -> Assembled:
    """The parts with a whole learner again, on the leading process, which saves its weights for whoever uses them."""
    weights = sharding.gathered(parts.learner)
    if not leads:
        return parts
    learner: Any = assembly.build_learner(parts.config, parts.samples, parts.recipe).to(assembly.device(parts.config))
    if parts.samples.kind == "image":
        learner = learner.to(memory_format=torch.channels_last)
    learner.load_state_dict(weights)
    tensors = {f"model.{name}": tensor for name, tensor in weights.items()}
    facts = {"method": parts.config.method, "version": metadata.version("vergence"), "gathered": True}
    run.save(Checkpoint(total, tensors, facts), keep=1)
    return replace(parts, learner=learner)


def restore(parts: Assembled, run: Run, optimizer: torch.optim.Optimizer, *, rewind: bool) -> int:
    """Go back to the newest good checkpoint, if there is one; return its step."""
    if parts.config.sharding.weights and collectives.world() > 1:
        facts = sharded.restore(run, parts.learner, optimizer)
        if facts is not None:
            _check_origin(Checkpoint(int(facts["step"]), {}, facts), parts.config)
        if rewind:
            run.rewind(0 if facts is None else int(facts["step"]), keep=parts.config.saving.keep)
        return 0 if facts is None else int(facts["step"])
    checkpoint = run.load()
    if checkpoint is not None:
        if checkpoint.facts.get("gathered"):
            raise ValueError(f"{run.path} was trained with sharded weights: continue it on several processes.")
        _check_origin(checkpoint, parts.config)
        loop.restore(parts.learner, optimizer, checkpoint.tensors)
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
    if made.labels is not None and known is not None and len(known.unique()) > 1:
        bank = features.extract(learner.encoder, parts.samples, parts.recipe, limit=4 * limit)
        split = (bank.h, bank.labels, made.h, made.labels)
        measured["knn"] = evaluation.knn(*split).accuracy
        # The middle of the probe's penalties: choosing one would take seven fits.
        measured["probe"] = evaluation.linear_probe(*split, regularization=1e-3).accuracy
    return measured


def _thermometer(parts: Assembled) -> Callable[[float], float]:
    """A loss to its place between chance (0) and floor (1), for the progress line."""
    method = parts.learner.method
    if method.objective not in SCALES:
        return lambda loss: float("nan")  # a loss without a scale has no place on it
    reading = method.reading(hard_negatives=parts.recipe.negatives)
    scale = thermometer(method.objective, n=parts.config.batch, d=parts.learner.width, **reading)
    span = scale.chance - scale.floor
    return lambda loss: (scale.chance - loss) / span if span else float("nan")


def _row(parts: Assembled, step: loop.Step, *, measured: bool) -> dict[str, Any]:
    """A line of the log: what the step did and, when it is due, what was measured after it."""
    row = {"step": step.number, "epoch": step.epoch, "loss": step.loss, "learning_rate": step.learning_rate}
    return row | watch(parts) if measured else row


def _checkpoint(parts: Assembled, optimizer: torch.optim.Optimizer, step: int) -> Checkpoint:
    facts = {"method": parts.config.method, "version": metadata.version("vergence")}
    return Checkpoint(step, loop.state(parts.learner, optimizer), facts)


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


def _measurable(parts: Assembled) -> bool:
    """Whether enough samples are held out to measure anything: a spread takes two."""
    return len(parts.validation) > 1


def _due(step: loop.Step, every: int, last: bool) -> bool:
    """Whether something that is done every so many epochs is done after this step."""
    return every > 0 and step.ends_epoch and (last or round(step.epoch) % every == 0)


def freeze(parts: Assembled, run: Run) -> None:
    """Freeze the run's features, and those of its baselines, into two files."""
    learner, recipe = parts.learner, parts.recipe
    train = features.extract(learner.encoder, parts.samples, recipe, limit=_kept(parts.samples))
    test = features.extract(
        learner.encoder, parts.test, recipe, branches=learner.branches, limit=_kept(parts.test), seed=parts.config.seed
    )
    pictures = features.thumbnails(parts.test) | features.viewed(parts.test, recipe, test, seed=parts.config.seed)
    stacks, rows = features.of_views(learner.encoder, parts.test, recipe, seed=parts.config.seed)
    views = {"test_views": stacks, "test_views_rows": rows}
    if parts.test.kind == "text" and parts.test.names is not None and test.rows is not None:
        views["test_words"] = sentences.word_facts([parts.test.names[row] for row in test.rows.tolist()])
    trained = {**train.tensors("train"), **test.tensors("test"), **views, **pictures}
    features.save(run.path / "features.safetensors", trained)
    run.write_json("samples.json", _facts(parts))
    started = (run.path / starting.FEATURES).exists()  # then the encoder before training is the baseline
    encoder = None if started else assembly.untrained(parts)
    baselines: dict[str, Tensor] = {}
    for split, samples in (("train", parts.samples), ("test", parts.test)):
        if encoder is not None:
            made = features.extract(encoder, samples, parts.recipe, limit=BASELINE_SAMPLES)
            baselines |= made.tensors(f"untrained_{split}")
        if samples.kind != "text":
            baselines |= features.raw(samples, parts.recipe, limit=BASELINE_SAMPLES).tensors(f"raw_{split}")
    if parts.samples.kind == "text" and parts.samples.names is not None:
        baselines |= sentences.counts_of(parts.samples)
    features.save(run.path / "baselines.safetensors", baselines)


def _kept(samples: Samples) -> int | None:
    """How many samples a run keeps features of: all, but of texts without labels, which are sentences of a corpus."""
    return KEPT_TEXTS if samples.kind == "text" and samples.labels is None else None


def _facts(parts: Assembled) -> dict[str, Any]:
    """What the page says about the samples besides their features."""
    names, shown = parts.test.names, features.shown(parts.test).tolist()
    return {
        "kind": parts.samples.kind,
        "shape": list(parts.samples.shape),
        "classes": list(parts.test.classes),
        "names": None if names is None else [str(names[row]) for row in shown],
        "skipped": [list(pair) for pair in dict([*parts.samples.left_out, *parts.test.left_out]).items()],
    }


def _train_together(place: Run, devices: int, *, quiet: bool) -> Answer:
    """Hand a created run to several processes; the first of them finishes it."""
    status = launch.start(launch.resuming(place.path, quiet=quiet), devices=devices, saying=place.kept)
    if status:
        raise RuntimeError(f"The processes failed with status {status}. {place.kept()}")
    return report.written(place.path / "report.html")
