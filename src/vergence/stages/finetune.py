"""``vergence finetune``: what the encoder is worth when it moves with some labels; and a classifier to use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from vergence import evaluation, features
from vergence import report as pages
from vergence import views as recipes
from vergence.evaluation.few_labels import interval
from vergence.evaluation.finetuning import FRESH, classified, fine_tuned, headed, share_for, steps_for
from vergence.runs import assembly, finetuned, results, starting
from vergence.runs.assembly import Assembled
from vergence.runs.progress import Progress
from vergence.runs.results import Answer, FineTuning, Number, Score
from vergence.runs.run import Run

DRAWS = 3
MODES = ("fine-tuned", "linear probe", "from scratch")
# Of the views of images, what a classifier keeps: SimCLR (Chen et al. 2020, App. B.5) fine-tunes with crops and flips.
MILD = {"gray": False, "color": False, "blur": False, "smallest": 0.4}


def finetune(
    run: Path, *, labels: tuple[str, ...] = ("10%",), draws: int = DRAWS, steps: int = 0, quiet: bool = False
) -> Answer:
    """Fine-tune a run's encoder on some labels, beside a frozen probe and training from scratch on the same labels.

    Each number of labels is drawn several times; accuracies are on the test split, with intervals over the draws and
    the test samples. The model of the first draw is kept, with its classes, for ``vergence export`` and ``vg.load``.
    """
    place = Run(run)
    parts = assembly.trained(place)
    known = parts.samples.labels
    if known is None or parts.test.labels is None or len(known.unique()) < 2:
        raise ValueError(f"Fine-tuning needs labels of at least two classes, and {parts.config.data} has none.")
    if draws < 1 or steps < 0:
        raise ValueError(f"--draws must be at least 1 and --steps at least 0, got {draws} and {steps}.")
    if not labels:
        raise ValueError("--labels names no number of labels: give 10%, 5-per-class, 200 or all.")
    plans = {spec: [finetuned.chosen(spec, known, seed=draw) for draw in range(draws)] for spec in labels}
    total = sum(2 * (steps or steps_for(len(rows))) for drawn in plans.values() for rows in drawn)
    found = []
    with Progress(total, quiet=quiet) as bar:
        for spec, drawn in plans.items():
            found.append(_with(parts, place, spec, drawn, steps=steps, bar=bar))
    examined = results.read(place.path)
    if examined is not None:
        msgspec.structs.replace(examined, finetuning=finetuned.read_all(place)).write(place.path)
        pages.write(place.path)
    lines = [line for each in found for line in _lines(each)]
    return Answer(tuple(lines), {"run": str(run), "finetuning": [msgspec.to_builtins(each) for each in found]})


def _with(parts: Assembled, run: Run, spec: str, drawn: list[Tensor], *, steps: int, bar: Progress) -> FineTuning:
    """The three ways with one number of labels, over its draws; the first draw's model is kept."""
    known, truth = parts.samples.labels, parts.test.labels.numpy()  # type: ignore[union-attr]
    assert known is not None
    right: dict[str, list[np.ndarray]] = {mode: [] for mode in MODES}
    kept: nn.Module | None = None
    for draw, rows in enumerate(drawn):
        predictions, model = _one(parts, rows, known[rows], draw=draw, steps=steps, bar=bar)
        for mode in MODES:
            right[mode].append((predictions[mode] == truth).astype(float))
        kept = kept if kept is not None else model
    hits = {mode: np.stack(each) for mode, each in right.items()}
    each = len(drawn[0]) / len(known.unique())
    target = finetuned.folder(run, spec)
    found = FineTuning(
        labels=spec,
        count=len(drawn[0]),
        scores=tuple(_score(mode, hits[mode], each) for mode in MODES),
        over_scratch=_difference(hits["fine-tuned"] - hits["from scratch"]),
        over_probe=_difference(hits["fine-tuned"] - hits["linear probe"]),
        path=str(target),
    )
    assert kept is not None
    finetuned.write(target, kept, found, run=run, classes=parts.samples.classes)
    return found


def _one(
    parts: Assembled, rows: Tensor, labels: Tensor, *, draw: int, steps: int, bar: Progress
) -> tuple[dict[str, np.ndarray], nn.Module]:
    """Predictions of the test samples in three ways from one draw of labels, and the fine-tuned model."""
    config, samples, test = parts.config, parts.samples, parts.test
    x, classes = samples.x[rows], len(samples.classes)
    plain, mild = lambda x, keys: parts.recipe.plain(x), _mild(parts)
    options: dict[str, Any] = {
        "steps": steps,
        "views": mild,
        "seed": draw,
        "told": lambda loss: bar.advance(len(x), loss=loss),
    }
    encoder = parts.learner.encoder.cpu()
    start = headed(encoder, x, labels, classes=classes, probe=True, plain=plain)
    model = fine_tuned(start, x, labels, share=share_for(len(x)), **options)
    torch.manual_seed(config.seed + 1 + draw)
    fresh = assembly.build_encoder(config, samples, parts.recipe)
    starting.forget(fresh, config)
    start = headed(fresh, x, labels, classes=classes, probe=False, plain=plain)
    scratch = fine_tuned(start, x, labels, rate=FRESH, **options)
    frozen = features.extract(encoder, samples.take(rows), parts.recipe).h
    left = features.extract(encoder, test, parts.recipe).h
    probe = evaluation.linear_probe(frozen, labels, left, test.labels).predictions
    made = [classified(each, test.x, plain).numpy() for each in (model, scratch)]
    return {"fine-tuned": made[0], "linear probe": probe, "from scratch": made[1]}, model


def _mild(parts: Assembled) -> Callable[[Tensor, Tensor], Tensor]:
    """What is seen of a batch: of images a view without changes of color, of anything else the sample itself."""
    if parts.samples.kind != "image":
        return lambda x, keys: parts.recipe.plain(x)
    known = dict(parts.config.view)
    changed: dict[str, Any] = {key: value for key, value in MILD.items() if key in known}
    recipe = recipes.build(parts.config.views, **{**known, **changed}).fitted(parts.samples.x[torch.arange(2)])
    return lambda x, keys: recipe.view(x, keys)


def _score(mode: str, right: np.ndarray, per_class: float) -> Score:
    low, high = interval(right)
    spread = float(right.mean(1).std(ddof=1)) if len(right) > 1 else 0.0
    counts: dict[str, Any] = {"n": right.shape[1], "per_class": per_class, "draws": len(right), "spread": spread}
    return Score(accuracy=float(right.mean()), features=mode, classifier=mode, low=low, high=high, **counts)


def _difference(gain: np.ndarray) -> Number:
    low, high = interval(gain, least=-1.0)
    return Number(float(gain.mean()), low, high, n=gain.shape[1], method="paired over draws and test samples")


def _lines(found: FineTuning) -> list[str]:
    lines = [f"{found.labels} of the labels ({found.count:,}), {found.scores[0].draws} draws:"]
    for score in found.scores:
        lines.append(f"  {score.features:14} {score.accuracy:.3f} [{score.low:.3f}, {score.high:.3f}] n={score.n:,}")
    for words, number in (("from scratch", found.over_scratch), ("the linear probe", found.over_probe)):
        told = f"{number.value:+.3f} [{number.low:+.3f}, {number.high:+.3f}]"
        clear = number.low is not None and number.high is not None and (number.low > 0 or number.high < 0)
        lines.append(f"  fine-tuning over {words}: {told}{'' if clear else ', which may be none'}")
    return [*lines, f"  model: {found.path}"]
