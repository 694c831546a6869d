"""``vergence embed``: representations of any data under a trained encoder."""

from pathlib import Path

from vergence import data as sources
from vergence import features
from vergence.runs import assembly
from vergence.runs.results import Answer
from vergence.runs.run import Run


def embed(run: Path, *, data: str | None = None, split: str = "test", output: Path | None = None) -> Answer:
    """Write the representations of any data under a trained run's encoder to a file (.npy, or .safetensors)."""
    place = Run(run)
    config = place.config
    parts = assembly.trained(place)
    samples = assembly.load(config, split) if data is None else sources.load(data, split=split)
    if samples.shape != parts.samples.shape and samples.kind != "image":
        raise ValueError(f"The run was trained on samples of shape {parts.samples.shape}; these are {samples.shape}.")
    made = features.extract(parts.learner.encoder, samples, parts.recipe, seed=config.seed)
    path = Path(output) if output else Path(run) / f"{split}_h.npy"
    features.write(path, made)
    n, d = made.h.shape
    return Answer((f"{n:,} representations of {d} dimensions: {path}",), {"path": str(path), "n": n, "d": d})
