"""``vergence export``: a run's encoder for other programs, with what a caller must know."""

import json
from pathlib import Path
from typing import Any

from vergence import tables
from vergence.integrations.exports import EXPORTS, SUFFIXES
from vergence.integrations.exports.card import card
from vergence.integrations.exports.source import contract, source
from vergence.runs.results import Answer
from vergence.runs.run import file_to_write, write_bytes

OTHER_FILES = (".npy", ".npz", ".parquet", ".csv", ".txt", ".json", ".yaml", ".html", ".png", ".jpg")
GRAPHS = ("torch", "onnx")  # the forms that compute, so that the standardization of inputs is inside


def export(run: Path, *, output: Path | None = None, form: str = "torch", preprocess: bool = False) -> Answer:
    """Write a run's encoder, or a fine-tuned one, for other programs: weights, a program, a folder of a library.

    Beside what is written lie a JSON file with what a caller must know (input size, layout, type and range, resizing,
    normalization, width, classes, versions, hash), which is in the file's own metadata too, and a model card.
    ``preprocess`` puts the conversion of bytes into the graph: uint8 in.
    """
    row = EXPORTS[form]
    made = source(run)
    options: dict[str, Any] = {"preprocess": True} if preprocess else {}
    if preprocess and "preprocess" not in tables.keywords("exports", form):
        raise ValueError(f"--preprocess is for the forms that compute ({', '.join(GRAPHS)}), and {form} holds weights.")
    name = "encoder" if made.head is None else "classifier"
    path = Path(output) if output else Path(run) / f"{name}{SUFFIXES.get(form, f'-{form}')}"
    if form in SUFFIXES:  # any other writes a folder
        _check_name(path, form)
        file_to_write(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    files = row(made, path, **options)
    if form in SUFFIXES:  # a folder has its own
        known = contract(made, inside=form in (*GRAPHS, "safetensors"), preprocess=preprocess)
        files += [
            write_bytes(path.with_name(f"{path.name}.json"), (json.dumps(known, indent=1) + "\n").encode()),
            write_bytes(path.with_name(f"{path.name}.md"), card(made, known, form=form, file=path.name).encode()),
        ]
    classes = f" and {len(made.classes)} classes" if made.head is not None else ""
    values = {"path": str(path), "form": form, "files": [str(file) for file in files], "sha256": made.digest}
    return Answer((f"Encoder of {made.width} dimensions{classes}: {', '.join(map(str, files))}",), values)


def _check_name(path: Path, form: str) -> None:
    """Refuse a name that says another form than is written, such as encoder.onnx for a program of torch."""
    own = "." + SUFFIXES[form].rpartition(".")[2]
    others = {"." + suffix.rpartition(".")[2]: name for name, suffix in reversed(SUFFIXES.items())}
    if path.suffix == own or path.suffix not in (*others, *OTHER_FILES):
        return
    instead = f"; --form {others[path.suffix]} writes {path.suffix}" if path.suffix in others else ""
    raise ValueError(f"{path} ends in {path.suffix}, and --form {form} writes {SUFFIXES[form]}{instead}.")
