"""How fast is it on your GPU? One command; a table in Markdown to paste into an issue.

    pip install 'vergence[triton]' lightly open_clip_torch        # peers are compared where they are installed
    python benchmarks/gpu.py                                      # on every GPU of this machine; about ten minutes
    python benchmarks/gpu.py --device cpu --small                 # seconds, to see that it works

Four parts. The pairwise kernel, forward and backward, in Triton and in torch's tiles, against a dense matrix of scores,
lightly's NTXentLoss, open_clip's ClipLoss and Inf-CL (the last two compare queries with keys, so ours does too there),
with the most memory each took. SimCLR images per second with ResNet-18 and ResNet-50 at 32 and 224 pixels: our loop,
from bytes in memory to updated weights, against the same encoder with lightly's loss on views that are already made.
Whether several GPUs (NCCL) give the loss and gradient of one. And the hardware. Nothing here was measured by the
authors on a GPU: they have none.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch
from torch import Tensor, distributed, nn

from peers import declare_operators
from vergence import config as configs
from vergence.data import Samples
from vergence.learning import collectives, loop, optimizers
from vergence.objectives import nt_xent, pairwise, two_modal
from vergence.runs import assembly, compute, precision

WIDTH = 128  # SimCLR's embeddings
SIZES = (1024, 4096, 16384, 65536)
REPEATS = 5  # the median of these, after one that is not counted


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments.add_argument("--small", action="store_true", help="small sizes, to see that everything runs")
    arguments.add_argument("--part", choices=("kernel", "training", "parity"), help="one part only")
    arguments.add_argument("--rank", type=int, default=-1, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.rank >= 0:
        return parity_of_rank(given.device, given.rank)
    device = torch.device(given.device)
    print(f"### vergence on {hardware(device)}\n")
    if given.part in (None, "kernel"):
        kernels(device, (64, 130) if given.small else SIZES)
    if given.part in (None, "training"):
        trainings(device, small=given.small)
    if given.part in (None, "parity"):
        parity(device)


def hardware(device: torch.device) -> str:
    """The device and what runs on it, in a line."""
    name = platform.processor() or platform.machine()
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        name = f"{torch.cuda.device_count()} x {found.name}, {found.total_memory / 2**30:.0f} GiB"
    packages = [
        f"{name} {known}"
        for name in ("vergence", "torch", "triton", "lightly", "open_clip_torch")
        if (known := installed(name))
    ]
    runtime = (
        f"CUDA {torch.version.cuda}"
        if torch.version.cuda
        else f"ROCm {torch.version.hip}"
        if torch.version.hip
        else "no GPU runtime"
    )
    return f"{name} ({runtime}; {', '.join(packages)}; Python {platform.python_version()}, {platform.system()})"


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def kernels(device: torch.device, sizes: tuple[int, ...]) -> None:
    """Milliseconds and mebibytes of loss and gradient, by number of pairs."""
    print(f"#### Loss and gradient of n pairs, width {WIDTH}: milliseconds (MiB at most)\n")
    print("| loss | rows | " + " | ".join(f"n = {n:,}" for n in sizes) + " |")
    print("|---|---|" + "---:|" * len(sizes))
    for name, (loss, types) in losses(device).items():
        for dtype in types:
            cells = [measured(loss, n, device, dtype) for n in sizes]
            print(f"| {name} | {str(dtype).removeprefix('torch.')} | {' | '.join(cells)} |", flush=True)
    print()


def losses(device: torch.device) -> dict[str, tuple[Callable[[Tensor, Tensor], Tensor], tuple[torch.dtype, ...]]]:
    """Two embeddings to a loss, by name; what is not installed is left out."""
    both = (torch.float32, torch.bfloat16) if precision.works(device) else (torch.float32,)
    found: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], tuple[torch.dtype, ...]]] = {}
    triton = device.type == "cuda" and find_spec("triton") is not None
    for kernel in ("triton", "torch") if triton else ("torch",):
        found[f"NT-Xent, ours, {kernel}"] = with_kernel(kernel, lambda a, b: nt_xent(a, b, temperature=0.1)), both
    found["NT-Xent, dense"] = dense_nt_xent, both
    if with_lightly():
        from lightly.loss import NTXentLoss

        found["NT-Xent, lightly"] = NTXentLoss(temperature=0.1), both
    for kernel in ("triton", "torch") if triton else ("torch",):
        found[f"CLIP, ours, {kernel}"] = with_kernel(kernel, lambda a, b: two_modal(a, b, temperature=0.1)), both
    if find_spec("open_clip"):
        from open_clip.loss import ClipLoss

        found["CLIP, open_clip"] = (lambda a, b: ClipLoss()(unit(a), unit(b), 10.0)), both
    if find_spec("inf_cl") and device.type == "cuda":
        found["CLIP, Inf-CL"] = inf_cl, (torch.float32,)
    return found


def with_lightly() -> bool:
    """Whether lightly can be imported; its torchvision may lack compiled operators beside a CPU torch."""
    if not find_spec("lightly"):
        return False
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        declare_operators()
    return True


def inf_cl(a: Tensor, b: Tensor) -> Tensor:
    """Both directions, as the others compute; a head as wide as the rows, where theirs of 256 would not divide them."""
    from inf_cl import cal_flash_loss

    labels, scale = torch.arange(len(a), device=a.device), torch.full((), 10.0, device=a.device)
    ways = (cal_flash_loss(x, y, labels, scale, head_dim=WIDTH) for x, y in ((unit(a), unit(b)), (unit(b), unit(a))))
    return torch.stack([way.mean() for way in ways]).mean()


def with_kernel(name: str, loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def chosen(a: Tensor, b: Tensor) -> Tensor:
        pairwise.KERNEL = name  # type: ignore[assignment]
        return loss(a, b)

    return chosen


def unit(z: Tensor) -> Tensor:
    return nn.functional.normalize(z.float(), dim=1)


def dense_nt_xent(z1: Tensor, z2: Tensor) -> Tensor:
    """The loss from the whole matrix of scores, as papers' code writes it."""
    u = unit(torch.cat([z1, z2]))
    scores = (u @ u.T / 0.1).fill_diagonal_(-torch.inf)
    return nn.functional.cross_entropy(scores, torch.arange(len(u), device=u.device).roll(len(z1)))


def measured(loss: Callable[[Tensor, Tensor], Tensor], n: int, device: torch.device, dtype: torch.dtype) -> str:
    """The median time of loss and gradient, and the most memory beyond the inputs; or what went wrong."""
    generator = torch.Generator().manual_seed(0)
    z = [torch.randn(n, WIDTH, generator=generator).to(device, dtype).requires_grad_() for _ in range(2)]
    times, most = [], 0.0
    try:
        for repeat in range(REPEATS + 1):
            for one in z:
                one.grad = None
            with memory(device) as took, clock(device) as seconds:
                loss(*z).backward()
            if repeat:
                times.append(seconds[0])
                most = max(most, took[0])
    except torch.OutOfMemoryError:
        return "out of memory"
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        return type(error).__name__
    return f"{1000 * statistics.median(times):.2f}" + (f" ({most:.0f})" if device.type == "cuda" else "")


@contextmanager
def clock(device: torch.device) -> Iterator[list[float]]:
    """Seconds from here to the end of what was told to the device."""
    seconds: list[float] = []
    settle(device)
    start = time.perf_counter()
    yield seconds
    settle(device)
    seconds.append(time.perf_counter() - start)


@contextmanager
def memory(device: torch.device) -> Iterator[list[float]]:
    """Mebibytes that were taken at most, beyond those taken before."""
    took: list[float] = []
    if device.type != "cuda":
        yield took
        took.append(0.0)
        return
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    yield took
    took.append((torch.cuda.max_memory_allocated(device) - before) / 2**20)


def settle(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()


def trainings(device: torch.device, *, small: bool) -> None:
    """Images per second of SimCLR: our whole loop, and the encoder and loss of lightly on ready views."""
    plan = (
        [("convnet", 16, 8)]
        if small
        else [("resnet18", 32, 512), ("resnet50", 32, 512), ("resnet18", 224, 256), ("resnet50", 224, 128)]
    )
    print("#### SimCLR: images a second (MiB at most)\n")
    print("| encoder | pixels | batch | float32 | TF32 | bfloat16 | bfloat16, compiled | lightly, bfloat16 |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for encoder, pixels, batch in plan:
        steps = 3 if small else 20
        compiled = {"matmul": "high", "compile": "default"}
        ways = [
            ("float32", {}),
            ("float32", {"matmul": "high"}),
            ("bfloat16", {"matmul": "high"}),
            ("bfloat16", compiled),
        ]
        cells = [trained(encoder, pixels, batch, device, steps, kind, options) for kind, options in ways]
        cells.append(peer(encoder, pixels, batch, device, steps))
        print(f"| {encoder} | {pixels} | {batch} | {' | '.join(cells)} |", flush=True)
    print()


def trained(encoder: str, pixels: int, batch: int, device: torch.device, steps: int, kind: str, options: dict) -> str:
    """Images a second of our loop, after a fifth of the steps; compiling for a processor would take minutes."""
    if (kind == "bfloat16" and not precision.works(device)) or (device.type == "cpu" and "compile" in options):
        return "-"
    x = torch.randint(0, 256, (batch * steps, 3, pixels, pixels), dtype=torch.uint8)
    settings = {
        "data": "digits",
        "method": "simclr",
        "encoder": encoder,
        "views": "simclr",
        "epochs": 1,
        "batch": batch,
    }
    config = configs.given(
        **settings, device=str(device), precision=kind, compute=options, watching={"every": 0}, track=()
    )
    try:
        parts = assembly.assemble(config, Samples(x, "image"))
        recipe = compute.compiled(parts.learner, parts.recipe, parts.config.compute)
        optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
        with memory(device) as took:
            rate = per_second(
                loop.fit(parts.learner, optimizer, parts.samples, recipe, parts.config), batch, steps, device
            )
    except torch.OutOfMemoryError:
        return "out of memory"
    return f"{rate:,.0f}" + (f" ({took[0]:,.0f})" if device.type == "cuda" else "")


def peer(encoder: str, pixels: int, batch: int, device: torch.device, steps: int) -> str:
    """Images a second of the same encoder with lightly's loss and projector, on views already on the device."""
    if not with_lightly():
        return "-"
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead

    from vergence import encoders

    backbone = encoders.build(encoder, (3, pixels, pixels))
    model = nn.Sequential(backbone, SimCLRProjectionHead(backbone.width, backbone.width, WIDTH)).to(device)
    model = model.to(memory_format=torch.channels_last)
    optimizer, loss = torch.optim.AdamW(model.parameters()), NTXentLoss(temperature=0.1)
    views = [
        torch.rand(batch, 3, pixels, pixels, device=device).to(memory_format=torch.channels_last) for _ in range(2)
    ]

    half = precision.works(device)

    def fitting() -> Iterator[None]:
        for _ in range(steps):
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
                value = loss(*(model(view) for view in views))
            value.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    with memory(device) as took:
        rate = per_second(fitting(), batch, steps, device)
    return f"{rate:,.0f}" + (f" ({took[0]:,.0f})" if device.type == "cuda" else "" if half else " (float32)")


def per_second(fitting: Iterator[object], batch: int, steps: int, device: torch.device) -> float:
    warm = max(1, steps // 5)
    for _ in range(warm):
        next(fitting)
    with clock(device) as seconds:
        count = sum(1 for _ in fitting)
    return batch * count / seconds[0]


def parity(device: torch.device) -> None:
    """Whether all GPUs together give the loss and the gradient that one gives."""
    world = torch.cuda.device_count() if device.type == "cuda" else 2
    print(f"#### Parity of {world} processes with one ({'NCCL' if device.type == 'cuda' else 'gloo'})\n")
    if world < 2:
        print("One GPU: nothing to compare.\n")
        return
    place = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531", "WORLD_SIZE": str(world)}
    command = [sys.executable, __file__, "--device", device.type, "--rank"]
    started = [subprocess.Popen([*command, str(rank)], env={**place, "RANK": str(rank)}) for rank in range(world)]
    failed = [process.wait() for process in started]
    print("\nfailed\n" if any(failed) else "")


def parity_of_rank(kind: str, rank: int) -> None:
    world = int(os.environ["WORLD_SIZE"])
    device = torch.device(kind, rank) if kind == "cuda" else torch.device("cpu")
    distributed.init_process_group("nccl" if kind == "cuda" else "gloo", rank=rank, world_size=world)
    z = [torch.randn(64 * world, WIDTH, generator=torch.Generator().manual_seed(seed)).to(device) for seed in (0, 1)]
    own = [part.chunk(world)[rank].clone().requires_grad_() for part in z]
    together = nt_xent(*(collectives.gather(part) for part in own))
    together.backward()
    whole = [part.clone().requires_grad_() for part in z]
    alone = nt_xent(*whole)
    alone.backward()
    # Each process asks for the gradient of the same loss, whose mean is taken later: here is their sum.
    gaps = [(part.grad / world - one.grad.chunk(world)[rank]).abs().max() for part, one in zip(own, whole, strict=True)]
    worst = torch.stack([(together - alone).abs().detach(), torch.stack(gaps).max()])
    distributed.all_reduce(worst, op=distributed.ReduceOp.MAX)
    if rank == 0:
        print(f"Largest difference of the loss {worst[0].item():.1e}, of the gradient {worst[1].item():.1e}.")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
