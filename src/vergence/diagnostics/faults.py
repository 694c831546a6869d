"""Faults: what has gone wrong, told from embeddings, a loss and labels; one small test for each.

A test returns a :class:`Finding` or None. Thresholds lie between the healthy and the injected cases of
``benchmarks/faults_of_learning.py``, which prints the confusion table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.diagnostics import estimate
from vergence.diagnostics.arrays import Array, loaded, unit
from vergence.diagnostics.collapse import Collapse
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.geometry import neighbors
from vergence.diagnostics.negatives import Negatives
from vergence.diagnostics.thermometer import Thermometer

UNMATCHED = 0.6  # chance that a positive pair is closer than a random one: 0.5 when pairs are shuffled
STEADY_ROWS = 64 * 512  # rows whose blocks are compared
STEADY = 0.1  # variance of batch means over that of independent rows
REPEATED = 0.05  # share of rows that repeat another
FALSE = 0.3  # share of negatives that are positives: above what ten or even four classes give
BLUNT = 0.6  # nats between collapse and floor: reached at T = 2 / 0.6
SHARP = 1.5  # effective number of negatives
COLD, CAP = 0.05, 0.1  # temperature below those in use, and variance of unit embeddings below healthy ones
CONTRADICTED = 0.05  # share of labels against confident neighbors
HIDDEN = 0.5  # share of labels that neighbors contradict, above which wrong labels look like overlapping classes
EVENLY = 0.6  # their error over that of all: 0.54 at most for overlapping classes, 0.64 and more for flipped labels


@dataclass(frozen=True)
class Finding:
    """A fault by name, a sentence on it, the diagnostic that shows it, what to do, and the override that does it."""

    fault: str
    sentence: str
    measurement: str
    advice: str
    override: str | None = None


def collapsed(found: Collapse, *, of: str) -> Finding | None:
    """Complete, dimensional or cluster collapse of one set of rows."""
    if found.kind == "none":
        return None
    advice = {
        "complete": "Raise what keeps embeddings apart, or restore the stop-gradient and the predictor.",
        "dimensional": "Widen or deepen the projector, and lower the strength of augmentation or weight decay.",
        "cluster": "Lower the weight of alignment, or look whether labels or duplicates leak into the pairs.",
    }[found.kind]
    override = {"complete": "--optim.learning-rate 0.001", "dimensional": "--heads.projector 2048 128"}.get(found.kind)
    return Finding(f"{found.kind} collapse", f"The {of}: {found.evidence[0]}", "collapse", advice, override)


def dead_view(first: Collapse, second: Collapse) -> Finding | None:
    """One view is a constant while the other is not."""
    dead = [name for name, view in (("first", first), ("second", second)) if view.kind == "complete"]
    if len(dead) != 1:
        return None
    sentence = f"The {dead[0]} view is one point for all samples, while the other is not."
    return Finding("dead view", sentence, "collapse", "Look at the images of that view: a constant or black input.")


def matching(first: Tensor, second: Tensor) -> Estimate:
    """The chance that a sample's own other view is closer than another's: 0.5 when pairs are shuffled, 1 at best."""
    scores = unit(first) @ unit(second).T
    own = scores.diagonal()[:, None]
    wins = ((scores < own).double() + 0.5 * (scores == own).double()).sum(dim=1) - 0.5
    return estimate.mean((wins / (len(scores) - 1)).cpu().numpy())


def mapped(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Half of the rows, the first side carried into the second's space by a linear map learned on the other half.

    Encoders that share no weights need share no directions either: a critic may stand between them.
    """
    learned, judged = slice(0, None, 2), slice(1, None, 2)
    x, y = (rows.double() - rows[learned].double().mean(dim=0) for rows in (first, second))
    moments = x[learned].T @ x[learned]
    # As much penalty as a direction of mean strength: half the rows may be fewer than the columns.
    moments.diagonal().add_(moments.diagonal().mean())
    return x[judged] @ torch.linalg.solve(moments, x[learned].T @ y[learned]), y[judged]


def shuffled_pairs(match: Estimate) -> Finding | None:
    """Few rows give a wide interval: the alarm needs luck to be within it."""
    if match.value > UNMATCHED or match.low > 0.52:
        return None
    sentence = (
        f"A sample's two views are no closer than two samples: {match.value:.2f} of comparisons won, 0.5 by luck."
    )
    return Finding("shuffled pairs", sentence, "matching", "Check that row i of both views is the same sample.")


def steadiness(h: Array, *, blocks: tuple[int, ...] = (512, 256, 128, 64, 32, 16)) -> tuple[float, int]:
    """Variance of the means of consecutive blocks over that of independent rows, and the block size it is least for.

    Near 1 for rows in a random order, above for sorted ones. Near 0 when every block was normalized by itself.
    """
    rows = loaded(h[:STEADY_ROWS]).double()
    spread = rows.var(dim=0)
    rows, spread = rows[:, spread > 1e-12 * spread.max()], spread[spread > 1e-12 * spread.max()]
    found = [(1.0, 0)]
    for block in blocks:
        count = len(rows) // block
        if count >= 4 and len(spread):
            means = rows[: count * block].reshape(count, block, -1).mean(dim=1)
            found.append((float((means.var(dim=0) * block / spread).mean()), block))
    return min(found)


def batch_statistics_leak(ratio: float, block: int) -> Finding | None:
    if ratio > STEADY:
        return None
    sentence = (
        f"The means of every {block} consecutive rows agree {1 / max(ratio, 1e-9) ** 0.5:.0f} times better than luck."
    )
    advice = "Batch norm was in training mode: call encoder.eval() before extracting features."
    return Finding("batch statistics leak", sentence, "steadiness", advice)


def duplicated(exact: int, near: Estimate, n: int) -> Finding | None:
    if exact < REPEATED * n and near.low < REPEATED:
        return None
    share = max(exact / n, near.value)
    sentence = f"{100 * share:.0f} % of rows repeat another: they serve as each other's negatives."
    return Finding("duplicates", sentence, "duplicates", "Remove duplicate samples before training and evaluation.")


def confident_errors(predictions: Tensor, confidence: Tensor, labels: Tensor) -> tuple[float, float]:
    """The error of the most confident quarter of predictions, and of all."""
    wrong = (predictions != labels).double()
    surest = confidence.argsort(descending=True, stable=True)[: max(1, len(wrong) // 4)]
    return float(wrong[surest].mean()), float(wrong.mean())


def neighbor_votes(rows: Tensor, labels: Tensor, *, k: int = 20) -> tuple[Tensor, Tensor]:
    """For each row the label most frequent among its nearest others, and its share of their votes."""
    _, nearest = neighbors(unit(rows), torch.arange(len(rows), device=rows.device), k=k)
    votes = torch.zeros(len(rows), int(labels.max()) + 1, device=rows.device)
    votes.scatter_add_(1, labels[nearest], torch.ones_like(nearest, dtype=votes.dtype))
    share = votes / nearest.shape[1]
    return share.argmax(dim=1), share.amax(dim=1)


def label_noise(surest: float, overall: float) -> Finding | None:
    """Wrong labels are spread evenly; honest errors gather where neighbors disagree."""
    if surest < CONTRADICTED or surest < EVENLY * overall or overall > HIDDEN:
        return None
    sentence = (
        f"Where neighbors agree most, {100 * surest:.0f} % of labels contradict them ({100 * overall:.0f} % overall)."
    )
    return Finding("label noise", sentence, "confident errors", "Look at the contradicted samples: labels are wrong.")


def raw_loss(batches: Sequence[tuple[Tensor, ...]], *, temperature: float) -> float:
    """The mean nt_xent of raw products: what a loss that forgets to normalize would show."""
    values = []
    for first, second, *_ in batches:
        z = torch.cat([first, second]).double()
        scores = (z @ z.T / temperature).fill_diagonal_(-torch.inf)
        partner = torch.arange(len(z), device=z.device).roll(len(first))
        values.append(torch.nn.functional.cross_entropy(scores, partner))
    return float(torch.stack(values).mean())


def unnormalized_input(scale: Thermometer, again: float, raw: float, norm: float) -> Finding | None:
    """The loss is what nt_xent of raw products gives, and not what that of directions gives, ``again``."""
    loss, span = scale.loss, scale.chance - scale.floor
    if scale.objective != "nt_xent" or loss is None or 0.9 < norm < 1.1:
        return None
    if abs(loss - again) < max(0.1 * span, 2 * abs(loss - raw)):
        return None
    sentence = f"The loss {loss:.3g} fits raw rows ({raw:.3g}, mean length {norm:.3g}), not directions ({again:.3g})."
    advice = "Divide embeddings by their length before the loss."
    return Finding("unnormalized input", sentence, "held_out_loss", advice)


def temperature_too_high(scale: Thermometer) -> Finding | None:
    span = scale.chance - scale.floor
    if not 0 < span < BLUNT:  # zero for flat_nce, whose value never moves
        return None
    temperature = scale.hyperparameters["temperature"]
    sentence = f"At temperature {temperature:g} the whole range from collapse to the floor is {span:.2g} nats."
    return Finding(
        "temperature too high", sentence, "thermometer", "Lower the temperature.", "--objective.temperature 0.2"
    )


def temperature_too_low(found: Negatives, variance: float) -> Finding | None:
    """Anchors see one negative or none; or embeddings, free to, have shrunk into a cap of the sphere."""
    effective = found.effective.value * (2 * found.batch - 2)
    shrunk = found.temperature < COLD and variance < CAP
    if effective > SHARP and found.vanished_float32 < 0.2 and not shrunk:
        return None
    sentence = (
        f"At temperature {found.temperature:g} the variance of unit embeddings is {variance:.2g}, an anchor sees "
        f"{effective:.1f} of {2 * found.batch - 2} negatives, and {100 * found.vanished_float32:.0f} % have no slope."
    )
    return Finding(
        "temperature too low", sentence, "negatives", "Raise the temperature.", "--objective.temperature 0.2"
    )


def false_negatives(found: Negatives) -> Finding | None:
    if found.false_share.low < FALSE:
        return None
    share = f"{100 * found.false_share.value:.0f} % of negatives are positives in truth (by {found.by})"
    sentence = f"{share}: a class that is one point leaves the loss at {found.floor:.2f}."
    advice = "Use a method without negatives, or one that knows the labels."
    return Finding("false negatives", sentence, "negatives", advice, "--method vicreg")


def wrong_layer(h: Tensor, z: Tensor) -> Finding | None:
    """The representation lives in the space of the embeddings: it is the projector's output, or there is no projector.

    Rows of unrelated spaces match by luck only. Equal arrays were meant to be equal.
    """
    if h.shape != z.shape or torch.equal(h, z):
        return None
    match = matching(h, z)
    if match.low < UNMATCHED:
        return None
    sentence = (
        f"Representation and embedding of a sample are close in {100 * match.value:.0f} % of comparisons: one space."
    )
    return Finding("wrong layer", sentence, "matching", "Evaluate the encoder's output, before the projector.")


def frozen_projector(weights: Mapping[str, Tensor]) -> Finding | None:
    """A matrix that still follows the law it was drawn from: uniform within 1 / sqrt(inputs), torch's default.

    Training carries some of its numbers past the bound within a few steps.
    """
    matrices = {name: weight for name, weight in weights.items() if weight.dim() == 2}
    untouched = [name for name, weight in matrices.items() if _as_drawn(weight)]
    if not untouched:
        return None
    sentence = (
        f"{len(untouched)} of {len(matrices)} matrices of the projector are as they were drawn: {', '.join(untouched)}."
    )
    advice = "Hand the projector's parameters to the optimizer, and do not detach its input."
    return Finding("frozen projector", sentence, "projector", advice)


def _as_drawn(weight: Tensor) -> bool:
    scaled = weight.double() * weight.shape[1] ** 0.5
    # The variance of a uniform law on [-1, 1] is 1 / 3, its estimate has the standard error sqrt(4 / 45 / numbers).
    variance, error = float(scaled.square().mean()), (4 / 45 / weight.numel()) ** 0.5
    return float(scaled.abs().max()) <= 1 + 1e-5 and abs(variance - 1 / 3) < 5 * error


def impossible_loss(scale: Thermometer) -> Finding | None:
    if scale.verdict != "impossible":
        return None
    return Finding("impossible loss", scale.sentence, "thermometer", "Check batch size, temperature and masks.")


# Gravest first: the later ones are often consequences of the earlier.
GRAVITY = (
    "dead view",
    "complete collapse",
    "shuffled pairs",
    "wrong layer",
    "batch statistics leak",
    "unnormalized input",
    "frozen projector",
    "impossible loss",
    "temperature too low",
    "temperature too high",
    "duplicates",
    "cluster collapse",
    "dimensional collapse",
    "false negatives",
    "label noise",
)
