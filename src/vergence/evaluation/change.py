"""Change: the same samples under an encoder before and after training; what got better, and what got worse."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.counters import drawn
from vergence.diagnostics import estimate
from vergence.diagnostics.arrays import unit
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.geometry import neighbors, uniformity
from vergence.diagnostics.spectrum import effective_rank
from vergence.evaluation.accuracy import Accuracy
from vergence.evaluation.classifiers import knn, linear_probe, nearest_center

NEIGHBORS = 10
FITTED, COMPARED = 5000, 2000  # rows that classifiers are fitted on, and rows whose neighbors are compared, at most
LOST = 0.5  # an effective rank below this share of what it was has lost directions
PENALTY = 1e-3  # of the linear probe, the same before and after: the middle of the grid it would be chosen from


@dataclass(frozen=True)
class Side:
    """An encoder's features: representations of training and test samples, and views ``[n, m, d]`` of some of these."""

    train_h: Tensor
    test_h: Tensor
    views: Tensor


@dataclass(frozen=True)
class Change:
    """One measurement before and after, and the 95 % interval of the difference, paired sample by sample."""

    name: str
    after: float
    before: float | None = None
    low: float | None = None
    high: float | None = None
    higher_is: str = ""
    meaning: str = ""

    @property
    def verdict(self) -> str:
        """Better or worse where the interval leaves out zero and one of them is good; otherwise empty."""
        if self.low is None or self.high is None or not self.higher_is or self.low <= 0 <= self.high:
            return ""
        return "better" if (self.low > 0) == (self.higher_is == "better") else "worse"

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "verdict": self.verdict}


def changes(
    before: Side, after: Side, train_labels: Tensor | None = None, test_labels: Tensor | None = None
) -> Iterator[Change]:
    """What training changed: accuracies where there are labels, then alignment, uniformity, rank and neighbors.

    All are of representations, before any head: heads need not exist before training. Alignment is between two views of
    a sample, on the sphere. Every interval is of the difference and is paired; uniformity and rank have none.
    """
    if train_labels is not None and test_labels is not None and len(train_labels.unique()) > 1:
        yield from _accuracies(before, after, train_labels, test_labels)
    first, second = (_alignments(side.views) for side in (before, after))
    moved = estimate.mean((second - first).double().numpy())
    if bool(first.any()) or bool(second.any()):  # views that differ by dropout are equal where it is off
        yield _change(
            "alignment", float(first.mean()), float(second.mean()), moved, "", "distance of two views; 0 is equal"
        )
    for name, measure, meaning in (
        ("uniformity", lambda h: float(uniformity(h)), "how evenly the sphere is covered; lower is more evenly"),
        ("effective rank", effective_rank, "directions in use"),
    ):
        yield Change(name, measure(after.test_h), measure(before.test_h), meaning=meaning)
    yield from _neighbors(before, after, test_labels)


def summary(found: list[Change]) -> tuple[str, str]:
    """One word and one sentence on all changes: better, worse, mixed, unchanged, or unknown without labels."""
    judged = [change for change in found if change.higher_is]
    worse, better = ([change for change in judged if change.verdict == word] for word in ("worse", "better"))
    if not judged:
        return "unknown", f"Without labels it cannot be said whether training made the encoder better.{_rank(found)}"
    told = "; ".join(_told(change) for change in [*worse, *better])
    if worse and better:
        return "mixed", f"Training made some things better and some worse than the weights it started from: {told}."
    if worse:
        return "worse", f"Training made it worse than the weights it started from: {told}.{_rank(found)}"
    if better:
        return "better", f"Training made it better than the weights it started from: {told}."
    told = "; ".join(_told(change) for change in judged)
    return "unchanged", f"No accuracy differs from that of the weights it started from: {told}.{_rank(found)}"


def _accuracies(before: Side, after: Side, train_labels: Tensor, test_labels: Tensor) -> Iterator[Change]:
    rows = drawn(len(train_labels), FITTED, groups=train_labels)
    fitted: dict[str, Callable[..., Accuracy]] = {
        "linear probe": lambda *split: linear_probe(*split, regularization=PENALTY),
        "kNN": knn,
        "nearest center": nearest_center,
    }
    for name, classifier in fitted.items():
        right = []
        for side in (before, after):
            made = classifier(side.train_h[rows], train_labels[rows], side.test_h, test_labels)
            right.append((made.predictions == test_labels.numpy()).astype(float))
        moved = estimate.mean(right[1] - right[0])
        yield _change(name, right[0].mean(), right[1].mean(), moved, "better", "accuracy")


def _neighbors(before: Side, after: Side, labels: Tensor | None) -> Iterator[Change]:
    """How many of the nearest neighbors stayed, and how many are of the same class."""
    rows = drawn(len(before.test_h), COMPARED, groups=labels)
    k = min(NEIGHBORS, len(rows) - 1)
    first, second = (_nearest(side.test_h[rows], k) for side in (before, after))
    kept = (first[:, :, None] == second[:, None, :]).any(2).float().mean()
    yield Change("neighbors kept", float(kept), meaning=f"share of the {k} nearest neighbors that are the same")
    if labels is None or len(labels.unique()) < 2:
        return
    own = labels[rows]
    shares = [(own[near] == own[:, None]).double().mean(1).numpy() for near in (first, second)]
    moved = estimate.mean(shares[1] - shares[0])
    meaning = f"share of the {k} nearest neighbors that are of the same class"
    yield _change("neighbors of one class", shares[0].mean(), shares[1].mean(), moved, "better", meaning)


def _nearest(h: Tensor, k: int) -> Tensor:
    return neighbors(unit(h.float()), torch.arange(len(h)), k=k)[1]


def _alignments(views: Tensor) -> Tensor:
    """The squared distance of two views of each sample; the first of the views is the sample itself."""
    first, second = unit(views[:, 1].float()), unit(views[:, min(2, views.shape[1] - 1)].float())
    return (first - second).square().sum(1)


def _change(name: str, before: Any, after: Any, moved: Estimate, higher_is: str, meaning: str) -> Change:
    low, high = (float(end) for end in moved.interval)
    if not np.isfinite([low, high]).all():
        return Change(name, float(after), float(before), higher_is=higher_is, meaning=meaning)
    return Change(name, float(after), float(before), low, high, higher_is, meaning)


def _told(change: Change) -> str:
    interval = f", difference {change.low:+.3f} to {change.high:+.3f}" if change.low is not None else ""
    return f"{change.name} from {change.before:.3f} to {change.after:.3f}{interval}"


def _rank(found: list[Change]) -> str:
    rank = next((change for change in found if change.name == "effective rank"), None)
    if rank is None or not rank.before or rank.after >= LOST * rank.before:
        return ""
    return f" The effective rank fell from {rank.before:.1f} to {rank.after:.1f}: directions were lost."
