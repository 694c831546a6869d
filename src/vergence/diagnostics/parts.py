"""Parts of an examination: each looks at some of the inputs and gives numbers by name, and the faults they show."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import faults
from vergence.diagnostics.arrays import Array, chosen_rows, sampled, shape
from vergence.diagnostics.collapse import collapse
from vergence.diagnostics.estimate import Estimate, jackknife, mean, share, variance_ratio
from vergence.diagnostics.faults import Finding
from vergence.diagnostics.geometry import alignment, divergence, hubness, norms, tolerance, uniformity
from vergence.diagnostics.negatives import duplicates, negatives
from vergence.diagnostics.spectrum import isotropy, lidar, spectrum
from vergence.diagnostics.thermometer import SCALES, Thermometer, thermometer
from vergence.objectives import OBJECTIVES

Batches = list[tuple[Tensor, ...]]  # first views, second views, labels

BATCH = 256  # pairs in a batch where the size is not told
WIDTH = 128  # dimensions where there are no embeddings to count them
PAIRS = 4096  # rows compared with each other where all would not fit


@dataclass(frozen=True)
class Part:
    """Numbers by name, and the findings they gave rise to."""

    measured: Mapping[str, Any]
    findings: tuple[Finding | None, ...] = ()


def representation(h: Array, *, seed: int = 0) -> Part:
    """What can be said of one set of rows: spectrum, collapse, spread, lengths, hubs, duplicates."""
    n, _ = shape(h)
    values, found, copies = spectrum(h), collapse(h, seed=seed), duplicates(h, seed=seed)
    ratio, block = faults.steadiness(h)
    measured = {
        "effective_rank": values.effective_rank,
        "participation_ratio": values.participation_ratio,
        "stable_rank": values.stable_rank,
        "decay_exponent": values.decay_exponent,
        "isotropy": _jackknifed(isotropy, sampled(h, PAIRS, seed=seed)),
        "uniformity": _uniformity(h, seed=seed),
        "norm": norms(h).mean,
        "hubness": hubness(h, seed=seed),
        "duplicates": {"value": copies.exact / n, "exact": copies.exact, "near": copies.near.to_dict(), "n": n},
        "steadiness": {**_steadiness(ratio, block, n), "block": block},
        "effective_rank_variants": values.variants,
        "spectrum": values,
        "collapse": found,
    }
    # Rows that are one point, or a few, also repeat each other and have steady means: one fault, not three.
    apart = found.kind not in ("complete", "cluster")
    findings = (
        faults.collapsed(found, of="representations"),
        faults.duplicated(copies.exact, copies.near, n) if apart else None,
        faults.batch_statistics_leak(ratio, block) if apart else None,
    )
    return Part(measured, findings)


def views(h: Array, z1: Array, z2: Array, *, projected: bool = True, compared: bool = True, seed: int = 0) -> Part:
    """What two views of the same samples add: alignment, spread of the embeddings, whether pairs match.

    Where embeddings are not ``projected``, they are representations themselves, and no layer is the wrong one. Where
    training never ``compared`` two views, nothing has brought them together.
    """
    first, second = collapse(z1, seed=seed), collapse(z2, seed=seed)
    rows1, rows2 = (sampled(z, PAIRS, seed=seed) for z in (z1, z2))
    match = faults.matching(rows1, rows2)
    shuffled, through_a_map = faults.shuffled_pairs(match), {}
    apart = "complete" not in (first.kind, second.kind)
    if shuffled and apart and compared:
        through_a_map["matching_through_a_map"] = again = faults.matching(*faults.mapped(rows1, rows2))
        shuffled = faults.shuffled_pairs(again)
    ratio, block = faults.steadiness(z1)
    measured = {
        "alignment": alignment(z1, z2),
        "uniformity": _uniformity(z1, seed=seed),
        "matching": match,
        **through_a_map,
        "lidar": _jackknifed(lidar, rows1, rows2),
        "embedding_norm": norms(z1).mean,
        "collapse_of_embeddings": first,
    }
    findings = (
        faults.dead_view(first, second) or faults.collapsed(first, of="embeddings"),
        shuffled if apart and compared else None,
        faults.batch_statistics_leak(ratio, block) if apart else None,
        faults.wrong_layer(sampled(h, PAIRS, seed=seed), rows1) if projected else None,
    )
    return Part(measured, findings)


def classes(h: Array, targets: Tensor, *, seed: int = 0) -> Part:
    """What labels add: how classes lie, and whether the labels can be believed."""
    if not 1 <= int(targets.max()) < len(targets) // 2:  # one class, or names of samples rather than classes
        return Part({})
    rows = sampled(h, 2 * PAIRS, seed=seed)
    labels = targets[torch.from_numpy(chosen_rows(len(targets), 2 * PAIRS, seed=seed))].to(rows.device)
    surest, overall = faults.confident_errors(*faults.neighbor_votes(rows, labels), labels)
    centers = divergence(h, targets, seed=seed)
    measured = {
        "tolerance": tolerance(h, targets),
        "divergence_max": centers.maximum,
        "divergence_mean": centers.mean,
        "confident_errors": {**share(surest, n=max(1, len(labels) // 4)).to_dict(), "overall": overall},
    }
    return Part(measured, (faults.label_noise(surest, overall),))


def reading(
    z1: Array | None,
    z2: Array | None,
    targets: Tensor | None,
    objective: str,
    *,
    loss: float | None,
    batch: int | None,
    seed: int,
    **hyperparameters: Any,
) -> Part:
    """What the objective adds: where its loss stands, given or recomputed from the views, and what its negatives do."""
    d = WIDTH if z1 is None else shape(z1)[1]
    if z1 is None or z2 is None or norms(z1).zeros or norms(z2).zeros:  # a row of zeros has no direction to compare
        scale = thermometer(objective, n=batch or BATCH, d=d, loss=loss, **hyperparameters)
        return Part({"thermometer": scale}, (faults.impossible_loss(scale),))
    n = min(batch or BATCH, len(z1))
    pairs = list(_batches(z1, z2, targets, n=n, seed=seed))
    defaults = thermometer(objective, n=n, d=d, **hyperparameters).hyperparameters
    held_out = _held_out_loss(pairs, objective, defaults)
    again = held_out.value
    told: dict[str, Any] = {"n": n, "loss": again} if loss is None else {"n": batch or n, "loss": loss}
    scale = thermometer(objective, d=d, **told, **hyperparameters)
    contrast = _contrast(z1, z2, targets, pairs, scale, again, seed=seed) if "temperature" in defaults else Part({})
    measured = {"thermometer": scale, "held_out_loss": held_out, **contrast.measured}
    return Part(measured, (faults.impossible_loss(scale), *contrast.findings))


def _contrast(
    z1: Array, z2: Array, targets: Tensor | None, pairs: Batches, scale: Thermometer, again: float, *, seed: int
) -> Part:
    """What negatives do at the objective's temperature."""
    temperature = scale.hyperparameters["temperature"]
    found = negatives(z1, z2, labels=targets, batch=len(pairs[0][0]), temperature=temperature, seed=seed)
    measured = {
        "false_negatives": {**found.false_share.to_dict(), "by": found.by, "loss_floor": found.floor},
        "effective_negatives": found.effective,
        "vanished_float32": share(found.vanished_float32, n=found.effective.n),
        "vanished_float16": share(found.vanished_float16, n=found.effective.n),
    }
    raw = faults.raw_loss(pairs, temperature=temperature)
    findings = (
        faults.temperature_too_high(scale),
        faults.temperature_too_low(found, collapse(z1, seed=seed).variance),
        faults.false_negatives(found),
        faults.unnormalized_input(scale, again, raw, norms(z1).mean.value),
    )
    return Part(measured, findings)


def _jackknifed(measure: Callable[..., float], *rows: Tensor, groups: int = 5) -> Estimate:
    """A number with those found when each fifth of the rows is left out; of a few rows, without an interval."""
    n = len(rows[0])
    if n < 2 * groups:
        return Estimate(measure(*rows), math.nan, math.nan, n, "too few rows for an interval")
    group = torch.arange(n, device=rows[0].device) % groups
    without = [measure(*(part[group != left_out] for part in rows)) for left_out in range(groups)]
    return jackknife(measure(*rows), without, n=n)


def _steadiness(ratio: float, block: int, n: int) -> dict[str, Any]:
    """With too few rows for four blocks there is nothing to compare, and no interval."""
    n = min(n, faults.STEADY_ROWS)
    return variance_ratio(ratio, groups=n // block, n=n).to_dict() if block else {"value": ratio, "n": n}


def _uniformity(rows: Array, *, seed: int) -> dict[str, Any]:
    n, d = shape(rows)
    return {**uniformity(rows, seed=seed).to_dict(), "floor": SCALES["uniformity"](n, d, t=2.0).random}


def _batches(z1: Array, z2: Array, targets: Tensor | None, *, n: int, seed: int) -> Iterator[tuple[Tensor, ...]]:
    """At most eight batches of pairs drawn at random, with their labels where there are some."""
    chosen = chosen_rows(len(z1), 8 * n, seed=seed)
    rows1, rows2 = sampled(z1, 8 * n, seed=seed), sampled(z2, 8 * n, seed=seed)
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))
    labels = targets[torch.from_numpy(chosen)] if targets is not None else torch.arange(len(chosen))
    for part in order.split(n):
        if len(part) == n:
            yield rows1[part.to(rows1.device)], rows2[part.to(rows2.device)], labels[part].to(rows1.device)


def _held_out_loss(batches: Batches, objective: str, hyperparameters: Mapping[str, Any]) -> Estimate:
    """The objective on batches of held-out pairs; with a queue, the other keys of the batch stand in for it.

    Of a single batch nothing is known but its value: the interval is empty.
    """
    function = OBJECTIVES[objective]
    tensors = len(inspect.signature(function).parameters) - len(_choices(function))
    known = {name: value for name, value in hyperparameters.items() if name in _choices(function)}
    known.pop("negatives", None)
    values = np.array([float(function(*batch[:tensors], **known)) for batch in batches])
    n = len(batches) * len(batches[0][0])
    if len(values) == 1:
        return Estimate(float(values[0]), math.nan, math.nan, n, "one batch: no interval")
    return replace(mean(values, method=f"Student's t over {len(values)} batches"), n=n)


def _choices(function: Callable[..., Tensor]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
