"""A ranking of sets of views: how a race ended, what theory says beside it, and what neither knows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vergence.learning.trials import Tried
from vergence.theory import Certificate
from vergence.views.candidates import ViewSet
from vergence.views.concentration import Concentrated

EXPERIMENTAL = (
    "EXPERIMENTAL: there are no labels, so nothing here is known to be right. The order is by a label-free score (the "
    "InfoNCE loss under the views of all sets, the median). Its rank correlation with accuracy was .8 on CIFAR-10, .3 "
    "on MNIST and -.6 on a table; following it cost up to .07 of accuracy. Some hundred labels decide better."
)
NEARLY_ALL = 0.98  # accuracy above which sets are told apart by a few samples: a watch's windows .99, crops of photos 1
USUAL = "usual"  # the set of every list of candidates that is the default of its kind of data
UNKNOWN = (  # said on every page
    "Sets that are not in the list, and other mixtures of their parts, were not tried.",
    "A much longer training or a larger network may reorder sets that lie close together.",
    "Samples that come in groups (people, films, sites) flatter every set unless --groups names them: it cost .08.",
    "Labels decide: for another task than theirs (counting, position, color) the order may be another.",
)


@dataclass(frozen=True)
class RankedSet:
    """A set of views, how its trial went, and what theory says of it."""

    view_set: ViewSet
    tried: Tried
    described: Concentrated | None = None

    @property
    def name(self) -> str:
        return self.view_set.name

    def to_dict(self) -> dict[str, Any]:
        own = self.view_set
        told = {
            "views": own.views,
            "options": dict(own.options),
            "why": own.why,
            "description": own.recipe().describe(),
        }
        theory = None if self.described is None else self.described.to_dict()
        return {**self.tried.to_dict(), **told, "concentration": theory}


@dataclass(frozen=True)
class ViewRanking:
    """Sets of views, best first, with what was done and what is not known."""

    sets: tuple[RankedSet, ...]
    source: str
    labeled: bool
    samples: int
    total: int
    chance: float | None
    raw: float | None
    rungs: tuple[int, ...]
    command: str
    notes: tuple[str, ...]
    seconds: float = 0.0
    certificate: Certificate | None = None
    graph: Any = field(default=None, repr=False)
    asked: str = ""
    page: Path | None = None
    grouped: bool = False

    @property
    def best(self) -> RankedSet:
        return self.sets[0]

    @property
    def ties(self) -> tuple[RankedSet, ...]:
        """The sets that the trials do not tell from the best, the best among them."""
        return tuple(row for row in self.sets if row.tried.tied)

    @property
    def taken(self) -> RankedSet:
        """The set that the command names: the best, or, where that is a control, the first tied with it that is none.

        Without labels nothing is known to be better than the usual set, so the command names that.
        """
        if not self.labeled:
            return next((row for row in self.sets if row.name == USUAL), self.best)
        return next((row for row in self.ties if not row.view_set.control), self.best)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What these trials cannot know."""
        return UNKNOWN if self.labeled else (EXPERIMENTAL, *UNKNOWN[:2])

    @property
    def sentence(self) -> str:
        """The answer; without labels, that there is none."""
        if not self.labeled:
            return (
                "EXPERIMENTAL: without labels no set is recommended. The order is that of a score that often misleads."
            )
        best, score = self.best, self.best.tried.last
        measured = f"{self.measure} {score.score:.3f} [{score.interval[0]:.3f}, {score.interval[1]:.3f}]"
        measured = f"{measured} after {score.steps} steps"
        if self.chance is not None and score.interval[0] <= self.chance:
            return f"No set helps: even {best.name} is not above naming the largest class ({measured})."
        if best.view_set.views == "identity":
            return f"No set does better than leaving samples as they are ({measured}): these views do not help here."
        if len(self.ties) > 1:
            others = joined([row.name for row in self.ties[1:]])
            return f"{best.name} comes first ({measured}), tied with {others}: these trials do not tell them apart."
        return f"{best.name} is the best of {len(self.sets)} sets ({measured})."

    @property
    def caution(self) -> tuple[str, ...]:
        """What a person should know before training with the best set."""
        lines = []
        if self.raw is not None and self.raw > self.best.tried.last.interval[1]:
            lines.append(
                f"Neighbors among the inputs themselves are right more often ({self.raw:.3f}) than after any of these "
                "trials: check that a longer training exceeds it before you use one."
            )
        score = self.best.tried.last.score
        if self.labeled and not self.grouped and score > NEARLY_ALL:
            lines.append(
                f"Nearly all samples are right ({score:.3f}), so the order rests on few of them. If samples are near "
                "copies of each other (frames of a film, windows of a recording, crops of a picture), say with "
                "--groups which belong together: without it the order for unseen ones was wrong and cost .08."
            )
        if self.labeled and any(row.view_set.control for row in self.ties):
            lines.append("Sets that were meant to fail are among the best: these trials say little about this data.")
        if self.labeled and self.taken is not self.best:
            lines.append(
                f"{self.best.name} is such a set, so the command takes {self.taken.name}, which is tied with it."
            )
        return tuple(lines)

    @property
    def lead(self) -> str:
        """What stands before the command."""
        if self.labeled:
            return "Train with it:"
        if self.taken.name == USUAL:
            return "The usual set, which is no recommendation either:"
        return f"To try {self.taken.name}, which is no recommendation:"

    @property
    def measure(self) -> str:
        return "accuracy" if self.labeled else "label-free score"

    def to_dict(self) -> dict[str, Any]:
        own = (
            "source",
            "labeled",
            "samples",
            "total",
            "chance",
            "raw",
            "rungs",
            "command",
            "notes",
            "unknown",
            "seconds",
        )
        found = {name: getattr(self, name) for name in own}
        theory = {"certificate": self.certificate and self.certificate.to_dict()}
        theory["graph"] = self.graph and self.graph.to_dict()
        answer = {
            "sentence": self.sentence,
            "best": self.best.name,
            "recommended": self.taken.name if self.labeled else None,
            "taken": self.taken.name,
            "ties": [row.name for row in self.ties],
            "caution": list(self.caution),
        }
        return {**answer, **found, **theory, "sets": [row.to_dict() for row in self.sets]}

    def table(self) -> str:
        """The order as text: the score of the last rung a set reached, and how far it is behind the best there."""
        width = max(len(row.name) for row in self.sets)
        lines = [f"{'':>3} {'set':<{width}}  steps  {self.measure:<24}  behind the first      1 - sigma"]
        lines[0] += "  mixed" * self.labeled
        for place, row in enumerate(self.sets, 1):
            last, (low, high) = row.tried.last, row.tried.last.interval
            theory = row.described and f"{row.described.score:9.3f}" + f"  {row.described.mixed:5.1%}" * self.labeled
            lines.append(
                f"{place:>3} {row.name:<{width}}  {last.steps:5d}  {f'{last.score:.3f} [{low:.3f}, {high:.3f}]':<24}  "
                f"{spoken_gap(row.tried):20}  {theory or ''}".rstrip()
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        numbers = "1 - sigma and mixed" if self.labeled else "The numbers 1 - sigma"
        theory = f"{numbers} describe a set, they do not recommend it." if self.best.described else ""
        lines = [
            self.sentence,
            "",
            self.table(),
            theory,
            *self.caution,
            *self.notes,
            "",
            f"{self.lead} {self.command}",
        ]
        return "\n".join([*lines, *([f"Page: {self.page}"] if self.page else [])])


def joined(names: Sequence[str], most: int = 4) -> str:
    """Names in a sentence; beyond a few, only how many more there are."""
    head = [*names[:most], *([f"{len(names) - most} others"] if len(names) > most else [])]
    return " and ".join([", ".join(head[:-1]), head[-1]]) if len(head) > 1 else head[0]


def spoken_gap(tried: Tried) -> str:
    """How far a set is behind the best, in words."""
    if tried.best:
        return "best"
    low, high = tried.interval
    return "tie" if tried.tied else f"{tried.behind:.3f} [{low:.3f}, {high:.3f}]"
