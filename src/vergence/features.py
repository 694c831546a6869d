"""Features: frozen representations and embeddings, made once per run; what follows training is a function of them."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor, nn

from vergence.counters import drawn, sample_keys, seed_from, shuffled
from vergence.data import Samples
from vergence.data.samples import Sharded
from vergence.encoders.layers import Pool, layers
from vergence.runs.memory import keep_freed_memory
from vergence.runs.run import write_bytes

CHUNK = 512  # samples encoded at once: enough to keep the cores busy, little enough for any memory
THUMBNAILS = 2000
THUMBNAIL_SIDE = 64  # pixels: sharp at the size at which a page shows them
RAW_SIDE = 32  # pixels of the raw baseline: more would make its probe slower, not better
VIEWED = 12  # samples of which a page shows the views, and as many whose views are furthest apart
RAW_BYTES = 2**25  # of raw samples that a run keeps of each split, unless fewer than FEWEST_RAW would be left
FEWEST_RAW = 1000
MAPPED = 50_000  # rows of a foreign file that the map of its page shows
EVALUATION_EPOCH = 2**31 - 1  # keys of the views used for measuring, which no training epoch uses


@dataclass(frozen=True)
class Features:
    """What an encoder makes of samples: ``h`` of the plain samples, ``z1`` and ``z2`` of two views of each.

    ``z1`` and ``z2`` are of the first two views that the method compares, ``others`` of the views besides; ``rows``
    are the places of the samples in the data that they were drawn from.
    """

    h: Tensor
    z1: Tensor | None = None
    z2: Tensor | None = None
    labels: Tensor | None = None
    others: tuple[Tensor, ...] = ()
    rows: Tensor | None = None

    @property
    def z(self) -> tuple[Tensor, ...]:
        """The embeddings of all views."""
        return tuple(z for z in (self.z1, self.z2, *self.others) if z is not None)

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        views = {f"z{number}": z for number, z in enumerate(self.z, 1)}
        parts = {"h": self.h, **views, "labels": self.labels, "rows": self.rows}
        return {f"{prefix}_{name}": tensor for name, tensor in parts.items() if tensor is not None}


def rows_of(samples: Samples, limit: int | None = None) -> Tensor:
    """The rows that stand for all samples: at most ``limit``, drawn evenly, every class by its share.

    Of samples in shards at most 50,000, from a few pieces, are read: they must not take memory as they grow.
    """
    if isinstance(samples.x, Sharded):
        return samples.x.sample(min(limit or MAPPED, MAPPED))
    return drawn(len(samples), limit or len(samples), groups=samples.labels)


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Modules in evaluation mode for a while; a module that changes meanwhile is an error."""
    keep_freed_memory()
    modes = [module.training for module in modules]
    state = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
    before = [tensor._version for tensor in state]  # torch counts every change in place
    for module in modules:
        module.eval()
    try:
        yield
    finally:
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
    """Frozen features of the samples, or of ``limit`` drawn evenly; with a learner's branches also of their views.

    The last branch serves all views from its own on.
    """
    device, rows = _device(encoder), rows_of(samples, limit)
    representations, embeddings = [], []
    with frozen(encoder, *branches):
        for indices, x in _chunks(samples, rows):
            x = x.to(device)
            representations.append(encoder(recipe.plain(x)).float().cpu())
            if branches:
                dropping(recipe, branches, seed_from(seed, int(indices[0])))
                keys = sample_keys(seed, EVALUATION_EPOCH, indices).to(device)
                views = recipe(x, keys, recipe.fields_of(samples, indices, device))
                pairs = zip_longest(branches, views, fillvalue=branches[-1])
                embeddings.append([branch(view).float().cpu() for branch, view in pairs])
                for branch in branches:
                    branch.eval()
    z = _compared_first([torch.cat(column) for column in zip(*embeddings, strict=True)], branches)
    labels = None if samples.labels is None else samples.labels[rows]
    return _with_views(torch.cat(representations), z, labels, rows)


def dropping(recipe: Any, branches: Sequence[nn.Module], seed: int) -> None:
    """Let dropout act where it is what tells views apart, from a state of the random numbers that is known."""
    if not recipe.by_encoder:
        return
    torch.manual_seed(seed)
    for module in (part for branch in branches for part in branch.modules()):
        if isinstance(module, nn.Dropout) or hasattr(module, "rate"):
            module.training = True


def _with_views(h: Tensor, z: Sequence[Tensor], labels: Tensor | None, rows: Tensor | None) -> Features:
    """Features with the embeddings of any number of views, or of none."""
    first, second = (*z, None, None)[:2]
    return Features(h, first, second, labels, tuple(z[2:]), rows)


def _compared_first(z: list[Tensor], branches: Sequence[nn.Module]) -> list[Tensor]:
    """Embeddings with two that are compared at the front: of the first view, and of one of another branch if any is."""
    second = next((number for number, branch in enumerate(branches) if branch is not branches[0]), 1)
    return [*z[:1], *z[second : second + 1], *z[1:second], *z[second + 1 :]]


@torch.no_grad()
def by_layer(encoder: nn.Module, samples: Samples, recipe: Any, *, limit: int | None = None) -> list[Tensor]:
    """``h`` of ``rows_of(samples, limit)`` after every layer of a sequential encoder, first to last."""
    device, stages, pool = _device(encoder), layers(encoder), Pool()
    made: list[list[Tensor]] = [[] for _ in stages]
    with frozen(encoder):
        for _, x in _chunks(samples, rows_of(samples, limit)):
            x = recipe.plain(x.to(device))
            for stage, parts in zip(stages, made, strict=True):
                x = stage(x)
                parts.append(pool(x).float().cpu())
    return [torch.cat(parts) for parts in made]


@torch.no_grad()
def of_views(
    encoder: nn.Module, samples: Samples, recipe: Any, *, views: int = 8, limit: int = 300, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Representations ``[n, views, d]`` of several views of some samples, the plain sample first; and their rows.

    All are views like the first: where another is of another kind, the encoder has not learned it.
    """
    device, stacks, rows = _device(encoder), [], rows_of(samples, limit)
    with frozen(encoder):
        for indices, x in _chunks(samples, rows):
            x, keys = x.to(device), sample_keys(seed, EVALUATION_EPOCH, indices).to(device)
            seen = [recipe.plain(x), *recipe.alike(x, keys, views - 1)]
            stacks.append(torch.stack([encoder(view).float().cpu() for view in seen], 1))
    return torch.cat(stacks), rows


def pixels(samples: Samples, recipe: Any, *, limit: int | None = None) -> Tensor:
    """The samples themselves as flat vectors: the baseline every encoder must beat."""
    return torch.cat([recipe.plain(x).float().flatten(1) for _, x in _chunks(samples, rows_of(samples, limit))])


def raw(samples: Samples, recipe: Any, *, limit: int | None = None) -> Features:
    """The samples themselves, small enough to be stored: pictures as bytes, their longer side at most 32 pixels.

    ``read`` gives bytes back as [0, 1]. What is larger than 32 MiB a split loses rows, down to 1,000.
    """
    size = _storable(recipe.plain(samples.x[rows_of(samples, limit)[:1]]))[0]
    most = max(FEWEST_RAW, RAW_BYTES // (size.numel() * size.element_size()))
    rows = rows_of(samples, min(limit or len(samples), most))
    h = torch.cat([_storable(recipe.plain(x)).flatten(1) for _, x in _chunks(samples, rows)])
    return Features(h, labels=None if samples.labels is None else samples.labels[rows], rows=rows)


def _storable(x: Tensor) -> Tensor:
    """Pictures in [0, 1] as small pictures of bytes; anything else as float32."""
    return (255 * _reduced(x, RAW_SIDE)).round().clamp(0, 255).to(torch.uint8) if x.ndim == 4 else x.float()


def _reduced(x: Tensor, side: int = THUMBNAIL_SIDE) -> Tensor:
    """Pictures whose longer side has at most ``side`` pixels."""
    longest = max(x.shape[-2:])
    if longest <= side:
        return x
    size = [max(1, round(length * side / longest)) for length in x.shape[-2:]]
    return nn.functional.interpolate(x.float(), size=size, mode="bilinear", antialias=True)


def shown(samples: Samples) -> Tensor:
    """The rows of the samples that a page shows, in an order of which every beginning is a fair draw."""
    return shuffled(rows_of(samples, THUMBNAILS))


def thumbnails(samples: Samples) -> dict[str, Tensor]:
    """Small pictures of the samples that a page shows, and their rows; only the rows where they are not images."""
    rows = shown(samples)
    if samples.kind != "image":
        return {"thumbnail_rows": rows}
    pictures = _reduced(samples.x[rows]).round().clamp(0, 255).to(torch.uint8)
    return {"thumbnails": pictures, "thumbnail_rows": rows}


@torch.no_grad()
def viewed(samples: Samples, recipe: Any, made: Features, *, seed: int = 0) -> dict[str, Tensor]:
    """Views as training sees them, of some samples drawn evenly and of those whose two views are furthest apart.

    Pictures ``[m, views, c, h, w]`` as bytes, series ``[m, views, c, t]``, or tokens ``[m, views, t]``; ``viewed_rows``
    are the places of the samples. The views are those that ``made`` embeds. Views of several kinds are left out.
    """
    rows = torch.cat([shown(samples)[:VIEWED], _furthest(made)[:VIEWED]]).unique()
    keys = sample_keys(seed, EVALUATION_EPOCH, rows)
    views = recipe(samples.x[rows], keys, recipe.fields_of(samples, rows))
    kinds = {view.kind for view in recipe.views}
    if kinds != {None} or samples.kind == "vector":
        return {}
    views = tuple(_as_picture(view) for view in views) if samples.kind == "image" else views
    alike = [view for view in views if view.shape == views[0].shape]
    return {"viewed": torch.stack(alike, 1), "viewed_rows": rows}


def _furthest(made: Features) -> Tensor:
    """Places of the samples in the order of how far their two views are apart."""
    if made.z1 is None or made.z2 is None or made.z1.shape != made.z2.shape:
        return torch.arange(0)
    order = nn.functional.cosine_similarity(made.z1, made.z2).argsort(stable=True)
    return order if made.rows is None else made.rows[order]


def _as_picture(view: Tensor) -> Tensor:
    pixels = view.float() * (1.0 if view.dtype == torch.uint8 else 255.0)
    return _reduced(pixels).round().clamp(0, 255).to(torch.uint8)


@torch.no_grad()
def encoded(encoder: nn.Module, data: Any) -> Tensor:
    """Representations of an array of inputs under any encoder; its weights, statistics and mode stay as they are."""
    if data is None:
        raise ValueError("An encoder needs data to encode: give data=x as well.")
    device = _device(encoder)
    with frozen(encoder):
        return torch.cat([encoder(part.to(device)).float().cpu() for part in torch.as_tensor(data).split(CHUNK)])


def from_arrays(h: Any, labels: Any = None, *, limit: int = MAPPED) -> Features:
    """Foreign arrays as features, at most ``limit`` rows drawn evenly: what a page can show."""
    codes = None if labels is None else torch.as_tensor(np.unique(np.asarray(labels), return_inverse=True)[1])
    rows = drawn(len(h), limit, groups=codes)
    some = torch.as_tensor(np.asarray(h[rows.numpy()], dtype=np.float32))
    return Features(some, labels=None if codes is None else codes[rows].long(), rows=rows)


def save(path: Path, tensors: Mapping[str, Tensor]) -> Path:
    """Write named tensors as one safetensors file, whole or not at all."""
    return write_bytes(path, serialize({name: tensor.contiguous() for name, tensor in tensors.items()}))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file of features; a damaged one is refused in a sentence."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({error}). Delete it; `vergence train --resume` makes it again.") from None


def stored(path: Path) -> dict[str, Tensor]:
    """Every tensor of a file of features, by its name there."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping


def read(path: Path, prefix: str) -> Features:
    """The features that ``save`` wrote under a prefix; raw samples that lie there as bytes come as [0, 1]."""
    with _opened(path) as file:
        names = sorted(file.keys())
        if f"{prefix}_h" not in names:
            raise ValueError(f"{path} holds no {prefix}_h. It holds: {', '.join(names)}.")
        own = {name.removeprefix(f"{prefix}_"): name for name in names if name.startswith(f"{prefix}_")}
        views = [f"z{number}" for number in range(1, len(own) + 1) if f"z{number}" in own]
        found = {part: file.get_tensor(own[part]) for part in ("h", "labels", "rows", *views) if part in own}
    z = [found[view] for view in views]
    h = found["h"].float().div_(255) if found["h"].dtype == torch.uint8 else found["h"]
    return _with_views(h, z, found.get("labels"), found.get("rows"))


def holds(path: Path, prefix: str) -> bool:
    """Whether a file has features under a prefix."""
    with _opened(path) as file:
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


def _chunks(samples: Samples, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    for indices in rows.split(CHUNK):
        yield indices, samples.x[indices]


def _device(module: nn.Module) -> torch.device:
    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
