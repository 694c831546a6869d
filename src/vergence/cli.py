"""The command line: a verb for each stage of the pipeline.

Nothing is declared here. Verbs and their options come from the signatures in ``pipeline.py``, settings from ``Config``,
a method's own settings from its row; all are read without importing torch, so that help appears at once.
"""

import builtins
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from vergence import config as configs
from vergence import tables
from vergence.config import Config, Options
from vergence.methods import HEADS, METHODS

EXPECTED = (ValueError, OSError, RuntimeError, ImportError)  # said to a person without a traceback
FAILED = 1
MISUSED = 2
INTERRUPTED = 130
TRY_AGAIN = 75  # EX_TEMPFAIL: saved and stopped by a signal; schedulers requeue on it

# What can be listed, and the room whose table it is.
LISTED = {"methods": "methods", "objectives": "objectives", "encoders": "encoders", "views": "views", "data": "data"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and print what it found."""
    verb, *arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if verb in ("-h", "--help", "help"):
        print(overview())
        return 0
    try:
        if verb == "list":
            return listing(arguments)
        if verb not in tables.names("pipeline"):
            raise tables.UnknownName("verb", verb, [*tables.names("pipeline"), "list"])
        return run(verb, arguments)
    except (KeyboardInterrupt, *EXPECTED) as error:
        return _explained(error)


def _explained(error: BaseException) -> int:
    """Say an error to a person and return the exit status for it."""
    if isinstance(error, KeyboardInterrupt):
        print("\nInterrupted. What was saved is kept; --resume continues a training run.", file=sys.stderr)
        return INTERRUPTED
    print(f"vergence: {error}", file=sys.stderr)
    return TRY_AGAIN if type(error).__name__ == "Stopped" else MISUSED


def overview() -> str:
    """What ``vergence --help`` prints: every verb with the first sentence of its docstring."""
    verbs = [f"  {name:12} {tables.summary('pipeline', name)}" for name in tables.names("pipeline")]
    return "\n".join(
        [
            "usage: vergence VERB [options]        vergence VERB --help explains a verb",
            "",
            *verbs,
            f"  {'list':12} Print what there is to choose from: {', '.join(LISTED)}.",
            "",
            "First steps:",
            "  vergence train --data digits --run runs/first     an encoder and a page in a minute",
            "  vergence doctor embeddings.npy                    what are these embeddings worth?",
            "  vergence doctor --loss 5.545 --objective nt_xent --batch 128 --temperature 0.5",
        ]
    )


def run(verb: str, argv: Sequence[str]) -> int:
    """Parse the options of a verb, call it, and print its answer as text or JSON."""
    import tyro

    values = dataclasses.asdict(
        tyro.cli(
            form(verb, argv),
            args=list(argv),
            prog=f"vergence {verb}",
            description=tables.summary("pipeline", verb),
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    )
    as_json = values.pop("json")
    if verb == "train":
        settings = {field.name: values.pop(field.name) for field in dataclasses.fields(Config)}
        values["settings"] = configs.from_mapping(settings)
        values["quiet"] = values["quiet"] or as_json
    from vergence import pipeline

    values.pop("config", None)
    answer = getattr(pipeline, tables.function("pipeline", verb))(**values)
    text = json.dumps(answer.to_dict(), indent=1, default=float) if as_json else str(answer)
    if text:
        print(text)
    return FAILED if getattr(answer, "failed", False) else 0


def listing(argv: Sequence[str]) -> int:
    """Print a table, or all of them, from the source text alone."""
    wanted = [word for word in argv if not word.startswith("-")] or list(LISTED)
    for name in wanted:
        if name not in LISTED:
            raise tables.UnknownName("table", name, LISTED)
    found = {name: _listed(LISTED[name]) for name in wanted}
    if "--json" in argv:
        print(json.dumps(found, indent=1))
        return 0
    for name, rows in found.items():
        width = max(map(len, rows))
        print("\n".join([name.upper(), *(f"  {row:{width}}  {text}" for row, text in rows.items()), ""]))
    return 0


def _listed(room: str) -> dict[str, str]:
    if room == "methods":
        return {name: f"{row.describe()}  [{row.paper}]" for name, row in METHODS.items()}
    return {name: tables.summary(room, name) for name in tables.names(room)}


def form(verb: str, argv: Sequence[str]) -> type:
    """A dataclass with a field for every option of a verb."""
    fields: list[tuple[str, Any, Any]] = []
    meanings = tables.glossary("pipeline")
    for name, parameter in tables.parameters("pipeline", verb).items():
        if parameter.annotation == "Config":
            fields += _settings(argv)
        else:
            fields.append(
                _field(name, _type(parameter), parameter.default, meanings.get(name, ""), parameter.positional)
            )
    if verb == "doctor":
        fields += _objective_fields(_word(argv, "objective"), skip={name for name, *_ in fields})
    fields.append(_field("json", bool, False, "Print the result as JSON."))
    fields.sort(key=lambda field: field[2] is not dataclasses.MISSING)
    return dataclasses.make_dataclass(verb.capitalize(), fields)


def _settings(argv: Sequence[str]) -> list[tuple[str, Any, Any]]:
    """The fields of Config, with the options of the chosen method, views and encoder in place of open mappings."""
    given: dict[str, Any] = {
        name: word for name in ("data", "method", "encoder", "views") if (word := _word(argv, name))
    }
    base = configs.with_own_rate(dataclasses.replace(_starting_point(argv), **given))
    options = {
        **configs.method_options(base.method),
        "view": configs.view_options(base.method, base.views),
        "backbone": configs.row_options("encoders", base.encoder),
    }
    annotations = {
        "objective": METHODS[base.method].declared(),
        "heads": {},
        "view": _declared("views", base.views),
        "backbone": _declared("encoders", base.encoder),
    }
    meanings = {
        "objective": tables.glossary("objectives") | tables.glossary("learners"),
        "heads": HEADS,
        "view": tables.glossary("views"),
        "backbone": tables.glossary("encoders"),
    }
    documents, hints = tables.field_meanings("config", "Config"), get_type_hints(Config)
    fields = [_field("config", Path | None, None, "Settings from a YAML file; the options given here come after it.")]
    for field in dataclasses.fields(Config):
        default = getattr(base, field.name)
        if field.type == Options:
            known = {**options[field.name], **default}
            kind = _options_form(field.name, known, meanings[field.name], annotations[field.name])
            fields.append((field.name, kind, dataclasses.field(default_factory=kind)))
        else:
            fields.append(_field(field.name, hints[field.name], default, documents.get(field.name, "")))
    return fields


def _starting_point(argv: Sequence[str]) -> Config:
    """The config before options: of the run that is resumed, of ``--config``, or the defaults."""
    recorded = Path(_word(argv, "run") or "runs/latest") / "config.yaml"
    if "--resume" in argv and recorded.exists():
        return configs.read(recorded)
    path = _word(argv, "config")
    return configs.read(path) if path else Config()


def _declared(room: str, name: str) -> dict[str, tables.Parameter]:
    return tables.keywords(room, name) if name in tables.names(room) else {}


def _options_form(
    name: str, known: Mapping[str, Any], meanings: Mapping[str, str], declared: Mapping[str, tables.Parameter]
) -> type:
    fields = [
        _field(key, _option_type(key, value, declared), value, meanings.get(key, "")) for key, value in known.items()
    ]
    return dataclasses.make_dataclass(name.capitalize(), fields, frozen=True)


def _objective_fields(objective: str | None, skip: set[str]) -> list[tuple[str, Any, Any]]:
    """The hyperparameters of the objective that the doctor is asked about, each with the paper's default."""
    known = tables.keywords("objectives", objective) if objective else {}
    meanings = tables.glossary("objectives")
    return [
        _field(name, _option_type(name, parameter.default, known), parameter.default, meanings.get(name, ""))
        for name, parameter in known.items()
        if name not in skip | {"negatives"}
    ]


def _field(name: str, kind: Any, default: Any, meaning: str = "", positional: bool = False) -> tuple[str, Any, Any]:
    import tyro

    marks = (tyro.conf.Positional,) if positional else ()
    metavar = name.upper() if default is None else None  # tyro would print {None}|TYPE
    annotated = Annotated[(kind, tyro.conf.arg(help=meaning, metavar=metavar), *marks)]  # type: ignore[misc]
    if default is tables.REQUIRED:
        return name, annotated, dataclasses.MISSING
    if dataclasses.is_dataclass(default):
        return name, kind, dataclasses.field(default=default)
    return name, annotated, dataclasses.field(default=default)


def _type(parameter: tables.Parameter) -> Any:
    """The type that an annotation of ``pipeline.py`` names; arrays come as file names on the command line."""
    names = {"Path": Path, "Literal": Literal, "Array": str}
    annotation = parameter.annotation.replace("str | Path", "str")
    return eval(annotation, {**vars(builtins), **names})


def _option_type(name: str, default: Any, declared: Mapping[str, tables.Parameter]) -> Any:
    """The type of a row's option: that of its default, or where there is none what the signature says."""
    if isinstance(default, tuple):
        return tuple[(type(default[0]) if default else int, ...)]  # type: ignore[misc]
    if name in declared and (default is None or declared[name].choices):
        return _type(declared[name])
    return float | None if default is None else type(default)


def _word(argv: Sequence[str], name: str) -> str | None:
    """The value of an option that decides which other options exist, read before they are."""
    for place, word in enumerate(argv):
        if word == f"--{name}" and place + 1 < len(argv):
            return argv[place + 1]
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
    return None
