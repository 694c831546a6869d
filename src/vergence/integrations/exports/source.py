"""Source: what is exported, and the contract: everything a caller must know that the weights do not say."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vergence.config import Config
from vergence.data import settled
from vergence.encoders import Standardize
from vergence.runs import assembly, finetuned, results
from vergence.runs.results import Results
from vergence.runs.run import Run

VERSION = 1
RESIZE = (
    "lay transparency on white, turn upright by EXIF, convert to {mode}; take the largest central square and resize it "
    "to {side} x {side} pixels, bilinear and antialiased (Pillow: image.resize(({side}, {side}), "
    "Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge)))"
)


@dataclass(frozen=True)
class Source:
    """A trained encoder, with a head where it was fine-tuned; its run's config, facts and results."""

    encoder: nn.Module
    recipe: Any
    config: Config
    kind: str
    shape: tuple[int, ...]
    head: nn.Module | None = None
    classes: tuple[str, ...] = ()
    found: Results | None = None
    name: str = "encoder"
    finetuning: dict[str, Any] = field(default_factory=dict)
    tokens: Any = None

    @property
    def width(self) -> int:
        return int(self.encoder.width)  # type: ignore[arg-type]

    @property
    def standardize(self) -> Standardize | None:
        """The first layer, which standardizes inputs; text has none."""
        first = next(iter(self.encoder.children()), None)
        return first if isinstance(first, Standardize) else None

    @property
    def backbone(self) -> nn.Module:
        """The encoder without that layer."""
        return self.encoder if self.standardize is None else list(self.encoder.children())[1]

    @cached_property
    def example(self) -> Tensor:
        """Two samples as the encoder takes them; which ones does not matter to a graph."""
        torch.manual_seed(0)
        if self.kind == "text":
            return torch.randint(1, 100, (2, *self.shape))
        x = torch.rand(2, *self.shape)
        return self.recipe.plain((255 * x).to(torch.uint8) if self.kind == "image" else x)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all weights."""
        made = hashlib.sha256()
        parts = {"encoder": self.encoder, **({"head": self.head} if self.head is not None else {})}
        for part, module in parts.items():
            for name, value in sorted(module.state_dict().items()):
                made.update(f"{part}.{name} {value.dtype} {tuple(value.shape)}".encode())
                made.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return made.hexdigest()


def source(path: str | Path) -> Source:
    """What there is to export in a run directory, or in a folder that ``finetune`` left."""
    place = Path(path)
    tuned = finetuned.is_finetuned(place)
    run = finetuned.run_of(place) if tuned else Run(place)
    encoder, recipe, facts = assembly.trained_encoder(run)
    encoder, head, more = encoder.cpu().eval(), None, {}
    classes: Sequence[str] = ()
    if tuned:
        encoder, head = finetuned.model_of(place, encoder)
        known = finetuned.facts(place)
        classes, more = known["classes"], known["finetuning"]
    return Source(
        encoder, recipe, run.config, facts["kind"], tuple(facts["shape"]), head, tuple(classes),
        results.read(run.path), run.path.name, more, assembly.tokens_of(run),
    )  # fmt: skip


def contract(source: Source, *, inside: bool, preprocess: bool = False) -> dict[str, Any]:
    """What a caller must know: inputs, what is done to them and what must be done, outputs, classes, versions, hash.

    ``inside`` says that the standardization of inputs is part of what is exported; ``preprocess`` that bytes go in.
    """
    known = {
        "format": "vergence encoder",
        "version": VERSION,
        "kind": source.kind,
        "input": _input(source, preprocess=preprocess),
        "normalization": _normalization(source, inside=inside),
        "output": {"name": "h", "shape": [None, source.width], "dtype": "float32", "unit length": False},
        "sha256": source.digest,
        "versions": {name: metadata.version(name) for name in ("vergence", "torch")},
        "training": {name: getattr(source.config, name) for name in ("method", "data", "encoder", "epochs", "start")},
    }
    if source.kind == "text":
        options = settled(source.config.data, {})[2]
        keys = ("tokens", "tokenizer", "length", "vocabulary")
        known["tokenizer"] = {key: options[key] for key in keys if key in options} or {"tokens": "word"}
    if source.head is not None:
        known["classes"] = list(source.classes)
        known["logits"] = {"name": "logits", "shape": [None, len(source.classes)], "dtype": "float32"}
    return known


def _input(source: Source, *, preprocess: bool) -> dict[str, Any]:
    shape: list[int | None] = [None, *source.example.shape[1:]]
    if source.kind == "text":
        return {"name": "x", "shape": shape, "layout": "N T", "dtype": "int64", "range": "tokens, 0 for padding"}
    if source.kind != "image":
        layout = {"vector": "N D", "series": "N C T"}[source.kind]
        return {"name": "x", "shape": shape, "layout": layout, "dtype": "float32", "range": "as in the training data"}
    mode = "RGB" if source.shape[0] == 3 else "gray (L)"
    return {
        "name": "x",
        "shape": shape,
        "layout": "N C H W",
        "color": mode,
        "dtype": "uint8" if preprocess else "float32",
        "range": [0, 255] if preprocess else [0.0, 1.0],
        "resize and crop": RESIZE.format(mode=mode, side=source.example.shape[-1]),
    }


def _normalization(source: Source, *, inside: bool) -> dict[str, Any] | None:
    """(x - mean) / deviation for each channel or column, and whether the caller has to do it."""
    first = source.standardize
    if first is None:
        return None
    figures = {"mean": first.mean.flatten().tolist(), "deviation": first.deviation.flatten().tolist()}
    return {**figures, "inside": inside, "applied to": "x in [0, 1]" if source.kind == "image" else "x"}


def written(contract: dict[str, Any]) -> dict[str, str]:
    """The contract as text by name, for the metadata of files that hold nothing else."""
    return {"vergence": json.dumps(contract), "format": "pt"}
