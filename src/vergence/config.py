"""Config: everything a run depends on; strict YAML in and out.

Python declares (the dataclasses here and the signatures in the tables), YAML records, and the command line is made
from the same declarations. This module does not import torch.
"""

import ast
import dataclasses
import inspect
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from vergence import tables
from vergence.methods import HEADS, METHODS, Method, customized
from vergence.tables import OLD_SPELLINGS, UnknownName

Options = Mapping[str, Any]

# What ``auto`` may stand for, by the kind of the data: (encoder, views).
AUTOMATIC = {
    "image": (("convnet", "resnet18"), ("simclr", "glyph")),
    "vector": (("mlp",), ("tabular",)),
    "series": (("temporal_convnet",), ("series",)),
    "text": (("bigru",), ("text",)),
}


@dataclass(frozen=True)
class Optim:
    """The optimizer and its schedule."""

    name: Literal["adamw", "adam", "sgd", "lars"] = "adamw"
    """Which optimizer."""
    learning_rate: float | None = None
    """The rate after warm-up; None for the method's own. It is never rescaled by the batch or by the devices."""
    weight_decay: float = 1e-4
    """Decay of matrices; biases and norms never decay."""
    momentum: float = 0.9
    """Momentum of SGD and LARS, first beta of Adam."""
    warmup: float = 1.0
    """Epochs of linear warm-up from zero."""
    schedule: Literal["cosine", "constant", "linear", "step"] = "cosine"
    """What the rate does after warm-up."""
    clip: float = 0.0
    """Largest norm of the gradient; 0 leaves it alone."""

    @property
    def rate(self) -> float:
        """The learning rate; where none is given, that of most methods."""
        return Method.learning_rate if self.learning_rate is None else self.learning_rate


@dataclass(frozen=True)
class Saving:
    """Checkpoints: when, and how many stay."""

    every: int = 10
    """Epochs between checkpoints; the last step is always saved."""
    keep: int = 2
    """How many checkpoints to keep; an older one is the fallback when the newest is damaged."""
    best: Literal["none", "effective_rank", "uniformity", "knn"] = "none"
    """The measurement whose best checkpoint is kept as well, and used after training; knn alone needs labels."""


@dataclass(frozen=True)
class Watching:
    """What is measured along training."""

    every: int = 10
    """Epochs between measurements of geometry, effective rank and (with labels) kNN and probe accuracy; 0 for never."""
    samples: int = 512
    """How many held-out samples they use, at most."""
    share: float = 0.1
    """Share of the training data that is held out for them; the test data is never seen along training."""

    @property
    def held_out(self) -> float:
        """The share that is not trained on: none when nothing is measured."""
        return self.share if self.every else 0.0


@dataclass(frozen=True)
class Config:
    """Everything a run depends on. Two runs with equal configs on one machine end with equal weights."""

    data: str = "digits"
    """What to learn from: a name (see `vergence list data`), folder:PATH, array:FILE.npy, text:FILE, series:FILE."""
    method: str = "simclr"
    """How to learn: a row of METHODS (see `vergence list methods`), or package.module:name."""
    encoder: str = "auto"
    """The backbone: a row of ENCODERS, timm:NAME, hf:NAME, package.module:name, or auto to let the data choose."""
    views: str = "auto"
    """How a sample becomes views: a row of VIEWS, package.module:name, or auto."""
    layer: int = 0
    """The layer whose output is the representation; those after it are not built; 0 for the whole encoder."""
    epochs: int = 100
    """Passes over the data."""
    batch: int = 256
    """Samples in a batch, over all devices together."""
    seed: int = 0
    """Seed of the weights, the order of the data and the views."""
    limit: int = 0
    """Use at most this many samples, balanced over classes; 0 for all."""
    size: int = 0
    """Side in pixels to which a folder's images are brought; 0 leaves the choice to the data source."""
    device: str = "auto"
    """auto, cpu, cuda, mps, ...: where to train."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Arithmetic of the encoder; auto is bfloat16 on GPUs that have it and float32 elsewhere."""
    chunk: int = 0
    """Encode at most this many samples at once, keeping the exact gradient of the whole batch; 0 for all at once."""
    workers: int = 0
    """Processes that decode images of folders too large for memory; the result does not depend on it."""
    track: tuple[str, ...] = ("tensorboard",)
    """Where the log goes besides log.jsonl: tensorboard, wandb, trackio, mlflow, package.module:name, or nowhere."""
    objective: Options = field(default_factory=dict)
    """Hyperparameters of the method's objective; `name` puts another objective in its place."""
    heads: Options = field(default_factory=dict)
    """Projector, predictor, momentum and queue of the method."""
    view: Options = field(default_factory=dict)
    """Options of the views."""
    backbone: Options = field(default_factory=dict)
    """Options of the encoder."""
    optim: Optim = field(default_factory=Optim)
    saving: Saving = field(default_factory=Saving)
    watching: Watching = field(default_factory=Watching)
    origins: Options = field(default_factory=dict)
    """Where rows from outside came from, with the version of their package: written down by the run itself."""

    def __post_init__(self) -> None:
        for name in ("method", "encoder", "views"):
            object.__setattr__(self, name, OLD_SPELLINGS.get(getattr(self, name), getattr(self, name)))
        for name in ("objective", "heads", "view", "backbone"):
            options = {OLD_SPELLINGS.get(key, key): value for key, value in getattr(self, name).items()}
            object.__setattr__(self, name, options)
        row = customized(self.method, heads=self.heads, objective=self.objective)
        if 0 < row.queue < self.batch:
            raise ValueError(
                f"A queue of {row.queue} cannot hold a batch of {self.batch} keys: make heads.queue larger."
            )
        _check_options("views", self.views, self.view)
        _check_options("encoders", self.encoder, self.backbone)
        for name, least in {
            "layer": 0,
            "epochs": 0,
            "batch": 2,
            "limit": 0,
            "size": 0,
            "chunk": 0,
            "workers": 0,
        }.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        for name in ("learning_rate", "weight_decay", "warmup", "clip"):
            value = getattr(self.optim, name) or 0.0
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"optim.{name} must be a finite number that is not negative, got {value}")
        self._check_measuring()

    def _check_measuring(self) -> None:
        for name in self.track:
            if name not in tables.names("trackers") and tables.outside("trackers", name) is None:
                raise UnknownName("tracker", name, tables.names("trackers"))
        if not 0 < self.watching.share < 1:
            raise ValueError(f"watching.share must be between 0 and 1, got {self.watching.share}")
        if self.saving.best != "none" and not self.watching.every:
            raise ValueError(f"saving.best {self.saving.best} needs measurements: set watching.every to 1 or more")
        if self.saving.keep < 1:
            raise ValueError(f"saving.keep must be at least 1, got {self.saving.keep}")

    def settings(self) -> dict[str, Any]:
        """Every setting by its dotted name."""
        return _flat(_plain(self))

    def to_yaml(self) -> str:
        return yaml.safe_dump(_plain(self), sort_keys=False, allow_unicode=True)

    def write(self, path: Path) -> None:
        path.write_text(self.to_yaml(), encoding="utf-8")


def read(path: str | Path) -> Config:
    """A config from a YAML file; an unknown key or a value of the wrong type is an error that names its place."""
    path = Path(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    return from_mapping(values, where=str(path))


def from_mapping(values: Any, *, where: str = "config") -> Config:
    """A config from plain values, strictly."""
    return _build(Config, values, where)


def meanings(kind: type) -> dict[str, str]:
    """The sentence below each field of a dataclass."""
    body = ast.parse(inspect.getsource(kind)).body[0].body  # type: ignore[attr-defined]
    found = {}
    for before, after in itertools.pairwise(body):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[ast.unparse(before.target)] = str(after.value.value)
    return found


def given(base: Config | None = None, **options: Any) -> Config:
    """A config from Python: settings by name, where data, method, encoder, views and objective may be objects."""
    start = base if base is not None else Config()
    known = {item.name for item in dataclasses.fields(Config)}
    for key in options:
        if key not in known:
            raise UnknownName("setting", key, known)
    for key, room in {"data": "data", "method": "methods", "encoder": "encoders", "views": "views"}.items():
        if key in options:
            options[key] = tables.name_of(room, options[key])
    if "objective" in options:
        options["objective"] = objective_options(options["objective"])
    if "track" in options:
        options["track"] = tuple(tables.name_of("trackers", tracker) for tracker in options["track"])
    for key, kind in {"optim": Optim, "saving": Saving, "watching": Watching}.items():
        if isinstance(options.get(key), Mapping):
            options[key] = _build(kind, options[key], key)
    return replace(start, **options)


def objective_options(objective: Any) -> dict[str, Any]:
    """What stands in ``Config.objective`` for a loss, the name of one, or a mapping of hyperparameters."""
    if objective is None:
        return {}
    return dict(objective) if isinstance(objective, Mapping) else {"name": tables.name_of("objectives", objective)}


def differences(first: Config, second: Config) -> dict[str, tuple[Any, Any]]:
    """The settings in which two configs differ, by dotted name."""
    one, two = first.settings(), second.settings()
    return {key: (one.get(key), two.get(key)) for key in {**one, **two} if one.get(key) != two.get(key)}


def with_own_rate(config: Config) -> Config:
    """The config with the learning rate of its method where none is given."""
    if config.optim.learning_rate is not None:
        return config
    return replace(config, optim=replace(config.optim, learning_rate=METHODS[config.method].learning_rate))


def method_options(method: str, objective: str | None = None) -> dict[str, dict[str, Any]]:
    """What ``--objective.*`` and ``--heads.*`` may set for a method, with its defaults; or with another objective's."""
    row = customized(method, heads={}, objective={"name": objective} if objective else {})
    known = row.declared()
    own = {name: row.hyperparameters.get(name, known[name].default) for name in known if name != "negatives"}
    heads = {} if row.objective is None else {name: getattr(row, name) for name in HEADS}
    return {"objective": own, "heads": heads}


def view_options(method: str, views: str) -> dict[str, Any]:
    """The options of a row of VIEWS with their defaults, or with the method's where its paper sets them."""
    known = row_options("views", views)
    return {**known, **{key: value for key, value in METHODS[method].view.items() if key in known}}


def row_options(room: str, name: str) -> dict[str, Any]:
    """The options of a row of VIEWS or ENCODERS with their defaults; ``auto`` and other libraries' names have none."""
    if name == "auto" or is_foreign(name):
        return {}
    return {key: parameter.default for key, parameter in tables.keywords(room, name).items()}


def is_foreign(name: str) -> bool:
    """Whether another library knows an encoder by this name, so that its options are not ours to check."""
    return name.partition(":")[0] in ("timm", "hf") and ":" in name


def automatic_options(room: str) -> dict[str, tables.Parameter]:
    """The options of every row that ``auto`` may choose; which of them apply is known when the data are."""
    column = ("encoders", "views").index(room)
    rows = [name for choice in AUTOMATIC.values() for name in choice[column]]
    return {key: parameter for name in rows for key, parameter in tables.keywords(room, name).items()}


def _check_options(room: str, name: str, options: Options) -> None:
    if name == "auto":
        known = automatic_options(room)
        for key in options:
            if key not in known:
                raise UnknownName(f"option of the {room} that auto may choose", key, known)
    elif not is_foreign(name):
        tables.check_options(room, name, options)


def _build(kind: type, values: Any, where: str) -> Any:
    if not isinstance(values, Mapping):
        raise ValueError(f"{where}: expected settings, got {values!r}")
    hints = get_type_hints(kind)
    values = {OLD_SPELLINGS.get(key, key): value for key, value in values.items()}
    for key in values:
        if key not in hints:
            raise UnknownName(f"setting in {where}", key, hints)
    return kind(**{key: _value(hints[key], value, f"{where}: {key}") for key, value in values.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)  # type: ignore[arg-type]
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ValueError(f"{where} must be one of {', '.join(get_args(hint))}, got {value!r}")
        return value
    if value is None and type(None) in get_args(hint):
        return None
    if hint in (float, float | None) and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML 1.1 reads 1e-3 as text
        except ValueError:
            pass
    elif hint in (int, str, bool) and type(value) is hint:
        return value
    elif hint == tuple[str, ...] and isinstance(value, list | tuple) and all(type(item) is str for item in value):
        return tuple(value)
    elif hint == Options and isinstance(value, Mapping):
        return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
    raise ValueError(f"{where} must be {getattr(hint, '__name__', str(hint))}, got {value!r}")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
