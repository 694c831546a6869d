"""Time to the same kNN accuracy as a lightly loop, and what measuring along training costs.

    VERGENCE_DATA=... sh benchmarks/run.sh benchmarks/time_to_accuracy.py
    VERGENCE_DATA=... .venv-bench/bin/python benchmarks/time_to_accuracy.py 0 1 2  # several seeds, and their mean
    VERGENCE_DATA=... python benchmarks/time_to_accuracy.py choose                 # candidates, by training images
    VERGENCE_DATA=... python benchmarks/time_to_accuracy.py record 0 1 2           # the fastest of them to .45 and .50
    VERGENCE_DATA=... .venv-bench/bin/python benchmarks/time_to_accuracy.py against 12 0 1 2   # beside lightly

SimCLR on 10,000 CIFAR-10 images with the three-layer convnet, batch 256, temperature 0.2. Both loops have the same
encoder, initial weights, optimizer, schedule and strength of color, and take turns, half an epoch each. What counts
is processor time, with that of lightly's workers; finding the accuracy, on at most 5,000 test images, is not counted.
Between two measurements the accuracy is taken to grow on a straight line. Five minutes a seed.
"""

import copy
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from end_to_end import Transformed, config_for_speed, orders, processor_time
from peers import declare_operators
from vergence import evaluation, features
from vergence.config import Config, Optim
from vergence.data import Samples
from vergence.learning import loop, optimizers
from vergence.runs import assembly
from vergence.runs.assembly import Assembled
from vergence.stages import train

EPOCHS = 4
TEMPERATURE = 0.2
TARGETS = (0.38, 0.39, 0.40, 0.41, 0.42)
CONFIG = Config(
    data="cifar10",
    limit=10_000,
    encoder="convnet",
    backbone={"channels": (32, 64, 128)},
    objective={"temperature": TEMPERATURE},
    epochs=EPOCHS,
)
RECORD_TARGETS = (0.42, 0.45, 0.50)
# The two best methods at 20 epochs in docs/measured/methods.md, with less time.
CANDIDATES: dict[str, dict[str, Any]] = {
    "frossl, 12 epochs": {"method": "frossl", "epochs": 12},
    "frossl, batch 128": {"method": "frossl", "epochs": 12, "batch": 128},
    "frossl, rate .004": {"method": "frossl", "epochs": 12, "optim": Optim(learning_rate=4e-3)},
    "frossl, rate .008, 20 epochs": {"method": "frossl", "epochs": 20, "optim": Optim(learning_rate=8e-3)},
}
RECORD = "frossl, rate .008, 20 epochs"
Curve = list[tuple[float, float]]  # seconds and accuracy


def main(seeds: list[int]) -> None:
    torch.set_num_threads(1)
    runs = []
    for seed in seeds:
        parts = assembly.assemble(config_for_speed(Config(**{**vars(CONFIG), "seed": seed})))
        contenders = {"vergence": our_loop(parts)}
        if find_spec("lightly"):
            contenders["lightly"] = lightly_loop(parts)
        runs.append(raced(parts, contenders))
        report(f"seed {seed}", runs[-1])
    if len(runs) > 1:
        report("mean curves", {name: mean([run[name] for run in runs]) for name in runs[0]})
    online_cost()


def choose(names: list[str]) -> None:
    """Each candidate's curve by 5,000 training images that are held out, from which the record was chosen."""
    torch.set_num_threads(1)
    for name in names or list(CANDIDATES):
        curve = trained(CANDIDATES[name], seed=0, held_out=True)
        words = ", ".join(f"{target:.2f} {said(seconds_to(target, curve))}" for target in RECORD_TARGETS)
        print(f"{name:24} highest {max(knn for _, knn in curve):.4f}; seconds to {words}", flush=True)


def record(seeds: list[int]) -> None:
    """Processor seconds of training until kNN on the test images first reaches each target; a look after each epoch."""
    torch.set_num_threads(1)
    curves = [trained(CANDIDATES[RECORD], seed=seed) for seed in seeds]
    for target in RECORD_TARGETS:
        print(f"kNN {target:.2f} after " + ", ".join(said(seconds_to(target, curve)) for curve in curves))


def against(epochs: int, seeds: list[int]) -> None:
    """The record beside lightly's loop with SimCLR, whose schedule ends with its last epoch; they take turns."""
    torch.set_num_threads(1)
    for seed in seeds:
        contenders = {"record": ours(CANDIDATES[RECORD], seed=seed), "lightly": theirs(epochs, seed=seed)}
        curves = {name: [(0.0, 0.0)] for name in contenders}
        while contenders:
            # The turn is of the contender that has had less time, so that both meet the same other programs.
            name = min(contenders, key=lambda each: curves[each][-1][0])
            point = next(contenders[name], None)
            if point is None or point[1] >= RECORD_TARGETS[-1]:
                del contenders[name]
            if point is not None:
                curves[name].append(point)
                print(f"  seed {seed}, {name:8} {point[0]:6.1f} s   kNN {point[1]:.4f}", flush=True)
        report(f"seed {seed}", curves, RECORD_TARGETS)


def trained(options: dict[str, Any], *, seed: int, held_out: bool = False) -> Curve:
    """Processor seconds of training and accuracy after each epoch, until the highest target."""
    curve: Curve = [(0.0, 0.0)]
    for seconds, knn in ours(options, seed=seed, held_out=held_out):
        curve.append((seconds, knn))
        print(f"  seed {seed}, epoch {len(curve) - 1:2}   {seconds:6.1f} s   kNN {knn:.4f}", flush=True)
        if knn >= RECORD_TARGETS[-1]:
            break
    return curve


def ours(options: dict[str, Any], *, seed: int, held_out: bool = False) -> Iterator[tuple[float, float]]:
    """Processor seconds of our training and the accuracy after each epoch."""
    config = Config(**{**vars(CONFIG), "objective": {}, **options, "seed": seed, "track": ()})
    parts = assembly.assemble(config)
    learner, steps = our_steps(parts)
    seconds = 0.0
    for _ in range(config.epochs):
        start = processor_time()
        for _ in range(loop.steps_per_epoch(len(parts.samples), config.batch)):
            next(steps)
        seconds += processor_time() - start
        yield seconds, accuracy(parts, learner.encoder, parts.validation if held_out else parts.test)
        learner.train()


def theirs(epochs: int, *, seed: int) -> Iterator[tuple[float, float]]:
    """The same of lightly's loop with SimCLR, after each half epoch."""
    parts = assembly.assemble(config_for_speed(Config(**{**vars(CONFIG), "epochs": epochs, "seed": seed})))
    encoder, halves = lightly_loop(parts)
    seconds = 0.0
    for _ in range(2 * epochs):
        start = processor_time()
        next(halves)
        seconds += processor_time() - start
        yield seconds, accuracy(parts, encoder)


def said(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f}"


def raced(parts: Assembled, contenders: dict[str, tuple[nn.Module, Iterator[None]]]) -> dict[str, Curve]:
    """The accuracy of every contender after each half epoch, over its processor time."""
    curves: dict[str, Curve] = {name: [(0.0, accuracy(parts, encoder))] for name, (encoder, _) in contenders.items()}
    for _ in range(2 * EPOCHS):
        for name, (encoder, halves) in contenders.items():
            start = processor_time()
            next(halves)
            seconds = curves[name][-1][0] + processor_time() - start
            curves[name].append((seconds, accuracy(parts, encoder)))
            print(f"  {name:10} {seconds:6.1f} s   kNN {curves[name][-1][1]:.4f}", flush=True)
    return curves


def our_steps(parts: Assembled) -> tuple[nn.Module, Iterator[loop.Step]]:
    learner = copy.deepcopy(parts.learner)
    optimizer = optimizers.optimizer(learner, parts.config.optim)
    return learner, loop.fit(learner, optimizer, parts.samples, parts.recipe, parts.config)


def our_loop(parts: Assembled) -> tuple[nn.Module, Iterator[None]]:
    learner, steps = our_steps(parts)

    def halves() -> Iterator[None]:
        while True:
            learner.train()
            for _ in range(_half(parts)):
                next(steps)
            yield

    return learner.encoder, halves()


def lightly_loop(parts: Assembled) -> tuple[nn.Module, Iterator[None]]:
    """lightly's documented loop: its transform on PIL images, a DataLoader with two workers, its loss."""
    declare_operators()
    from lightly.loss import NTXentLoss
    from lightly.transforms import SimCLRTransform
    from PIL import Image

    encoder, projector = copy.deepcopy(parts.learner.encoder), copy.deepcopy(parts.learner.projector)
    model = nn.Sequential(encoder, projector).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    optimizer = optimizers.optimizer(model, parts.config.optim)
    criterion = NTXentLoss(temperature=TEMPERATURE)
    transform = SimCLRTransform(input_size=32, cj_strength=0.5, gaussian_blur=0.0, normalize=None)
    dataset = Transformed([Image.fromarray(x.permute(1, 2, 0).numpy()) for x in parts.samples.x], transform)
    batches, number = orders(len(dataset), parts.config.batch), 0
    each = loop.steps_per_epoch(len(dataset), parts.config.batch)

    def halves() -> Iterator[None]:
        nonlocal number
        while True:
            model.train()
            # Just the samples of this half, so that the workers end with it and their time is known.
            sampler = torch.cat([next(batches) for _ in range(_half(parts))]).tolist()
            for first, second in torch.utils.data.DataLoader(
                dataset, parts.config.batch, sampler=sampler, num_workers=2
            ):
                for group in optimizer.param_groups:
                    group["lr"] = optimizers.learning_rate(parts.config.optim, number, each * parts.config.epochs, each)
                criterion(model(first), model(second)).backward()
                optimizer.step()
                optimizer.zero_grad()
                number += 1
            yield

    return encoder, halves()


def accuracy(parts: Assembled, encoder: nn.Module, samples: Samples | None = None) -> float:
    bank = features.extract(encoder, parts.samples, parts.recipe)
    test = features.extract(encoder, samples or parts.test, parts.recipe, limit=5_000)
    return evaluation.knn(bank.h, bank.labels, test.h, test.labels).accuracy


def mean(curves: list[Curve]) -> Curve:
    """Seconds and accuracy after each half epoch, on average: a single curve jumps by a point from luck alone."""
    points = zip(*curves, strict=True)
    return [tuple(statistics.mean(column) for column in zip(*point, strict=True)) for point in points]  # type: ignore[misc]


def report(title: str, curves: dict[str, Curve], targets: Sequence[float] = TARGETS) -> None:
    """The seconds of each contender to each target, and how many times as long lightly's took, or took at least."""
    print(f"{title}: processor seconds to an accuracy")
    for target in targets:
        reached = {name: seconds_to(target, curve) for name, curve in curves.items()}
        words = ", ".join(f"{name} {'never' if found is None else f'{found:.1f}'}" for name, found in reached.items())
        (own, *_), lightly = reached.values(), curves.get("lightly")
        ratio = ""
        if own and lightly:
            found = reached["lightly"]
            ratio = f"   {'over ' if found is None else ''}{(found or lightly[-1][0]) / own:.1f} times as fast"
        print(f"  {target:.2f}: {words}{ratio}", flush=True)


def seconds_to(target: float, curve: Curve) -> float | None:
    """When the curve first reaches the target, if it does."""
    for (before, low), (after, high) in pairwise(curve):
        if high >= target:
            return before + (after - before) * max(0.0, target - low) / (high - low)
    return None


def online_cost(rounds: int = 5) -> None:
    """The share of a run's time that goes into what is measured every ten epochs, the default, of each encoder."""
    for channels in ((32, 64, 128), (64, 128, 256, 256)):
        parts = assembly.assemble(Config(**{**vars(CONFIG), "backbone": {"channels": channels}, "epochs": 100}))
        optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
        steps = loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)
        each = loop.steps_per_epoch(len(parts.samples), parts.config.batch)
        costs = [(_timed(train.watch, parts), _timed(next, steps)) for _ in range(rounds)]
        watch, step = (statistics.median(column) for column in zip(*costs, strict=True))
        share = watch / (watch + step * each * parts.config.watching.every)
        print(f"{channels}: measuring {watch:.2f} s, an epoch {step * each:.1f} s; {share:.1%} of the time (bar 5 %)")


def _half(parts: Assembled) -> int:
    """Steps in half an epoch."""
    return loop.steps_per_epoch(len(parts.samples), parts.config.batch) // 2


def _timed(run: Callable[..., object], *arguments: object) -> float:
    start = time.process_time()
    run(*arguments)
    return time.process_time() - start


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record([int(seed) for seed in sys.argv[2:]] or [0])
    elif sys.argv[1:2] == ["choose"]:
        choose(sys.argv[2:])
    elif sys.argv[1:2] == ["against"]:
        against(int(sys.argv[2]), [int(seed) for seed in sys.argv[3:]] or [0])
    else:
        main([int(seed) for seed in sys.argv[1:]] or [0])
