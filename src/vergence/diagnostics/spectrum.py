"""The spectrum of features: how many directions they use. Computed in float64 from streamed d x d products."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vergence.diagnostics import estimate
from vergence.diagnostics.arrays import Array, as_tensor, chunks, sampled, shape, unit
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.geometry import ANCHORS

GROUPS = 8  # groups of rows for the jackknife, for halves and for quarters
WIDE = 1024  # columns from which four groups must do: a decomposition takes seconds
SETTLED = 0.75  # growth from n/2 to n over growth from n/4 to n/2, above which no end is in sight
EPSILON = 1e-7  # added to the shares of singular values: Garrido et al. (2023), Eq. 1
WITHIN = 1e-4  # added to the within-class covariance: Thilak et al. (2024), Sec. 4
DEAD = 1e-4  # of the strongest standard deviation: above what float32 training leaves of a direction that died
DECAY_RANGE = (5, 100)  # indices of the eigenvalues a power law is fitted to: the first are data, the last are noise


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over groups of rows: ``count [g]``, ``total [g, d]``, ``product [g, d, d]``, all float64."""

    count: Tensor
    total: Tensor
    product: Tensor

    @property
    def n(self) -> int:
        return int(self.count.sum())

    @property
    def groups(self) -> int:
        return len(self.count)

    def of(self, kept: list[int]) -> "Moments":
        """The sums over some of the groups."""
        return Moments(self.count[kept], self.total[kept], self.product[kept])

    def covariance(self) -> Tensor:
        mean = self.total.sum(dim=0) / self.n
        return self.product.sum(dim=0) / self.n - torch.outer(mean, mean)

    def singular_values(self, *, centered: bool = False) -> Tensor:
        """Singular values of the rows, largest first, resolved down to 1e-8 of the largest."""
        gram = self.covariance() * self.n if centered else self.product.sum(dim=0)
        return torch.linalg.eigvalsh(gram).clamp(min=0).flip(0).sqrt()[: self.n]


@dataclass(frozen=True, eq=False)
class Products:
    """Products of every two rows, ``[n, n]``: what stands for the sums where rows are fewer than columns."""

    gram: Tensor
    group: Tensor

    @property
    def n(self) -> int:
        return len(self.gram)

    @property
    def groups(self) -> int:
        return int(self.group.max()) + 1

    def of(self, kept: list[int]) -> "Products":
        index = torch.isin(self.group, torch.tensor(kept, device=self.group.device)).nonzero().squeeze(1)
        return Products(self.gram[index][:, index], self.group[index])

    def singular_values(self, *, centered: bool = False) -> Tensor:
        gram = self.gram
        if centered:
            gram = gram - gram.mean(dim=0) - gram.mean(dim=1, keepdim=True) + gram.mean()
        return torch.linalg.eigvalsh(gram).clamp(min=0).flip(0).sqrt()


def moments(h: Array, *, groups: int | None = None) -> Moments | Products:
    """Sums of products in one pass over the rows, which need not fit in memory. Rows are dealt to groups in turn.

    Where rows are no more than columns, the products of rows with each other are smaller and say the same.
    """
    n, d = shape(h)
    groups = min(n, groups or (GROUPS if d <= WIDE else GROUPS // 2))
    if n <= d:
        rows = as_tensor(h).double()
        return Products(rows @ rows.T, torch.arange(n, device=rows.device) % groups)
    device = h.device if isinstance(h, Tensor) else "cpu"
    count, total, product = (
        torch.zeros(groups, *size, dtype=torch.float64, device=device) for size in ((), (d,), (d, d))
    )
    for chunk in chunks(h):
        for group in range(groups):
            part = chunk[group::groups].double()
            count[group] += len(part)
            total[group] += part.sum(dim=0)
            product[group].addmm_(part.T, part)
    return Moments(count, total, product)


def singular_values(h: Array, *, centered: bool = False) -> Tensor:
    """Singular values of the matrix of rows, largest first, in float64."""
    n, d = shape(h)
    if n > d:
        return moments(h, groups=1).singular_values(centered=centered)
    rows = as_tensor(h).double()
    return torch.linalg.svdvals(rows - rows.mean(dim=0) if centered else rows)


def effective_rank(h: Array) -> float:
    r"""RankMe: exp of the entropy of p_k = sigma_k / ||sigma||_1 + 1e-7, from 1 (one direction) to min(n, d).

    Of the rows as they are: neither centered nor normalized. Others print different numbers under this name; see
    :func:`effective_rank_variants`.

    References:
        Garrido et al. (2023), Eq. 1. https://arxiv.org/abs/2210.02885
    """
    return entropy_rank(singular_values(h), epsilon=EPSILON)


def effective_rank_variants(h: Array) -> dict[str, float]:
    """The numbers that papers and libraries print as an effective rank, by what they compute."""
    return _variants(singular_values(h), singular_values(h, centered=True))


def _variants(values: Tensor, centered: Tensor) -> dict[str, float]:
    return {
        "singular values, uncentered, 1e-7 (RankMe; vergence)": entropy_rank(values, epsilon=EPSILON),
        "singular values, uncentered, 1e-5 (stable-pretraining)": entropy_rank(values, epsilon=1e-5),
        "singular values, uncentered, no epsilon (Roy & Vetterli 2007)": entropy_rank(values),
        "singular values, centered": entropy_rank(centered),
        "eigenvalues of the covariance, 1e-7 (reptrix)": entropy_rank(centered**2, epsilon=EPSILON),
        "eigenvalues of the second moment": entropy_rank(values**2),
        "participation ratio": participation_ratio(centered),
        "stable rank": stable_rank(centered),
    }


def entropy_rank(values: Tensor, *, epsilon: float = 0.0) -> float:
    """exp of the entropy of values as shares of their sum; the shares are not renormalized after adding epsilon."""
    if float(values.sum()) == 0:
        return 1.0
    return float(torch.special.entr(values / values.sum() + epsilon).sum().exp())


def participation_ratio(values: Tensor) -> float:
    """(sum lambda)^2 / sum lambda^2 of the eigenvalues lambda = sigma^2."""
    eigenvalues = values.square()
    total = float(eigenvalues.sum())
    return total**2 / float(eigenvalues.square().sum()) if total else 1.0


def stable_rank(values: Tensor) -> float:
    """||H||_F^2 / ||H||_2^2: how many directions as strong as the strongest."""
    return float(values.square().sum() / values[0].square()) if float(values[0]) else 1.0


def decay_exponent(values: Tensor) -> float:
    """alpha of eigenvalues ~ index^-alpha, by least squares in logarithms: near 1 is best in theory, large is collapse.

    References:
        Agrawal et al. (2022), alpha-ReQ. https://arxiv.org/abs/2202.05808
    """
    eigenvalues = values.square()
    start, stop = DECAY_RANGE
    usable = int((eigenvalues > 1e-12 * eigenvalues[0]).sum())
    start, stop = (start, min(stop, usable)) if usable >= 3 * start else (1, usable)
    if stop - start < 2:
        return float("nan")
    index = torch.arange(start, stop + 1, dtype=torch.float64, device=values.device)
    x, y = index.log(), eigenvalues[start - 1 : stop].log()
    x = x - x.mean()
    return float(-(x * y).sum() / x.square().sum())


def isotropy(h: Array, *, seed: int = 0) -> float:
    """min over max of Z(c) = E exp(c . u) over the principal directions +-c of unit rows u: 1 when none stands out.

    References:
        Mu & Viswanath (2018), Sec. 2.2. https://arxiv.org/abs/1702.01417
    """
    rows = unit(sampled(h, ANCHORS, seed=seed)).double()
    if len(rows) <= rows.shape[1]:
        # The other directions are orthogonal to every row: their partition function is 1.
        u, values, _ = torch.linalg.svd(rows, full_matrices=False)
        projected = torch.cat([u * values, torch.zeros(len(rows), 1, dtype=rows.dtype, device=rows.device)], dim=1)
    else:
        projected = rows @ torch.linalg.eigh(rows.T @ rows).eigenvectors
    partition = torch.cat([projected.exp().mean(dim=0), (-projected).exp().mean(dim=0)])
    return float(partition.min() / partition.max())


def lidar(z1: Array, z2: Array) -> float:
    """Effective rank of the linear discriminants that tell samples apart through their views: high is good.

    The eigenvalues of W^-1/2 B W^-1/2, B the covariance of samples' mean views, W the mean covariance within samples.
    With two views per sample W is coarse: compare runs of equal n only.

    References:
        Thilak et al. (2024), Sec. 4. https://arxiv.org/abs/2312.04000
    """
    shape(z1, "z1"), shape(z2, "z2")
    first, second = as_tensor(z1, "z1").double(), as_tensor(z2, "z2").double()
    center, half = (first + second) / 2, (first - second) / 2
    center = center - center.mean(dim=0)
    n, d = center.shape
    if d > 2 * n:  # outside of the span of all rows there is nothing to tell apart
        span = torch.linalg.qr(torch.cat([center, half]).T).Q
        center, half = center @ span, half @ span
    # Two views have the unbiased within-sample covariance 2 half half'.
    within = 2 * half.T @ half / n + WITHIN * torch.eye(half.shape[1], dtype=half.dtype, device=half.device)
    whitened = torch.linalg.solve_triangular(torch.linalg.cholesky(within), center.T, upper=False)
    gram = whitened @ whitened.T if d <= n else whitened.T @ whitened
    values = torch.linalg.eigvalsh(gram / (n - 1)).clamp(min=0)
    return entropy_rank(torch.cat([values, values.new_zeros(d - len(values))]), epsilon=EPSILON)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values and what they amount to, with intervals; ``dead`` counts directions without variance."""

    singular_values: Tensor
    effective_rank: Estimate
    participation_ratio: Estimate
    stable_rank: Estimate
    decay_exponent: Estimate
    dead: int
    variants: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        return {"singular_values": self.singular_values.tolist()}


def spectrum(h: Array | Moments | Products) -> Spectrum:
    """The whole spectrum of rows, streamed. Participation ratio, stable rank and decay are of the centered rows.

    ``effective_rank`` estimates RankMe of many more rows of the same law; RankMe of these n rows, which is lower, is
    the first of ``variants``.
    """
    found = h if isinstance(h, Moments | Products) else moments(h)
    plain, centered = found.singular_values(), found.singular_values(centered=True)
    groups = list(range(found.groups))
    parts = [found.of([other for other in groups if other != group]) for group in groups] if len(groups) > 1 else []
    centered_parts = [part.singular_values(centered=True) for part in parts]

    def jackknifed(measure: Callable[[Tensor], float]) -> Estimate:
        return _jackknife(measure(centered), [measure(part) for part in centered_parts], n=found.n)

    return Spectrum(
        plain,
        _rank_of_many(found, plain, [part.singular_values() for part in parts]),
        _among(jackknifed(participation_ratio), len(centered)),
        _among(jackknifed(stable_rank), len(centered)),
        jackknifed(decay_exponent),
        dead_directions(centered),
        _variants(plain, centered),
    )


def _rank_of_many(found: "Moments | Products", plain: Tensor, parts: list[Tensor]) -> Estimate:
    """RankMe as it would be of many more rows: 2 R(n) - R(n / 2), since its bias falls like 1 / n.

    R(n) is too low, by a fifth where rows are twice as many as columns. The interval reaches from R(n) where growth
    with n is fast, and up to the number of columns where no end of it is in sight.
    """
    measure = lambda values: entropy_rank(values, epsilon=EPSILON)
    here, n = measure(plain), found.n
    room = float(found.product.shape[1]) if isinstance(found, Moments) else float("inf")
    if found.groups < 4 or n < 16:
        return Estimate(here, 1.0, room, n, "too few rows for an interval")
    jackknife = _jackknife(here, [measure(part) for part in parts], n=n)
    error = 1.2 * (jackknife.high - jackknife.low) / 2
    groups = list(range(found.groups))
    half = _mean_rank(found, [groups[0::2], groups[1::2]])
    quarter = _mean_rank(found, [groups[start::4] for start in range(4)])
    steps = here - half, half - quarter
    pace = steps[0] / steps[1] if steps[1] > 0 else 0.0
    value = max(1.0, min(room, 2 * here - half)) if pace < SETTLED else here
    doubt = abs((8 * here - 6 * half + quarter) / 3 - (2 * here - half))
    low = here - error if pace > 0.35 else value - doubt - error
    high = min(room, max(value, 2 * here - half) + doubt + error) if pace < SETTLED else room
    return Estimate(value, max(1.0, low), high, n, "extrapolated from n, n/2 and n/4 rows, with the jackknife's error")


def _among(count: Estimate, room: int) -> Estimate:
    """A number of directions, of which there is one at least and ``room`` at most."""
    if not count.low < count.high:  # of too few rows, or of rows that are all alike
        return count
    return replace(count, low=max(1.0, count.low), high=min(float(room), count.high))


def _mean_rank(found: "Moments | Products", parts: list[list[int]]) -> float:
    ranks = [entropy_rank(found.of(part).singular_values(), epsilon=EPSILON) for part in parts]
    return sum(ranks) / len(ranks)


def _jackknife(value: float, parts: list[float], *, n: int) -> Estimate:
    if len(parts) < 2:
        return Estimate(value, float("nan"), float("nan"), n, "too few rows for an interval")
    return estimate.jackknife(value, parts, n=n)


def dead_directions(centered: Tensor) -> int:
    """How many directions carry less than 1e-4 of the standard deviation of the strongest."""
    return int((centered < DEAD * centered[0]).sum()) if float(centered[0]) else len(centered)
