"""Speed and memory of the objectives against peers: every bar as a ratio measured in one interleaved run.

    sh benchmarks/run.sh benchmarks/objectives.py

One thread, process CPU time, contenders in turn, median over rounds; memory is the peak of a fresh process minus its
size after imports and one small warm-up. A peer that is not installed is left out.
"""

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize
from torch.utils.checkpoint import checkpoint

from peers import lightly_loss
from vergence.objectives import barlow_twins, nt_xent, spectral, uniformity

TEMPERATURE = 0.1
Loss = Callable[..., Tensor]


def dense_nt_xent(z1: Tensor, z2: Tensor) -> Tensor:
    z, n = normalize(torch.cat([z1, z2]), dim=1), len(z1)
    scores = (z @ z.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    return cross_entropy(scores, torch.arange(2 * n).roll(n))


def chunked_nt_xent(z1: Tensor, z2: Tensor, rows: int = 512) -> Tensor:
    """Blocks of rows whose scores the backward pass computes again, as sentence-transformers does."""
    z, n = normalize(torch.cat([z1, z2]), dim=1), len(z1)
    targets = torch.arange(2 * n).roll(n)

    def block(part: Tensor, everything: Tensor, top: int) -> Tensor:
        scores = part @ everything.T / TEMPERATURE
        scores.diagonal(top).fill_(-torch.inf)
        return cross_entropy(scores, targets[top : top + len(part)], reduction="sum")

    parts = enumerate(z.split(rows))
    return sum(checkpoint(block, part, z, k * rows, use_reentrant=False) for k, part in parts) / (2 * n)


def bare_products(z1: Tensor, z2: Tensor) -> None:
    """The three matrix products of the dense method and nothing else."""
    with torch.no_grad():
        z = torch.cat([z1, z2])
        scores = z @ z.T
        scores @ z
        scores.T @ z


def dense_spectral(z1: Tensor, z2: Tensor) -> Tensor:
    z1, z2 = normalize(z1, dim=1), normalize(z2, dim=1)
    n, scores = len(z1), z1 @ z2.T
    off_diagonal = scores.square().masked_fill(torch.eye(n, dtype=torch.bool), 0)
    return off_diagonal.sum() / (n * (n - 1)) - 2 * scores.diagonal().mean()


def pdist_uniformity(z1: Tensor, _: Tensor) -> Tensor:
    return torch.pdist(normalize(z1, dim=1)).square().mul(-2).exp().mean().log()


OURS: dict[str, Loss] = {
    "nt_xent": lambda z1, z2: nt_xent(z1, z2, temperature=TEMPERATURE),
    "uniformity": lambda z1, _: uniformity(z1),
    "spectral": spectral,
    "barlow_twins": barlow_twins,
}
THEIRS: dict[str, Loss] = {
    "dense": dense_nt_xent,
    "row-chunked": chunked_nt_xent,
    "dense spectral": dense_spectral,
    "pdist": pdist_uniformity,
}
# Ours, theirs, n, d, rounds, the ratio promised.
BARS = [
    ("nt_xent", "dense", 64, 128, 301, 1.0),
    ("nt_xent", "dense", 128, 128, 201, 1.0),
    ("nt_xent", "dense", 256, 128, 101, 1.0),
    ("nt_xent", "bare products", 1024, 128, 15, 1.0),
    ("nt_xent", "bare products", 4096, 128, 5, 1.0),
    ("nt_xent", "row-chunked", 4096, 128, 5, 2.2),
    ("nt_xent", "lightly NTXentLoss", 4096, 128, 3, 5.0),
    ("uniformity", "pdist", 4096, 128, 5, 6.0),
    ("spectral", "dense spectral", 4096, 128, 5, 20.0),
    ("barlow_twins", "lightly BarlowTwinsLoss", 256, 2048, 9, 8.0),
    ("barlow_twins", "lightly BarlowTwinsLoss", 256, 128, 101, 1.0),
    ("barlow_twins", "lightly BarlowTwinsLoss", 1024, 1024, 9, 1.0),
]


def main() -> None:
    torch.set_num_threads(1)
    print("objective, n x d, against: their median ms / our median ms = ratio (promised)")
    for ours, theirs, n, d, rounds, promised in BARS:
        peer = _peer(theirs)
        if peer is None:
            print(f"{ours}, {n} x {d}, {theirs}: not installed")
            continue
        first, second = interleaved(_step(OURS[ours], n, d), _step(peer, n, d), rounds=rounds)
        verdict = "" if second / first >= promised else "   <-- below"
        print(f"{ours}, {n} x {d}, {theirs}: {second * 1e3:.2f} / {first * 1e3:.2f} = {second / first:.2f}", end=" ")
        print(f"({promised:g}){verdict}", flush=True)
    for name, n in (("nt_xent", 4096), ("lightly NTXentLoss", 4096), ("dense", 4096), ("nt_xent", 65536)):
        print(f"memory, {name}, {n} x 128: {_memory(name, n)} MiB", flush=True)


def interleaved(*steps: Callable[[], None], rounds: int) -> list[float]:
    """Median CPU seconds of each step, run in turn."""
    times: list[list[float]] = [[] for _ in steps]
    for number in range(rounds + 2):
        for step, seen in zip(steps, times, strict=True):
            start = time.process_time()
            step()
            if number >= 2:
                seen.append(time.process_time() - start)
    return [statistics.median(seen) for seen in times]


def peak_memory(name: str, n: int) -> float:
    """Peak resident MiB that one forward and backward pass adds to this process."""
    loss = OURS.get(name) or _peer(name)
    assert loss is not None
    _step(loss, 8, 128)()
    step = _step(loss, n, 128)
    gc.collect()
    before = _resident("VmRSS")
    step()
    return _resident("VmHWM") - before


def _step(loss: Loss, n: int, d: int) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    z1, z2 = (torch.randn(n, d, generator=generator).requires_grad_() for _ in range(2))

    def step() -> None:
        value = loss(z1, z2)
        if value is not None:
            value.backward()
            z1.grad = z2.grad = None

    return step


def _peer(name: str) -> Loss | None:
    if name == "bare products":
        return bare_products
    if name.startswith("lightly"):
        options = {"temperature": TEMPERATURE} if "NTXent" in name else {}
        return lightly_loss(name.split()[1], **options)
    return THEIRS[name]


def _memory(name: str, n: int) -> str:
    command = [sys.executable, __file__, "--memory", name, str(n)]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else "not measured"


def _resident(line: str) -> float:
    """MiB now (VmRSS) or at most so far (VmHWM); unlike getrusage, not inherited from the parent process."""
    with open("/proc/self/status") as file:
        return next(int(text.split()[1]) for text in file if text.startswith(line)) / 1024


if __name__ == "__main__":
    if "--memory" in sys.argv:
        torch.set_num_threads(1)
        print(f"{peak_memory(sys.argv[2], int(sys.argv[3])):.0f}")
    else:
        main()
