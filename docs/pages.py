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
from vergence.methods import METHODS, Method
from vergence.objectives import OBJECTIVES
from vergence.stages import STAGES

HERE = Path(__file__).parent
BATCH, WIDTH = 256, 128  # of the thermometers on the pages

# How methods fail, by what keeps their embeddings apart; the doctor's word for each is a row of FAULTS.
FAILURES = {
    "negatives": (
        "Negatives keep the embeddings apart. With a temperature that is too high they hardly push; with one that is "
        "too low only the nearest count, and those may be of the same class. Views that share too little cannot be "
        "matched.",
        ("temperature too high", "temperature too low", "false negatives", "too weak views"),
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
    "own": (
        "It has no pairs to compare: it fails when its task can be solved without what you care about, or cannot be "
        "solved at all. The loss then falls, or stays, and accuracies do not exceed those of the untrained encoder.",
        ("dimensional collapse",),
    ),
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
    return f"{generate.structure(row).rstrip('.').capitalize()}. {paper}."


def _formula(row: Method) -> str:
    room, key = ("objectives", row.objective) if row.objective else ("learners", row.learner)
    try:
        text = generate.markdown(tables.summary(room, key, formulas=True))
    except KeyError:
        return ""
    written = inspect.getdoc(OBJECTIVES[key]) if room == "objectives" else ""
    rest = (written or "").split("\n\nReferences:")[0].split("\n\n")[1:]  # what follows the first paragraph
    more = [_paragraph(part) for part in rest if "math:" in part]
    return "\n\n".join([f"## Formula\n\n`{key}`: {text}", *more])


def _paragraph(text: str) -> str:
    """A paragraph of a docstring, or a formula that stands alone."""
    if text.startswith(".. math::"):
        return "$$" + " ".join(text.removeprefix(".. math::").split()) + "$$"
    return generate.markdown(" ".join(text.split()))


def _defaults(name: str, row: Method) -> str:
    changed = [
        (field.name, getattr(row, field.name))
        for field in dataclasses.fields(row)
        if field.name not in ("objective", "paper", "hyperparameters", "learner", "labels")
    ]
    lines = [f"| `objective.{key}` | {_code(value)} |" for key, value in row.hyperparameters.items()]
    lines += [f"| `{key}` | {_code(value)} |" for key, value in changed]
    help_line = f"`vergence train --method {name} --help` shows what may be changed, with meanings."
    return "\n".join(["## Defaults", "", "| setting | value |", "|---|---|", *lines, "", help_line])


def _scale(row: Method) -> str:
    if row.objective not in SCALES:
        return (
            "## Thermometer\n\nIts loss has no known value at chance or floor: the doctor judges the embeddings alone."
        )
    try:
        read = thermometer(row.objective, n=BATCH, d=WIDTH, **row.reading())
    except (TypeError, ValueError):
        return ""
    return (
        f"## Thermometer\n\nIn a batch of {BATCH} with {WIDTH} dimensions the loss is **{read.chance:.4f}** when all "
        f"embeddings coincide (chance) and never below **{read.floor:.4f}** (floor). Read yours:\n\n"
        f"```bash\nvergence doctor --objective {row.objective} --batch {BATCH} "
        f"--loss {(read.chance + read.floor) / 2:.3f}\n```"
    )


def _measured(name: str) -> str:
    """The rows of the measured tables that are about a method."""
    found, heading, head = [], "", ""
    for line in (HERE / "methods_measured.md").read_text(encoding="utf-8").splitlines():
        heading = line.lstrip("# ") if line.startswith("## ") else heading
        head = line if line.startswith("| method |") else head
        if re.match(rf"\| `?{name}`? \|", line):
            found += [f"{heading}:", "", head, "|" + "---|" * (head.count("|") - 1), line, ""]
    if not found:
        words = "Not measured yet beside the others; see [every method, measured](../../methods_measured.md)."
        return f"## Measured\n\n{words}"
    return "\n".join(["## Measured", "", *found, "All of them: [every method, measured](../../methods_measured.md)."])


def _failure(row: Method) -> str:
    words, faults = FAILURES[_family(row)]
    lines = []
    for fault in faults:
        for key, detector in FAULTS.items():
            if fault in (key, key.replace("_", " ")):
                told = " ".join((inspect.getdoc(detector) or "").split("\n\n")[0].split())
                lines.append(f"| {fault} | {generate.markdown(told)} |")
    table = ["", "| the doctor says | when |", "|---|---|", *lines] if lines else []
    return "\n".join(["## How it fails", "", words, *table])


def _family(row: Method) -> str:
    if row.objective is None:
        return "own"
    if row.objective in ("negative_cosine",) or (row.target != "online" and not row.queue and row.predictor):
        return "asymmetry" if row.objective == "negative_cosine" else "negatives"
    return "statistics" if row.objective in ("barlow_twins", "vicreg", "lejepa") else "negatives"


def _start(name: str) -> str:
    return f"## Start\n\n```bash\nvergence train --data digits --method {name} --epochs 2 --run runs/{name}\n```"


def _code(value: object) -> str:
    return f"`{value!r}`" if value not in ("", (), {}) else "none"


# Reference


def verbs() -> str:
    """Every verb with every option, from the same signatures as the command line."""
    lines = ["# Verbs and options", "", "Made from the signatures, as `vergence VERB --help` is."]
    for verb in STAGES:
        lines += ["", f"## {verb}", "", generate.markdown(tables.summary("stages", verb, formulas=True)), ""]
        lines += ["| option | default | meaning |", "|---|---|---|"]
        for name, parameter in tables.parameters("stages", verb).items():
            if name in ("settings", "options", "hyperparameters"):
                continue
            shown = "required" if parameter.default is tables.REQUIRED else _code(parameter.default)
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
