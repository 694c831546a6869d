"""Training end to end against a lightly loop: SimCLR on CIFAR-10, batch 256, the same encoder, one interleaved run.

    VERGENCE_DATA=... sh benchmarks/run.sh benchmarks/end_to_end.py

lightly's loop is its documented one: SimCLRTransform on PIL images in a DataLoader with two workers, NTXentLoss. All
use one thread a process. The ratio that counts on a shared machine is that of processor time, with the workers' time
counted in; the clock on the wall is printed beside it.
"""

import copy
import os
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from peers import declare_operators
from vergence.config import Config, Watching
from vergence.learning import loop, optimizers
from vergence.runs import assembly
from vergence.runs.assembly import Assembled
from vergence.views import sample_keys

ROUNDS = 5
STEPS = 4  # of every contender in a round
ENCODERS = {"convnet 32-64-128": ((32, 64, 128), 3.5), "convnet 64-128-256-256": ((64, 128, 256, 256), 1.5)}


def main() -> None:
    torch.set_num_threads(1)
    if not os.environ.get("VERGENCE_DATA"):
        raise SystemExit("Set VERGENCE_DATA to a folder with CIFAR-10.")
    for name, (channels, bar) in ENCODERS.items():
        config = Config(data="cifar10", limit=10_000, encoder="convnet", backbone={"channels": channels}, epochs=100)
        parts = assembly.assemble(config_for_speed(config))
        contenders = {"vergence": our_steps(parts)}
        if find_spec("lightly"):
            contenders["lightly"] = lightly_steps(parts)
        report(name, raced(contenders, images=STEPS * config.batch), bar)
        shares(parts)


def config_for_speed(config: Config) -> Config:
    """Nothing is held out or measured: the loop alone."""
    return Config(**{**vars(config), "watching": Watching(every=0), "track": ()})


def raced(contenders: dict[str, Callable[[], None]], *, images: int) -> dict[str, tuple[float, float]]:
    """Microseconds an image, of processor and of wall time, of contenders that take turns."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for number in range(ROUNDS + 1):
        for name, run in contenders.items():
            processor, wall = processor_time(), time.monotonic()
            run()
            if number:  # the first round warms up
                times[name].append((processor_time() - processor, time.monotonic() - wall))
    return {
        name: tuple(statistics.median(column) / images * 1e6 for column in zip(*rows, strict=True))  # type: ignore[misc]
        for name, rows in times.items()
    }


def processor_time() -> float:
    """Of this process and of its children that have ended."""
    return sum(os.times()[:4])


def our_steps(parts: Assembled, *, steps: int = STEPS) -> Callable[[], None]:
    learner = copy.deepcopy(parts.learner)
    optimizer = optimizers.optimizer(learner, parts.config.optim)
    training = loop.fit(learner, optimizer, parts.samples, parts.recipe, parts.config)

    def run() -> None:
        for _ in range(steps):
            next(training)

    return run


def lightly_steps(parts: Assembled) -> Callable[[], None]:
    declare_operators()
    from lightly.loss import NTXentLoss
    from lightly.transforms import SimCLRTransform
    from PIL import Image

    encoder, projector = copy.deepcopy(parts.learner.encoder), copy.deepcopy(parts.learner.projector)
    model = nn.Sequential(encoder, projector).to(memory_format=torch.contiguous_format).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=parts.config.optim.rate)
    criterion = NTXentLoss(temperature=0.5)
    transform = SimCLRTransform(input_size=32, cj_strength=0.5, gaussian_blur=0.0, normalize=None)
    pictures = [Image.fromarray(picture.permute(1, 2, 0).numpy()) for picture in parts.samples.x]
    dataset = Transformed(pictures, transform)
    batches = orders(len(pictures), parts.config.batch)

    def run() -> None:
        # Just the samples of these steps, so that workers do nothing that is not used, and end with them.
        sampler = torch.cat([next(batches) for _ in range(STEPS)]).tolist()
        loader = torch.utils.data.DataLoader(dataset, parts.config.batch, sampler=sampler, num_workers=2)
        for first, second in loader:
            loss = criterion(model(first), model(second))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


class Transformed(torch.utils.data.Dataset):
    """Two views of every picture."""

    def __init__(self, pictures: list[Any], transform: Callable[[Any], list[Tensor]]):
        self.pictures, self.transform = pictures, transform

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> list[Tensor]:
        return self.transform(self.pictures[index])


def orders(n: int, batch: int) -> Iterator[Tensor]:
    for epoch in range(1000):
        yield from loop.epoch_order(n, 0, epoch)[: n // batch * batch].split(batch)


def report(name: str, times: dict[str, tuple[float, float]], bar: float) -> None:
    print(f"\n{name}, microseconds an image: processor time, wall time, images a second of processor time")
    for contender, (processor, wall) in times.items():
        print(f"  {contender:10} {processor:8.0f} {wall:8.0f} {1e6 / processor:8.0f}")
    if "lightly" in times:
        ratio, wall_ratio = (theirs / own for theirs, own in zip(times["lightly"], times["vergence"], strict=True))
        verdict = "met" if ratio >= bar else "MISSED"
        print(f"  ratio: {ratio:.1f} by processor time (bar {bar:g}: {verdict}), {wall_ratio:.1f} by the clock")


def shares(parts: Assembled) -> None:
    """Where a step's time goes, and how far the encoder is from the bare matrix products in it."""
    n = parts.config.batch
    learner = parts.learner.train()
    x, keys = parts.samples.x[torch.arange(n)], sample_keys(0, 0, torch.arange(n))
    views = parts.recipe(x, keys)
    outputs = learner.outputs(views)
    gradients = [torch.randn_like(output) for output in outputs]
    leaves = [output.detach().requires_grad_() for output in outputs]
    timed = {
        "step": our_steps(parts, steps=1),
        "views": lambda: parts.recipe(x, keys),
        "encoder": lambda: torch.autograd.backward(learner.outputs(views), gradients),
        "objective": lambda: learner.loss(leaves).backward(),
        "matrix products": products(parts),
    }
    cost: dict[str, list[float]] = {part: [] for part in timed}
    for _ in range(ROUNDS):
        for part, run in timed.items():
            start = time.process_time()
            run()
            cost[part].append(time.process_time() - start)
    medians = {part: statistics.median(values) for part, values in cost.items()}
    floor, step = medians.pop("matrix products"), medians.pop("step")
    medians["rest"] = step - sum(medians.values())
    print("  " + ", ".join(f"{part} {value / step:.0%}" for part, value in medians.items()), end="")
    print(f"; the encoder takes {medians['encoder'] / floor:.2f} times its bare matrix products")


def products(parts: Assembled) -> Callable[[], None]:
    """The matrix products of the encoder and projector, forward and backward, and nothing else."""
    sizes: list[tuple[int, int, int, bool]] = []
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: sizes.append(_size(module, inputs[0], output)))
        for module in [*parts.learner.encoder.modules(), *parts.learner.projector.modules()]
        if isinstance(module, nn.Conv2d | nn.Linear)
    ]
    n = parts.config.batch
    parts.learner.outputs(parts.recipe(parts.samples.x[torch.arange(n)], torch.arange(n)))
    for hook in hooks:
        hook.remove()
    operands = [(torch.randn(m, k), torch.randn(k, d), first) for m, k, d, first in sizes]

    def run() -> None:
        for rows, weights, first in operands:
            out = rows @ weights
            rows.T @ out
            if not first:
                out @ weights.T

    return run


def _size(module: nn.Module, x: Tensor, output: Tensor) -> tuple[int, int, int, bool]:
    """Rows, inner and outer size of a layer's product; the first layer needs no gradient of its input."""
    weight = module.weight
    return output.numel() // weight.shape[0], weight[0].numel(), weight.shape[0], not x.requires_grad


if __name__ == "__main__":
    main()
