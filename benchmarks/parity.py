"""Whether several processes give the loss and the gradient of one: every objective, and what other libraries give.

    sh benchmarks/run.sh benchmarks/parity.py

Each process encodes its part of 48 pairs; gradients of the weights are averaged as DDP does. An entry is the larger of
two relative errors against one process with all 48 pairs: of the loss, and of the gradient (in norm). Peers that are
not installed are left out.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vergence.learning.collectives import average_gradients, gather, rank, world
from vergence.objectives import OBJECTIVES

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from parallel import together
from peers import declare_operators

WORLDS = (1, 2, 3, 4, 8)
N, D = 48, 16  # 48 is divisible by every number of processes
LABELS = torch.arange(N) % 7
DTYPES = {"float32": torch.float32, "float64": torch.float64}
PEERS = {
    "lightly NTXentLoss(gather_distributed=True)": "lightly",
    "lightly DCLLoss(gather_distributed=True)": "lightly",
    "lightly VICRegLoss(gather_distributed=True)": "lightly",
    "lightly BarlowTwinsLoss(gather_distributed=True)": "lightly",
    "open_clip ClipLoss()": "open_clip",
    "open_clip ClipLoss(local_loss, gather_with_grad)": "open_clip",
    "pytorch-metric-learning NTXentLoss": "pytorch_metric_learning",
    "pytorch-metric-learning NTXentLoss, efficient": "pytorch_metric_learning",
}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)  # peers call collectives that torch deprecates
    print(f"| objective, float32 / float64 | {' | '.join(map(str, WORLDS))} |\n|---|{'---|' * len(WORLDS)}")
    columns = {(number, dtype): largest_errors(number, dtype) for number in WORLDS for dtype in DTYPES}
    for name in OBJECTIVES:
        cells = [" / ".join(f"{columns[number, dtype][name]:.0e}" for dtype in DTYPES) for number in WORLDS]
        print(f"| {name} | {' | '.join(cells)} |")
    print(
        "\n| peer, float64, 2 / 4 processes | loss to the true one | gradient, error | gradient, norm to the true one |"
    )
    print("|---|---|---|---|")
    for name, library in PEERS.items():
        if find_spec(library) and find_spec("torchvision"):
            print(f"| {name} | {' | '.join(peer_row(name))} |")


def largest_errors(number: int, dtype: str) -> dict[str, float]:
    """The error of every objective in the process where it is largest."""
    alone, answers = every_objective(dtype), together(every_objective, number, dtype)
    return {name: max(error(found[name], alone[name]) for found in answers) for name in alone}


def every_objective(dtype: str) -> dict[str, tuple[Tensor, Tensor]]:
    """Loss and averaged gradient of every objective, by however many processes there are."""
    return {name: loss_and_gradient(ours(name), DTYPES[dtype]) for name in OBJECTIVES}


def loss_and_gradient(loss: Callable[..., Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The mean over processes of the loss, and the gradient of the weights averaged as DDP does."""
    model, x = encoder(dtype), views(dtype)
    z1, z2 = (model(view.chunk(world())[rank()]) for view in x)
    value = loss(z1, z2, LABELS.chunk(world())[rank()])
    value.backward()
    average_gradients(model)
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    return gather(value.detach()[None]).mean(), gradient


def ours(name: str) -> Callable[..., Tensor]:
    """An objective on the gathered embeddings: what ``Learner.loss`` does."""

    def loss(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        alone = dict.fromkeys(("uniformity", "sigreg", "koleo"), ())
        extra = {**alone, "supervised": (gather(z2), gather(labels))}.get(name, (gather(z2),))
        return OBJECTIVES[name](gather(z1), *extra)

    return loss


def peer_row(name: str) -> Iterator[str]:
    alone = peer_answer(name)
    answers = [together(peer_answer, number, name)[0] for number in (2, 4)]
    yield " / ".join(f"{float(loss / alone[0]):.3f}" for loss, _ in answers)
    yield " / ".join(f"{float((gradient - alone[1]).norm() / alone[1].norm()):.0e}" for _, gradient in answers)
    yield " / ".join(f"{float(gradient.norm() / alone[1].norm()):.3f}" for _, gradient in answers)


def peer_answer(name: str) -> tuple[Tensor, Tensor]:
    return loss_and_gradient(peer(name), torch.float64)


def peer(name: str) -> Callable[..., Tensor]:
    """A peer's loss as its documentation says to use it in several processes."""
    declare_operators()
    library, kind, *options = name.replace("(", " ").replace(")", "").split()
    made: Any
    if library == "lightly":
        from lightly import loss

        made = getattr(loss, kind)(gather_distributed=world() > 1)
        return lambda z1, z2, _: made(z1, z2)
    if library == "open_clip":
        from open_clip.loss import ClipLoss

        exact = {"local_loss": True, "gather_with_grad": True} if options else {}
        made = ClipLoss(rank=rank(), world_size=world(), **exact)
        unit = nn.functional.normalize
        return lambda z1, z2, _: made(unit(z1), unit(z2), torch.tensor(10.0, dtype=z1.dtype))
    from pytorch_metric_learning.losses import NTXentLoss
    from pytorch_metric_learning.utils.distributed import DistributedLossWrapper

    made = DistributedLossWrapper(NTXentLoss(), efficient=bool(options)) if world() > 1 else NTXentLoss()

    def loss(z1: Tensor, z2: Tensor, _: Tensor) -> Tensor:
        samples = torch.arange(N).chunk(world())[rank()]
        return made(torch.cat([z1, z2]), samples.repeat(2))

    return loss


def error(found: tuple[Tensor, Tensor], alone: tuple[Tensor, Tensor]) -> float:
    """The larger of the relative errors of loss and gradient."""
    return max(float((one - other).norm() / other.norm()) for one, other in zip(found, alone, strict=True))


def encoder(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, D)).to(dtype)


def views(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, noise = torch.randn(2, N, D, dtype=torch.float64, generator=generator).to(dtype)
    return x, x + 0.5 * noise


if __name__ == "__main__":
    main()
