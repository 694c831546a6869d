"""``vergence export``: a run's encoder for other programs."""

from pathlib import Path
from typing import Literal

import torch

from vergence import features
from vergence.runs import assembly
from vergence.runs.results import Answer
from vergence.runs.run import Run

SUFFIXES = {"safetensors": "safetensors", "torch": "pt2", "onnx": "onnx"}


def export(run: Path, *, output: Path | None = None, form: Literal["safetensors", "torch", "onnx"] = "torch") -> Answer:
    """Write a run's encoder for other programs: weights (safetensors), a torch.export program, or ONNX."""
    parts = assembly.trained(Run(run))
    path = Path(output) if output else Path(run) / f"encoder.{SUFFIXES[form]}"
    features.export(parts.learner.encoder, parts.recipe.plain(parts.samples.x[torch.arange(2)]), path, form=form)
    return Answer((f"Encoder of {parts.learner.encoder.width} dimensions: {path}",), {"path": str(path), "form": form})
