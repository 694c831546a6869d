"""Geometry of embeddings on the sphere: how close pairs are, how far all else is. Every number has an interval."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import estimate
from vergence.diagnostics.arrays import Array, as_tensor, chosen_rows, chunks, labels_for, sampled, shape, unit
from vergence.diagnostics.arrays import lengths as row_lengths
from vergence.diagnostics.estimate import Estimate

ANCHORS = 4096  # rows compared with all others; their sampling error is in the interval
CANDIDATES = 50_000  # rows that anchors are compared with
RESAMPLES = 200
CACHED = 2048  # rows at a time whose scores with a tile of anchors stay in the cache
TILE = 256  # anchors at a time: 256 x 50,000 float32 scores are 50 MB


def alignment(z1: Array, z2: Array, *, alpha: float = 2.0) -> Estimate:
    r"""Mean distance of positive pairs on the sphere, E ||z1 - z2||^alpha: 0 when views agree, 2 when unrelated.

    References:
        Wang & Isola (2020), Sec. 4.1.1. https://arxiv.org/abs/2005.10242
    """
    if shape(z1, "z1") != shape(z2, "z2"):
        raise ValueError(f"The views must have one shape; z1 has {list(z1.shape)}, z2 has {list(z2.shape)}")
    pairs = zip(chunks(z1, "z1"), chunks(z2, "z2"), strict=True)
    distances = torch.cat([(unit(first) - unit(second)).norm(dim=1).pow(alpha) for first, second in pairs])
    return estimate.mean(distances.double().cpu().numpy())


def uniformity(z: Array, *, t: float = 2.0, seed: int = 0) -> Estimate:
    r"""How evenly rows cover the sphere: log E exp(-t ||z - z'||^2) over distinct pairs; 0 at collapse.

    Lower is better, down to about ``SCALES["uniformity"](n, d, t=t).random``.

    Beyond 4096 rows, a sample of that many is compared with at most 50,000 others. The interval is the delta method's
    for a U-statistic: with g_i the mean kernel of row i, Var = Var(g) (1 / anchors + 3 / n).

    References:
        Wang & Isola (2020), Sec. 4.1.2. https://arxiv.org/abs/2005.10242
    """
    rows = unit(sampled(z, CANDIDATES, seed=seed, name="z"))
    anchors = torch.from_numpy(chosen_rows(len(rows), ANCHORS, seed=seed)).to(rows.device)
    energy = torch.cat([_row_energy(rows, part, t) for part in anchors.split(TILE)]).double()
    mean, spread = float(energy.mean()), float(energy.var())
    error = math.sqrt(spread * (1 / len(anchors) + 3 / len(rows))) / mean
    return estimate.normal(math.log(mean), error, n=len(rows), method="delta method for a U-statistic")


def tolerance(h: Array, labels: Array) -> Estimate:
    """Mean cosine similarity of two samples of one class: 1 when classes are points.

    References:
        Wang & Liu (2021), Sec. 4. https://arxiv.org/abs/2012.09740
    """
    rows, targets = _labeled(h, labels)
    sums = class_sums(rows, targets)
    counts = torch.bincount(targets, minlength=len(sums)).to(rows)
    mates = counts[targets] - 1
    lonely = mates < 1
    if bool(lonely.all()):
        raise ValueError("Every class has a single sample: no two samples share a class")
    similarity = ((rows * sums[targets]).sum(dim=1) - rows.square().sum(dim=1)) / mates.clamp(min=1)
    return estimate.mean(similarity[~lonely].double().cpu().numpy(), method="Student's t over samples")


@dataclass(frozen=True)
class Divergence:
    """Products mu_k . mu_l of class centers: the largest, the mean over pairs, and which pair is the closest."""

    maximum: Estimate
    mean: Estimate
    closest: tuple[int, int]

    def to_dict(self) -> dict[str, Any]:
        return {"maximum": self.maximum.to_dict(), "mean": self.mean.to_dict(), "closest": list(self.closest)}


def divergence(h: Array, labels: Array, *, seed: int = 0) -> Divergence:
    """How far class centers diverge: the maximum and the mean over k != l of mu_k . mu_l, centers of unit rows.

    Below zero, classes point away from each other; near 1, two classes are one. Intervals by bootstrap within classes.

    References:
        Huang et al. (2023), Sec. 3. https://arxiv.org/abs/2111.00743
    """
    rows, targets = _labeled(h, labels)
    classes = int(targets.max()) + 1
    if classes < 2:
        raise ValueError("All labels are equal: the divergence of class centers needs two classes")
    counts = torch.bincount(targets, minlength=classes).to(rows)
    centers = class_sums(rows, targets) / counts[:, None]
    off_diagonal = ~torch.eye(classes, dtype=torch.bool, device=rows.device)
    products = (centers @ centers.T).masked_fill(~off_diagonal, -torch.inf)
    closest = divmod(int(products.argmax()), classes)
    resampled = _resampled_centers(rows, targets, classes, seed=seed)
    pairs = (resampled @ resampled.mT)[:, off_diagonal].double().cpu().numpy()
    largest, mean = float(products.max()), float(products[off_diagonal].mean())
    return Divergence(
        estimate.bootstrap(largest, pairs.max(axis=1), n=len(rows)),
        estimate.bootstrap(mean, pairs.mean(axis=1), n=len(rows)),
        (min(closest), max(closest)),
    )


@dataclass(frozen=True)
class Norms:
    """Lengths of rows before normalization; ``spread`` is their standard deviation over their mean."""

    mean: Estimate
    spread: float
    zeros: int


def norms(h: Array) -> Norms:
    """Lengths of the rows: what a normalized objective never sees."""
    lengths = torch.cat([row_lengths(chunk.double()) for chunk in chunks(h)]).cpu().numpy()
    mean = estimate.mean(lengths)
    return Norms(mean, float(lengths.std() / mean.value) if mean.value else math.nan, int((lengths == 0).sum()))


def hubness(h: Array, *, k: int = 10, seed: int = 0) -> Estimate:
    """Skewness of how often a row is among the k nearest of others: 0 when even, above about 2 a few rows are hubs.

    References:
        Radovanović et al. (2010), Sec. 2. https://www.jmlr.org/papers/v11/radovanovic10a.html
    """
    rows = unit(sampled(h, 2 * ANCHORS, seed=seed))
    _, nearest = neighbors(rows, torch.arange(len(rows), device=rows.device), k=k)
    counts = torch.bincount(nearest.reshape(-1), minlength=len(rows)).double().cpu().numpy()
    generator = np.random.default_rng(seed)
    again = counts[generator.integers(0, len(counts), (RESAMPLES, len(counts)))]
    return estimate.bootstrap(float(_skewness(counts[None])[0]), _skewness(again), n=len(rows))


def neighbors(rows: Tensor, anchors: Tensor, *, k: int) -> tuple[Tensor, Tensor]:
    """Similarities and indices of the k rows nearest to each anchor, itself excluded; rows are unit vectors."""
    found = []
    room = rows.new_empty(min(TILE, len(anchors)), len(rows))
    for part in anchors.split(TILE):
        scores = torch.mm(rows[part], rows.T, out=room[: len(part)])
        scores[torch.arange(len(part), device=rows.device), part] = -torch.inf
        found.append(scores.topk(min(k, len(rows) - 1), dim=1))
    return torch.cat([top.values for top in found]), torch.cat([top.indices for top in found])


def class_sums(rows: Tensor, targets: Tensor) -> Tensor:
    sums = torch.zeros(int(targets.max()) + 1, rows.shape[1], dtype=rows.dtype, device=rows.device)
    return sums.index_add_(0, targets, rows)


def _labeled(h: Array, labels: Array) -> tuple[Tensor, Tensor]:
    rows = unit(as_tensor(h))
    return rows, labels_for(labels, len(rows)).to(rows.device)


def _row_energy(rows: Tensor, anchors: Tensor, t: float) -> Tensor:
    """The mean kernel of each anchor with all other rows, in tiles that stay in the cache: four times as fast."""
    own = rows[anchors]
    tiles = (torch.exp_((own @ part.T).sub_(1).mul_(2 * t)).sum(dim=1) for part in rows.split(CACHED))
    itself = torch.exp(2 * t * (own.square().sum(dim=1) - 1))
    return (sum(tiles, torch.zeros_like(itself)) - itself) / (len(rows) - 1)


def _resampled_centers(rows: Tensor, targets: Tensor, classes: int, *, seed: int) -> Tensor:
    """Class centers of bootstrap resamples, ``[resamples, classes, d]``, as Poisson-weighted means."""
    generator = torch.Generator().manual_seed(seed)
    centers = []
    for label in range(classes):
        members = rows[targets == label]
        weight = torch.poisson(torch.ones(RESAMPLES, len(members)), generator=generator).to(members)
        weight[weight.sum(dim=1) == 0] = 1.0
        centers.append(weight @ members / weight.sum(dim=1, keepdim=True))
    return torch.stack(centers, dim=1)


def _skewness(counts: np.ndarray) -> np.ndarray:
    centerd = counts - counts.mean(axis=-1, keepdims=True)
    spread = np.sqrt(np.mean(centerd**2, axis=-1))
    return np.mean(centerd**3, axis=-1) / np.where(spread > 0, spread, 1.0) ** 3
