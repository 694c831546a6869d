"""The same methods here and in lightly: the same data, encoder, heads, optimizer, epochs and evaluation.

    .venv-bench/bin/python benchmarks/side_by_side.py RUNS                           all methods, three seeds
    .venv-bench/bin/python benchmarks/side_by_side.py RUNS --only simclr --seeds 1   one method, one seed
    .venv-bench/bin/python benchmarks/side_by_side.py RUNS --publish                 the table, into the documents

The environment is that of benchmarks/run.sh. lightly's side is its documented loop: SimCLRTransform on PIL images in a
DataLoader, its losses, its memory bank and its momentum update. Both start from the same weights and differ in nothing
else. Everything runs in one process with one thread and no workers, so that processor time is all the time there is.
5,000 training images of CIFAR-10, batches of 128, 2,000 held-out images. A row is written as soon as it is measured,
and is not measured again.
"""

import argparse
import copy
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from end_to_end import Transformed
from methods import PAGE
from peers import declare_operators
from vergence import config, evaluation, features
from vergence.data import load
from vergence.learning import loop, optimizers
from vergence.runs import assembly

METHODS = ("simclr", "moco", "barlow_twins", "simsiam")
SAMPLES, HELD_OUT, BATCH = 5_000, 2_000, 128
MARKS = "<!-- side by side -->\n", "<!-- /side by side -->"
PREFACE = f"""## Side by side with lightly

The same four methods in a lightly loop: its transform on PIL images in a DataLoader, its losses, its memory bank and
momentum update. Both sides have the same {SAMPLES:,} images of CIFAR-10, encoder, heads, first weights, optimizer,
schedule, batches of {BATCH}, epochs, and evaluation on {HELD_OUT:,} held-out images; one thread, no workers.
Mean ± standard deviation where there are several seeds. Seconds are of processor time for training; the ratio is
lightly's to ours. Written by `benchmarks/side_by_side.py`.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.publish:
        publish([json.loads(path.read_text()) for path in sorted(options.folder.glob("*.json"))])
        return
    torch.set_num_threads(1)
    warm_up()
    contenders = {"vergence": our_epochs, "lightly": lightly_epochs}
    for seed, method, name in itertools.product(range(options.seeds), options.only, contenders):
        path = options.folder / f"{method}-{name}-{options.epochs}-{seed}.json"
        if not path.exists():
            row = {"method": method, "contender": name, "seed": seed, "epochs": options.epochs}
            row |= measured(assembled(method, seed=seed, epochs=options.epochs), contenders[name])
            path.write_text(json.dumps(row) + "\n", encoding="utf-8")
            print(json.dumps(row), flush=True)


def warm_up() -> None:
    """Let torch import what the first step of an optimizer imports: seconds that are nobody's."""
    weight = torch.ones(1, requires_grad=True)
    weight.sum().backward()
    torch.optim.AdamW([weight]).step()


def assembled(method: str, *, seed: int, epochs: int) -> assembly.Assembled:
    settings = config.Config(
        data="cifar10", method=method, encoder="convnet", epochs=epochs, batch=BATCH, seed=seed, limit=SAMPLES,
        watching=config.Watching(every=0),
    )  # fmt: skip
    return assembly.assemble(settings)


def measured(parts: assembly.Assembled, train: Callable[[assembly.Assembled], nn.Module]) -> dict[str, float]:
    """Accuracy of the encoder that ``train`` leaves, and the seconds it took."""
    processor, wall = time.process_time(), time.monotonic()
    encoder = train(parts)
    row = {"processor": time.process_time() - processor, "wall": time.monotonic() - wall}
    held_out = load("cifar10", split="test", limit=5 * HELD_OUT)  # a fifth of a limit is for testing
    made = [features.extract(encoder, samples, parts.recipe) for samples in (parts.samples, held_out)]
    arrays = [array for each in made for array in (each.h, each.labels)]
    return row | {"knn": evaluation.knn(*arrays).accuracy, "probe": evaluation.linear_probe(*arrays).accuracy}


def our_epochs(parts: assembly.Assembled) -> nn.Module:
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    for _ in loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config):
        pass
    return parts.learner.encoder


def lightly_epochs(parts: assembly.Assembled) -> nn.Module:
    declare_operators()
    from lightly.transforms import SimCLRTransform
    from PIL import Image

    model = Branches(parts.learner)
    optimizer = optimizers.optimizer(model, parts.config.optim)
    transform = SimCLRTransform(input_size=32, cj_strength=0.5, gaussian_blur=0.0, normalize=None)
    pictures = [Image.fromarray(picture.permute(1, 2, 0).numpy()) for picture in parts.samples.x]
    torch.manual_seed(parts.config.seed)
    loader = torch.utils.data.DataLoader(Transformed(pictures, transform), BATCH, shuffle=True, drop_last=True)
    loss, epochs = lightly_loss(parts.config.method, model), parts.config.epochs
    for number, (first, second) in enumerate(itertools.chain.from_iterable(itertools.repeat(loader, epochs))):
        for group in optimizer.param_groups:
            group["lr"] = optimizers.learning_rate(parts.config.optim, number, epochs * len(loader), len(loader))
        loss(first, second).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.encoder


class Branches(nn.Module):
    """Our encoder and heads with the weights they start from, in the memory format that lightly's examples use."""

    def __init__(self, learner: Any):
        super().__init__()
        parts = [copy.deepcopy(part) for part in (learner.encoder, learner.projector, learner.predictor)]
        self.encoder, self.projector, self.predictor = (
            part.to(memory_format=torch.contiguous_format).train() for part in parts
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.projector(self.encoder(x))


def lightly_loss(method: str, model: Branches) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of two views with lightly's parts, as in its examples and its CIFAR-10 benchmark."""
    from lightly import loss

    if method == "moco":
        return lightly_moco(model)
    if method == "simsiam":
        cosine = loss.NegativeCosineSimilarity()

        def simsiam(first: Tensor, second: Tensor) -> Tensor:
            z1, z2 = model(first), model(second)
            return (cosine(model.predictor(z1), z2.detach()) + cosine(model.predictor(z2), z1.detach())) / 2

        return simsiam
    criterion = loss.NTXentLoss(temperature=0.5) if method == "simclr" else loss.BarlowTwinsLoss()
    return lambda first, second: criterion(model(first), model(second))


def lightly_moco(model: Branches) -> Callable[[Tensor, Tensor], Tensor]:
    from lightly.loss import NTXentLoss
    from lightly.models.utils import deactivate_requires_grad, update_momentum

    target = copy.deepcopy(model)
    deactivate_requires_grad(target)
    criterion = NTXentLoss(temperature=0.1, memory_bank_size=(4096, 128))

    def moco(first: Tensor, second: Tensor) -> Tensor:
        update_momentum(model, target, m=0.99)
        with torch.no_grad():
            key1, key2 = target(first), target(second)
        return (criterion(model(first), key2) + criterion(model(second), key1)) / 2

    return moco


def publish(rows: list[dict[str, Any]]) -> None:
    """Put the table where the page has its marks."""
    begin, end = MARKS
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    PAGE.write_text(f"{before}{begin}{PREFACE}{table(rows)}{end}{after}", encoding="utf-8")


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each method that both sides have trained."""
    lines = [
        "| method | kNN, vergence | kNN, lightly | probe, vergence | probe, lightly | seconds, vergence "
        "| seconds, lightly | ratio |",
        "|---|" + "---:|" * 7,
    ]
    for method in [name for name in METHODS if len({row["contender"] for row in rows if row["method"] == name}) == 2]:
        ours, theirs = (
            [row for row in rows if (row["method"], row["contender"]) == (method, name)]
            for name in ("vergence", "lightly")
        )
        cells = [_cell(side, key) for key in ("knn", "probe") for side in (ours, theirs)]
        seconds = [statistics.mean(row["processor"] for row in side) for side in (ours, theirs)]
        cells += [f"{value:.1f}" for value in seconds] + [f"{seconds[1] / seconds[0]:.1f}"]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(rows: list[dict[str, Any]], key: str) -> str:
    values = [row[key] for row in rows]
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


if __name__ == "__main__":
    main()
