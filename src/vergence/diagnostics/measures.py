"""Measures: the rows of DIAGNOSTICS. Arguments are filled by name; each gives a number with its interval.

A row asks for what is given (``h, z1, z2, labels, seed``, the objective's) or derived from it (``moments``,
``matched``, ``reading``: see ``DERIVED`` in ``diagnosis.py``). The first sentence of its docstring is its meaning, and
``shown`` says under which heading it appears.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from vergence.diagnostics import geometry
from vergence.diagnostics import spectrum as spectra
from vergence.diagnostics.arrays import Array, as_tensor, sampled, shape
from vergence.diagnostics.assignments import Assigned
from vergence.diagnostics.by_name import Given
from vergence.diagnostics.collapse import Collapse
from vergence.diagnostics.copies import Copies
from vergence.diagnostics.estimate import Estimate, jackknife, share, variance_ratio
from vergence.diagnostics.negatives import Negatives
from vergence.diagnostics.reading import Replaced, comparable
from vergence.diagnostics.spectrum import Spectrum
from vergence.diagnostics.thermometer import SCALES, Thermometer
from vergence.diagnostics.trials import Bench
from vergence.diagnostics.view_trials import Matched
from vergence.tables import Table

Row = TypeVar("Row", bound=Callable[..., Any])

PAIRS = 4096  # rows compared with each other where all would not fit
STEADY_ROWS = 64 * 512  # rows whose blocks are compared
BLOCKS = (512, 256, 128, 64, 32, 16)  # batch sizes that rows may have been normalized in
LEAST_BLOCKS = 4  # blocks without which the variance of their means says nothing


@dataclass(frozen=True)
class Measured:
    """A measured thing with what a page needs: ``value`` (mostly an :class:`Estimate`), title, meaning, heading."""

    value: Any
    title: str
    meaning: str
    heading: str

    def to_dict(self) -> dict[str, Any]:
        return plain(self.value)


def shown(heading: str, *, title: str = "") -> Callable[[Row], Row]:
    """Say under which heading a row appears, and its title where the name is not one."""

    def mark(function: Row) -> Row:
        function.heading, function.title = heading, title  # type: ignore[attr-defined]
        return function

    return mark


def measure(given: Given, rows: Mapping[str, Callable[..., Any]]) -> dict[str, Measured]:
    """Every row whose arguments are there; a row that gives None did not apply."""
    found: dict[str, Measured] = {}
    for name, function in rows.every() if isinstance(rows, Table) else rows.items():
        if not given.has_all_for(function):
            continue
        value = given.call(function)
        if value is not None:
            found[name] = Measured(value, *described(name, function))
    return found


def described(name: str, function: Callable[..., Any]) -> tuple[str, str, str]:
    """Title, meaning and heading of a row; a function from elsewhere needs none of them."""
    meaning = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    title = getattr(function, "title", "") or name.replace("_", " ")
    return title, meaning, getattr(function, "heading", "other")


def plain(value: Any) -> Any:
    """As JSON has it: a dictionary with a ``value`` where there is one."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return {"value": value} if isinstance(value, int | float) else value


@shown("spectrum")
def effective_rank_of_many(spectrum: Spectrum) -> Estimate:
    """RankMe, the effective number of directions, as many more rows of the same law would show it.

    RankMe of n rows is too low by about a constant over n; the first of ``effective_rank_variants`` is that number.

    References:
        Garrido et al. (2023), Eq. 1. https://arxiv.org/abs/2210.02885
    """
    return spectrum.effective_rank


@shown("spectrum")
def participation(spectrum: Spectrum) -> Estimate:
    """(sum lambda)^2 / sum lambda^2 of the variances lambda along principal directions: how many share the variance."""
    return spectrum.participation_ratio


@shown("spectrum")
def stability(spectrum: Spectrum) -> Estimate:
    """The sum of variances over the largest: how many directions as strong as the strongest."""
    return spectrum.stable_rank


@shown("spectrum")
def decay(spectrum: Spectrum) -> Estimate:
    """alpha of eigenvalues ~ index^-alpha: near 1 is best in theory, large is collapse.

    References:
        Agrawal et al. (2022), alpha-ReQ. https://arxiv.org/abs/2202.05808
    """
    return spectrum.decay_exponent


@shown("spectrum")
def whole_spectrum(spectrum: Spectrum) -> Spectrum:
    """The singular values of the rows, largest first."""
    return spectrum


@shown("spectrum")
def rank_variants(spectrum: Spectrum) -> dict[str, float]:
    """The numbers that papers and libraries print as an effective rank, by what they compute."""
    return spectrum.variants


@shown("spectrum")
def isotropy_of_rows(h: Array, seed: int = 0) -> Estimate:
    """min over max of E exp(c . u) over the principal directions c of unit rows u: 1 when none stands out.

    References:
        Mu & Viswanath (2018), Sec. 2.2. https://arxiv.org/abs/1702.01417
    """
    return jackknifed(spectra.isotropy, sampled(h, PAIRS, seed=seed))


@shown("geometry")
def evenness(h: Array, z1: Array | None = None, seed: int = 0) -> dict[str, Any]:
    """How evenly rows cover the sphere, log E exp(-2 ||u - v||^2): 0 when they coincide, lower is better.

    Of the embeddings where there are some. ``floor`` is what independent uniform rows would have.

    References:
        Wang & Isola (2020), Sec. 4.1.2. https://arxiv.org/abs/2005.10242
    """
    rows = h if z1 is None else z1
    floor = SCALES["uniformity"](*shape(rows), t=2.0).random
    return {**geometry.uniformity(rows, seed=seed).to_dict(), "floor": floor}


@shown("geometry", title="length of rows")
def length(norms_of_h: geometry.Norms) -> Estimate:
    """The mean length of rows: what a normalized objective never sees."""
    return norms_of_h.mean


@shown("geometry", title="length of embeddings")
def embedding_length(norms_of_z1: geometry.Norms) -> Estimate:
    """The mean length of embeddings before they are normalized."""
    return norms_of_z1.mean


@shown("geometry")
def hubs(h: Array, seed: int = 0) -> Estimate:
    """Skewness of how often a row is among the ten nearest of others: above about 2 a few rows are near to everything.

    References:
        Radovanović et al. (2010), Sec. 2. https://www.jmlr.org/papers/v11/radovanovic10a.html
    """
    return geometry.hubness(h, seed=seed)


@shown("geometry")
def repeated_rows(copies: Copies) -> Copies:
    """The share of rows that repeat another, exactly or more nearly than the density of rows explains."""
    return copies


@shown("geometry", title="steadiness of block means")
def steady_blocks(steady: tuple[Estimate, int]) -> dict[str, Any]:
    """Variance of the means of consecutive blocks over that of independent rows: near 0 when each was normalized."""
    return {**steady[0].to_dict(), "block": steady[1]}


@shown("geometry")
def collapse_of_rows(collapse: Collapse) -> Collapse:
    """Whether rows coincide, fill few directions or sit on few points, by geometry alone."""
    return collapse


@shown("geometry", title="collapse of embeddings")
def collapse_of_embeddings(collapse_of_z1: Collapse) -> Collapse:
    """Whether embeddings coincide, fill few directions or sit on few points, by geometry alone."""
    return collapse_of_z1


@shown("pairs")
def alignment_of_views(z1: Array, z2: Array) -> Estimate | None:
    """Mean squared distance of positive pairs on the sphere: 0 when views agree, 2 when unrelated.

    References:
        Wang & Isola (2020), Sec. 4.1.1. https://arxiv.org/abs/2005.10242
    """
    return geometry.alignment(z1, z2) if shape(z1, "z1") == shape(z2, "z2") else None


@shown("pairs")
def matching_of_views(matched: Matched) -> Estimate:
    """The chance that a sample's own other view is closer than another's: 0.5 when pairs are shuffled, 1 at best."""
    return matched.own


@shown("pairs", title="retrieval of the second view")
def retrieval(matched: Matched) -> Estimate:
    """The share of rows, in a window of at most 1500, whose nearest second view is their own."""
    return matched.retrieved


@shown("pairs")
def lidar_of_views(z1: Array, z2: Array, seed: int = 0) -> Estimate | None:
    """Effective rank of the linear discriminants that tell samples apart through their views: high is good.

    References:
        Thilak et al. (2024), Sec. 4. https://arxiv.org/abs/2312.04000
    """
    if shape(z1, "z1") != shape(z2, "z2") or len(z1) < 8:
        return None
    return jackknifed(spectra.lidar, *(sampled(z, PAIRS, seed=seed, name="z") for z in (z1, z2)))


@shown("labels")
def neighbors_accuracy(body: Bench) -> Estimate | None:
    """Leave-one-out accuracy of the ten nearest by cosine, on a sample of at most 1500 rows."""
    if body.labels is None or not comparable(body.labels):
        return None
    return share(float(body.correct.double().mean()), n=body.n)


@shown("labels", title="accuracy without copies' help")
def accuracy_without_copies(copies: Copies) -> Estimate | None:
    """The same accuracy when no row may vote for its own copy."""
    if copies.accuracy is None or copies.inflation is None or not copies.inflation.value:
        return None
    return share(min(1.0, max(0.0, copies.accuracy.value - copies.inflation.value)), n=copies.accuracy.n)


@shown("labels")
def tolerance_of_classes(h: Array, labels: Tensor) -> Estimate | None:
    """Mean cosine similarity of two samples of one class: 1 when classes are points.

    References:
        Wang & Liu (2021), Sec. 4. https://arxiv.org/abs/2012.09740
    """
    return geometry.tolerance(h, labels) if comparable(labels) else None


@shown("labels", title="largest product of class centers")
def divergence_max(divergence: geometry.Divergence) -> Estimate:
    """The largest product of two classes' centers: near 1, two classes are one.

    References:
        Huang et al. (2023), Sec. 3. https://arxiv.org/abs/2111.00743
    """
    return divergence.maximum


@shown("labels", title="mean product of class centers")
def divergence_mean(divergence: geometry.Divergence) -> Estimate:
    """The mean product of two classes' centers: below zero, classes point away from each other."""
    return divergence.mean


@shown("labels")
def contradicted(replaced: Replaced, body: Bench) -> dict[str, Any]:
    """The share of labels that rows contradict where they are surest, a quarter of them; and overall."""
    found = share(replaced.surest, n=max(1, body.n // 4))
    return {**found.to_dict(), "overall": replaced.error, "at_random": replaced.share}


@shown("objective")
def loss_reading(reading: Thermometer) -> Thermometer:
    """Where the loss stands between the value of collapse and the floor that nothing can pass."""
    return reading


@shown("objective")
def loss_again(held_out_loss: Estimate) -> Estimate:
    """The objective on batches of held-out pairs."""
    return held_out_loss


@shown("objective", title="entropy of the student's prototypes")
def student_entropy(assigned: Assigned) -> dict[str, Any]:
    """Mean entropy of a row over the prototypes, in nats: log K where it is uniform, 0 where it is sure of one.

    References:
        Caron et al. (2021), Sec. 5.3. https://arxiv.org/abs/2104.14294
    """
    return {"value": assigned.student, "most": math.log(assigned.prototypes), "n": assigned.n}


@shown("objective", title="entropy of the teacher's prototypes")
def teacher_entropy(assigned: Assigned) -> dict[str, Any]:
    """The same after centering and sharpening: log K is collapse to uniform; 0 is only well if many are used."""
    return {"value": assigned.teacher, "most": math.log(assigned.prototypes), "n": assigned.n}


@shown("objective", title="prototypes in use")
def prototypes_used(assigned: Assigned) -> dict[str, Any]:
    """How many prototypes the rows use together, as the exponential of the entropy of their mean: 1 at collapse."""
    return {"value": math.exp(assigned.teacher_together), "most": assigned.prototypes, "n": assigned.n}


@shown("objective")
def false_share(negatives: Negatives) -> dict[str, Any]:
    """The share of negatives of the anchor's own class, and the loss at which a class that is one point stays."""
    return {**negatives.false_share.to_dict(), "by": negatives.by, "loss_floor": negatives.floor}


@shown("objective")
def effective_share(negatives: Negatives) -> Estimate:
    """The effective number of negatives over their number, in (0, 1].

    References:
        Chen et al. (2021). https://arxiv.org/abs/2107.01152
    """
    return negatives.effective


@shown("objective", title="vanished gradients, float32")
def vanished_float32(negatives: Negatives) -> Estimate:
    """The share of anchors whose positive has gradient exactly zero in float32."""
    return share(negatives.vanished_float32, n=negatives.effective.n)


@shown("objective", title="vanished gradients, float16")
def vanished_float16(negatives: Negatives) -> Estimate:
    """The share of anchors whose positive has gradient exactly zero in float16."""
    return share(negatives.vanished_float16, n=negatives.effective.n)


def steadiness(
    h: Array, labels: Tensor | None = None, seed: int = 0, *, blocks: tuple[int, ...] = BLOCKS
) -> tuple[Estimate, int]:
    """Variance of the means of consecutive blocks over that of independent rows, and the block size it is least for.

    Near 1 for rows in a random order, above for sorted ones, near 0 when every block was normalized by itself. Columns
    are clipped at their 1st and 99th percentiles, or one row of 1e20 would be all their variance; means of classes are
    taken out where labels are, or a file that deals classes in turn would look normalized.
    """
    n, _ = shape(h)
    start = int(torch.randint(max(1, n - STEADY_ROWS + 1), (1,), generator=torch.Generator().manual_seed(seed)))
    rows = as_tensor(h[start : start + STEADY_ROWS])
    rows = rows[:, torch.linspace(0, rows.shape[1] - 1, min(rows.shape[1], 256)).long()].double()
    exact = _least_varying(rows, blocks, least=3)
    if exact[1] and exact[0] < 1e-3:
        return variance_ratio(exact[0], groups=len(rows) // exact[1], n=len(rows)), exact[1]
    equal = next((block for block in sorted(blocks) if _equal_blocks(rows, block)), 0)
    if equal:
        return variance_ratio(0.0, groups=2, n=len(rows)), equal
    few = rows[torch.linspace(0, len(rows) - 1, min(len(rows), 2000)).long()]
    low, high = torch.quantile(few, torch.tensor([0.01, 0.99], dtype=rows.dtype, device=rows.device), dim=0)
    rows = rows.clamp(low, high)
    if labels is not None and comparable(labels):
        targets = labels[start : start + STEADY_ROWS].to(rows.device)
        counts = torch.bincount(targets).clamp(min=1).to(rows)
        residual = rows - (geometry.class_sums(rows, targets) / counts[:, None])[targets]
        rows = residual if len(torch.unique(targets)) < len(rows) // 4 else rows
    ratio, block = _least_varying(rows, blocks, least=LEAST_BLOCKS)
    if not block:
        return Estimate(ratio, math.nan, math.nan, len(rows), "too few rows for blocks"), 0
    return variance_ratio(ratio, groups=len(rows) // block, n=len(rows)), block


def _equal_blocks(rows: Tensor, block: int) -> bool:
    """Whether two blocks, the second perhaps cut short, have the same means to the digit and like deviations.

    Two are enough where both were normalized: of independent rows a mean agrees so well once in ten thousand columns.
    """
    first, second = rows[:block], rows[block : 2 * block]
    if len(second) < 8 or (len(first) == len(second) and torch.equal(first, second)):
        return False
    spread = first.std(dim=0, correction=0)
    live = spread > 1e-6 * spread.max()
    means = (first.mean(dim=0) - second.mean(dim=0))[live].abs() / spread[live]
    scales = (second.std(dim=0, correction=0)[live] / spread[live] - 1).abs()
    # Deviations of short blocks differ by the degree of freedom that some divide by.
    return int(live.sum()) >= 3 and bool((means < 1e-4).all() and (scales < 0.05).all())


def _least_varying(rows: Tensor, blocks: tuple[int, ...], *, least: int) -> tuple[float, int]:
    """The smallest ratio and its block size; 0 stands for no block size that fits."""
    found = [(1.0, 0)]
    for block in blocks:
        count = len(rows) // block
        if count < least:
            continue
        used = rows[: count * block]  # a row in the rest would be in the variance and in no mean
        spread = used.var(dim=0)
        live = spread > 1e-12 * spread.max()
        if int(live.sum()) >= 3:
            means = used[:, live].reshape(count, block, -1).mean(dim=1)
            found.append((float((means.var(dim=0) * block / spread[live]).mean()), block))
    return min(found)


def jackknifed(function: Callable[..., float], *rows: Tensor, groups: int = 5) -> Estimate:
    """A number with those found when each fifth of the rows is left out; of a few rows, without an interval."""
    n = len(rows[0])
    if n < 2 * groups:
        return Estimate(function(*rows), math.nan, math.nan, n, "too few rows for an interval")
    group = torch.arange(n, device=rows[0].device) % groups
    without = [function(*(part[group != left_out] for part in rows)) for left_out in range(groups)]
    return jackknife(function(*rows), without, n=n)
