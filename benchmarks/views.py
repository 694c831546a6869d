"""SimCLR's views against lightly, kornia and torchvision: microseconds per view on one core, one interleaved run.

The same recipe for all: crop, flip, color distortion of strength 0.5, color dropping; blur above 32 pixels. A peer
that is not installed is left out. Run: ``python benchmarks/views.py``.
"""

import re
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch

from vergence.views import sample_keys, simclr

ROUNDS = 7
SECONDS = 0.2  # at least, per contender and round
BATCHES = {32: 256, 64: 64, 96: 32, 224: 16}
BARS = {(32, "lightly"): 15.0, (32, "kornia"): 3.0, (64, "lightly"): 3.0, (96, "lightly"): 2.0, (224, "lightly"): 2.0}
STRENGTHS = (0.4, 0.4, 0.4, 0.1)  # strength 0.5

Contender = Callable[[], object]


def main() -> None:
    torch.set_num_threads(1)
    for size, n in BATCHES.items():
        x = torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        report(size, timings({"vergence": ours(x), **peers(x)}, views=2 * n))


def report(size: int, microseconds: dict[str, float]) -> None:
    print(f"\nSimCLR views at {size} x {size}, microseconds per view, one thread, median of {ROUNDS} rounds")
    for name, cost in microseconds.items():
        ratio = cost / microseconds["vergence"]
        bar = (
            f"   (bar {BARS[size, name]:g}: {'met' if ratio >= BARS[size, name] else 'MISSED'})"
            if (size, name) in BARS
            else ""
        )
        print(f"  {name:24s} {cost:9.1f}   {ratio:6.1f}x{bar}")


def timings(contenders: dict[str, Contender], *, views: int) -> dict[str, float]:
    """Process time per view of each contender, which take turns so that a busy machine slows all of them."""
    for run in contenders.values():
        run()
    rounds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            start, runs = time.process_time(), 0
            while runs == 0 or time.process_time() - start < SECONDS:
                run()
                runs += 1
            rounds[name].append((time.process_time() - start) / (views * runs) * 1e6)
    return {name: statistics.median(costs) for name, costs in rounds.items()}


def ours(x: torch.Tensor) -> Contender:
    recipe = simclr()
    keys = sample_keys(0, 0, torch.arange(len(x)))
    return lambda: recipe(x, keys)


def peers(x: torch.Tensor) -> dict[str, Contender]:
    if not find_spec("torchvision"):
        return {}
    declare_operators()
    found = {"torchvision, PIL": torchvision_pil(x)}
    if find_spec("lightly"):
        found["lightly"] = lightly(x)
    if find_spec("kornia"):
        found["kornia"] = kornia(x)
    return found


def declare_operators() -> None:
    """Beside a CPU torch, torchvision's compiled operators may be missing; with their names declared it imports."""
    text = Path(find_spec("torchvision").origin).with_name("_meta_registrations.py").read_text()
    for name in set(re.findall(r'(?:register_meta\("|"torchvision::)(\w+)"', text)):
        if not hasattr(torch.ops.torchvision, name):
            LIBRARY.define(f"{name}(Tensor x) -> Tensor")


LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


def lightly(x: torch.Tensor) -> Contender:
    from lightly.transforms import SimCLRTransform

    blur = 0.5 if x.shape[-1] > 32 else 0.0
    transform = SimCLRTransform(input_size=x.shape[-1], cj_strength=0.5, gaussian_blur=blur, normalize=None)
    pictures = pil(x)
    return lambda: [transform(picture) for picture in pictures]


def torchvision_pil(x: torch.Tensor) -> Contender:
    from torchvision import transforms as T

    size = x.shape[-1]
    blur = [T.RandomApply([T.GaussianBlur(size // 20 * 2 + 1, (0.1, 2.0))], p=0.5)] if size > 32 else []
    transform = T.Compose(
        [
            T.RandomResizedCrop(size),
            T.RandomHorizontalFlip(),
            T.RandomApply([T.ColorJitter(*STRENGTHS)], p=0.8),
            T.RandomGrayscale(0.2),
            *blur,
            T.ToTensor(),
        ]
    )
    pictures = pil(x)
    return lambda: [(transform(picture), transform(picture)) for picture in pictures]


def kornia(x: torch.Tensor) -> Contender:
    import kornia.augmentation as K

    size = x.shape[-1]
    blur = [K.RandomGaussianBlur((size // 20 * 2 + 1,) * 2, (0.1, 2.0), p=0.5)] if size > 32 else []
    transform = torch.nn.Sequential(
        K.RandomResizedCrop((size, size), scale=(0.08, 1.0)),
        K.RandomHorizontalFlip(),
        K.ColorJitter(*STRENGTHS, p=0.8),
        K.RandomGrayscale(p=0.2),
        *blur,
    )
    return lambda: [transform(x.float() / 255) for _ in range(2)]


def pil(x: torch.Tensor) -> list:
    from PIL import Image

    return [Image.fromarray(picture.permute(1, 2, 0).numpy()) for picture in x]


if __name__ == "__main__":
    main()
