"""Tables: every room keeps one, in capitals, at its front door; here is what they share.

A table is ``NAME = Rows("kind", {"row": function, ...})``. The functions below read tables and signatures from their
source text, so that ``vergence list`` and ``--help`` say what the code says without importing torch.
"""

import ast
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOMS = Path(__file__).parent
REQUIRED = object()


class UnknownName(KeyError, ValueError):
    """A name that is not in a table, said to a person."""

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        known = sorted(known)
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"Unknown {kind} {name!r}. Known: {', '.join(known)}.{hint}")

    def __str__(self) -> str:
        return self.args[0]


class Rows(dict[str, Any]):
    """A dict of rows whose missing names are explained."""

    def __init__(self, kind: str, rows: Mapping[str, Any]):
        super().__init__(rows)
        self.kind = kind

    def __missing__(self, name: str) -> Any:
        raise UnknownName(self.kind, name, self)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function in a table: what its signature says."""

    name: str
    annotation: str
    default: Any
    positional: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """What a ``Literal`` allows; empty where the signature names no choices."""
        words = re.fullmatch(r"Literal\[(.*)\]", self.annotation)
        return ast.literal_eval(f"({words[1]},)") if words else ()


def names(room: str) -> list[str]:
    """The rows of a room's table, in order."""
    return list(_table(room))


def function(room: str, name: str) -> str:
    """The name of the function in a row."""
    return _table(room)[name]


def summary(room: str, name: str, *, formulas: bool = False) -> str:
    """The first paragraph of a row's docstring; a formula that ends a sentence is left out unless asked for."""
    text = " ".join((ast.get_docstring(_definition(room, name)) or "").split("\n\n")[0].split())
    if formulas:
        return text
    text = re.sub(r"[:,] :math:`[^`]*`(?=[.;]|$)", "", text)
    return re.sub(r":(math|func):`([^`]*)`", r"\2", text).replace("``", "")


def parameters(room: str, name: str) -> dict[str, Parameter]:
    """A row's parameters in order; ``REQUIRED`` stands where there is no default."""
    node = _definition(room, name)
    arguments = node.args if isinstance(node, ast.FunctionDef) else _initialiser(node).args
    positional = [argument for argument in arguments.posonlyargs + arguments.args if argument.arg != "self"]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    rows = [(*pair, True) for pair in zip(positional, defaults, strict=True)]
    rows += [(*pair, False) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return {argument.arg: _parameter(argument, default, place) for argument, default, place in rows}


def keywords(room: str, name: str) -> dict[str, Parameter]:
    """The parameters that have a default: what a config may set."""
    return {key: value for key, value in parameters(room, name).items() if value.default is not REQUIRED}


def glossary(room: str) -> dict[str, str]:
    """The room's GLOSSARY: what each option means, in a sentence."""
    for node in _tree(_front_door(room)).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and target.id == "GLOSSARY":
            return ast.literal_eval(node.value) if node.value else {}
    return {}


def field_meanings(room: str, name: str) -> dict[str, str]:
    """The sentence below each field of a dataclass."""
    node = next(item for item in _tree(_front_door(room)).body if isinstance(item, ast.ClassDef) and item.name == name)
    meanings = {}
    for before, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            meanings[ast.unparse(before.target)] = str(after.value.value)
    return meanings


@cache
def _table(room: str) -> dict[str, str]:
    """The room's table as text: row name to the name of the function."""
    for node in _tree(_front_door(room)).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_rows(node.value):
            rows = node.value.args[1]
            assert isinstance(rows, ast.Dict), f"the table of {room} must be written out as a dict"
            return {
                ast.literal_eval(key): ast.unparse(value)
                for key, value in zip(rows.keys, rows.values, strict=True)
                if key is not None
            }
    raise LookupError(f"{room} has no table")


@cache
def _definition(room: str, name: str) -> Any:
    table = _table(room)
    if name not in table:
        raise UnknownName(room.rstrip("s"), name, table)
    door = _front_door(room)
    for path in sorted(door.parent.rglob("*.py")) if door.name == "__init__.py" else [door]:
        for node in _tree(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == table[name]:
                return node
    raise LookupError(f"no file of {room} defines {table[name]}")


def _is_rows(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "Rows"


def _parameter(argument: ast.arg, default: ast.expr | None, positional: bool) -> Parameter:
    annotation = ast.unparse(argument.annotation) if argument.annotation else ""
    value = REQUIRED if default is None else ast.literal_eval(default)
    return Parameter(argument.arg, annotation, value, positional)


def _initialiser(node: ast.ClassDef) -> ast.FunctionDef:
    return next(item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__")


def _front_door(room: str) -> Path:
    return ROOMS / room / "__init__.py" if (ROOMS / room).is_dir() else ROOMS / f"{room}.py"


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
