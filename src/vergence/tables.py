"""Tables: every room keeps one, in capitals, at its front door; here is what they share.

A table is ``NAME = Table("kind", {"row": object, ...})``. It is open: a name that is not written out in it may be a row
of an installed package (entry points of the group ``vergence.<room>``), ``package.module:name``, or an object given
from Python, which :func:`name_of` turns into such a name.

The functions below answer what ``--help`` and ``vergence list`` ask. For rows of ours the answers come from
``schema.json``, which is generated from the live signatures (``python -m vergence.tables``; a test checks that it is
fresh), so that help appears without importing torch; for other rows the signature itself is read.
"""

import ast
import difflib
import importlib
import inspect
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).parent / "schema.json"
REQUIRED = object()

# Every open table, by the room it belongs to. An entry point group is called after the room: ``vergence.encoders``.
TABLES = {
    "stages": "vergence.stages:STAGES",
    "methods": "vergence.methods:METHODS",
    "objectives": "vergence.objectives:OBJECTIVES",
    "learners": "vergence.learning:LEARNERS",
    "encoders": "vergence.encoders:ENCODERS",
    "views": "vergence.views:VIEWS",
    "data": "vergence.data:SOURCES",
    "diagnostics": "vergence.diagnostics:DIAGNOSTICS",
    "estimators": "vergence.information:ESTIMATORS",
    "evaluation": "vergence.evaluation:EVALUATIONS",
    "results": "vergence.theory:RESULTS",
    "exports": "vergence.integrations.exports:EXPORTS",
    "trackers": "vergence.runs.tracking:TRACKERS",
}

# Keywords of objectives that the learner gives from its memory and its views: no config sets them.
FROM_LEARNER = ("negatives", "hard_negatives", "center", "past", "global_views")

# Rows and options as they were spelled once; configs and calls that use them keep working.
OLD_SPELLINGS = {
    "colourisation": "colorization",
    "colour": "color",
    "grey": "gray",
    "neighbours": "neighbors",
    "regularisation": "regularization",
    "nearest_centre": "nearest_center",
    "nearest centre": "nearest center",
    "normalise": "normalize",
}


class UnknownName(KeyError, ValueError):
    """A name that is not in a table, said to a person."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        known = sorted(known, key=lambda name: (int(name) if name.isdecimal() else math.inf, name))
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"Unknown {kind} {name!r}. Known: {', '.join(known)}.{hint}")

    def __str__(self) -> str:
        return self.args[0]


class Table(dict[str, Any]):
    """A dict of rows that also finds rows from outside; a name that is nowhere is explained.

    Iterating gives the rows written out in it and those of installed packages, so that whatever runs over a table runs
    over them too. With a ``room``, rows may come from outside.
    """

    def __init__(self, kind: str, rows: Mapping[str, Any], *, room: str = ""):
        super().__init__(rows)
        self.kind, self.room = kind, room

    def __missing__(self, name: Any) -> Any:
        if not isinstance(name, str):
            return name  # an object is its own row
        now = OLD_SPELLINGS.get(name)
        if now is not None and now in self:
            return self[now]
        found = outside(self.room, name) if self.room else None
        if found is None:
            raise UnknownName(self.kind, name, [*self, *installed(self.room)])
        return found

    def named(self, row: Any) -> Any:
        """The name of a row of this table that was given as an object; anything else as it is."""
        return next((name for name, known in self.items() if known is row), row)

    def every(self) -> Iterator[tuple[str, Any]]:
        """All rows by name: ours, then those of installed packages."""
        yield from self.items()
        for name in installed(self.room):
            yield name, self[name]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a row: what its signature says, and what it means."""

    name: str
    annotation: str
    default: Any
    positional: bool = False
    meaning: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """What a ``Literal`` allows; empty where the signature names no choices."""
        words = re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", self.annotation)
        return ast.literal_eval(f"({words[1]},)") if words else ()


# Rows from outside


_GIVEN: dict[str, Any] = {}  # objects given from Python that no module holds under a name


def name_of(room: str, value: Any) -> str:
    """The name under which an object given from Python is known from now on; a name stays what it is.

    A function or class of a module is ``package.module:name``, which another process can find again. Anything else
    (an instance, a lambda, a function of a notebook) is known in this process only, as ``object:NAME``.
    """
    if isinstance(value, str):
        return value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module and name and module != "__main__" and "<" not in name:
        written = f"{module}:{name}"
        if _imported(written) is value:
            return written
    label = name if name and "<" not in name else type(value).__name__
    for known, other in _GIVEN.items():
        if other is value:
            return known
    written = next(
        text
        for number in range(len(_GIVEN) + 1)
        if (text := f"object:{label}" + f".{number}" * bool(number)) not in _GIVEN
    )
    _GIVEN[written] = value
    return written


def is_given(name: str) -> bool:
    """Whether a name stands for an object that only this process knows."""
    return name in _GIVEN


def outside(room: str, name: str) -> Any:
    """The row of another package by its name, or ``None``: an entry point, or ``package.module:name``."""
    if name in _GIVEN:
        return _GIVEN[name]
    entry = installed(room).get(name)
    if entry is not None:
        return entry.load()
    if name.startswith("object:"):
        raise ValueError(
            f"{name} was given from Python and is not known in this process: give it again from Python, or write it as "
            "package.module:name, which any process can import."
        )
    return _imported(name) if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name) else None


def _imported(name: str) -> Any:
    """The object ``package.module:name``; ``None`` where there is no such package."""
    module, _, attribute = name.partition(":")
    try:
        value = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            return None
        raise
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise UnknownName(f"name in {module}", part, [word for word in dir(value) if not word.startswith("_")])
        value = getattr(value, part)
    return value


@cache
def installed(room: str) -> dict[str, metadata.EntryPoint]:
    """The rows that installed packages declare for a room, in the entry point group ``vergence.<room>``."""
    return {entry.name: entry for entry in metadata.entry_points(group=f"vergence.{room}")} if room else {}


def origin(room: str, name: str) -> str | None:
    """Where a row from outside came from, with the version of its package; ``None`` for a row of ours."""
    if name in schema(room) or name in ("auto", "none"):
        return None
    if name in _GIVEN:
        return "given from Python"
    entry = installed(room).get(name)
    if entry is not None:
        version = f" {entry.dist.version}" if entry.dist else ""
        return f"{entry.value} of {entry.dist.name if entry.dist else 'an installed package'}{version}"
    module = name.partition(":")[0]
    if room == "encoders" and module in ("timm", "hf"):  # names of another library's models, not of its objects
        return f"{module} {_version(module)}" if module == "timm" else None
    return f"{module} {_version(module)}" if _imported_or_none(name) is not None else None


def _imported_or_none(name: str) -> Any:
    return _imported(name) if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name) else None


def _version(module: str) -> str:
    """The version of the distribution that a module belongs to, or that the module states itself."""
    package = module.split(".")[0]
    for distribution in metadata.packages_distributions().get(package, ()):
        return metadata.version(distribution)
    return str(getattr(sys.modules.get(package), "__version__", "without a version"))


# What help and lists ask


def names(room: str) -> list[str]:
    """The rows of a room's table, in order, and then those of installed packages."""
    return [*schema(room), *(name for name in installed(room) if name not in schema(room))]


def summary(room: str, name: str, *, formulas: bool = False) -> str:
    """The first paragraph of a row's docstring; a formula that ends a sentence is left out unless asked for."""
    text = _row(room, name)["summary"]
    if formulas:
        return text
    text = re.sub(r"[:,] :math:`[^`]*`(?=[.;]|$)", "", text)
    return re.sub(r":(math|func|class):`([^`]*)`", r"\2", text).replace("``", "")


def parameters(room: str, name: str) -> dict[str, Parameter]:
    """A row's parameters in order; ``REQUIRED`` stands where there is no default."""
    return {
        key: Parameter(
            key,
            entry["annotation"],
            ast.literal_eval(entry["default"]) if "default" in entry else REQUIRED,
            entry.get("positional", False),
            entry.get("meaning", ""),
        )
        for key, entry in _row(room, name)["parameters"].items()
    }


def keywords(room: str, name: str) -> dict[str, Parameter]:
    """The parameters that have a default: what a config may set."""
    return {key: value for key, value in parameters(room, name).items() if value.default is not REQUIRED}


def check_options(room: str, name: str, options: Iterable[str]) -> None:
    """Refuse options that a row does not have, with the nearest that it has."""
    known = keywords(room, name)
    for key in options:
        if key not in known and OLD_SPELLINGS.get(key) not in known:
            raise UnknownName(f"option of {name}", key, known)


def _row(room: str, name: str) -> dict[str, Any]:
    rows = schema(room)
    name = OLD_SPELLINGS.get(name, name) if name not in rows else name
    if name in rows:
        return rows[name]
    table = _live(room)  # a row written since the schema was, or one from outside
    if name in table:
        return described(loaded(table[name]), _glossary(room, name))
    found = outside(room, name)
    if found is None:
        raise UnknownName(table.kind, name, names(room))
    return described(found)


@cache
def schema(room: str) -> dict[str, Any]:
    """The rows of a table of ours as they were when ``schema.json`` was written."""
    return _stored().get(room, {})


@cache
def _stored() -> dict[str, Any]:
    return json.loads(SCHEMA.read_text(encoding="utf-8")) if SCHEMA.exists() else {}


# How the schema is made


def described(row: Any, glossary: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What help says of a row: the first paragraph of its docstring and its parameters, from the live signature."""
    text = inspect.getdoc(row) or ""
    words = {**_documented(row), **(glossary or {})}
    found: dict[str, Any] = {}
    for key, parameter in _signature(row).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        entry: dict[str, Any] = {"annotation": _annotation(parameter)}
        if parameter.default is not parameter.empty:
            entry["default"] = repr(_literal(parameter.default))
        if parameter.kind is not parameter.KEYWORD_ONLY:
            entry["positional"] = True
        if key in words:
            entry["meaning"] = words[key]
        found[key] = entry
    return {"summary": " ".join(text.split("\n\n")[0].split()), "parameters": found}


def _literal(default: Any) -> Any:
    """A default as text can hold it; of a function, its name."""
    try:
        ast.literal_eval(repr(default))
    except (ValueError, SyntaxError):
        return getattr(default, "__name__", str(default))
    return default


def _signature(row: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a row; an object that is not called, such as a network that is built already, has none."""
    made = not isinstance(row, type) and not inspect.isroutine(row) and hasattr(type(row), "state_dict")
    return {} if made or not callable(row) else inspect.signature(row).parameters


def _documented(row: Any) -> dict[str, str]:
    """The meaning of each parameter as the row's docstring has it, in any of the usual styles."""
    from docstring_parser import parse

    return {
        item.arg_name: " ".join((item.description or "").split()) for item in parse(inspect.getdoc(row) or "").params
    }


def _annotation(parameter: inspect.Parameter) -> str:
    if parameter.annotation is parameter.empty:
        return "" if parameter.default in (None, parameter.empty) else type(parameter.default).__name__
    return inspect.formatannotation(parameter.annotation)


def live_schema() -> dict[str, Any]:
    """The schema of every table, from the code as it is now."""
    return {
        room: {name: described(loaded(row), _glossary(room, name)) for name, row in _live(room).items()}
        for room in TABLES
    }


def _live(room: str) -> Table:
    module, _, name = TABLES[room].partition(":")
    return getattr(importlib.import_module(module), name)


def _glossary(room: str, row: str) -> dict[str, str]:
    """The room's GLOSSARY: what each option means, in a sentence; under ``row.option`` where it means another thing."""
    whole = getattr(importlib.import_module(TABLES[room].partition(":")[0]), "GLOSSARY", {})
    own = {name.removeprefix(f"{row}."): words for name, words in whole.items() if name.startswith(f"{row}.")}
    return {**whole, **own}


def loaded(row: Any) -> Any:
    """A row, which may be written as ``module:name`` where importing it at once would be slow."""
    return _imported(row) if isinstance(row, str) else row


if __name__ == "__main__":
    from vergence import tables

    SCHEMA.write_text(json.dumps(tables.live_schema(), indent=1) + "\n", encoding="utf-8")
