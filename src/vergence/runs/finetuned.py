"""Fine-tuned models of a run: a folder for each number of labels, with the weights, the classes and the figures."""

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file
from safetensors.torch import save as serialize
from torch import Tensor, nn

from vergence.counters import drawn
from vergence.runs import results
from vergence.runs.run import Run, write_bytes

FOLDER = "finetuned"
FACTS, WEIGHTS = "finetuned.json", "model.safetensors"
VERSION = 1


def chosen(spec: str, labels: Tensor, *, seed: int) -> Tensor:
    """The samples whose labels are used: ``1%``, ``5-per-class``, ``200`` or ``all``, drawn evenly over classes."""
    classes = labels.unique()
    each = re.fullmatch(r"(\d+)-per-class", spec)
    if each and int(each[1]):
        members = [torch.nonzero(labels == label).flatten() for label in classes]
        most = max(map(len, members))
        if int(each[1]) > most:
            raise ValueError(f"No class has more than {most} labels, fewer than {spec}: say all.")
        return torch.cat([rows[drawn(len(rows), int(each[1]), seed=seed)] for rows in members]).sort().values
    share = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", spec)
    if spec == "all" or (share and float(share[1]) == 100):
        return torch.arange(len(labels))
    if not share and not re.fullmatch(r"\d+", spec):
        raise ValueError(f"Labels are given as 1%, 10%, 5-per-class, 200 or all, not {spec!r}.")
    count = round(len(labels) * float(share[1]) / 100) if share else int(spec)
    if share and not 0 < float(share[1]) < 100:
        raise ValueError(f"A share of the labels is above 0 % and at most 100 %, not {spec}.")
    if count > len(labels):
        raise ValueError(f"There are {len(labels)} labels, fewer than {spec}: say all.")
    if count < len(classes):
        raise ValueError(
            f"{spec} of the labels is {count} of {len(labels)}, fewer than the {len(classes)} classes: give more."
        )
    return drawn(len(labels), count, groups=labels, seed=seed)


def folder(run: Run, spec: str) -> Path:
    """Where the model with these labels lies: ``finetuned/10_percent``, ``finetuned/5_per_class``."""
    return run.path / FOLDER / re.sub(r"\W+", "_", spec.replace("%", "_percent")).strip("_").replace("__", "_")


def write(place: Path, model: nn.Module, found: results.FineTuning, *, run: Run, classes: Sequence[str]) -> None:
    """Leave the model, its classes and its figures in a folder, the facts last: a folder with facts is whole."""
    place.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    write_bytes(place / WEIGHTS, serialize(tensors))
    facts = {"version": VERSION, "run": str(run.path.resolve()), "classes": list(classes), "weights": run.fingerprint()}
    facts["finetuning"] = msgspec.to_builtins(found)
    write_bytes(place / FACTS, (json.dumps(facts, indent=1) + "\n").encode())


def read_all(run: Run) -> tuple[results.FineTuning, ...]:
    """What was found with each number of labels, fewest first; not what an encoder gave that was trained on since."""
    found = []
    for path in sorted((run.path / FOLDER).glob(f"*/{FACTS}")):
        try:
            known = facts(path.parent)
            if known["weights"] in ("", run.fingerprint()):
                found.append(msgspec.convert(known["finetuning"], results.FineTuning))
        except (ValueError, OSError) as error:  # a run is worth examining without its fine-tuned models
            warnings.warn(f"{path.parent} is left out: {error}", stacklevel=2)
    return tuple(sorted(found, key=lambda each: each.count))


def facts(place: Path) -> dict[str, Any]:
    """What is written down about a fine-tuned model."""
    try:
        found = json.loads((place / FACTS).read_text(encoding="utf-8"))
        return {"weights": found.get("weights", ""), **{key: found[key] for key in ("run", "classes", "finetuning")}}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{place / FACTS} is damaged ({error}); `vergence finetune` writes it again.") from error


def is_finetuned(place: Path) -> bool:
    return (place / FACTS).is_file()


def run_of(place: Path) -> Run:
    """The run that a fine-tuned model belongs to: the folder above, or where it was when it was written."""
    above = place.parent.parent
    return Run(above if (above / "config.yaml").exists() else facts(place)["run"])


def model_of(place: Path, encoder: nn.Module) -> nn.Sequential:
    """A fine-tuned model: its weights in an encoder of the run's architecture, and its head."""
    tensors = load_file(place / WEIGHTS)
    classes, width = tensors["1.weight"].shape
    model = nn.Sequential(encoder, nn.Linear(width, classes))
    model.load_state_dict(tensors)
    return model.eval()
