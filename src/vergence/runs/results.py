"""Results: what is known of an encoder after it was examined, as one typed structure.

It is written and read here and nowhere else: ``results.json`` is ``Results`` as JSON, with the number of its form in
``version``. Files of earlier forms are brought to this one when they are read. No module knows a key by heart: the
doctor fills the fields, and the page, ``compare`` and ``--json`` use them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from vergence.runs.run import write_bytes

VERSION = 2
FILE = "results.json"
TRAINED, UNTRAINED, STARTING = "trained encoder", "untrained encoder", "starting encoder"
RAW = {"image": "raw pixels", "vector": "raw columns", "series": "raw values"}  # the samples themselves, by kind


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the results."""


class Verdict(Record, frozen=True):
    """One word, one sentence to act on, and what they rest on."""

    label: str
    sentence: str
    evidence: tuple[str, ...] = ()


class Number(Record, frozen=True):
    """A measured number with its 95 % interval; ``more`` is what else the measurement carries."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    method: str = ""
    title: str = ""
    meaning: str = ""
    heading: str = ""
    more: dict[str, Any] = {}


class Found(Record, frozen=True):
    """Something that was found: a fault, a note, or a question that could not be answered."""

    fault: str
    about: str
    sentence: str
    level: str = "fault"
    measurement: str = ""
    advice: str = ""
    cost: Number | None = None
    remedy: str | None = None
    gain: Number | None = None
    override: str | None = None


class Reading(Record, frozen=True):
    """A loss on its scale."""

    objective: str
    chance: float
    floor: float
    random: float | None = None
    loss: float | None = None
    position: float | None = None
    verdict: str = ""
    sentence: str = ""
    n: int | None = None
    d: int | None = None
    attained: bool | None = None
    hyperparameters: dict[str, Any] = {}
    coincidences: tuple[str, ...] = ()


class Score(Record, frozen=True):
    """An accuracy in [0, 1] with its interval. ``per_class`` labels of each class were used; None for all of them.

    ``protocol`` says how a linear probe was fitted with all labels; other classifiers have none.
    """

    accuracy: float
    features: str = "features"
    classifier: str = "classifier"
    low: float | None = None
    high: float | None = None
    n: int | None = None
    per_class: float | None = None
    draws: int | None = None
    spread: float | None = None
    protocol: str | None = None

    @property
    def labels(self) -> str:
        """How many labels were used, in words."""
        return "all labels" if self.per_class is None else f"{self.per_class:g} labels per class"

    @property
    def interval(self) -> tuple[float, float]:
        """The interval, or the accuracy itself twice where none is known."""
        known = self.low is not None and self.high is not None
        return (self.low, self.high) if known else (self.accuracy, self.accuracy)  # type: ignore[return-value]


class Gain(Record, frozen=True):
    """What training gave: the accuracy of its features less that of ``over``, on the same ``n`` test samples.

    ``per_class`` labels of each class were used, the same ones for both; None for all of them.
    """

    over: str
    classifier: str
    first: float
    second: float
    low: float
    high: float
    n: int
    per_class: float | None = None

    @property
    def value(self) -> float:
        return self.first - self.second

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


class Judged(Record, frozen=True):
    """An encoder of texts on one set of evaluation data: a correlation, an accuracy or a measure of retrieval."""

    features: str
    data: str
    measure: str
    set: str
    value: float
    low: float
    high: float
    n: int


class Layer(Record, frozen=True):
    """A linear probe after one layer."""

    layer: str
    width: int
    classifier: str
    accuracy: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


class Proof(Record, frozen=True):
    """An inequality of the theory with both sides measured."""

    statement: str
    source: str
    verdict: str
    left: float | None = None
    right: float | None = None
    slack: float | None = None
    holds: bool = True
    vacuous: bool = False
    assumptions: dict[str, str] = {}
    terms: dict[str, Any] = {}
    curves: dict[str, tuple[float, ...]] = {}


class Advice(Record, frozen=True):
    """What to change, the measurement that says so, and the option that does it."""

    sentence: str
    measurement: str = ""
    override: str | None = None


class Change(Record, frozen=True):
    """A measurement before and after training that started from weights; low and high are of the difference."""

    name: str
    after: float
    before: float | None = None
    low: float | None = None
    high: float | None = None
    higher_is: str = ""
    meaning: str = ""
    verdict: str = ""


class Changes(Record, frozen=True):
    """What training changed of the weights it started from, and a word on each tensor of them that did not fit."""

    label: str
    sentence: str
    source: str = ""
    taken: str = ""
    inputs: str = ""
    misfits: tuple[str, ...] = ()
    rows: tuple[Change, ...] = ()


class FineTuning(Record, frozen=True):
    """An encoder that moved with a head on some labels, beside a frozen probe and training from scratch on the same.

    ``over_scratch`` and ``over_probe`` are differences of accuracies, paired over draws of labels and test samples.
    """

    labels: str
    count: int
    scores: tuple[Score, ...]
    over_scratch: Number
    over_probe: Number
    path: str = ""


class Results(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Everything that was found of one encoder, or of one set of rows."""

    version: int = VERSION
    verdict: Verdict
    verdicts: dict[str, Verdict] = {}
    findings: tuple[Found, ...] = ()
    thermometer: Reading | None = None
    diagnostics: dict[str, Number] = {}
    singular_values: tuple[float, ...] = ()
    accuracy: tuple[Score, ...] = ()
    gains: tuple[Gain, ...] = ()
    few_labels: tuple[Score, ...] = ()
    sentences: tuple[Judged, ...] = ()
    layers: tuple[Layer, ...] = ()
    changes: Changes | None = None
    finetuning: tuple[FineTuning, ...] = ()
    certificates: tuple[Proof, ...] = ()
    recommendations: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()
    kind: str = ""
    shape: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of the faults, gravest first."""
        return tuple(found.fault for found in self.findings if found.level == "fault")

    def number(self, name: str) -> float | None:
        """The value of a diagnostic, if it is known."""
        found = self.diagnostics.get(name)
        return None if found is None else found.value

    def best(self, features: str, per_class: float | None = None) -> Score | None:
        """The best accuracy of these features with so many labels."""
        rows = [row for row in self.accuracy if row.features == features and row.per_class == per_class]
        return max(rows, key=lambda row: row.accuracy, default=None)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: numbers that are not finite are null."""
        return {**_plain(msgspec.to_builtins(self)), "faults": list(self.faults)}

    def write(self, folder: Path) -> Path:
        return write_bytes(folder / FILE, msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=1) + b"\n")


def read(folder: str | Path) -> Results | None:
    """The results in a run directory; None where there are none yet."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        return results_from(msgspec.json.decode(path.read_bytes()))
    except (msgspec.MsgspecError, TypeError, AttributeError, KeyError, ValueError) as error:
        reason = f"{path} is not what Vergence writes: {error}. `vergence doctor {folder}` writes it again."
        raise ValueError(reason) from error


def results_from(values: Mapping[str, Any]) -> Results:
    """Results from plain values, of this form or an earlier one."""
    version = values.get("version", 1)
    if not isinstance(version, int) or version > VERSION:
        raise TypeError(f"it is of form {version!r}, which this version of Vergence does not know")
    current = dict(values) if version == VERSION else upgraded(values)
    current.pop("faults", None)
    return msgspec.convert(current, Results, strict=False)


def record(kind: type, values: Mapping[str, Any], **more: Any) -> Any:
    """A part of the results from a mapping that may hold more than it needs."""
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    kept = {key: value for key, value in {**values, **more}.items() if key in known and value is not None}
    return msgspec.convert(_plain(kept), kind, strict=False)


def number(values: Any, **words: str) -> Number:
    """A measured thing as a number: a mapping with a value and an interval, a bare number, or any other mapping."""
    parts = _plain(values) if isinstance(values, Mapping) else {"value": _plain(values)}
    own = {key: parts[key] for key in ("value", "low", "high", "n", "method") if parts.get(key) is not None}
    more = {key: value for key, value in parts.items() if key not in own}
    return msgspec.convert({**own, **words, "more": more}, Number, strict=False)


def upgraded(old: Mapping[str, Any]) -> dict[str, Any]:
    """Results of the first form, whose parts were open mappings and whose labels were words."""
    few = {"5 per class": 5.0}
    return {
        "verdict": old.get("verdict", {"label": "not examined", "sentence": ""}),
        "findings": [{"fault": name, "about": "learning", "sentence": name} for name in old.get("faults", ())],
        "thermometer": _kept(Reading, old.get("thermometer")),
        "diagnostics": {key: msgspec.to_builtins(number(value)) for key, value in old.get("diagnostics", {}).items()},
        "singular_values": (old.get("spectrum") or {}).get("singular_values", ()),
        "accuracy": [
            {**(_kept(Score, row) or {}), "per_class": few.get(row.get("labels"))} for row in old.get("accuracy", ())
        ],
        "few_labels": [_kept(Score, row) for row in old.get("few_labels", ())],
        "layers": [_kept(Layer, row) for row in old.get("layers", ())],
        "certificates": [_kept(Proof, row) for row in old.get("certificates", ())],
        "recommendations": [_kept(Advice, row) for row in old.get("recommendations", ())],
        **{key: old[key] for key in ("notes", "classes", "names", "skipped") if old.get(key) is not None},
    }


def _kept(kind: type, values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else msgspec.to_builtins(record(kind, values))


def _plain(value: Any) -> Any:
    """JSON has no NaN: nothing known is null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Answer:
    """What a stage found: lines for a person, values for a program, and whether a pipeline should stop."""

    lines: tuple[str, ...]
    values: dict[str, Any]
    failed: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        return self.values
