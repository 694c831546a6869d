"""Pages of the site that are written from the tables of the code: methods, verbs, settings, public names."""

import dataclasses
import importlib
import inspect
import re
import shutil
import typing
from pathlib import Path

import generate
from drawings import branches

from vergence import tables
from vergence.config import Config
from vergence.diagnostics import FAULTS, SCALES, thermometer
from vergence.learning import LEARNERS
from vergence.methods import HEADS, METHODS, Method
from vergence.objectives import OBJECTIVES, nt_xent
from vergence.stages import STAGES

HERE = Path(__file__).parent
BATCH, WIDTH = 256, 128  # of the thermometers on the pages
FOLDED = ("alignment", "uniformity", "effective rank", "nearest center")  # columns of the whole table only
STATISTICS = ("barlow_twins", "vicreg", "lejepa", "tico", "w_mse", "mmcr", "frossl")  # objectives over a batch

# How methods fail, by what keeps their embeddings apart; the doctor's words are rows of FAULTS.
FAILURES = {
    "negatives": (
        "Negatives keep the embeddings apart. With a temperature that is too high they hardly push; with one that is "
        "too low only the nearest count, and those may be of the same class. Views that share too little cannot be "
        "matched: the loss then stays near chance.",
        ("temperature too high", "temperature too low", "false negatives", "dimensional collapse"),
    ),
    "statistics": (
        "Variances and correlations over the batch keep the dimensions apart. Small batches make them noisy, and with "
        "the weight of the terms wrong a few directions carry everything.",
        ("dimensional collapse", "complete collapse"),
    ),
    "asymmetry": (
        "Nothing pushes embeddings apart but the asymmetry of the two branches: without the predictor or the "
        "stop-gradient, or with too high a rate, all of them become one point, and the loss looks perfect.",
        ("complete collapse", "dimensional collapse", "frozen projector"),
    ),
    "prototypes": (
        "Each embedding is assigned to prototypes. All may be assigned to one of them, or each to all of them alike; "
        "codes that share the batch evenly (SwAV) or a centered and sharpened teacher (DINO) make it unlikely.",
        ("prototype collapse", "cluster collapse", "complete collapse", "dimensional collapse"),
    ),
    "bound": (
        "It raises a bound on the information between two views. The bound can rise while the features get worse, and "
        "it cannot exceed the logarithm of the batch: compare accuracies with those of the untrained encoder.",
        ("dimensional collapse", "no structure"),
    ),
    "own": (
        "It compares no pairs: it fails when its task can be solved without what you care about, or cannot be "
        "solved at all. The loss then falls, or stays, and accuracies do not exceed those of the untrained encoder.",
        ("dimensional collapse", "no structure"),
    ),
}

# Data that a method can be tried on as pasted, where the digits are not of its kind.
TRIED_ON = {
    "clip": "folder:photos",
    "colorization": "cifar10",
    "quick_thought": "text:sentences.tsv,pairs=next",
    "simcse": "text:sentences.tsv",
}


def write(folder: Path) -> None:
    """Write all generated pages into a folder, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    made = {f"methods/{name}.md": method(name, row) for name, row in METHODS.items()}
    made |= {f"api/{name}.md": names_of(name) for name in ROOMS}
    made["methods.md"], made["verbs.md"], made["settings.md"], made["api.md"] = methods(), verbs(), settings(), api()
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


# A page for each method


def methods() -> str:
    """The table of methods, with a page behind each name."""
    table = re.sub(r"^\| `(\w+)` \|", r"| [`\1`](methods/\1.md) |", generate.methods(), flags=re.MULTILINE)
    listed = "\n".join(f"methods/{name}" for name in METHODS)
    return f"# Methods\n\n{table}\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def method(name: str, row: Method) -> str:
    """Formula, drawing, defaults, thermometer, measured row, and how it fails."""
    parts = [f"# {name}", _about(row), branches(name, row), _formula(row), _defaults(name, row), _scale(row)]
    parts += [_measured(name), _failure(row), _start(name)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(row: Method) -> str:
    paper = generate.bibliography()[row.paper]
    words = generate.structure(row).rstrip(".")
    return f"{words[0].upper()}{words[1:]}. {paper}."


def _formula(row: Method) -> str:
    room, key = ("objectives", row.objective) if row.objective else ("learners", row.learner)
    text = generate.markdown(tables.summary(room, key, formulas=True))
    written = inspect.getdoc((OBJECTIVES if room == "objectives" else LEARNERS)[key]) or ""
    more = [_paragraph(part) for part in _later(written) if "math:" in part]
    if "c_i" in " ".join([text, *more]) and key != "nt_xent":
        (contrast,) = re.findall(r":math:`(c_i = [^`]*)`", inspect.getdoc(nt_xent) or "")
        more.append(f"with the contrast ${' '.join(contrast.split())}$ of anchor i against the other embeddings.")
    return "\n\n".join([f"## Formula\n\n`{key}`: {text}", *more])


def _later(written: str | None) -> list[str]:
    """The paragraphs of a docstring between its first one and its references."""
    return (written or "").split("\n\nReferences:")[0].split("\n\n")[1:]


def _paragraph(text: str) -> str:
    """A paragraph of a docstring, or a formula that stands alone."""
    if text.startswith(".. math::"):
        return "$$" + " ".join(text.removeprefix(".. math::").split()) + "$$"
    return generate.markdown(" ".join(text.split()))


def _defaults(name: str, row: Method) -> str:
    """What the row sets or takes, each under the option that changes it; what plays no part is left out."""
    settings = {
        f"--objective.{key.replace('_', '-')}": (row.hyperparameters.get(key, parameter.default), parameter.meaning)
        for key, parameter in row.declared().items()
        if row.hyperparameters.get(key, parameter.default) not in (None, tables.REQUIRED)
    }
    plain = {field.name: field.default for field in dataclasses.fields(Method)}
    for key, meaning in HEADS.items():
        kept = (getattr(row, key) != plain[key] and getattr(row, key)) or (key == "projector" and row.objective)
        if kept or (key == "momentum" and row.target == "momentum"):
            settings[f"--heads.{key.replace('_', '-')}"] = (getattr(row, key), meaning)
    settings["--encoder"] = (row.encoder, "the backbone; auto takes one that suits the data")
    settings["--views"] = (row.views, "how a sample becomes views; auto takes those that suit the data")
    settings |= {f"--view.{key}": (value, "an option of the views") for key, value in row.view.items()}
    settings["--optim.learning-rate"] = (row.learning_rate, "of AdamW; never rescaled by the batch")
    lines = [f"| `{key}` | {_given(value)} | {generate.cell(told)} |" for key, (value, told) in settings.items()]
    help_line = f"`vergence train --method {name} --help` shows all that may be changed."
    return "\n".join(["## Defaults", "", "| option | value | meaning |", "|---|---|---|", *lines, "", help_line])


def _given(value: object) -> str:
    """A value as it is written on the command line."""
    return f"`{' '.join(map(str, value))}`" if isinstance(value, tuple) and value else _code(value).replace("'", "")


def _scale(row: Method) -> str:
    if row.objective not in SCALES:
        return (
            "## Thermometer\n\nIts loss has no known value at chance or floor: the doctor judges the embeddings alone."
        )
    width = row.prototypes or (row.projector or (WIDTH,))[-1] or WIDTH
    what = "prototypes" if row.prototypes else "dimensions"
    read = thermometer(row.objective, n=BATCH, d=width, **row.reading())
    if read.chance == read.floor:
        return (
            f"## Thermometer\n\nThe loss is **{read.chance:g}** when all embeddings coincide, and nothing can be below "
            "that: collapse and success look alike. Watch the embeddings: `vergence doctor RUN`, or the effective rank "
            "in the log."
        )
    own = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in row.reading().items())
    size = f"--batch {BATCH}" + (f" --width {width}" if width != WIDTH else "")
    asked = " ".join(filter(None, [f"vergence doctor --objective {row.objective}", size, own]))
    return (
        f"## Thermometer\n\nIn a batch of {BATCH} with {width} {what} the loss is **{read.chance:.4g}** when all "
        f"embeddings coincide (chance) and never below **{read.floor:.4g}** (floor). Read yours, here one halfway:\n\n"
        f"```bash\n{asked} --loss {(read.chance + read.floor) / 2:.4g}\n```"
    )


def _measured(name: str) -> str:
    """The rows of the measured tables that are about a method: one table, a line for each budget."""
    found: dict[tuple[str, ...], list[str]] = {}
    heading, head = "", []
    for line in (HERE / "measured" / "methods.md").read_text(encoding="utf-8").splitlines():
        heading = line.lstrip("# ") if line.startswith("## ") else heading
        head = _cells(line) if line.startswith("| method |") else head
        if re.match(rf"\| `?{name}`? \|", line):
            row = dict(zip(head, _cells(line), strict=True))
            kept = [key for key in head[1:] if key not in FOLDED]
            found.setdefault(tuple(kept), []).append(f"| {heading} | {' | '.join(row[key] for key in kept)} |")
    told = [
        "\n".join([f"| | {' | '.join(head)} |", "|---|" + "---|" * len(head), *rows, ""])
        for head, rows in found.items()
    ]
    words = "All of them, with geometry: [every method, measured](../../measured/methods.md)."
    if not told and METHODS[name].views in ("pairs", "dropout"):
        words = "It learns from texts, of which the tables of images say nothing; scores are in [texts](../../text.md)."
    elif not told:
        words = "Not measured yet beside the others; see [every method, measured](../../methods_measured.md)."
    return "\n".join(["## Measured", "", *told, words])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _failure(row: Method) -> str:
    words, faults = FAILURES[_family(row)]
    told = {fault: " ".join((inspect.getdoc(FAULTS[fault]) or "").split("\n\n")[0].split()) for fault in faults}
    lines = [f"| {fault} | {generate.markdown(text)} |" for fault, text in told.items()]
    return "\n".join(["## How it fails", "", words, "", "| the doctor says | when |", "|---|---|", *lines])


def _family(row: Method) -> str:
    if row.objective is None:
        return "bound" if row.learner == "infomax" else "own"
    if row.prototypes:
        return "prototypes"
    if row.objective == "negative_cosine":
        return "asymmetry"
    return "statistics" if row.objective in STATISTICS else "negatives"


def _start(name: str) -> str:
    data = TRIED_ON.get(name, "digits")
    note = {
        "clip": "\n\n`photos` is a folder of images with a `captions.csv` (columns `file` and `caption`).",
        "simcse": "\n\n`sentences.tsv` has a text on each line.",
        "quick_thought": "\n\n`sentences.tsv` has a text on each line, in the order in which they were written.",
    }.get(name, "")
    command = f"vergence train --data {data} --method {name} --epochs 2 --run runs/{name}"
    return f"## Start\n\n```bash\n{command}\n```{note}"


def _code(value: object) -> str:
    return f"`{value!r}`" if value not in ("", (), {}) else "none"


# Reference


DEFAULTS = {"None": "none", "False": "off"}  # what a reader of a command line calls them


def verbs() -> str:
    """Every verb with every option, from the same signatures as the command line."""
    lines = ["# Verbs and options", "", "Made from the signatures, as `vergence VERB --help` is."]
    for verb in STAGES:
        lines += ["", f"## {verb}", "", generate.markdown(tables.summary("stages", verb, formulas=True)), ""]
        lines += ["| option | default | meaning |", "|---|---|---|"]
        for name, parameter in tables.parameters("stages", verb).items():
            if name in ("settings", "options", "hyperparameters"):
                continue
            shown = DEFAULTS.get(str(parameter.default)) or _code(parameter.default)
            shown = "required" if parameter.default is tables.REQUIRED else shown
            option = f"`{name.upper()}`" if parameter.positional else f"`--{name.replace('_', '-')}`"
            lines.append(f"| {option} | {shown} | {generate.cell(parameter.meaning)} |")
        if verb == "train":
            lines += ["", "Beside these every [setting](settings.md) is an option: `--optim.learning-rate 0.1`."]
    return "\n".join([*lines, ""])


def settings() -> str:
    """Every key of a config, with its type, default and meaning."""
    lines = ["# Settings", "", "What a run depends on, as `config.yaml` records it and `vergence train` takes it.", ""]
    lines += ["| key | type | default | meaning |", "|---|---|---|---|", *_keys(Config)]
    return "\n".join([*lines, ""])


def _keys(kind: type, prefix: str = "") -> list[str]:
    meanings, lines = _documented(kind), []
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.type):
            lines += _keys(typing.cast(type, field.type), f"{prefix}{field.name}.")
            continue
        default = field.default if field.default is not dataclasses.MISSING else {}
        name = re.sub(r"typing\.|<class '|'>", "", str(field.type)).split(".")[-1]
        told = generate.cell(meanings.get(field.name, ""))
        lines.append(f"| `{prefix}{field.name}` | {generate.cell(name)} | {_code(default)} | {told} |")
    return lines


def _documented(kind: type) -> dict[str, str]:
    """Strings that follow the fields of a dataclass."""
    found = re.findall(r'^    (\w+): [^\n]*\n    """(.*?)"""', inspect.getsource(kind), re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in found}


# Public names

ROOMS = (
    "objectives", "methods", "learning", "views", "data", "encoders", "features", "evaluation", "diagnostics", "theory",
    "information", "claims", "report", "integrations", "runs.run", "runs.results", "config", "tables", "types",
)  # fmt: skip


def api() -> str:
    """The rooms of the package, a page each."""
    listed = "\n".join(f"api/{name}" for name in ROOMS)
    words = "Every name with its docstring and a link to its source."
    return f"# Public names\n\n{words}\n\n```{{toctree}}\n\n{listed}\n```\n"


def names_of(room: str) -> str:
    module = importlib.import_module(f"vergence.{room}")
    imported = "\n   :imported-members:" if hasattr(module, "__all__") else ""
    return f"# vergence.{room}\n\n```{{eval-rst}}\n.. automodule:: vergence.{room}\n   :members:{imported}\n```\n"
