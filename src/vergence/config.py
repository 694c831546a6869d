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
from vergence import values as ranges
from vergence.methods import HEADS, METHODS, Method, customized
from vergence.tables import OLD_SPELLINGS, UnknownName
from vergence.values import LARGEST, shown

Options = Mapping[str, Any]

# What ``auto`` may stand for, by the kind of the data: (encoder, views).
AUTOMATIC = {
    "image": (("convnet", "resnet18"), ("simclr", "glyph")),
    "vector": (("mlp",), ("tabular",)),
    "series": (("temporal_convnet",), ("series",)),
    "text": (("bag", "transformer", "bigru"), ("text", "pairs", "dropout")),
}


# The whole numbers of a config by their dotted names: the least and the largest that make sense.
WHOLE_NUMBERS = {
    "layer": (0, LARGEST),
    "epochs": (0, LARGEST),
    "batch": (2, LARGEST),
    "seed": (0, 2**63 - 1),  # what numpy and torch take
    "limit": (0, LARGEST),
    "size": (0, 2**13),  # a picture of 8192 x 8192 is 200 MB
    "chunk": (0, LARGEST),
    "workers": (0, 1024),  # processes
    "saving.every": (0, LARGEST),
    "saving.keep": (1, LARGEST),
    "compute.read_every": (0, LARGEST),
    "compute.threads": (-1, 1024),
    "watching.every": (0, LARGEST),
    "watching.samples": (2, LARGEST),  # a spread takes two
}
# Of the method's own rate: what a run takes that starts from weights and is given no rate. It makes 2e-5 of 2e-3, in
# the range in which published transformers are continued (Gao et al. 2021, App. A); a tenth made MiniLM worse.
GENTLE = 0.01
MOST_NODES = 10_000  # values in a file of settings, aliases written out; a config has about 50


LARGEST_RATE = 1e30  # float32 holds no number above 3.4e38, and no sum of such


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
class Starting:
    """Starting from weights: what is taken of them, and how far each layer may move away."""

    heads: bool = False
    """Of a run: its projector and the other heads too, not the encoder alone."""
    inputs: Literal["auto", "imagenet", "half", "data"] = "auto"
    """How inputs are standardized: auto, as the weights expect, or where unknown by ImageNet's figures (color)
    or the data; imagenet; half (0.5 and 0.5); data (measured)."""
    statistics: Literal["auto", "keep", "follow"] = "auto"
    """Means and variances in the encoder's batch norms: keep those of the weights, or follow the batches of views; auto
    keeps those of published weights, which the views would spoil, and follows in a run's own encoder."""
    freeze: tuple[str, ...] = ()
    """Layers or parameters of the encoder that stay as they are, by name or pattern, such as conv1 'blocks.[0-3].*'."""
    layer_decay: float = 1.0
    """The learning rate of each layer of the encoder is this times that of the layer above it; 1 for one rate."""


@dataclass(frozen=True)
class Sharding:
    """What lets a large encoder fit; neither changes what is learned beyond rounding."""

    weights: bool = False
    """Shard weights, gradients and moments over the processes (FSDP2); checkpoints are sharded too."""
    recompute: bool = False
    """Forget the activations of every block and compute them again in the backward pass."""


@dataclass(frozen=True)
class Compute:
    """How the arithmetic is done. The defaults are exact; most of the rest is for accelerators."""

    matmul: Literal["highest", "high", "medium"] = "highest"
    """Precision of float32 products on GPUs: high and medium allow TF32, as torch.set_float32_matmul_precision does."""
    channels_last: bool = True
    """Keep the channels of a pixel together in memory: what convolutions are fastest with."""
    compile: Literal["none", "default", "reduce-overhead", "max-autotune"] = "none"
    """torch.compile of encoder and views, in this mode; reduce-overhead replays CUDA graphs of batches of one size."""
    kernel: Literal["auto", "torch", "triton"] = "auto"
    """What compares all pairs: Triton on CUDA and ROCm where it is installed, else torch."""
    deterministic: bool = False
    """Only operations whose sums have one order: equal weights on a GPU each time, more slowly."""
    read_every: int = 0
    """Steps between readings of the loss, which wait for the device; 0 is 50 on accelerators and 1 on processors."""
    threads: int = 0
    """Threads of the processor; 0 is torch's number; -1 tries one, half and all of them and records the fastest."""

    def interval(self, device: str) -> int:
        """Steps between two readings of the loss on a type of device."""
        return self.read_every or (1 if device == "cpu" else 50)


@dataclass(frozen=True)
class Config:
    """Everything a run depends on. Two runs with equal configs on one machine end with equal weights."""

    data: str = "digits"
    """What to learn from: a name (see `vergence list data`), folder:PATH, array:FILE.npy, text:FILE, series:FILE."""
    method: str = "simclr"
    """How to learn: a row of METHODS (see `vergence list methods`), or package.module:name."""
    encoder: str = "auto"
    """The backbone: a row of ENCODERS, timm:NAME, hf:NAME, package.module:name, or auto to let the data choose."""
    start: str = "auto"
    """Weights to start from: pretrained (of timm: and hf: encoders), a file or folder of weights, a run directory, or
    random; auto is pretrained for hf: and random otherwise."""
    views: str = "auto"
    """How a sample becomes views: a row of VIEWS, package.module:name, or auto."""
    layer: int = 0
    """The layer whose output is the representation; those after it are not built; 0 for the whole encoder."""
    epochs: int = 100
    """Passes over the data."""
    batch: int = 256
    """Samples in a batch, over all devices together; fewer where the data has no 256."""
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
    evaluate: tuple[str, ...] = ()
    """Data that texts are evaluated on: pairs:FILE with scores (STS) or without (retrieval), text:FILE with labels."""
    objective: Options = field(default_factory=dict)
    """Hyperparameters of the method's objective; `name` puts another objective in its place."""
    heads: Options = field(default_factory=dict)
    """Projector, predictor, momentum and queue of the method."""
    view: Options = field(default_factory=dict)
    """Options of the views."""
    backbone: Options = field(default_factory=dict)
    """Options of the encoder."""
    starting: Starting = field(default_factory=Starting)
    optim: Optim = field(default_factory=Optim)
    saving: Saving = field(default_factory=Saving)
    watching: Watching = field(default_factory=Watching)
    sharding: Sharding = field(default_factory=Sharding)
    compute: Compute = field(default_factory=Compute)
    origins: Options = field(default_factory=dict)
    """Where rows from outside came from, with the version of their package: written down by the run itself."""

    def __post_init__(self) -> None:
        for name in ("method", "encoder", "views"):
            object.__setattr__(self, name, OLD_SPELLINGS.get(getattr(self, name), getattr(self, name)))
        for name in ("objective", "heads", "view", "backbone"):
            options = {OLD_SPELLINGS.get(key, key): value for key, value in getattr(self, name).items()}
            object.__setattr__(self, name, options)
        self._check_numbers()
        self._check_declared()
        row = customized(self.method, heads=self.heads, objective=self.objective)
        if 0 < row.queue < self.batch:
            raise ValueError(
                f"A queue of {row.queue} cannot hold a batch of {self.batch} keys: make heads.queue larger."
            )
        _check_options("views", self.views, self.view, self.method)
        _check_options("encoders", self.encoder, self.backbone, self.method)
        self._check_measuring()

    def _check_numbers(self) -> None:
        """Whole numbers in range; rates that are finite and not negative."""
        for name, (least, most) in WHOLE_NUMBERS.items():
            place, _, inner = name.rpartition(".")
            value = getattr(getattr(self, place) if place else self, inner)
            if not least <= value <= most:
                bound = f"at least {least}" if value < least else f"at most {most}"
                raise ValueError(f"{name} must be {bound}, got {shown(value)}")
        for name in ("learning_rate", "weight_decay", "warmup", "clip"):
            value = getattr(self.optim, name) or 0.0
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"optim.{name} must be a finite number that is not negative, got {value}")
            if value > LARGEST_RATE:
                raise ValueError(f"optim.{name} must be at most {LARGEST_RATE:g}, got {value:g}")
        if not 0 < self.starting.layer_decay <= 1:
            raise ValueError(f"starting.layer_decay must be above 0 and at most 1, got {self.starting.layer_decay}")
        if not 0 <= self.optim.momentum < 1:
            raise ValueError(f"optim.momentum must be at least 0 and below 1, got {self.optim.momentum}")

    def _check_declared(self) -> None:
        """The options of the objective, the heads, the views and the encoder: each of its type and in range."""
        row = METHODS[self.method]
        if isinstance(row, Method):
            name = self.objective.get("name") or row.objective
            if not isinstance(name, str | None):
                raise ValueError(f"objective.name must be a word, got {shown(name)}")
            room, name = ("learners", row.learner) if name is None else ("objectives", name)
            self._set("objective", ranges.checked(self.objective, tables.keywords(room, name), "objective"))
            heads = {key: tables.Parameter(key, "", getattr(Method, key)) for key in HEADS}
            self._set("heads", ranges.checked(self.heads, heads, "heads"))
        for field_name, room, chosen in (("view", "views", self.views), ("backbone", "encoders", self.encoder)):
            # What ``auto`` will choose is not known yet: its options are checked when it is settled.
            if not is_foreign(chosen) and chosen != "auto":
                known = tables.keywords(room, chosen)
                self._set(field_name, ranges.checked(getattr(self, field_name), known, field_name))

    def _set(self, name: str, options: Options) -> None:
        object.__setattr__(self, name, options)

    def _check_measuring(self) -> None:
        for name in self.track:
            if name not in tables.names("trackers") and tables.outside("trackers", name) is None:
                raise UnknownName("tracker", name, tables.names("trackers"))
        if not 0 < self.watching.share < 1:
            raise ValueError(f"watching.share must be between 0 and 1, got {self.watching.share}")
        if self.saving.best != "none" and self.sharding.weights:
            raise ValueError("saving.best is not kept where sharding.weights is on: choose a checkpoint by its log.")
        if self.saving.best != "none" and not self.watching.every:
            raise ValueError(f"saving.best {self.saving.best} needs measurements: set watching.every to 1 or more")

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
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; settings are read from a YAML file.")
    try:
        values = _parsed(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not YAML: byte {error.start} is not UTF-8 text.") from error
    return from_mapping({} if values is None else values, where=str(path))


def _parsed(text: str, where: str) -> Any:
    """The values of a YAML text without the traps of YAML: no tags, no repeated keys, no aliases that multiply."""
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        if _written_out(root, {}, where) > MOST_NODES:
            raise ValueError(f"{where} has more than {MOST_NODES:,} values with its aliases written out.")
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{where}{line} is not YAML: {str(error.problem)[:500]}.") from error
    except (yaml.YAMLError, RecursionError, OverflowError, TypeError) as error:
        raise ValueError(f"{where} is not YAML: {' '.join(str(error).split())[:500]}.") from error


def _written_out(node: yaml.Node, sizes: dict[int, int], where: str) -> int:
    """How many values a node holds once every alias is written out; keys must differ, and no node may hold itself."""
    if id(node) in sizes:
        if sizes[id(node)] == 0:
            raise ValueError(f"{where}, line {node.start_mark.line + 1}: an alias stands inside what it stands for.")
        return sizes[id(node)]
    sizes[id(node)] = 0
    below = node.value if isinstance(node, yaml.CollectionNode) else []
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in below if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1 and key != "<<":
                raise ValueError(f"{where}, line {node.start_mark.line + 1}: {shown(key)} is set twice.")
        below = [child for pair in below for child in pair]
    sizes[id(node)] = 1 + sum(_written_out(child, sizes, where) for child in below)
    return sizes[id(node)]


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
    groups = {"starting": Starting, "optim": Optim, "saving": Saving, "watching": Watching}
    for key, kind in {**groups, "sharding": Sharding, "compute": Compute}.items():
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
    """The config with the learning rate of its method where none is given; a hundredth for a run that has a start."""
    if config.optim.learning_rate is not None:
        return config
    rate = METHODS[config.method].learning_rate * (GENTLE if is_started(config) else 1.0)
    return replace(config, optim=replace(config.optim, learning_rate=rate))


def is_started(config: Config) -> bool:
    """Whether a run starts from weights; models of Hugging Face come with theirs unless ``random`` is said."""
    return config.start not in ("auto", "random") or (config.start == "auto" and config.encoder.startswith("hf:"))


def method_options(method: str, objective: str | None = None) -> dict[str, dict[str, Any]]:
    """What ``--objective.*`` and ``--heads.*`` may set for a method, with its defaults; or with another objective's."""
    row = customized(method, heads={}, objective={"name": objective} if objective else {})
    known = row.declared()
    own = {
        name: row.hyperparameters.get(name, known[name].default) for name in known if name not in tables.FROM_LEARNER
    }
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


def automatic_options(room: str, method: str) -> dict[str, tables.Parameter]:
    """The options of every row that ``auto`` may choose, the method's own first; which apply is known with the data.

    Where two rows have one option of different types, that of the first row counts.
    """
    column, own = ("encoders", "views").index(room), METHODS[method]
    named = (getattr(own, "encoder", "auto"), getattr(own, "views", "auto"))[column]
    rows = [name for choice in AUTOMATIC.values() for name in choice[column]]
    rows = rows if named == "auto" else [named, *rows]
    return {key: parameter for name in reversed(rows) for key, parameter in tables.keywords(room, name).items()}


def _check_options(room: str, name: str, options: Options, method: str) -> None:
    if name == "auto":
        known = automatic_options(room, method)
        for key in options:
            if key not in known:
                raise UnknownName(f"option of the {room} that auto may choose", key, known)
    elif not is_foreign(name):
        tables.check_options(room, name, options)


def _build(kind: type, values: Any, where: str) -> Any:
    if not isinstance(values, Mapping):
        raise ValueError(f"{where}: expected settings, got {shown(values)}")
    hints = get_type_hints(kind)
    for key in values:
        if not isinstance(key, str):
            raise ValueError(f"{where}: the name of a setting must be a word, got {shown(key)}")
    values = {OLD_SPELLINGS.get(key, key): value for key, value in values.items()}
    for key in values:
        if key not in hints:
            raise UnknownName(f"setting in {where}", key, hints)
    return kind(**{key: _value(hints[key], value, f"{where}: {key}") for key, value in values.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)  # type: ignore[arg-type]
    if get_origin(hint) is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            raise ValueError(f"{where} must be one of {', '.join(get_args(hint))}, got {shown(value)}")
        return value
    if value is None and type(None) in get_args(hint):
        return None
    if hint in (float, float | None) and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML 1.1 reads 1e-3 as text
        except (ValueError, OverflowError):
            pass
    elif hint in (int, str, bool) and type(value) is hint:
        return value
    elif hint == tuple[str, ...] and isinstance(value, list | tuple) and all(type(item) is str for item in value):
        return tuple(value)
    elif hint == Options and isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
    raise ValueError(f"{where} must be {getattr(hint, '__name__', str(hint))}, got {shown(value)}")


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
