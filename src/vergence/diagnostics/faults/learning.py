"""What can be wrong with the learning: collapse and its kinds, temperature, layers, a loss that cannot be.

Most need a training run: its objective, two views, or the projector's weights. Of somebody's file only collapse is
asked, and only where labels show that it costs something.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.assignments import Assigned
from vergence.diagnostics.collapse import Collapse
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.findings import Finding, fault
from vergence.diagnostics.negatives import Negatives
from vergence.diagnostics.reading import Judged
from vergence.diagnostics.removal import Removed
from vergence.diagnostics.thermometer import UNCOUNTED, Thermometer
from vergence.diagnostics.trials import Bench, costly, difference
from vergence.diagnostics.view_trials import Matched, matching

Batches = Sequence[tuple[Tensor, ...]]

COINCIDE = 5e-3  # variance of unit rows, of at most 1: two rows have a mean cosine of .995
ROUNDING = 1e-12  # variance of unit rows that float32 leaves of equal ones
FALSE = 0.3  # share of negatives that are positives: above what ten or even four classes give
BLUNT = 0.6  # nats between collapse and floor: reached at T = 2 / 0.6
SHARP = 1.5  # effective number of negatives
COLD, CAP = 0.05, 0.1  # temperature below those in use, and variance of unit embeddings below healthy ones
SOLVED = 0.95  # accuracy from which few directions, or few points, are enough for these labels
ONE_PROTOTYPE = 1.5  # prototypes in use: rows that all say the same have 1, two even clusters 2
UNIFORM = 0.99  # share of log K: a teacher that is sure of anything is below
MANY = 1000  # numbers of a matrix: moved by a hundredth of the bound, one of so many crosses it in 99 of 100 matrices
WELL_MATCHED = 0.8  # chance that two views of a sample are closer than two samples, from which spaces can be compared
SAME_SPACE = 0.6  # chance that a sample's representation and embedding are closer than two samples'


@fault("learning", order=22)
def complete_collapse(
    collapse: Collapse, n: int, collapse_of_z1: Collapse | None = None, collapse_of_z2: Collapse | None = None,
    judged: Judged | None = None, matched: Matched | None = None, trained: bool = False, compared: bool = True,
) -> Finding | None:  # fmt: skip
    """All rows coincide, and what little they differ tells nothing.

    A mean cosine near 1 alone is a constant offset: whether differences still mean something is asked of labels and
    views. In a training run that compared views, the embeddings are judged as its loss sees them, by their directions.
    """
    advice = "Raise what keeps embeddings apart, or restore the stop-gradient and the predictor."
    override: str | None = "--optim.learning-rate 0.001"
    views = [view.variance for view in (collapse_of_z1, collapse_of_z2) if view is not None]
    if trained and compared and views and max(views) < COINCIDE:
        sentence = f"To the loss embeddings nearly coincide: their mean cosine is {1 - views[0]:.4f}."
        return Finding("complete collapse", "learning", sentence, "collapse", advice, override=override)
    telling = (judged is not None and judged.above_chance) or (matched is not None and matched.own.low > 0.6)
    if collapse.variance >= COINCIDE or telling or n < 3:
        return None
    known = judged is not None or matched is not None
    if not known and collapse.variance > ROUNDING:
        sentence = f"Rows differ by {collapse.variance:.1g} of their squared length, around a constant: collapse, or a "
        sentence += "large constant offset. Rows alone cannot tell which; labels or second views would."
        return Finding("complete collapse", "learning", sentence, "collapse", "Center the rows.", "unknown")
    sentence = f"Rows coincide (variance {collapse.variance:.2g} of at most 1), and their differences tell nothing."
    if not (trained and compared):
        advice, override = "These rows hold no information: look for the step that made them equal.", None
    return Finding("complete collapse", "learning", sentence, "collapse", advice, override=override)


@fault("learning", order=102)
def dimensional_collapse(
    collapse: Collapse, body: Bench, variances: Tensor, collapse_of_z1: Collapse | None = None, trained: bool = False,
    without_top: Removed | None = None, scaled_columns: Tensor | None = None, judged: Judged | None = None,
    assigned: Assigned | None = None, words: Tensor | None = None, compared: bool = True,
    projector: Mapping[str, Tensor] | None = None,
) -> Finding | None:  # fmt: skip
    """Rows fill few of their directions. In a file of unknown origin only where half of those few would cost more.

    Scores with K prototypes are not asked: they fill no more directions than the projector before them has columns.
    Neither is asked for more than it can have: embeddings for more directions than go into the last layer of the
    projector, and texts of few different words, as sums of word vectors fill no more than there are words.
    """
    if trained:
        most = math.inf if words is None or words.shape[1] < 3 else float(words[0, 2].exp())
        embeddings = None if assigned or collapse_of_z1 is None else collapse_of_z1.within(_passing(projector, body))
        views = [("representations", collapse), ("embeddings", embeddings)]
        found = [(of, view) for of, view in views if view is not None and view.within(most).kind == "dimensional"]
        if not found or (without_top is not None and without_top.pays) or scaled_columns is not None:
            return None
        of, view = found[0]
        advice = "Widen or deepen the projector, and lower the strength of augmentation or weight decay."
        override: str | None = "--heads.projector 2048 128"
        if not compared:  # a method without a projector, whose views need not agree
            advice, override = "Train for more steps; a probe reads weak directions that neighbors do not see.", None
        sentence = f"The {of}: {view.spent}"
        return Finding("dimensional collapse", "learning", sentence, "collapse", advice, override=override)
    live = int((body.rows.std(dim=0) > 0).sum())
    room = min(live, body.n - 1)
    rank = int((variances > 1e-10 * variances[0]).sum())
    if room < 4 or rank > room / 2 or rank < 1:
        return None
    sentence = f"Rows fill {rank} of {room} directions that they have room for"
    advice = "What the other directions held is lost: look for the narrow layer or the projection that made these rows."
    if body.labels is None:
        return Finding("dimensional collapse", "learning", f"{sentence}; what that costs, labels would tell.",
                       "spectrum", advice, "unknown")  # fmt: skip
    cost = _halved(body, rank)
    right = float(body.correct.double().mean())
    sentence = f"{sentence}; neighbors are right in {right:.3f} of rows, and half of the directions would cost "
    sentence += f"{max(0.0, cost.value):.3f}."
    narrow = rank <= room / 4 and right < SOLVED
    level = "fault" if narrow or costly(cost, least=0.01) else "note"
    return Finding("dimensional collapse", "learning", sentence, "spectrum", advice, level, cost)


def _passing(projector: Mapping[str, Tensor] | None, body: Bench) -> float:
    """How many directions embeddings can fill: as many as enter the last layer, and the one of its bias.

    Of a projector that nobody showed, as many as representations have: it may be linear.
    """
    matrices = [weight for weight in (projector or {}).values() if weight.dim() == 2]
    return 1.0 + (matrices[-1].shape[1] if matrices else body.rows.shape[1])


@fault("learning", order=101)
def cluster_collapse(
    collapse: Collapse, body: Bench, exact: int, n: int, collapse_of_z1: Collapse | None = None, trained: bool = False,
    judged: Judged | None = None,
) -> Finding | None:  # fmt: skip
    """Rows sit on a few points. Where these points are the classes, nothing that labels ask is lost."""
    views = [("representations", collapse), ("embeddings", collapse_of_z1 if trained else None)]
    found = [(of, view) for of, view in views if view is not None and view.kind == "cluster"]
    if not found or exact > 0.25 * n:  # copies are named as such
        return None
    of, view = found[0]
    sentence = f"The {of} sit on a few points: the nearest row is {view.tightness:.1g} of the mean distance away."
    if body.labels is not None and float(body.correct.double().mean()) > SOLVED:
        sentence += " The points are the classes: neighbors are right in "
        sentence += f"{float(body.correct.double().mean()):.3f} of rows."
        return Finding("cluster collapse", "learning", sentence, "collapse", "", "note")
    advice = "Samples of one point cannot be told apart: look whether labels or copies leak into training."
    return Finding("cluster collapse", "learning", sentence, "collapse", advice)


@fault("learning", order=24)
def wrong_layer(
    h_sample: Tensor, z1_sample: Tensor, matched: Matched, trained: bool = False, projected: bool = True
) -> Finding | None:
    """The representation lives in the space of the embeddings: it is the projector's output.

    Then it matches a view of the same sample as well as two views match each other. Spaces of equal width match a
    little by luck, and equal arrays were meant to be equal. Where two views match badly, as early in training, nothing
    can be told.
    """
    if matched.own.value < WELL_MATCHED:
        return None
    if not trained or not projected or h_sample.shape != z1_sample.shape or torch.equal(h_sample, z1_sample):
        return None
    match = matching(trials.centered(h_sample.double()), trials.centered(z1_sample.double()))
    if match.low < max(SAME_SPACE, matched.own.value - 0.05):
        return None
    sentence = f"Representation and embedding of a sample are close in {100 * match.value:.0f} % of comparisons, "
    sentence += f"two views in {100 * matched.own.value:.0f} %: one space."
    advice = "Evaluate the encoder's output, before the projector."
    return Finding("wrong layer", "learning", sentence, "matching", advice)


@fault("learning", order=28)
def frozen_projector(projector: Mapping[str, Tensor]) -> Finding | None:
    """A matrix that still follows the law it was drawn from: uniform within 1 / sqrt(inputs), torch's default.

    Training carries some of its numbers past the bound within a few steps, unless the matrix is small: of those
    nothing is said.
    """
    matrices = {name: weight for name, weight in projector.items() if weight.dim() == 2 and weight.numel() >= MANY}
    untouched = [name for name, weight in matrices.items() if _as_drawn(weight)]
    if not untouched:
        return None
    sentence = f"{len(untouched)} of {len(matrices)} matrices of the projector are as they were drawn: "
    advice = "Hand the projector's parameters to the optimizer, and do not detach its input."
    return Finding("frozen projector", "learning", f"{sentence}{', '.join(untouched)}.", "projector", advice)


@fault("learning", order=26)
def unnormalized_input(
    reading: Thermometer, held_out_loss: Estimate, raw_loss: float, norm: Estimate, n: int
) -> Finding | None:
    """The loss is what nt_xent of raw products gives, and not what that of directions gives."""
    loss, span, again = reading.loss, reading.chance - reading.floor, held_out_loss.value
    if reading.objective != "nt_xent" or loss is None or 0.9 < norm.value < 1.1 or n < reading.n:
        return None
    if abs(loss - again) < max(0.1 * span, 2 * abs(loss - raw_loss)):
        return None
    sentence = f"The loss {loss:.3g} fits raw rows ({raw_loss:.3g}, mean length {norm.value:.3g}), "
    advice = "Divide embeddings by their length before the loss."
    return Finding(
        "unnormalized input", "learning", f"{sentence}not directions ({again:.3g}).", "held_out_loss", advice
    )


@fault("learning", order=29)
def impossible_loss(reading: Thermometer) -> Finding | None:
    """A loss beyond what any batch of that shape can give."""
    if reading.verdict != "impossible":
        return None
    advice = "Check objective, batch size, temperature and masks."
    return Finding("impossible loss", "learning", reading.sentence, "thermometer", advice)


@fault("learning", order=32)
def temperature_too_low(negatives: Negatives, collapse_of_z1: Collapse) -> Finding | None:
    """Anchors see one negative or none; or embeddings, free to, have shrunk into a cap of the sphere."""
    effective = negatives.effective.value * (2 * negatives.batch - 2)
    variance = collapse_of_z1.variance
    shrunk = negatives.temperature < COLD and variance < CAP
    if effective > SHARP and negatives.vanished_float32 < 0.2 and not shrunk:
        return None
    sentence = (
        f"At temperature {negatives.temperature:g} the variance of unit embeddings is {variance:.2g}, an anchor sees "
        f"{effective:.1f} of {2 * negatives.batch - 2} negatives, and {100 * negatives.vanished_float32:.0f} % have no "
        "slope."
    )
    return Finding(
        "temperature too low", "learning", sentence, "negatives", "Raise the temperature.",
        override="--objective.temperature 0.2",
    )  # fmt: skip


@fault("learning", order=34)
def temperature_too_high(reading: Thermometer) -> Finding | None:
    """A temperature at which collapse and the best batch have nearly the same loss."""
    span = reading.chance - reading.floor
    if "temperature" not in reading.hyperparameters or not 0 < span < BLUNT:  # zero for flat_nce, which never moves
        return None
    temperature = reading.hyperparameters["temperature"]
    sentence = f"At temperature {temperature:g} the whole range from collapse to the floor is {span:.2g} nats."
    return Finding(
        "temperature too high", "learning", sentence, "thermometer", "Lower the temperature.",
        override="--objective.temperature 0.2",
    )  # fmt: skip


@fault("learning", order=36)
def prototype_collapse(assigned: Assigned, reading: Thermometer) -> Finding | None:
    """All rows are assigned to one prototype, or every row to all of them alike: DINO's and SwAV's two collapses."""
    override: str | None = None
    most, used = math.log(assigned.prototypes), math.exp(assigned.teacher_together)
    codes = "epsilon" in reading.hyperparameters  # of SwAV, whose teacher is a batch of codes
    if used < ONE_PROTOTYPE:
        sentence = f"Rows use {used:.1f} of {assigned.prototypes} prototypes: all say the same."
        advice = "Raise the teacher's temperature, or center more slowly; use more samples in a batch."
    elif assigned.teacher > UNIFORM * most:
        sentence = (
            f"The teacher's entropy is {assigned.teacher:.2f} of at most {most:.2f} nats: every row is assigned to all "
            f"{assigned.prototypes} prototypes alike."
        )
        sharpen = "Lower the epsilon of the codes" if codes else "Lower the teacher's temperature"
        advice = f"{sharpen}, or train longer: a fresh encoder shows this too."
        override = "--objective.epsilon 0.01" if codes and reading.hyperparameters["epsilon"] > 0.01 else None
    else:
        return None
    return Finding("prototype collapse", "learning", sentence, "teacher_entropy", advice, override=override)


@fault("learning", order=103)
def false_negatives(
    negatives: Negatives, h_sample: Tensor, z1_sample: Tensor, sample_labels: Tensor | None = None
) -> Finding | None:
    """Many negatives of an anchor's own class. A fault only where embeddings tell classes apart worse for it.

    Two classes always have half of the negatives false; what repulsion within classes costs is how much worse
    neighbors are among the embeddings it acts on than among the representations before them.
    """
    if negatives.false_share.low < FALSE:
        return None
    part = f"{100 * negatives.false_share.value:.0f} % of negatives are of the anchor's class (by {negatives.by})"
    sentence = f"{part}: a class that is one point leaves the loss at {negatives.floor:.2f}"
    advice = "Use a method without negatives, or one that knows the labels."
    if sample_labels is None:
        return Finding("false negatives", "learning", f"{sentence}.", "negatives", advice, "note")
    before, after = (trials.correct(trials.cosine(rows), sample_labels) for rows in (h_sample, z1_sample))
    cost = difference(before, after)
    sentence += f"; neighbors are right in {float(after.double().mean()):.3f} of embeddings and in "
    sentence += f"{float(before.double().mean()):.3f} of representations."
    level = "fault" if costly(cost) else "note"
    return Finding(
        "false negatives", "learning", sentence, "negatives", advice, level, cost, override="--method vicreg"
    )


def raw_loss(pairs: Batches, reading: Thermometer) -> float | None:
    """The mean nt_xent of raw products: what a loss that forgets to normalize would show."""
    if "temperature" not in reading.hyperparameters or reading.objective in UNCOUNTED:
        return None
    values = []
    for first, second, *_ in pairs:
        z = torch.cat([first, second]).double()
        scores = (z @ z.T / reading.hyperparameters["temperature"]).fill_diagonal_(-torch.inf)
        partner = torch.arange(len(z), device=z.device).roll(len(first))
        values.append(torch.nn.functional.cross_entropy(scores, partner))
    return float(torch.stack(values).mean())


def _halved(body: Bench, rank: int) -> Estimate:
    """What the rows lose when only half of the directions they fill are kept, drawn at random; at most what is left."""
    middle = trials.centered(body.rows)
    coordinates = middle @ trials.top_directions(middle, rank)
    generator = torch.Generator().manual_seed(0)
    turned = coordinates @ torch.linalg.qr(torch.randn(rank, rank, generator=generator, dtype=torch.float64))[0]
    kept = max(1, rank // 2)
    draws = [trials.correct(trials.cosine(part[:, :kept]), body.labels) for part in (turned, turned.flip(1))]
    change = trials.mean_difference(draws, trials.correct(trials.cosine(coordinates), body.labels))
    room = 1 - float(body.correct.double().mean())
    return Estimate(min(-change.value, room), -change.high, -change.low, change.n, change.method)


def _as_drawn(weight: Tensor) -> bool:
    scaled = weight.double() * weight.shape[1] ** 0.5
    # The variance of a uniform law on [-1, 1] is 1 / 3, its estimate has the standard error sqrt(4 / 45 / numbers).
    variance, error = float(scaled.square().mean()), (4 / 45 / weight.numel()) ** 0.5
    return float(scaled.abs().max()) <= 1 + 1e-5 and abs(variance - 1 / 3) < 5 * error


def known(objective: Any = None, projector: Any = None) -> bool:
    """Whether these rows come from a training run that we know something of."""
    return objective is not None or projector is not None
