"""How many threads of the processor train: tried for a few steps, not guessed.

Sums of two threads differ in their last bits from those of one. So a number is chosen only where the config asks for
it (-1); else the same command gives the same weights, and a sentence says which number would be faster.

Threads meet at the end of every operation and spin until the last has come. Where another program holds a core, all of
them spend their time waiting for the one that it keeps from running, and two threads can be slower than one.
"""

import copy
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

import torch

from vergence.config import Config
from vergence.data.samples import Sharded
from vergence.learning import collectives, loop, optimizers
from vergence.runs import assembly
from vergence.runs.assembly import Assembled

ROUNDS = 3  # steps of each number of threads, in turns, of which the median counts
WORTH = 100  # steps of a run for which trying is worth its time: at most ten steps
GAIN = 0.9  # of the time with fewer threads, which more must not exceed: they take cores from others


def settled(parts: Assembled) -> tuple[Assembled, str]:
    """The parts with the number of threads written down if it was to be chosen, and a sentence about what was found.

    The steps are those of a copy, so that the run begins where it would have begun. Where the environment or the
    config names a number, on accelerators, on several processes and for short runs, nothing is tried.
    """
    if not _open(parts):
        return parts, ""
    try:
        took = tried(parts, candidates(torch.get_num_threads()))
    except Exception:  # a trial must not end a run: what is wrong with a step, training says
        return parts, ""
    number = chosen(took)
    if parts.config.compute.threads == 0:
        now = torch.get_num_threads()
        return parts, "" if number == now else advice(took, number, now=now)
    compute = replace(parts.config.compute, threads=number)
    return replace(parts, config=replace(parts.config, compute=compute)), sentence(took, number)


def recorded(config: Config, was: Config) -> Config:
    """A config to continue a run with: on the threads of the run, unless it names others."""
    threads = config.compute.threads if config.compute.threads > 0 else was.compute.threads
    return replace(config, compute=replace(config.compute, threads=threads))


@contextmanager
def used(number: int) -> Iterator[None]:
    """Work with so many threads (0 or -1: as many as now), and leave torch as it was."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(number if number > 0 else before)
        yield
    finally:
        torch.set_num_threads(before)


def candidates(most: int) -> tuple[int, ...]:
    """All threads, half of them (two of a core share its arithmetic), and one."""
    return tuple(sorted({most, max(1, most // 2), 1}))


def tried(parts: Assembled, numbers: tuple[int, ...]) -> dict[int, float]:
    """The seconds of a step, by the number of threads."""
    learner = copy.deepcopy(parts.learner)
    optimizer = optimizers.optimizer(learner, parts.config.optim, layer_decay=parts.config.starting.layer_decay)
    steps = loop.fit(learner, optimizer, parts.samples, parts.recipe, parts.config)
    took: dict[int, list[float]] = {number: [] for number in numbers}
    with torch.random.fork_rng(devices=[]):
        next(steps)  # the first makes room for all others
        for _ in range(ROUNDS):
            for number in numbers:
                with used(number):
                    start = time.perf_counter()
                    next(steps)
                    took[number].append(time.perf_counter() - start)
    steps.close()  # type: ignore[attr-defined]
    return {number: median(seconds) for number, seconds in took.items()}


def chosen(took: Mapping[int, float]) -> int:
    """The fewest threads than which no larger number is faster by a tenth."""
    best = min(took)
    for number in sorted(took):
        if took[number] < GAIN * took[best]:
            best = number
    return best


def sentence(took: Mapping[int, float], number: int) -> str:
    """What was chosen, and why."""
    return f"Threads: {number}, since a step takes {times(took)}. --compute.threads or OMP_NUM_THREADS name another."


def advice(took: Mapping[int, float], number: int, *, now: int) -> str:
    """What would have been chosen, and what for."""
    what_for = "be faster" if took[number] < took[now] else "hardly be slower and leave cores to others"
    return f"A step takes {times(took)} threads: --compute.threads {number} would {what_for}."


def times(took: Mapping[int, float]) -> str:
    return ", ".join(f"{1000 * seconds:.0f} ms on {count}" for count, seconds in took.items())


def _open(parts: Assembled) -> bool:
    """Whether there is a choice to make, and enough steps to make it worth while."""
    config, total = parts.config, 0
    if len(parts.samples) >= config.batch:
        total = loop.steps_per_epoch(len(parts.samples), config.batch) * config.epochs
    return (
        config.compute.threads <= 0
        and "OMP_NUM_THREADS" not in os.environ
        and torch.get_num_threads() > 1
        and assembly.device(config).type == "cpu"
        and collectives.world() == 1
        and not isinstance(parts.samples.x, Sharded)
        and total >= WORTH
    )
