"""What can be wrong with pairs and labels: which row belongs to which label, and to which second view."""

import numpy as np
import torch
from torch import Tensor

from vergence.diagnostics import trials
from vergence.diagnostics.arrays import Array, labels_for, rows_at, shape
from vergence.diagnostics.collapse import Collapse
from vergence.diagnostics.estimate import Estimate, share
from vergence.diagnostics.findings import Finding, fault
from vergence.diagnostics.label_trials import SHIFTS, Shifted, shifted
from vergence.diagnostics.reading import USUAL, Judged, Readers, Replaced, blind, comparable, lucky
from vergence.diagnostics.reading import judged as judged_by
from vergence.diagnostics.reading import readers as readers_of
from vergence.diagnostics.trials import Bench, standard_score
from vergence.diagnostics.view_trials import WINDOW, Matched

UNMATCHED = 0.6  # chance that a positive pair is closer than a random one: 0.5 when pairs are shuffled
ASTRAY = 0.1  # share of rows whose partner is elsewhere
EVEN = 0.6  # evenness of far partners: .5 at most for weak views of one sample, .63 and more where 30 % are shuffled
MINORITY = 20  # rows outside the commonest class, below which nobody can tell whether they are told apart
MEMBERS = 6  # rows a class on average, below which a class is too small to contradict a label
TOLD = 2.7  # nats of evidence for wrong labels: by the law of chi-square careful data have more once in a hundred
HINTED = 0.27  # nats from which it is said that labels may be wrong
EARLY = 200  # steps of training before which views need not match yet


@fault("pairs", order=12)
def dead_view(collapse_of_z1: Collapse, collapse_of_z2: Collapse) -> Finding | None:
    """One view is a constant while the other is not."""
    views = (("first", collapse_of_z1), ("second", collapse_of_z2))
    dead = [name for name, view in views if view.variance < 1e-6]
    if len(dead) != 1:
        return None
    sentence = f"The {dead[0]} view is the same for all samples, while the other is not."
    advice = "Look at the inputs of that view: they are constant or empty."
    return Finding("dead view", "pairs", sentence, "collapse", advice)


@fault("pairs", order=13)
def identical_views(matched: Matched) -> Finding | None:
    """Both views are the same rows: that they match says nothing."""
    if not matched.identical:
        return None
    sentence = "Both views are the same rows, number by number: that they match says nothing of the encoder."
    advice = "Give embeddings of two augmented views of every sample, or none."
    return Finding("identical views", "pairs", sentence, "matching", advice, "unknown")


@fault("pairs", order=14)
def misaligned_views(matched: Matched) -> Finding | None:
    """Rows of the second view match the rows some places earlier or later."""
    if not matched.best:
        return None
    start, stop = matched.part
    where = "" if (start, stop) == (0.0, 1.0) else f" between {100 * start:.0f} % and {100 * stop:.0f} % of the file"
    side = "later" if matched.best > 0 else "earlier"
    sentence = (
        f"A row's second view stands {abs(matched.best)} row{'s' * (abs(matched.best) > 1)} {side}{where}: "
        f"{matched.retrieved.value:.3f} of rows find their own, {matched.retrieved_at_best.value:.3f} at that shift."
    )
    gain = Estimate(
        matched.retrieved_at_best.value - matched.retrieved.value,
        matched.retrieved_at_best.low - matched.retrieved.high,
        matched.retrieved_at_best.high - matched.retrieved.low,
        matched.retrieved.n,
        "difference of retrieval",
    )
    advice = f"Shift the second views by {matched.best}, and look where a row was lost."
    return Finding("misaligned views", "pairs", sentence, "matching", advice, "fault", gain, "shift the rows", gain)


@fault("pairs", order=16)
def shuffled_pairs(
    matched: Matched, collapse_of_z1: Collapse, collapse_of_z2: Collapse, compared: bool = True,
    steps: int = EARLY, z2: Array | None = None, labels: Tensor | None = None, seed: int = 0,
) -> Finding | None:  # fmt: skip
    """Second views that match no better than luck, all or a part of them; in a run of few steps it is too early.

    Views of rows that know little match no better either. Where labels can be read from second views as they stand,
    these belong to their rows.
    """
    if matched.best or not compared or min(collapse_of_z1.variance, collapse_of_z2.variance) < 1e-6:
        return None
    advice = "Check that row i of both views is the same sample."
    if matched.own.value < UNMATCHED and matched.own.low < 0.52:
        sentence = f"A sample's two views are no closer than two samples': {matched.own.value:.2f} of comparisons won, "
        sentence += "0.5 by luck."
        doubt = "Too few rows to be sure." if matched.own.high > UNMATCHED else ""
        doubt = f"After {steps} steps of training that may be too early to say." if steps < EARLY else doubt
        if not doubt and z2 is not None and labels is not None and _tell_labels(z2, labels, seed):
            doubt = "But second views tell the labels of their rows: not shuffled, views match weakly."
        if doubt:
            return Finding("shuffled pairs", "pairs", f"{sentence} {doubt}", "matching", advice, "unknown")
        return Finding("shuffled pairs", "pairs", sentence, "matching", advice)
    if matched.lost.low > ASTRAY and matched.close > 0.25 and matched.evenness > EVEN:
        sentence = (
            f"About {100 * matched.lost.value:.0f} % of rows have the second view of another sample; of the others "
            "most match well."
        )
        return Finding("shuffled pairs", "pairs", sentence, "matching", advice, "fault", matched.lost)
    return None


def _tell_labels(z2: Array, labels: Tensor, seed: int) -> bool:
    views = trials.bench(z2, labels, seed)
    found = readers_of(views)
    return found is not None and judged_by(found, views).above_chance


@fault("pairs", order=18)
def misaligned_labels(label_shift: tuple[int, Estimate, tuple[float, float]]) -> Finding | None:
    """Labels that fit the rows some places earlier or later."""
    shift, gain, (start, stop) = label_shift
    if not shift:
        return None
    where = "" if (start, stop) == (0.0, 1.0) else f" between {100 * start:.0f} % and {100 * stop:.0f} % of the file"
    side = "later" if shift > 0 else "earlier"
    sentence = f"A row's label stands {abs(shift)} row{'s' * (abs(shift) > 1)} {side}{where}: shifted back, "
    sentence += f"neighbors are right in {gain.value:.3f} more of these rows."
    advice = f"Shift the labels by {shift}, and look where a row was lost."
    return Finding("misaligned labels", "pairs", sentence, "neighbors", advice, "fault", gain, "shift the labels", gain)


@fault("pairs", order=19)
def labels_at_chance(
    judged: Judged, body: Bench, label_shift: tuple[int, Estimate, tuple[float, float]] | None = None
) -> Finding | None:
    """Readers of the rows predict labels no better than the shares of classes do."""
    if judged.above_chance or (label_shift is not None and label_shift[0]):
        return None
    sentence = (
        f"Labels are at chance: balanced accuracy {judged.accuracy:.3f}, {judged.chance:.3f} by guessing. They are "
        "shuffled, or these rows know nothing of them; rows alone cannot tell which."
    )
    advice = "Check that row i of labels belongs to row i of the embeddings."
    few = body.n < 50 or body.n - int(torch.bincount(body.labels).max()) < MINORITY
    level = "unknown" if few or not judged.at_chance else "fault"
    return Finding("labels at chance", "pairs", sentence, "neighbors", advice, level)


@fault("pairs", order=140)
def label_noise(
    judged: Judged, replaced: Replaced, readers: Readers, body: Bench,
    label_shift: tuple[int, Estimate, tuple[float, float]] | None = None, read_elsewhere: float = 0.0,
) -> Finding | None:  # fmt: skip
    """Labels that were replaced by any other: contradicted where readers are sure, not only where classes overlap.

    Where other features of the same samples give ``read_elsewhere`` of the labels, fewer than the rest can be wrong.
    """
    if not judged.above_chance or (label_shift is not None and label_shift[0]):
        return None
    if replaced.share > 2 * (1 - read_elsewhere):
        return None
    small = body.n < MEMBERS * len(torch.unique(body.labels))
    noisy = _noisy(replaced) and not small
    if noisy and (replaced.in_clusters or not lucky(readers, body, replaced)):
        sentence = (
            f"About {100 * replaced.share:.0f} % of labels are wrong at random: where rows are surest, "
            f"{100 * replaced.surest:.0f} % of labels contradict them ({100 * replaced.error:.0f} % overall)."
        )
        advice = "Look at the contradicted samples; accuracies measured with these labels are too low by about as much."
        found = share(min(1.0, replaced.share), n=body.n)
        return Finding("label noise", "pairs", sentence, "confident_errors", advice, "fault", found)
    said = f"Rows contradict {100 * replaced.error:.0f} % of the labels"
    if replaced.share > USUAL and replaced.evidence > HINTED:
        sentence = (
            f"About {100 * replaced.share:.0f} % of labels may be wrong at random, but the evidence is weak: {said}, "
            "and classes that overlap may be the reason."
        )
    elif small or blind(readers, body, _noisy):
        sentence = f"{said}, and 15 % more that were replaced on trial could not be told from classes that overlap: "
        sentence += "nothing is known of wrong labels here."
    else:
        return None
    return Finding("label noise", "pairs", sentence, "confident_errors", "", "unknown")


def _noisy(replaced: Replaced) -> bool:
    return replaced.share > USUAL and replaced.evidence > TOLD


@fault("pairs", order=150)
def no_classes(labels: Tensor, n: int) -> Finding | None:
    """Labels that are all equal, or all different."""
    if comparable(labels) or n < 4:
        return None
    count = len(torch.unique(labels))
    sentence = f"{count} different labels on {n:,} rows are no classes: accuracies say nothing here."
    return Finding("no classes", "pairs", sentence, "labels", "Give one label for each class of samples.", "unknown")


def label_shift(
    h: Array, labels: Tensor, judged: Judged | None = None, seed: int = 0
) -> tuple[int, Estimate, tuple[float, float]] | None:
    """The shift of labels against rows, from some place of the file on, at which rows fit their labels better.

    A window of consecutive rows: a sample would hide what stands next to what. Every shift of up to 20 rows is tried
    for the whole window, up to 3 from each eighth of it on; all labels move together, as after a lost row. Shifts are
    told by neighbors' votes and a ridge, and what is reported is the accuracy of neighbors.
    """
    n, _ = shape(h)
    if n < 40 or not comparable(labels):
        return None
    start = int(np.random.default_rng(seed).integers(0, max(1, n - WINDOW + 1)))
    index = np.arange(start, min(n, start + WINDOW))
    targets = torch.unique(labels[torch.from_numpy(index)], return_inverse=True)[1]
    trial = shifted(rows_at(h, index).double().cpu(), targets)
    found = _told(trial, sure=judged is None or judged.above_chance)
    if not found:
        return 0, Estimate(0.0, 0.0, 0.0, n, ""), (0.0, 1.0)
    # Where labels stand in blocks many shifts fit nearly as well: the smallest of them is meant.
    most = max(found.values())
    shift, place = min((key for key in found if found[key] > 0.85 * most), key=lambda key: (abs(key[0]), -found[key]))
    gain = trials.difference(trial.right(trial.moved(shift, place)), trial.right(targets))
    if not trial.beyond_luck(shift, place):
        return 0, Estimate(0.0, 0.0, 0.0, n, ""), (0.0, 1.0)
    return shift, gain, (place, 1.0)


def _told(trial: Shifted, *, sure: bool) -> dict[tuple[int, float], float]:
    """Shifts and places that fit better than luck explains, with their standard scores.

    Of 40 shifts and 42 places chance reaches 4.2 standard errors once in a thousand files; small shifts are likelier.
    Rows that know nothing of their labels fit by luck more often than the normal law says: there five are asked for.
    """
    usual, small = (4.2, 3.5) if sure else (5.0, 5.0)
    votes, fitted, right = (measure(trial.labels) for measure in (trial.votes, trial.fitted, trial.right))
    found = {}
    for shift, place in _hypotheses():
        moved = trial.moved(shift, place)
        change = trial.votes(moved) - votes
        if standard_score(change) < 1:
            continue
        score = standard_score(change + trial.fitted(moved) - fitted)
        gain = float((trial.right(moved).double() - right.double()).mean())
        if score > (small if abs(shift) <= 2 and not place else usual) and gain > 0.01:
            found[shift, place] = score
    return found


def _hypotheses() -> list[tuple[int, float]]:
    whole = [(shift, 0.0) for shift in range(-SHIFTS, SHIFTS + 1) if shift]
    return whole + [(shift, place / 8) for place in range(1, 8) for shift in (-3, -2, -1, 1, 2, 3)]


def targets(labels: Array, n: int) -> Tensor:
    """Labels as numbers 0 ... K - 1."""
    return labels_for(labels, n)
