"""``vergence embed``: representations of any data under a trained encoder."""

import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vergence import data as sources
from vergence import features
from vergence.data import Samples
from vergence.data.images import SUFFIXES, image_files
from vergence.data.shards import Shards
from vergence.data.streaming import sound
from vergence.data.writing import Rows, write_rows
from vergence.runs import assembly, sentences
from vergence.runs.progress import Progress
from vergence.runs.results import Answer
from vergence.runs.run import Run

# Options of the data a run was trained on that say which samples were taken, not how they are read.
NOT_INHERITED = (
    "limit", "validation", "memory", "labels", "name", "pairs", "above", "scale", "column", "by_line", "tokens",
)  # fmt: skip
SHOWN = 5  # skipped files that are named; all of them are in the values
PORTION = 65_536  # rows of a file in a folder of embeddings, where the data are not in shards of their own


def embed(
    run: Path,
    files: tuple[str, ...] = (),
    *,
    data: str | None = None,
    split: str | None = None,
    output: Path | None = None,
    quiet: bool = False,
) -> Answer:
    """Write the representations of any data under a trained run's encoder to a file, with names and labels.

    ``files`` are images, a folder of them, or one file of arrays or texts; ``data`` is written as for train, and is the
    run's own where nothing is named. Every row is written unless a ``split`` is named, batch by batch. The file is a
    .npy (names and labels in text files beside it), .npz, .safetensors or .parquet. An ``output`` without an ending is
    a folder with a .parquet file for every shard: the processes of torchrun share them, and shards that are there
    already are not done again. ``run`` may be a folder of sentence-transformers or of a Hugging Face model of texts.
    """
    place = Run(run)
    if files and data is not None:
        raise ValueError("Give files or --data, not both.")
    _check_apart(output, files, data)
    if sentences.is_model(run):
        encoder, recipe, samples, stem = _of_model(run, files, data, split)
    else:
        encoder, recipe, facts = assembly.trained_encoder(place)
        samples, stem = _samples(place, files, data, split, facts)
        _check_alike(samples, facts)
    path = Path(output) if output else place.path / f"{stem}_h.npy"
    skipped: dict[str, str] = dict(samples.skipped)
    if not path.suffix or path.is_dir():
        return _folder(path, place, encoder, samples, recipe, skipped, quiet=quiet)
    with Progress(-(-len(samples) // features.CHUNK), quiet=quiet) as bar:
        written, n = write_rows(path, _rows(encoder, samples, recipe, range(len(samples)), skipped, bar))
    d = encoder.width
    lines = (
        f"{n:,} representation{'s' * (n > 1)} of {d} dimensions: {', '.join(map(str, written))}",
        *_skipped(skipped),
        *filter(None, [samples.remarks]),
    )
    values = {"path": str(path), "files": [str(file) for file in written], "n": n, "d": d}
    return Answer(lines, {**values, "skipped": [list(pair) for pair in skipped.items()]})


def _check_apart(output: Path | None, files: tuple[str, ...], data: str | None) -> None:
    """Refuse to write over what is read."""
    read = [*files, *([sources.parts(data.split(",")[0])[1]] if data else [])]
    if output is not None and any(
        Path(file).exists() and Path(file).resolve() == Path(output).resolve() for file in read
    ):
        raise FileExistsError(f"{output} is what is read: name another --output.")


def _of_model(run: Path, files: tuple[str, ...], data: str | None, split: str | None) -> tuple[Any, Any, Samples, str]:
    """Texts for a folder of a pretrained model, read by its own tokenizer."""
    if data is None and len(files) != 1:
        raise ValueError(f"{run} is a model without data: give one file of texts, or --data text:FILE.")
    reader, recipe = sentences.model_reader(run)
    source = data if data is not None else f"text:{files[0]}"
    if sources.parts(source.split(",")[0])[0] not in assembly.TEXTS:
        raise ValueError(f"{run} is a model of texts; {source} holds none: give text:FILE or pairs:FILE.")
    made = sources.load(source, split=split or "all", fewest=1, tokens=reader.tokens, length=reader.length)
    return reader.encoder, recipe, made, re.sub(r"\W+", "_", Path(sources.parts(source.split(",")[0])[1]).stem)


def _folder(
    path: Path, place: Run, encoder: nn.Module, samples: Samples, recipe: Any, skipped: dict[str, str], *, quiet: bool
) -> Answer:
    """A file for every shard, this process's share of them; those that are whole already are passed over."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    portions = list(_portions(samples))
    own = portions[rank::world]
    made = total = done = 0
    with Progress(sum(-(-len(rows) // features.CHUNK) for _, rows in own), quiet=quiet or rank > 0) as bar:
        for name, rows in own:
            file = path / f"{name}.parquet"
            facts = {"run": str(place.path), "weights": place.fingerprint(), "shard": name, "rows": len(rows)}
            if _finished(file, facts):
                done += 1
                continue
            # Where no row of a shard can be read there is nothing to write, and nothing to stop for.
            batches = _rows(encoder, samples, recipe, rows, skipped, bar)
            if (first := next(batches, None)) is not None:
                total += write_rows(file, itertools.chain([first], batches), facts=facts)[1]
                made += 1
    what = f" (process {rank} of {world})" if world > 1 else ""
    lines = [f"{total:,} representations of {encoder.width} dimensions in {made} files{what}: {path}"]
    lines += [f"{done} files were there already."] * bool(done)
    lines += ["There are more processes than shards: this one had nothing to do."] * (not own)
    values = {"path": str(path), "n": total, "d": encoder.width, "made": made, "already": done, "process": rank}
    return Answer((*lines, *_skipped(skipped)), {**values, "skipped": [list(pair) for pair in skipped.items()]})


def _portions(samples: Samples) -> Iterator[tuple[str, range]]:
    """The rows of each file of a folder: those of a shard, under its name, or 65,536 at a time."""
    if not isinstance(samples.x, Shards):
        for number, start in enumerate(range(0, len(samples), PORTION)):
            yield f"part-{number:05d}", range(start, min(start + PORTION, len(samples)))
        return
    names = [Path(file).stem for file in samples.x.files]
    unique = len(set(names)) == len(names)
    ends = np.cumsum(np.bincount(samples.x.shard, samples.x.counts, minlength=len(names))).astype(int)
    for number, (name, start, stop) in enumerate(zip(names, [0, *ends[:-1]], ends, strict=True)):
        if stop > start:
            yield name if unique else f"{number:05d}-{name}", range(start, stop)


def _finished(file: Path, facts: dict[str, Any]) -> bool:
    """Whether a file of embeddings is there, whole, and of these weights and this shard."""
    if not file.exists():
        return False
    from pyarrow import parquet

    try:
        known = json.loads((parquet.read_schema(file).metadata or {}).get(b"vergence", b"{}"))
    except (OSError, ValueError):  # an ArrowInvalid is a ValueError
        return False
    if known and known != facts:
        raise FileExistsError(
            f"{file} holds the embeddings of {known.get('run')}, shard {known.get('shard')}, by other weights or "
            "of other rows: name another folder."
        )
    return bool(known)


def _samples(
    place: Run, files: tuple[str, ...], data: str | None, split: str | None, facts: dict[str, Any]
) -> tuple[Samples, str]:
    """The samples that are asked for, and a word for them."""
    if not files and data is None:
        split = split or "all"
        return assembly.load(place.config, split, unread=True, tokens=assembly.tokens_of(place)), split
    if files and all(Path(file).suffix.lower() in SUFFIXES for file in files):
        if split is not None:
            raise ValueError("--split would not be used: files that are named are all written.")
        channels, size = facts["shape"][0], facts["shape"][-1]
        made = image_files(files, size=size, channels=channels)
        return made, Path(files[0]).stem if len(files) == 1 else "files"
    source = sources.understood(data) if data is not None else _named(files)
    split = split or "all"
    options = inherited(place.config, source, facts)
    if sources.parts(source.split(",")[0])[0] in assembly.TEXTS:
        options["tokens"] = assembly.tokens_of(place) or "word"
    made = sources.load(source, split=split, fewest=1, unread=True, **options)
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
        found = {key: value for key, value in own.items() if key not in NOT_INHERITED}
    if facts["kind"] == "image":
        found |= {"size": facts["shape"][-1], "channels": facts["shape"][0]}
    if facts["kind"] == "text":
        found |= {"length": facts["shape"][-1]}
    written = sources.settled(source, {})[2]
    return {key: value for key, value in found.items() if key in known and key not in written}


def _check_alike(samples: Samples, facts: dict[str, Any]) -> None:
    """Refuse samples of another kind or shape than the encoder was trained on."""
    if samples.kind != facts["kind"]:
        kinds = f"{facts['kind']} samples; {samples.source} holds {samples.kind} samples"
        raise ValueError(f"The run was trained on {kinds}.")
    if tuple(samples.shape) != tuple(facts["shape"]):
        raise ValueError(
            f"The run was trained on samples of shape {list(facts['shape'])}; those of {samples.source} are "
            f"{list(samples.shape)}."
        )


def _rows(
    encoder: nn.Module, samples: Samples, recipe: Any, rows: range, skipped: dict[str, str], bar: Progress
) -> Iterator[Rows]:
    """Representations of some rows with their names and labels, a batch at a time; what cannot be read is noted."""
    device = next((parameter.device for parameter in encoder.parameters()), torch.device("cpu"))
    parts = (torch.arange(start, min(start + features.CHUNK, rows.stop)) for start in rows[:: features.CHUNK])
    with features.frozen(encoder):
        for batch in sound(samples, parts):
            skipped |= {str(name): reason for name, reason in batch.skipped}
            bar.advance(len(batch.indices))
            if len(batch.indices):
                with torch.no_grad():
                    h = encoder(recipe.plain(batch.x.to(device))).float().cpu().numpy()
                labels = batch.fields.get("labels")
                texts = None if labels is None else [_class(samples, label) for label in labels.tolist()]
                names = samples.names
                yield Rows(h, None if names is None else [str(names[index]) for index in batch.indices.tolist()], texts)


def _class(samples: Samples, label: int) -> str:
    return samples.classes[label] if label < len(samples.classes) else str(label)


def _skipped(skipped: dict[str, str]) -> tuple[str, ...]:
    """What could not be read, in a line."""
    if not skipped:
        return ()
    named = "; ".join(f"{name} ({reason})" for name, reason in list(skipped.items())[:SHOWN])
    more = f"; and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
    return (f"{len(skipped)} skipped: {named}{more}",)
