"""Features: frozen representations and embeddings, made once per run; what follows training is a function of them."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialize
from torch import Tensor, nn

from vergence.data import Samples
from vergence.encoders.layers import Pool, layers
from vergence.runs.run import write_bytes
from vergence.views import sample_keys

CHUNK = 512  # samples encoded at once: enough to keep the cores busy, little enough for any memory
THUMBNAILS = 2000
THUMBNAIL_SIDE = 32
MAPPED = 50_000  # rows of a foreign file that the map of its page shows
EVALUATION_EPOCH = 2**31 - 1  # keys of the views used for measuring, which no training epoch uses


@dataclass(frozen=True)
class Features:
    """What an encoder makes of samples: ``h`` of the plain samples, ``z1`` and ``z2`` of two views of each."""

    h: Tensor
    z1: Tensor | None = None
    z2: Tensor | None = None
    labels: Tensor | None = None

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        parts = {"h": self.h, "z1": self.z1, "z2": self.z2, "labels": self.labels}
        return {f"{prefix}_{name}": tensor for name, tensor in parts.items() if tensor is not None}


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Modules in evaluation mode for a while; one that changes under examination is an error, not a result."""
    modes = [module.training for module in modules]
    state = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
    before = [tensor._version for tensor in state]  # torch counts every change in place
    for module in modules:
        module.eval()
    yield
    for module, mode in zip(modules, modes, strict=True):
        module.train(mode)
    if [tensor._version for tensor in state] != before:
        raise RuntimeError("The encoder changed its weights or statistics while it was evaluated: it is not frozen.")


@torch.no_grad()
def extract(
    encoder: nn.Module,
    samples: Samples,
    recipe: Any,
    *,
    branches: Sequence[nn.Module] = (),
    limit: int | None = None,
    seed: int = 0,
) -> Features:
    """Frozen features of the first ``limit`` samples; with a learner's branches also the embeddings of two views."""
    device = _device(encoder)
    representations, embeddings = [], []
    with frozen(encoder, *branches):
        for indices, x in _chunks(samples, limit):
            x = x.to(device)
            representations.append(encoder(recipe.plain(x)).float().cpu())
            if branches:
                text = None if samples.captions is None else samples.captions[indices].to(device)
                views = recipe(x, sample_keys(seed, EVALUATION_EPOCH, indices).to(device), text)
                embeddings.append([branch(view).float().cpu() for branch, view in zip(branches, views, strict=True)])
    z1, z2 = (torch.cat(column) for column in zip(*embeddings, strict=True)) if embeddings else (None, None)
    h = torch.cat(representations)
    return Features(h, z1, z2, None if samples.labels is None else samples.labels[: len(h)])


@torch.no_grad()
def by_layer(encoder: nn.Module, samples: Samples, recipe: Any, *, limit: int | None = None) -> list[Tensor]:
    """``h`` after every layer of a sequential encoder, first to last: a probe on each shows where the classes part."""
    device, stages, pool = _device(encoder), layers(encoder), Pool()
    made: list[list[Tensor]] = [[] for _ in stages]
    with frozen(encoder):
        for _, x in _chunks(samples, limit):
            x = recipe.plain(x.to(device))
            for stage, parts in zip(stages, made, strict=True):
                x = stage(x)
                parts.append(pool(x).float().cpu())
    return [torch.cat(parts) for parts in made]


@torch.no_grad()
def of_views(
    encoder: nn.Module, samples: Samples, recipe: Any, *, views: int = 8, limit: int = 300, seed: int = 0
) -> Tensor:
    """Representations ``[n, views, d]`` of several views of the first samples, the plain sample first."""
    device, stacks = _device(encoder), []
    # Views of the first kind only: where the second is another modality, the encoder has not learned it.
    numbers = range(0, len(recipe.draws) * (views - 1), len(recipe.draws))
    with frozen(encoder):
        for indices, x in _chunks(samples, limit):
            x, keys = x.to(device), sample_keys(seed, EVALUATION_EPOCH, indices).to(device)
            drawn = [recipe.view(x, keys, number=number) for number in numbers]
            stacks.append(torch.stack([encoder(view).float().cpu() for view in (recipe.plain(x), *drawn)], 1))
    return torch.cat(stacks)


def pixels(samples: Samples, recipe: Any, *, limit: int | None = None) -> Tensor:
    """The samples themselves as flat vectors: the baseline every encoder must beat."""
    return torch.cat([recipe.plain(x).float().flatten(1) for _, x in _chunks(samples, limit)])


def thumbnails(samples: Samples) -> dict[str, Tensor]:
    """Small pictures of the first samples, under their name in the file; none when the samples are not images."""
    if samples.kind != "image":
        return {}
    x = samples.x[torch.arange(min(THUMBNAILS, len(samples.x)))]
    if max(x.shape[-2:]) > THUMBNAIL_SIDE:
        x = nn.functional.interpolate(x.float(), size=THUMBNAIL_SIDE, mode="bilinear", antialias=True)
    return {"thumbnails": x.round().clamp(0, 255).to(torch.uint8)}


@torch.no_grad()
def encoded(encoder: nn.Module, data: Any) -> Tensor:
    """Representations of an array of inputs, as they are, under anyone's encoder, which is left as it was."""
    if data is None:
        raise ValueError("An encoder alone says nothing: give the data to encode as well, data=x.")
    device = _device(encoder)
    with frozen(encoder):
        return torch.cat([encoder(part.to(device)).float().cpu() for part in torch.as_tensor(data).split(CHUNK)])


def from_arrays(h: Any, labels: Any = None, *, limit: int = MAPPED) -> Features:
    """Foreign arrays as features, at most ``limit`` rows evenly spaced: what a page can show."""
    rows = np.linspace(0, len(h) - 1, min(len(h), limit)).astype(np.int64)
    kept = None if labels is None else np.unique(np.asarray(labels), return_inverse=True)[1][rows]
    shown = torch.as_tensor(np.asarray(h[rows], dtype=np.float32))
    return Features(shown, labels=None if kept is None else torch.as_tensor(kept, dtype=torch.int64))


def save(path: Path, tensors: Mapping[str, Tensor]) -> Path:
    """Write named tensors as one safetensors file, whole or not at all."""
    return write_bytes(path, serialize({name: tensor.contiguous() for name, tensor in tensors.items()}))


def read(path: Path, prefix: str) -> Features:
    """The features that ``save`` wrote under a prefix."""
    tensors = load_file(path)
    parts = {name: tensors.get(f"{prefix}_{name}") for name in ("h", "z1", "z2", "labels")}
    if parts["h"] is None:
        raise ValueError(f"{path} holds no {prefix}_h. It holds: {', '.join(sorted(tensors))}.")
    return Features(parts["h"], parts["z1"], parts["z2"], parts["labels"])


def holds(path: Path, prefix: str) -> bool:
    """Whether a file has features under a prefix."""
    with safe_open(path, framework="pt") as file:
        return f"{prefix}_h" in file.keys()  # noqa: SIM118 - not a mapping


def write(path: Path, made: Features) -> Path:
    """Write representations for other programs: a bare ``.npy`` array, or ``.safetensors`` with the labels."""
    if path.suffix == ".safetensors":
        return save(path, made.tensors("all"))
    if path.suffix != ".npy":
        raise ValueError(f"Representations are written as .npy or .safetensors, got {path.name!r}.")
    buffer = io.BytesIO()
    np.save(buffer, made.h.numpy(), allow_pickle=False)
    return write_bytes(path, buffer.getvalue())


def export(encoder: nn.Module, example: Tensor, path: Path, *, form: str) -> None:
    """Write an encoder as weights (``safetensors``), as a ``torch.export`` program (``torch``), or as ``onnx``."""
    encoder = encoder.eval().cpu()
    if form == "safetensors":
        save(path, encoder.state_dict())
        return
    dynamic = ({0: torch.export.Dim("n")},)
    if form == "onnx":
        try:
            torch.onnx.export(encoder, (example,), str(path), dynamo=True, dynamic_shapes=dynamic)
        except ImportError as error:
            raise ImportError(f"ONNX needs an extra ({error}). Try: pip install 'vergence[onnx]'") from error
        return
    torch.export.save(torch.export.export(encoder, (example,), dynamic_shapes=dynamic), path)


def _chunks(samples: Samples, limit: int | None) -> Iterator[tuple[Tensor, Tensor]]:
    n = min(limit or len(samples.x), len(samples.x))
    for start in range(0, n, CHUNK):
        indices = torch.arange(start, min(start + CHUNK, n))
        yield indices, samples.x[indices]


def _device(module: nn.Module) -> torch.device:
    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
