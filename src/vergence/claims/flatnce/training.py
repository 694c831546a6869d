"""Claims of FlatNCE that need training: small batches, half precision, and the gradient along training."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vergence import features
from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import contrast as contrasted
from vergence.claims.laboratory import SLACK, Laboratory, Row, column, lead, mean, measured, stated, steps_of
from vergence.config import Config, Optim
from vergence.diagnostics import negatives
from vergence.objectives import Objective
from vergence.objectives.pairwise import contrast
from vergence.report.experiments import Cells, curves, marks
from vergence.runs import assembly
from vergence.runs.assembly import Assembled

BATCHES = (16, 64, 512)
COLD = 0.1  # the temperature of the authors of FlatNCE
WATCHED = 512  # training pairs on which the gradient is measured: the largest batch
LOSSES = {"InfoNCE": "simclr", "FlatNCE": "flatclr"}


@claim(
    92,
    "FlatNCE is at least as accurate as InfoNCE at batches of 16 to 512, and its lead shrinks with the batch.",
    kind="training",
    tolerance="order of mean probe accuracies over seeds; lead at the smallest batch above that at the largest",
    minutes=12.0,
    medium=7.0,
)
def flat_in_small_batches(laboratory: Laboratory) -> Outcome:
    rows = {name: {b: _trials(laboratory, method, b) for b in _batches(laboratory)} for name, method in LOSSES.items()}
    info, flat = rows.values()
    leads = {batch: mean(flat[batch], "probe") - mean(info[batch], "probe") for batch in info}
    first, *_, last = leads.values()
    accuracies: Cells = {name: {b: column(cell, "probe") for b, cell in cells.items()} for name, cells in rows.items()}
    words = [f"batch {b}: FlatNCE {stated(flat[b], 'probe')}, InfoNCE {stated(info[b], 'probe')}" for b in info]
    picture = curves(accuracies, "samples in a batch", "accuracy of the linear probe", logarithmic=True)
    holds = min(leads.values()) >= 0 and first > last
    behind = min(leads, key=leads.__getitem__)
    _, noise = lead(flat[behind], info[behind], "probe")
    why = (
        f"FlatNCE is behind by {-leads[behind]:.3f} at {behind}, with a standard error of {noise:.3f}; its lead is "
        f"{first:+.3f} at the smallest batch and {last:+.3f} at the largest."
    )
    by_batch = {batch: [column(cells[batch], "probe") for cells in (flat, info)] for batch in info}
    contrasts = [
        contrasted(f"FlatNCE over InfoNCE at {batch}", *both, margin=-SLACK, about=f"batch {batch}", unit="accuracy")
        for batch, both in by_batch.items()
    ]
    small, *_, large = ([a - b for a, b in zip(*both, strict=True)] for both in by_batch.values())
    contrasts.append(
        contrasted("lead at the smallest batch over that at the largest", small, large, about="its shrinking")
    )
    pictures = {"batches": picture}
    return Outcome(holds, "; ".join(words), accuracies, pictures, why="" if holds else why, contrasts=contrasts)


@claim(
    225,
    "In half precision FlatNCE keeps its accuracy, and is ahead of a softmax cross-entropy.",
    kind="training",
    tolerance="batch 16, mean probe accuracy: no more than 0.01 below float32, above InfoNCE in float16",
    minutes=11.0,
)
def flat_in_half_precision(laboratory: Laboratory) -> Outcome:
    batch, scale = BATCHES[0], laboratory.scale
    # Sums that are rounded after every term take most of the time: fewer images, as elsewhere where that is so.
    fewer = {} if scale.paper else {"limit": min(scale.samples, 10_000)}
    rows = {
        f"{name}, {precision}": _trials(laboratory, method, batch, half=precision == "float16", **fewer)
        for name, method in LOSSES.items()
        for precision in ("float32", "float16")
    }
    _, softmax, single, half = (mean(cell, "probe") for cell in rows.values())
    words = [f"{name} {stated(cell, 'probe')}" for name, cell in rows.items()]
    vanished = mean(rows["InfoNCE, float16"], "vanished")
    words.append(f"share of anchors without gradient in float16, after InfoNCE: {vanished:.2g}")
    seen = {name: column(cell, "probe") for name, cell in rows.items()}
    picture = marks({"": seen}, "accuracy of the linear probe")
    holds = half >= single - SLACK and half > softmax
    left = mean(rows["InfoNCE, float16"], "left")
    why = (
        f"FlatNCE is ahead by {half - softmax:.3f}, but not by precision: float16 loses an anchor whose 1 - p is below "
        f"2^-11, or .0005, and after this training 1 - p is {left:.2f} in the mean and no anchor is lost. What is lost "
        "there is exact (claims 87 and 88); a training that comes there takes a machine with more time."
    )
    single_rows, half_rows, softmax_rows = (
        column(rows[name], "probe") for name in ("FlatNCE, float32", "FlatNCE, float16", "InfoNCE, float16")
    )
    contrasts = [
        contrasted("FlatNCE in float16 over float32", half_rows, single_rows, margin=-SLACK, about="keeps"),
        contrasted("FlatNCE over InfoNCE in float16", half_rows, softmax_rows, about="ahead"),
    ]
    pictures = {"precisions": picture}
    return Outcome(
        holds, "; ".join(words), seen, pictures, contrasts=contrasts, undecidable="" if vanished else why,
    )  # fmt: skip


@claim(
    226,
    "What is left of InfoNCE's gradient, 1 - p, falls along training, and is the less the smaller the batch.",
    kind="training",
    tolerance="order of means over seeds, for every batch size",
    minutes=6.0,
    medium=7.0,
)
def gradient_fades(laboratory: Laboratory) -> Outcome:
    rows = {batch: _trials(laboratory, LOSSES["InfoNCE"], batch) for batch in _batches(laboratory)}
    seen = {key: {f"batch {b}": _along(cell, key) for b, cell in rows.items()} for key in ("left", "effective")}
    words = [f"batch {b}: 1 - p from {mean(cell, 'first'):.3f} to {stated(cell, 'left')}" for b, cell in rows.items()]
    vanished = max(mean(cell, "vanished") for cell in rows.values())
    words.append(f"largest share of anchors whose gradient is 0 in float16: {vanished:.2g}")
    left = [mean(cell, "left") for cell in rows.values()]
    pictures = {
        "gradient": curves(seen["left"], "epoch", "remaining share of the gradient, 1 - p"),
        "negatives": curves(seen["effective"], "epoch", "effective share of the negatives"),
    }
    holds = all(mean(cell, "left") < mean(cell, "first") for cell in rows.values()) and left == sorted(left)
    contrasts = [
        contrasted(f"first over last at {b}", column(cell, "first"), column(cell, "left"), about=f"batch {b}")
        for b, cell in rows.items()
    ]
    contrasts += [
        contrasted(
            f"batch {large} over {small}", column(rows[large], "left"), column(rows[small], "left"), about="order"
        )
        for small, large in pairwise(rows)
    ]
    return Outcome(holds, "; ".join(words), seen, pictures, contrasts=contrasts)


@claim(
    227,
    "Along training with FlatNCE fewer and fewer negatives count: their effective share falls, for every batch size.",
    kind="training",
    tolerance="effective share after the first epoch above that after the last, order of means over seeds",
    minutes=6.0,
    medium=7.0,
)
def effective_negatives_fall(laboratory: Laboratory) -> Outcome:
    rows = {b: _trials(laboratory, LOSSES["FlatNCE"], b) for b in _batches(laboratory)}
    ends = {b: [_ends(row) for row in cell] for b, cell in rows.items()}
    words = [f"batch {b}: {mean(c, 'early'):.3f} to {stated(c, 'late')} of {2 * b - 2}" for b, c in ends.items()]
    contrasts = [
        contrasted(f"first over last epoch at {b}", column(cell, "early"), column(cell, "late"), about=f"batch {b}",
                   unit="share")
        for b, cell in ends.items()
    ]  # fmt: skip
    seen = {f"batch {b}": _along(cell, "effective") for b, cell in rows.items()}
    picture = curves(seen, "epoch", "effective share of the negatives, FlatNCE")
    holds = all(each.mean > 0 for each in contrasts)
    measured_words = f"effective share of the negatives: {'; '.join(words)}"
    return Outcome(holds, measured_words, seen, {"negatives": picture}, contrasts=contrasts)


def _ends(row: Row) -> Row:
    """The effective share of negatives after the first epoch and after the last."""
    return {"early": row["along"][0]["effective"], "late": row["along"][-1]["effective"]}


def half_info_nce(z1: Tensor, z2: Tensor, *, temperature: float = COLD) -> Tensor:
    """NT-Xent as it is usually written, a softmax cross-entropy, in float16; sums are rounded after every term."""
    scores, partner = _half_scores(z1, z2, temperature)
    largest = scores.detach().amax(dim=1, keepdim=True)
    total = rounded_sum((scores - largest).exp())
    return (total.log() + largest[:, 0] - scores.gather(1, partner[:, None])[:, 0]).float().mean()


def half_flat_nce(z1: Tensor, z2: Tensor, *, temperature: float = COLD) -> Tensor:
    """FlatNCE from the scores, in float16; sums are rounded after every term."""
    scores, partner = _half_scores(z1, z2, temperature)
    gaps = (scores - scores.gather(1, partner[:, None])).scatter(1, partner[:, None], -torch.inf)
    largest = gaps.detach().amax(dim=1, keepdim=True)
    c = rounded_sum((gaps - largest).exp()).log() + largest[:, 0]
    return torch.exp(c - c.detach()).float().mean()


def rounded_sum(terms: Tensor) -> Tensor:
    """The sum along rows as hardware with a float16 accumulator has it: a processor would round at the end only."""
    total = torch.zeros_like(terms[:, 0])
    for term in terms.unbind(1):
        total = total + term
    return total


HALF: dict[str, Callable[..., Tensor]] = {"simclr": half_info_nce, "flatclr": half_flat_nce}


def _half_scores(z1: Tensor, z2: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Scores of all pairs in float16, and the place of each row's partner."""
    u = normalize(torch.cat([z1, z2]), dim=1).half()
    itself = torch.eye(len(u), dtype=torch.bool, device=u.device)
    products = torch.zeros_like(u[:, :1] * u[:, :1].T)
    for column_of_u in u.unbind(1):  # the product of matrices, rounded to float16 after every term
        products = products + column_of_u[:, None] * column_of_u[None, :]
    partner = torch.arange(len(u), device=u.device).roll(len(z1))
    return (products / temperature).masked_fill(itself, -torch.inf), partner


def _batches(laboratory: Laboratory) -> list[int]:
    """The batch sizes of which there are four or more in the data."""
    return [batch for batch in BATCHES if 4 * batch <= laboratory.scale.samples or laboratory.scale.paper]


def _trials(laboratory: Laboratory, method: str, batch: int, *, half: bool = False, **more: Any) -> list[Row]:
    """A loss at a batch size; the rate follows the root of the batch, as in the authors' code."""
    rate = Optim(learning_rate=Optim().rate * math.sqrt(batch / 256))
    shared = {"method": method, "objective": {"temperature": COLD}, "batch": batch, "optim": rate, **laboratory.short}
    shared |= more
    configs = [laboratory.config(**shared, seed=seed) for seed in laboratory.seeds]
    return [
        laboratory.remember("watched", {**config.settings(), "half": half}, partial(_watched, config, half=half))
        for config in configs
    ]


def _watched(config: Config, *, half: bool) -> Row:
    """A training whose gradient is measured after every epoch."""
    parts = assembly.assemble(config)
    if half:
        parts.learner.objective = Objective(HALF[config.method], temperature=COLD)
    along = [_gradient(parts) for step in steps_of(parts) if step.ends_epoch]
    return {**measured(parts), **along[-1], "first": along[0]["left"], "along": along}


@torch.no_grad()
def _gradient(parts: Assembled) -> Row:
    """On training pairs in batches: InfoNCE's 1 - p, the effective share of negatives, anchors without gradient."""
    learner, batch = parts.learner, parts.config.batch
    pairs = features.extract(learner.encoder, parts.samples, parts.recipe, branches=learner.branches, limit=WATCHED)
    z1, z2 = pairs.z1, pairs.z2
    assert z1 is not None
    assert z2 is not None
    both = zip(z1.split(batch), z2.split(batch), strict=True)
    units = [normalize(torch.cat(pair), dim=1) for pair in both if len(pair[0]) == batch]
    left = torch.cat([contrast(u, temperature=COLD).sigmoid() for u in units])
    found = negatives(z1, z2, batch=batch, temperature=COLD)
    return {"left": left.mean(), "effective": found.effective.value, "vanished": found.vanished_float16}


def _along(rows: list[Row], key: str) -> dict[float, list[float]]:
    """A figure of every seed by epoch."""
    epochs = zip(*(column(row["along"], key) for row in rows), strict=True)
    return {number: list(seeds) for number, seeds in enumerate(epochs, 1)}
