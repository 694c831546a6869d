"""The command line: a verb for each stage.

Nothing is declared here. Verbs and their options come from the signatures in ``stages/``, settings from ``Config``, the
options of methods, objectives, views and encoders from their rows, wherever those come from. For rows of ours all of it
is read without importing torch, so that help appears at once.
"""

import contextlib
import dataclasses
import io
import json
import logging
import math
import os
import pathlib
import re
import sys
import typing
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from vergence import config as configs
from vergence import tables
from vergence.config import Config, Options
from vergence.methods import HEADS, METHODS
from vergence.stages import STAGES
from vergence.values import LARGEST, shown

# What a person, a file or a machine can cause. Anything else is a mistake of ours and is said to be one.
EXPECTED = (ValueError, OSError, RuntimeError, ImportError, MemoryError)
OURS = (NotImplementedError, RecursionError)  # kinds of RuntimeError that nobody else can cause
FAILED = 1
TRUTHS = {"true": True, "false": False}
MISUSED = 2
BUG = 70  # EX_SOFTWARE
TRY_AGAIN = 75  # EX_TEMPFAIL: saved and stopped by a signal; schedulers requeue on it
INTERRUPTED = 130
CLOSED = 141  # what a shell says of a program that ended with SIGPIPE
# The largest counts of options that cost memory or time in proportion.
MOST = {
    "batch": 2**20,  # the largest anyone has trained with (Zhai et al., 2023, SigLIP)
    "negatives": 2**20,
    "hard_negatives": 2**10,
    "width": 2**20,
    "view_count": 10_000,
    "resamples": 10_000,
    "per_class": 1_000_000,
    "folds": 1_000,
}
LONGEST = 4000  # characters of an error that are printed


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and print what it found."""
    # Threads that wait for each other sleep: spinning, as is the default, two of them took nine times the processor
    # time of one where other programs wanted the cores (docs/engine.md). OpenMP reads this when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # The OpenBLAS of numpy and of scipy knows no such setting: its threads spin beside those of torch, which does the
    # large products here. On a busy machine one product took ten times the processor time with two of them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    verb, *arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]
    _open_outputs()
    try:
        with contextlib.nullcontext() if debug else plain_warnings(), _stoppable(verb):
            status = _answered(verb, arguments)
            sys.stdout.flush()  # here, where a full disk or a reader that has gone can still be said
            return status
    except (KeyboardInterrupt, Exception) as error:
        if debug:
            raise
        return _explained(error, verb)


def _answered(verb: str, arguments: Sequence[str]) -> int:
    if verb in ("-h", "--help", "help"):
        print(overview())
        return 0
    if verb in ("-V", "--version", "version"):
        print(f"vergence {metadata.version('vergence')}")
        return 0
    if verb not in STAGES:
        raise tables.UnknownName("verb", verb, STAGES)
    return run(verb, arguments)


def _open_outputs() -> None:
    """Somewhere to write where a caller has closed an output; names that are not text are shown with their bytes."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _explained(error: BaseException, verb: str) -> int:
    """Say an error to a person and return the exit status for it; ``--debug`` shows the traceback instead."""
    said = _said(error)
    said = said if len(said) <= LONGEST else f"{said[:LONGEST]} ..."
    if isinstance(error, OSError) and not error.filename:  # whatever is left of the answer cannot be written either
        _drop_output()
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone, as in `vergence list | head`
        return CLOSED
    if isinstance(error, KeyboardInterrupt):
        stopped = type(error).__name__ == "Stopped"
        said = said if stopped else "Interrupted. What was saved is kept; --resume continues a training run."
        print(f"\nvergence: {said}", file=sys.stderr)
        return TRY_AGAIN if stopped else INTERRUPTED
    if isinstance(error, EXPECTED) and not isinstance(error, OURS):
        memory = isinstance(error, MemoryError) or "can't allocate memory" in said or "not enough memory" in said
        print(f"vergence: {'Not enough memory: ' if memory else ''}{said}", file=sys.stderr)
        return MISUSED
    print(
        f"vergence: This is a bug in Vergence: {type(error).__name__}: {said}\n"
        f"Please report it to its authors with what `vergence {verb} ... --debug` prints.",
        file=sys.stderr,
    )
    return BUG


def _said(error: BaseException) -> str:
    """The words of an error; of the system's, without their numbers: the file, and what is the matter with it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}." if error.filename else str(error.strerror)
    return str(error) if str(error).strip() else type(error).__name__


def _drop_output() -> None:
    """Let nothing more be written to an output that takes nothing, not even when the interpreter ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Our warnings as one plain line each, once; those of libraries are for programmers and wait for ``--debug``."""
    said, home = set(), str(Path(__file__).parent)

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if issubclass(category, UserWarning) and filename.startswith(home) and text not in said:
            said.add(text)
            print(f"Note: {text}", file=sys.stderr)

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells where it keeps its fonts
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _stoppable(verb: str) -> Any:
    """For training, signals are taken from the first moment on: before torch is loaded there is nothing to save."""
    if verb != "train":
        return contextlib.nullcontext()
    from vergence.runs.signals import Signals

    return Signals(patient=False, saying=lambda: "Stopped before training began; the same command starts it again.")


def overview() -> str:
    """What ``vergence --help`` prints: every verb with the first sentence of its docstring."""
    verbs = [f"  {name:12} {tables.summary('stages', name)}" for name in STAGES]
    return "\n".join(
        [
            "usage: vergence VERB [options]        vergence VERB --help explains a verb",
            "",
            *verbs,
            "",
            "First steps:",
            "  vergence train --data digits --run runs/first     an encoder and a page in a minute",
            "  vergence doctor embeddings.npy                    what are these embeddings worth?",
            "  vergence doctor --loss 5.545 --objective nt_xent --batch 128 --temperature 0.5",
            "",
            "--debug after any verb shows the whole traceback of an error.",
        ]
    )


def run(verb: str, argv: Sequence[str]) -> int:
    """Parse the options of a verb, call it, and print its answer as text or JSON."""
    _check_place()
    if "" in argv:
        raise ValueError("An argument is empty: perhaps a variable of the shell is not set.")
    argv = _spelled(argv)
    if verb == "train":
        argv = ["--objective.name" if word == "--objective" else word for word in argv]
        argv = [word.replace("--objective=", "--objective.name=", 1) for word in argv]
    values = dataclasses.asdict(_parsed(verb, argv))
    _check_counts(verb, values)
    as_json = values.pop("json")
    values.pop("config", None)
    if verb == "train":
        settings = {field.name: values.pop(field.name) for field in dataclasses.fields(Config) if field.name in values}
        values["settings"] = configs.from_mapping({key: _told(value) for key, value in settings.items()})
    if as_json and "quiet" in values:
        values["quiet"] = True
    answer = tables.loaded(STAGES[verb])(**values)
    text = json.dumps(_strict(answer.to_dict()), indent=1, default=float) if as_json else str(answer)
    if text:
        print(text)
    return FAILED if getattr(answer, "failed", False) else 0


def _check_place() -> None:
    """Refuse a working directory that is gone: libraries end the process over it."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise FileNotFoundError("The working directory is not there any more: change to another.") from None


def _parsed(verb: str, argv: Sequence[str]) -> Any:
    """The options of a verb as values; what is wrong with them in one sentence."""
    import tyro

    said, parts = io.StringIO(), (tyro.conf.FlagCreatePairsOff,)
    made, description = form(verb, argv), tables.summary("stages", verb)
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                made, args=_flags(made, argv), prog=f"vergence {verb}", description=description, config=parts
            )
    except SystemExit as ended:
        if not ended.code:
            raise
        raise ValueError(_in_a_sentence(said.getvalue(), verb)) from None


def _flags(made: Any, argv: Sequence[str]) -> list[str]:
    """Switches as tyro takes them, which knows one of --x, --no-x and --x True, by their default; all are known."""
    known, found, words = dict(_switches(made)), list[str](), list(argv)
    while words:
        option, mark, value = (word := words.pop(0)).partition("=")
        stem, dot, last = option.removeprefix("--").replace("_", "-").rpartition(".")
        name = f"{stem}{dot}{last}"
        denied = name not in known and last.startswith("no-")
        name = f"{stem}{dot}{last.removeprefix('no-')}" if denied else name
        if not mark and name in known and words and words[0].lower() in TRUTHS:
            value = words.pop(0)
        if not option.startswith("--") or name not in known or value.lower() not in ("", *TRUTHS):
            found.append(word)
            continue
        wanted, default = TRUTHS[value.lower() or "true"] != denied, known[name]
        if default is None:
            found += [f"--{name}", str(wanted)]
        elif wanted != default:
            found.append(f"--{name}" if wanted else f"--{stem}{dot}no-{last.removeprefix('no-')}")
    return found


def _switches(made: Any, stem: str = "") -> Iterator[tuple[str, bool | None]]:
    """The options of a form that are true or false, under their dotted names, with their defaults."""
    for field in dataclasses.fields(made):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        default = default if isinstance(made, type) else getattr(made, field.name)
        name = f"{stem}{field.name.replace('_', '-')}"
        kind = typing.get_args(field.type)[0] if typing.get_origin(field.type) is Annotated else field.type
        if dataclasses.is_dataclass(default):
            yield from _switches(default, f"{name}.")
        elif kind in (bool, bool | None) and isinstance(default, bool | None):
            yield name, default


def _in_a_sentence(boxed: str, verb: str) -> str:
    """What tyro says in a box, as a line: which option, what it takes, what it got."""
    lines = [line.strip(" │|╭╮╰╯─") for line in boxed.splitlines()]
    lines = [line for line in lines if line.strip("- ")]  # the first is the title
    text = " ".join(lines[1:]).partition(" For full helptext")[0].replace(" Perhaps you meant:", ". Perhaps you meant")
    wrong = re.match(r"Error parsing (\S+): (.*)", text)
    if wrong:
        got = re.findall(r"'([^']*)'", wrong[2])
        kind = "a number" if re.search("float", wrong[2], re.IGNORECASE) else "a whole number"
        if got and re.search("int|float", wrong[2], re.IGNORECASE):
            text = f"{wrong[1]} must be {kind}, got {got[0]!r}"
    return f"{text.rstrip('.')}. `vergence {verb} --help` lists the options."


def _strict(value: Any) -> Any:
    """Values as JSON has them: it knows neither NaN nor infinity, which become null."""
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _check_counts(verb: str, values: Mapping[str, Any]) -> None:
    """Refuse counts that no machine could serve, before memory or patience runs out."""
    for name, value in values.items():
        most = MOST.get(name, LARGEST) if verb != "train" else LARGEST
        if isinstance(value, int) and name != "seed" and abs(value) > most:
            raise ValueError(f"--{name.replace('_', '-')} must be at most {most:,}, got {shown(value)}.")
        if name == "seed" and verb != "train" and not 0 <= value < 2**32:
            raise ValueError(f"--seed must be from 0 to {2**32 - 1}, got {shown(value)}.")  # what numpy takes


def form(verb: str, argv: Sequence[str]) -> type:
    """A dataclass with a field for every option of a verb."""
    fields: list[tuple[str, Any, Any]] = []
    for name, parameter in tables.parameters("stages", verb).items():
        if name == "settings":
            fields += _settings(argv)
        else:
            fields.append(_field(name, _type(parameter), parameter.default, parameter.meaning, parameter.positional))
    if verb == "doctor":
        fields += _objective_fields(_word(argv, "objective"), skip={name for name, *_ in fields})
    fields.append(_field("json", bool, False, "Print the result as JSON."))
    fields.sort(key=lambda field: field[2] is not dataclasses.MISSING)
    return dataclasses.make_dataclass(verb.capitalize(), fields)


def _settings(argv: Sequence[str]) -> list[tuple[str, Any, Any]]:
    """The fields of Config, with the options of the chosen method, views and encoder in place of open mappings."""
    start = _starting_point(argv)
    given: dict[str, Any] = {
        name: word for name in ("data", "method", "encoder", "start", "views") if (word := _word(argv, name))
    }
    objective = _word(argv, "objective.name") or start.objective.get("name")
    chosen: dict[str, Any] = {"objective": {**start.objective, "name": objective}} if objective else {}
    base = configs.with_own_rate(dataclasses.replace(start, **given, **chosen))
    forms = {
        "objective": _objective_form(base),
        "heads": _options_form("heads", _heads(base.method)),
        "view": _row_form("view", "views", base, configs.view_options(base.method, base.views)),
        "backbone": _row_form("backbone", "encoders", base, configs.row_options("encoders", base.encoder)),
    }
    documents, hints = configs.meanings(Config), get_type_hints(Config)
    fields = [_field("config", Path | None, None, "Settings from a YAML file; the options given here come after it.")]
    for field in dataclasses.fields(Config):
        default = getattr(base, field.name)
        if field.name == "origins":
            continue
        if field.type == Options:
            kind = forms[field.name](default)
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


def _objective_form(base: Config) -> Any:
    """Options of the objective in use, and its name, where a method has one that can be exchanged."""
    row = METHODS[base.method]
    room, name = ("objectives", row.objective) if row.objective else ("learners", row.learner)
    chosen = base.objective.get("name") if row.objective else None
    own = configs.method_options(base.method, chosen)["objective"]
    known = tables.keywords(room, chosen or name)
    options = {key: (_option_type(value, known.get(key)), value, known[key].meaning) for key, value in own.items()}
    if row.objective:
        meaning = "The objective: a row of OBJECTIVES or package.module:name; --objective NAME is the same."
        options["name"] = (str, chosen or row.objective, meaning)
    return _options_form("objective", options)


def _heads(method: str) -> dict[str, tuple[Any, Any, str]]:
    own = configs.method_options(method)["heads"]
    return {key: (_option_type(value, None), value, HEADS[key]) for key, value in own.items()}


def _row_form(form: str, room: str, base: Config, own: Mapping[str, Any]) -> Any:
    """Options of a row; of ``auto``, those of every row that it may choose, which stay open unless given."""
    name = base.views if room == "views" else base.encoder
    if name == "auto":
        known = configs.automatic_options(room, base.method)
        return _options_form(
            form, {key: (_optional(parameter), None, parameter.meaning) for key, parameter in known.items()}
        )
    known = tables.keywords(room, name) if own else {}
    return _options_form(
        form, {key: (_option_type(value, known.get(key)), value, known[key].meaning) for key, value in own.items()}
    )


def _options_form(name: str, options: Mapping[str, tuple[Any, Any, str]]) -> Any:
    """A function from given values to a dataclass of options."""

    def made(given: Mapping[str, Any]) -> type:
        known = {key: (kind, given.get(key, value), meaning) for key, (kind, value, meaning) in options.items()}
        known |= {key: (_option_type(value, None), value, "") for key, value in given.items() if key not in known}
        fields = [_field(key, kind, value, meaning) for key, (kind, value, meaning) in known.items()]
        return dataclasses.make_dataclass(name.capitalize(), fields, frozen=True)

    return made


def _told(value: Any) -> Any:
    """A setting without the options that were left open."""
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value


def _objective_fields(objective: str | None, skip: set[str]) -> list[tuple[str, Any, Any]]:
    """The hyperparameters of the objective that the doctor is asked about, each with the paper's default."""
    named = METHODS[objective].objective if objective and objective in METHODS else None
    if named and objective not in tables.names("objectives") and named in tables.names("objectives"):
        raise ValueError(f"{objective} is a method; its objective is {named}: say --objective {named}.")
    known = tables.keywords("objectives", objective) if objective else {}
    fields = [
        _field(name, _option_type(parameter.default, parameter), parameter.default, parameter.meaning)
        for name, parameter in known.items()
        if name not in skip.union(tables.FROM_LEARNER)
    ]
    if "negatives" in known:
        meaning = "How many negatives each query had, such as MoCo's queue; without it, the other keys of the batch."
        fields.append(_field("negatives", int | None, None, meaning))
    if "hard_negatives" in known:
        meaning = "How many explicit negatives each sample had; every query meets those of the whole batch."
        fields.append(_field("hard_negatives", int | None, None, meaning))
    return fields


def _field(name: str, kind: Any, default: Any, meaning: str = "", positional: bool = False) -> tuple[str, Any, Any]:
    import tyro

    marks = (tyro.conf.Positional,) if positional else ()
    # tyro would print {None}|TYPE, and of a positional argument its type alone
    metavar = name.upper() if default is None or (positional and default is tables.REQUIRED) else None
    several = positional and typing.get_origin(kind) is tuple
    if several:
        metavar = f"{name.upper()} ..." if default is tables.REQUIRED else f"[{name.upper()} ...]"
    hint = "" if several or default in (None, "", ()) else None  # "default: None" says nothing to most readers
    annotated = Annotated[(kind, tyro.conf.arg(help=meaning, metavar=metavar, help_behavior_hint=hint), *marks)]  # type: ignore[misc]
    if default is tables.REQUIRED:
        return name, annotated, dataclasses.MISSING
    if dataclasses.is_dataclass(default):
        return name, kind, dataclasses.field(default=default)
    return name, annotated, dataclasses.field(default=default)


def _type(parameter: tables.Parameter) -> Any:
    """The type that an annotation names; arrays come as file names on the command line."""
    written = parameter.annotation.replace("str | pathlib.Path", "str").replace("typing.", "")
    written = written.replace("Any | None", "str | None")
    kind = eval(written, {"pathlib": pathlib, **vars(typing)}) if written else str
    return str if kind is Any else kind


def _optional(parameter: tables.Parameter) -> Any:
    kind = _option_type(parameter.default, parameter)
    return kind if kind == (kind | None) else kind | None


def _option_type(default: Any, parameter: tables.Parameter | None) -> Any:
    """The type of a row's option: that of its default, or where there is none what the signature says."""
    if isinstance(default, tuple):
        return tuple[(type(default[0]) if default else int, ...)]  # type: ignore[misc]
    if parameter is not None and (default is None or parameter.choices):
        return _type(parameter)
    return float | None if default is None else type(default)


def _word(argv: Sequence[str], name: str) -> str | None:
    """The value of an option that decides which other options exist, read before they are."""
    found = None  # the last of several counts, as it does when they are parsed
    for place, word in enumerate(argv):
        if word == f"--{name}" and place + 1 < len(argv):
            found = argv[place + 1]
        elif word.startswith(f"--{name}="):
            found = word.partition("=")[2]
    return found


def _spelled(argv: Sequence[str]) -> list[str]:
    """Options as they are spelled now, where they were spelled otherwise once."""
    found = []
    for word in argv:
        option, mark, value = word.partition("=")
        if option.startswith("--"):
            stem, dot, last = option.rpartition(".")
            option = f"{stem}{dot}{_respelled(last)}"
        found.append(f"{option}{mark}{value}")
    return found


def _respelled(word: str) -> str:
    for prefix in ("--no-", "--", "no-", ""):
        if word.startswith(prefix) and word.removeprefix(prefix) in tables.OLD_SPELLINGS:
            return prefix + tables.OLD_SPELLINGS[word.removeprefix(prefix)]
    return word
