"""``vergence embed``: representations of any data under a trained encoder."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vergence import data as sources
from vergence import features
from vergence.data import Samples
from vergence.data.images import SUFFIXES, image_files
from vergence.data.samples import in_memory
from vergence.data.writing import write_rows
from vergence.runs import assembly
from vergence.runs.results import Answer
from vergence.runs.run import Run

SHOWN = 5  # skipped files that are named; all of them are in the values


def embed(
    run: Path,
    files: tuple[str, ...] = (),
    *,
    data: str | None = None,
    split: str | None = None,
    output: Path | None = None,
) -> Answer:
    """Write the representations of any data under a trained run's encoder to a file, with names and labels.

    ``files`` are images, a folder of them, or one file of arrays or texts; ``data`` is written as for train. Of data
    that are named every row is written unless a ``split`` is; of the run's own data the test split. The file is a
    .npy (names and labels in text files beside it), .npz, .safetensors or .parquet.
    """
    place = Run(run)
    if files and data is not None:
        raise ValueError("Give files or --data, not both.")
    encoder, recipe, facts = assembly.trained_encoder(place)
    samples, stem = _samples(place, files, data, split, facts)
    _check_alike(samples, facts)
    path = Path(output) if output else place.path / f"{stem}_h.npy"
    labels = None if samples.labels is None else [_class(samples, label) for label in samples.labels.tolist()]
    written = write_rows(path, _rows(encoder, samples, recipe), len(samples), names=samples.names, labels=labels)
    n, d = len(samples), encoder.width
    lines = (
        f"{n:,} representation{'s' * (n > 1)} of {d} dimensions: {', '.join(map(str, written))}",
        *_skipped(samples),
    )
    values = {"path": str(path), "files": [str(file) for file in written], "n": n, "d": d}
    return Answer(lines, {**values, "skipped": [list(pair) for pair in samples.skipped]})


def _samples(
    place: Run, files: tuple[str, ...], data: str | None, split: str | None, facts: dict[str, Any]
) -> tuple[Samples, str]:
    """The samples that are asked for, and a word for them."""
    if not files and data is None:
        split = split or "test"
        return assembly.load(place.config, split), split
    if files and all(Path(file).suffix.lower() in SUFFIXES for file in files):
        if split is not None:
            raise ValueError("--split would not be used: files that are named are all written.")
        channels, size = facts["shape"][0], facts["shape"][-1]
        made = image_files(files, size=size, channels=channels)
        return in_memory(made, memory=sources.MEMORY), Path(files[0]).stem if len(files) == 1 else "files"
    source = data if data is not None else _named(files)
    split = split or "all"
    made = sources.load(source, split=split, fewest=1, **inherited(place.config, source, facts))
    stem = re.sub(r"\W+", "_", Path(sources.parts(source.split(",")[0])[1]).stem) or sources.parts(source)[0]
    return made, stem if split == "all" else f"{stem}_{split}"


def _named(files: tuple[str, ...]) -> str:
    """A source for a folder or a file that is not an image."""
    if len(files) > 1:
        raise ValueError("Give several images, or one folder or file; other kinds are embedded one file at a time.")
    file = Path(files[0])
    if not file.exists():
        raise FileNotFoundError(f"There is no file or folder {file}.")
    if file.is_dir():
        return f"folder:{file}"
    if file.suffix in (".npy", ".npz", ".parquet"):
        return f"array:{file}"
    if file.suffix == ".tsv":
        return f"series:{file}"
    return f"text:{file}"


def inherited(config: Any, source: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Options of a source that follow from the run: as the data it was trained on were read, so are these."""
    name, *_ = sources.settled(source, {})
    known = sources.options_of(name)
    found = {}
    if sources.parts(config.data.split(",")[0])[0] == name:  # the same kind of source: read in the same way
        own = sources.settled(config.data, {})[2]
        found = {
            key: value for key, value in own.items() if key not in ("limit", "validation", "memory", "labels", "name")
        }
    if facts["kind"] == "image":
        found |= {"size": facts["shape"][-1], "channels": facts["shape"][0]}
    if facts["kind"] == "text":
        found |= {"length": facts["shape"][-1]}
    written = sources.settled(source, {})[2]
    return {key: value for key, value in found.items() if key in known and key not in written}


def _check_alike(samples: Samples, facts: dict[str, Any]) -> None:
    """Refuse samples of another kind or shape than the encoder was trained on."""
    if samples.kind != facts["kind"]:
        raise ValueError(f"The run was trained on {facts['kind']} samples; {samples.source} holds {samples.kind}.")
    if tuple(samples.shape) != tuple(facts["shape"]):
        raise ValueError(
            f"The run was trained on samples of shape {list(facts['shape'])}; those of {samples.source} are "
            f"{list(samples.shape)}."
        )


def _rows(encoder: nn.Module, samples: Samples, recipe: Any) -> Iterator[NDArray[np.float32]]:
    """Representations, a batch at a time."""
    device = next((parameter.device for parameter in encoder.parameters()), torch.device("cpu"))
    with torch.no_grad(), features.frozen(encoder):
        for start in range(0, len(samples), features.CHUNK):
            x = samples.x[torch.arange(start, min(start + features.CHUNK, len(samples)))]
            with torch.no_grad():
                h = encoder(recipe.plain(x.to(device))).float().cpu().numpy()
            yield h


def _class(samples: Samples, label: int) -> str:
    return samples.classes[label] if label < len(samples.classes) else str(label)


def _skipped(samples: Samples) -> tuple[str, ...]:
    """What could not be read, in a line."""
    if not samples.skipped:
        return ()
    named = "; ".join(f"{name} ({reason})" for name, reason in samples.skipped[:SHOWN])
    more = f"; and {len(samples.skipped) - SHOWN} more" if len(samples.skipped) > SHOWN else ""
    return (f"{len(samples.skipped)} skipped: {named}{more}",)
