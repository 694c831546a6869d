"""Laboratory: runs the trainings that claims need, and keeps what was measured, so that nothing is run twice.

A trial is one training of a row of METHODS and what was measured after it. Trials are files, written as soon as they
are measured and found again by their settings and the version of the code: an interrupted claim goes on.
"""

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import normalize

from vergence import evaluation, features
from vergence.claims.evidence import ERROR
from vergence.config import Config, Watching
from vergence.diagnostics import alignment, effective_rank, uniformity
from vergence.learning import loop, optimizers
from vergence.runs import assembly
from vergence.runs.assembly import Assembled
from vergence.runs.run import write_bytes
from vergence.tables import Table

Row = dict[str, Any]

SLACK = 0.01  # of accuracy: about the spread over seeds of a small encoder


@dataclass(frozen=True)
class Budget:
    """How large a training claim is run.

    ``looks`` are the numbers of seeds after which the evidence is looked at, the first with ``seeds``, each with the
    chance of a wrong decision that it accepts: a claim that is decided is not run with more. ``minutes`` of one core
    are the most that a claim may take, unless told otherwise.
    ``short`` is for claims of large effects, or of many settings: fewer epochs, where the scale has some to spare.
    """

    data: str
    samples: int
    epochs: int
    batch: int
    encoder: str
    seeds: int
    backbone: Mapping[str, Any] = field(default_factory=dict)
    looks: Mapping[int, float] = field(default_factory=dict)
    minutes: float = math.inf
    short: int = 0

    @property
    def paper(self) -> bool:
        return self.samples == 0


# Looks share their seeds: three at a third of the error spend .0439 of it, and .0095 at a fourth bring that to .0498
# (shares of 4 million sequences of 16 normal differences whose t-test passes at one look or more).
LOOKS = {2: ERROR / 3, 4: ERROR / 3, 8: ERROR / 3, 16: 0.0095}

SCALES = Table(
    "scale",
    {
        "smallest": Budget("digits", 360, 2, 64, "convnet", 2, {"channels": (8, 16)}),
        "small": Budget("cifar10", 5000, 8, 128, "convnet", 3, {"channels": (16, 32, 64)}),
        # All of CIFAR-10 and five times the steps of the small scale: 40 s a trial on one core, 25 s a short one.
        "medium": Budget(
            "cifar10", 50_000, 4, 128, "convnet", 2, {"channels": (16, 32, 64)}, looks=LOOKS, minutes=60.0, short=2
        ),
        "paper": Budget("cifar10", 0, 200, 512, "resnet18", 3),
    },
)


class OutOfTime(RuntimeError):
    """A claim would take longer than its scale allows; what was trained is kept."""


class Laboratory:
    """Runs trials at a scale and keeps them in a folder; ``minutes`` is the total time on one core of those used.

    ``count`` is the number of seeds that a claim is run with now, ``budget`` the most minutes that it may take.
    """

    def __init__(
        self,
        folder: Path,
        scale: str = "small",
        *,
        any_version: bool = False,
        budget: float | None = None,
        say: Callable[[str], None] = lambda text: None,
    ):
        self.folder, self.name, self.scale = Path(folder), scale, SCALES[scale]
        self.any_version, self.say, self.minutes = any_version, say, 0.0
        self.count = self.scale.seeds
        self.budget = self.scale.minutes if budget is None else budget

    @property
    def seeds(self) -> range:
        return range(self.count)

    @property
    def short(self) -> Row:
        """The settings of a shorter training, where the scale has epochs to spare."""
        return {"epochs": self.scale.short} if self.scale.short else {}

    def begin(self, seeds: int) -> None:
        """Count the time of a look at a claim from here on, with so many seeds."""
        self.count, self.minutes = seeds, 0.0

    def affordable(self, seeds: int) -> int:
        """As many of these seeds as the budget pays for, if each takes as long as those of the look that ended."""
        each = self.minutes / self.count
        return seeds if seeds * each <= self.budget else int(self.budget / each)

    def trials(self, **settings: Any) -> list[Row]:
        """The same trial with every seed of the scale."""
        return [self.trial(seed=seed, **settings) for seed in self.seeds]

    def trial(self, *, measure: Callable[[Assembled], Row] | None = None, **settings: Any) -> Row:
        """Train with ``config(**settings)``, and measure."""
        config, measure = self.config(**settings), measure or measured
        return self.remember(measure.__qualname__, config.settings(), lambda: _trained(config, measure))

    def config(self, **settings: Any) -> Config:
        """The scale's data, encoder and budget, changed by ``settings`` (fields of Config)."""
        scale = self.scale
        defaults: Row = {
            "data": scale.data, "limit": scale.samples, "epochs": scale.epochs, "batch": scale.batch,
            "encoder": scale.encoder, "watching": Watching(every=0),
        }  # fmt: skip
        if settings.get("encoder", scale.encoder) == scale.encoder:
            defaults["backbone"] = scale.backbone
        return Config(**{**defaults, **settings})

    def remember(self, name: str, settings: Mapping[str, Any], make: Callable[[], Row]) -> Row:
        """What ``make`` measured under these settings, from the folder where it is known already."""
        key = json.dumps([name, settings], sort_keys=True, default=str)
        path = self.folder / "trials" / f"{name.strip('_')}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
        if not self._known(path):
            if self.minutes >= self.budget:
                raise OutOfTime(f"{self.minutes:.0f} minutes of one core are spent")
            spent = f"; {self.minutes:.1f} of at most {self.budget:.0f} minutes" if math.isfinite(self.budget) else ""
            self.say(f"{name.strip('_')}: {self.told_apart(settings)}{spent}")
            began = time.process_time()
            row = {**make(), "minutes": round((time.process_time() - began) / 60, 3)}
            path.parent.mkdir(parents=True, exist_ok=True)
            stored = {"version": learning_version(), "settings": dict(settings), "row": row}
            write_bytes(path, json.dumps(stored, default=listed).encode())
        row = json.loads(path.read_text(encoding="utf-8"))["row"]
        self.minutes += row["minutes"]
        return row

    def told_apart(self, settings: Mapping[str, Any]) -> str:
        """The settings of a trial in words: those that are not the scale's own."""
        usual = {"method": "", **self.config().settings(), "seed": None}
        named = [key for key, value in settings.items() if key not in usual or usual[key] != value]
        words = [f"{key} {settings[key]}" for key in named if key not in ("method", "seed")]
        return ", ".join([str(settings.get("method", "")), *words, f"seed {settings.get('seed', 0)}"])

    def _known(self, path: Path) -> bool:
        if not path.exists():
            return False
        return self.any_version or json.loads(path.read_text(encoding="utf-8"))["version"] == learning_version()


def steps_of(parts: Assembled) -> Iterator[loop.Step]:
    """The steps of a training, one at a time."""
    optimizer = optimizers.optimizer(parts.learner, parts.config.optim)
    return loop.fit(parts.learner, optimizer, parts.samples, parts.recipe, parts.config)


def train(parts: Assembled) -> list[float]:
    """Train to the end; the loss of every step."""
    return [step.loss for step in steps_of(parts)]


def measured(parts: Assembled) -> Row:
    """All that claims ask of an encoder: accuracies on the test samples, and the geometry of the embeddings z.

    Probe, kNN and nearest center see the representation h; ``output`` is a probe of z on the sphere. One function
    for all claims, so that they share their trials; accuracies are of all test samples, however few were trained on.
    """
    train = features.extract(parts.learner.encoder, parts.samples, parts.recipe)
    all_of_it = assembly.load(replace(parts.config, limit=0), "test")
    test = features.extract(parts.learner.encoder, all_of_it, parts.recipe)
    labels = train.labels, test.labels
    classifiers: dict[str, Any] = {
        "probe": evaluation.linear_probe,
        "knn": evaluation.knn,
        "center": evaluation.nearest_center,
    }
    row: Row = {name: on(train.h, labels[0], test.h, labels[1]).accuracy for name, on in classifiers.items()}
    row["rank"] = effective_rank(test.h)
    projector = getattr(parts.learner, "projector", None)
    if projector is not None:
        z, unseen = (normalize(features.encoded(projector, part.h), dim=1) for part in (train, test))
        row["output"] = evaluation.linear_probe(z, labels[0], unseen, labels[1]).accuracy
    views = features.extract(parts.learner.encoder, parts.test, parts.recipe, branches=parts.learner.branches)
    if views.z1 is not None and views.z2 is not None:
        spread = uniformity(views.z1).value
        row |= {"alignment": alignment(views.z1, views.z2).value, "uniformity": spread, "potential": math.exp(spread)}
        row["rank_z"] = effective_rank(views.z1)
    return row


def column(rows: Sequence[Row], key: str) -> list[float]:
    """One number of every row."""
    return [row[key] for row in rows]


def mean(rows: Sequence[Row], key: str) -> float:
    """A number averaged over rows."""
    return statistics.fmean(column(rows, key))


def lead(rows: Sequence[Row], others: Sequence[Row], key: str) -> tuple[float, float]:
    """How far a mean over seeds is above another, and the standard error of that."""
    error = sum(statistics.variance(column(cell, key)) / len(cell) for cell in (rows, others))
    return mean(rows, key) - mean(others, key), error**0.5


def stated(rows: Sequence[Row], key: str) -> str:
    """A number over seeds as text: mean and standard deviation."""
    values = column(rows, key)
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def learning_version() -> str:
    """A digest of the rooms that a training depends on: trials of another version are not reused."""
    return _digest(ROOMS)


ROOMS = (
    "counters.py", "data", "diagnostics", "encoders", "evaluation", "features.py", "information", "learning",
    "methods.py", "objectives", "runs/assembly.py", "views",
)  # fmt: skip


def _digest(rooms: Sequence[str]) -> str:
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for room in rooms:
        files = sorted((package / room).rglob("*.py")) if (package / room).is_dir() else [package / room]
        for path in files:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _trained(config: Config, measure: Callable[[Assembled], Row]) -> Row:
    parts = assembly.assemble(config)
    losses = train(parts)
    with torch.no_grad():
        row = measure(parts)
    last = losses[-max(1, len(losses) // 10) :]
    return {**row, "loss": statistics.fmean(last)} if last else row


def listed(value: Any) -> Any:
    """A number or an array of any library as JSON has it."""
    return value.tolist() if hasattr(value, "tolist") else float(value)
