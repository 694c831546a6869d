"""Weights from files: read without running code, matched to an encoder by name or by order, each misfit named."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".tar", ".npz")
# Where training programs put the weights inside a checkpoint; of DINO's two networks the teacher is the one used.
NESTED = ("state_dict", "model_state_dict", "teacher", "student", "model", "network", "net", "weights", "ema")
COUNTERS = "num_batches_tracked"  # of batch norm: no weights, and absent from some files
ALIKE = 0.9  # share of tensors whose shapes must agree, place by place, before two networks are taken for one
HEAD = 4  # tensors that a file may have beyond an encoder's when they are matched by order: a classifier


@dataclass(frozen=True)
class Fitted:
    """What became of a file of weights: how many tensors were taken, and a word on each that was not."""

    taken: int
    wanted: int
    matched: str
    words: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return f"{self.taken} of the encoder's {self.wanted} tensors were taken, matched by {self.matched}."


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors by name in a file of weights, or in a folder that holds one or its shards."""
    if path.is_dir():
        return _from_folder(path)
    if not path.is_file():
        raise FileNotFoundError(f"There are no weights at {path}: expected a file, a folder of weights, or a run.")
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path} is not a file of weights: known are {', '.join(SUFFIXES)}.")
    try:
        found = _read(path)
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(
            f"{path} cannot be read as weights: {_reason(error)}. Files are read without running the code in them; "
            "save the tensors alone: torch.save(model.state_dict(), path)."
        ) from error
    tensors = {name: value for name, value in _nested(found).items() if isinstance(value, Tensor)}
    if not tensors:
        raise ValueError(f"{path} holds no tensors; expected those of a state_dict, by name.")
    return tensors


def _reason(error: Exception) -> str:
    """Why a file cannot be read, without torch's advice to run the code in it."""
    if type(error).__name__ == "UnpicklingError":
        return "it is damaged, or holds more than tensors"
    lines = str(error).strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else type(error).__name__


def fit_in(module: nn.Module, weights: Mapping[str, Tensor], *, source: str) -> Fitted:
    """Copy weights into a module wherever name and shape agree; say a word on every tensor that did not fit.

    A prefix that all names of the file share with none of the module's (``module.encoder_q.``) is left out. Where names
    do not agree at all, but the tensors do, in order and shape, they are taken in order.
    """
    own = module.state_dict()
    wanted = [name for name in own if not name.endswith(COUNTERS)]
    given, matched = _renamed(weights, own)
    if sum(name in given for name in wanted) < len(wanted) / 2:
        given, matched = _in_order(weights, wanted, own) or (given, matched)
    fitting = {name: value for name, value in given.items() if name in own and value.shape == own[name].shape}
    if not any(name in fitting for name in wanted):
        raise ValueError(
            f"None of the {len(weights)} tensors of {source} fits the encoder. The file has {_some(weights)}; the "
            f"encoder has {_some(own)}."
        )
    _require_finite(fitting, source)
    module.load_state_dict(fitting, strict=False)
    taken = sum(name in fitting for name in wanted)
    return Fitted(taken, len(wanted), matched, tuple(_misfits(given, own, wanted, weights)))


def _misfits(
    given: Mapping[str, Tensor], own: Mapping[str, Tensor], wanted: list[str], weights: Mapping[str, Tensor]
) -> Iterator[str]:
    for name in wanted:
        if name not in given:
            yield f"{name} {list(own[name].shape)} is not in the file: it stays as it was initialized."
        elif given[name].shape != own[name].shape:
            yield (
                f"{name} is {list(given[name].shape)} in the file and {list(own[name].shape)} in the encoder: it stays "
                "as it was initialized."
            )
    used = {id(value) for name, value in given.items() if name in own}
    for name, value in weights.items():
        if id(value) not in used and not name.endswith(COUNTERS):
            yield f"{name} {list(value.shape)} of the file has no place in the encoder: it is left out."


def _renamed(weights: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], str]:
    """Weights under the module's names: the prefix of the file, and of the module, under which most tensors agree."""
    votes: Counter[tuple[str, str]] = Counter()
    shared = {f"{name.split('.')[0]}." for name in own}
    inside = ["", *shared] if len(shared) == 1 else [""]
    for name, value in weights.items():
        parts = name.split(".")
        for place in range(len(parts)):
            rest = ".".join(parts[place:])
            for prefix in inside:
                if prefix + rest in own:
                    # A tensor of the right shape counts for more than one of the right name alone.
                    agrees = value.shape == own[prefix + rest].shape
                    votes[(name[: len(name) - len(rest)], prefix)] += 2 if agrees else 1
    if not votes:
        return {}, "name"
    (before, prefix), _ = votes.most_common(1)[0]
    given = {prefix + name.removeprefix(before): value for name, value in weights.items() if name.startswith(before)}
    return given, "name" + (f" after the prefix {before!r}" if before else "")


def _in_order(
    weights: Mapping[str, Tensor], wanted: list[str], own: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], str] | None:
    """Weights in the order of the module's tensors, where nearly all shapes agree place by place."""
    listed = [value for name, value in weights.items() if not name.endswith(COUNTERS)]
    if not len(wanted) <= len(listed) <= len(wanted) + HEAD:
        return None
    pairs = list(zip(wanted, listed, strict=False))
    agreeing = sum(value.shape == own[name].shape for name, value in pairs)
    return (
        (dict(pairs), "order, since the names differ and the shapes agree") if agreeing >= ALIKE * len(pairs) else None
    )


def _read(path: Path) -> Any:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: torch.from_numpy(np.ascontiguousarray(file[name])) for name in file.files}
    return torch.load(path, map_location="cpu", weights_only=True)


def _nested(found: Any) -> dict[str, Any]:
    """The mapping of tensors inside a checkpoint."""
    while isinstance(found, Mapping):
        if any(isinstance(value, Tensor) for value in found.values()):
            return dict(found)
        inner = next((found[key] for key in NESTED if isinstance(found.get(key), Mapping)), None)
        if inner is None:
            return {}
        found = inner
    return {}


def _from_folder(folder: Path) -> dict[str, Tensor]:
    index = next(iter(sorted(folder.glob("*.index.json"))), None)
    if index is not None:
        shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        return {name: value for shard in shards for name, value in read_weights(folder / shard).items()}
    named = [folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).is_file()]
    every = named or [path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES]
    if not named and len(every) != 1:
        what = f"several: {', '.join(path.name for path in every[:5])}" if every else "none"
        raise ValueError(f"{folder} should hold one file of weights ({', '.join(SUFFIXES)}); it holds {what}.")
    return read_weights(every[0])


def _require_finite(tensors: Mapping[str, Tensor], source: str) -> None:
    for name, value in tensors.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise ValueError(f"{source}: the tensor {name} holds NaN or infinity; its training had diverged.")


def _some(tensors: Mapping[str, Tensor]) -> str:
    names = [f"{name} {list(value.shape)}" for name, value in list(tensors.items())[:3]]
    return ", ".join(names) + (", ..." if len(tensors) > 3 else "")
