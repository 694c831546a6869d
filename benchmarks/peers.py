"""What the objectives and their namesakes elsewhere give on the same tensors: the table of docs/measured/objectives.md.

    sh benchmarks/run.sh benchmarks/peers.py

lightly, pytorch-metric-learning and solo-learn are called. The authors' code is not on the package index: rows named
after authors are their formulas as published, written out below from the sources named in each docstring.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss, normalize, relu

from vergence import objectives

N, D, T = 64, 16, 0.1


def views() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    z, noise = torch.randn(2, N, D, dtype=torch.float64, generator=generator)
    return z, z + 0.5 * noise


def lightly_loss(name: str, **options: Any) -> Callable[..., Tensor] | None:
    """A loss of lightly, or nothing if it is not installed."""
    if not find_spec("lightly"):
        return None
    declare_operators()
    from lightly import loss

    return getattr(loss, name)(**options)


def declare_operators() -> None:
    """Beside a CPU torch, torchvision's compiled operators may be missing; with their names declared it imports."""
    if "torchvision" not in _LIBRARIES and not hasattr(torch.ops.torchvision, "nms"):
        library = _LIBRARIES["torchvision"] = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_LIBRARIES: dict[str, torch.library.Library] = {}  # a library that is collected takes its operators with it


def metric_learning_loss(name: str, **options: Any) -> Callable[..., Tensor] | None:
    """A loss of pytorch-metric-learning on two views with one label a sample, or nothing if it is not installed."""
    if not find_spec("pytorch_metric_learning"):
        return None
    from pytorch_metric_learning import losses

    loss = getattr(losses, name)(**options)
    return lambda z1, z2: loss(torch.cat([z1, z2]), torch.arange(len(z1)).repeat(2))


def solo_learn_loss(file: str, name: str, **options: Any) -> Callable[..., Tensor] | None:
    """A loss of solo-learn, or nothing if it is not installed.

    Its file is loaded by itself: the package imports a Lightning and a torchvision of years ago.
    """
    package = find_spec("solo")
    if not package or not package.origin:
        return None
    source = Path(package.origin).parent / "losses" / f"{file}.py"
    return partial(run_path(str(source))[name], **options)


def authors_barlow_twins(z1: Tensor, z2: Tensor) -> Tensor:
    """facebookresearch/barlowtwins, main.py: batch normalization without affine parameters, sum, no scale."""
    norm = nn.BatchNorm1d(z1.shape[1], affine=False, dtype=z1.dtype)
    correlation = norm(z1).T @ norm(z2) / len(z1)
    diagonal = torch.eye(z1.shape[1], dtype=torch.bool)
    return (correlation[diagonal] - 1).square().sum() + 0.0051 * correlation[~diagonal].square().sum()


def authors_vicreg(z1: Tensor, z2: Tensor) -> Tensor:
    """facebookresearch/vicreg, main_vicreg.py."""
    loss = 25 * mse_loss(z1, z2)
    for z in (z1, z2):
        loss = loss + 25 * relu(1 - (z.var(0) + 1e-4).sqrt()).mean() / 2
        covariance = torch.cov(z.T)
        loss = loss + (covariance - covariance.diag().diag()).square().sum() / z.shape[1]
    return loss


def authors_spectral(z1: Tensor, z2: Tensor) -> Tensor:
    """jhaochenz96/spectral_contrastive_learning, models/spectral.py with mu = 1."""
    z1, z2 = (z / z.norm(dim=1, keepdim=True).clamp(min=1) for z in (z1, z2))
    n, scores = len(z1), z1 @ z2.T
    return (scores.square().sum() - scores.diagonal().square().sum()) / (n * (n - 1)) - 2 * scores.diagonal().mean()


def authors_uniformity(z1: Tensor, _: Tensor) -> Tensor:
    """SsnL/align_uniform, the two lines of the README."""
    return torch.pdist(normalize(z1, dim=1)).square().mul(-2).exp().mean().log()


def authors_flat_nce(z1: Tensor, z2: Tensor) -> Tensor:
    """qingguo666/FLO, the CC0 snippet: the value shown is InfoNCE's, the gradient FlatNCE's."""
    scores = normalize(z1, dim=1) @ normalize(z2, dim=1).T / T
    gaps = (scores - scores.diagonal()[:, None]).fill_diagonal_(-torch.inf).logsumexp(1)
    return (gaps - gaps.detach()).exp().mean() - 1 + cross_entropy(scores, torch.arange(len(z1))).detach()


def rows() -> Iterator[tuple[str, Callable[..., Tensor] | None]]:
    """Everything compared, ours first in each group."""
    yield "nt_xent", lambda a, b: objectives.nt_xent(a, b, temperature=T)
    yield "lightly NTXentLoss", lightly_loss("NTXentLoss", temperature=T)
    yield "pytorch-metric-learning NTXentLoss", metric_learning_loss("NTXentLoss", temperature=T)
    yield "solo-learn simclr_loss_func", solo_learn_loss("simclr", "simclr_loss_func", temperature=T)
    yield "decoupled", lambda a, b: objectives.decoupled(a, b, temperature=T)
    yield "lightly DCLLoss", lightly_loss("DCLLoss", temperature=T)
    yield "flat_nce", lambda a, b: objectives.flat_nce(a, b, temperature=T)
    yield "authors' formula, FlatNCE", authors_flat_nce
    yield "supervised", lambda a, b: objectives.supervised(a, b, torch.arange(N), temperature=T)
    yield "pytorch-metric-learning SupConLoss", metric_learning_loss("SupConLoss", temperature=T)
    yield "triplet", lambda a, b: objectives.triplet(a, b, margin=0.5, mining="hard")
    yield "pytorch-metric-learning TripletMarginLoss", metric_learning_loss("TripletMarginLoss", margin=0.5)
    yield "uniformity", lambda a, b: objectives.uniformity(a)
    yield "authors' formula, uniformity", authors_uniformity
    yield "spectral", objectives.spectral
    yield "authors' formula, spectral", authors_spectral
    yield "barlow_twins", objectives.barlow_twins
    yield "authors' formula, Barlow Twins", authors_barlow_twins
    yield "lightly BarlowTwinsLoss", lightly_loss("BarlowTwinsLoss")
    yield "solo-learn barlow_loss_func", solo_learn_loss("barlow", "barlow_loss_func")
    yield "vicreg", objectives.vicreg
    yield "authors' formula, VICReg", authors_vicreg
    yield "lightly VICRegLoss", lightly_loss("VICRegLoss")
    yield "solo-learn vicreg_loss_func", solo_learn_loss("vicreg", "vicreg_loss_func")
    yield "negative_cosine", objectives.negative_cosine
    yield "lightly NegativeCosineSimilarity", lightly_loss("NegativeCosineSimilarity")
    yield "solo-learn simsiam_loss_func", solo_learn_loss("simsiam", "simsiam_loss_func")


def main() -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # of the layers and masks that peers make
    print(
        f"| objective | value on {N} pairs in {D} dimensions | norm of the gradient on the first view |\n|---|---|---|"
    )
    for name, loss in rows():
        if loss is None:
            print(f"| {name} | not installed | |")
            continue
        z1, z2 = views()
        z1.requires_grad_()
        value = loss(z1, z2)
        (gradient,) = torch.autograd.grad(value, z1)
        print(f"| {name} | {value.item():.6f} | {gradient.norm().item():.6f} |")


if __name__ == "__main__":
    main()
