"""Values of settings: of the right type, finite, and in range, or refused in a sentence. Does not import torch."""

import math
import re
import reprlib
from collections.abc import Mapping
from typing import Any

from vergence.tables import Parameter

LARGEST = 2**31 - 2  # epochs, sizes and counts are 32-bit counters in the keys of views
COLDEST = 1e-6  # a temperature under which float32 cannot tell the scores of a batch apart
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 2, 80, 40, 80

# Hyperparameters and sizes by name: the least value, and whether it is allowed itself.
RANGES = {
    "temperature": (0.0, False),
    "t": (0.0, False),
    "alpha": (0.0, False),
    "mu": (0.0, False),
    "attention_heads": (1, True),
    "cells": (1, True),
    "decoder_depth": (1, True),
    "decoder_width": (4, True),
    "drop_path": (0.0, True),
    "epsilon": (0.0, False),
    "iterations": (1, True),
    "key_temperature": (0.0, False),
    "key_temperature_end": (0.0, True),
    "knots": (2, True),
    "koleo": (0.0, True),
    "limit": (0.0, False),
    "memory": (0.0, True),
    "patch": (1, True),
    "prototypes": (0, True),
    "registers": (0, True),
    "slices": (1, True),
    "blocks": (0, True),
    "channels": (1, True),
    "couplings": (1, True),
    "depth": (1, True),
    "embedding": (1, True),
    "final": (0, True),
    "hidden": (1, True),
    "kernel": (1, True),
    "latent": (1, True),
    "predictor": (0, True),
    "projector": (0, True),
    "queue": (0, True),
    "segments": (1, True),
    "size": (1, True),
    "stride": (1, True),
    "vocabulary": (0, True),  # 0 for as many as the tokenizer has
    "width": (1, True),
}


def shown(value: object) -> str:
    """A value for a message: short, however large or deep it is."""
    return _SHORT.repr(value)


def of_type(value: Any, parameter: Parameter, where: str) -> Any:
    """An option's value as the type that the row declares; YAML writes tuples as lists and 1e-3 as text."""
    wanted = _wanted(parameter)
    if value is None and (parameter.default is None or "None" in parameter.annotation):
        return None
    if wanted is None or type(value).__module__ not in ("builtins", "numpy"):
        return value  # an object given from Python, or an option whose type nobody says
    if wanted is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    elif wanted is tuple and isinstance(value, list | tuple):
        kind = type(parameter.default[0]) if parameter.default else int
        if all(type(item) is kind for item in value):
            return tuple(value)
    elif type(value) is wanted:
        return value
    plain = {float: "a number", int: "a whole number", bool: "true or false", str: "a word", tuple: "a list of numbers"}
    raise ValueError(f"{where} must be {plain[wanted]}, got {shown(value)}")


def in_range(value: Any, name: str, where: str) -> None:
    """Refuse NaN, infinity and what is out of range, by the name of the option."""
    least, allowed = RANGES.get(name, (-math.inf, False))
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, bool) or not isinstance(item, int | float):
            continue
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueError(f"{where} must be a finite number, got {item}")
        if isinstance(item, int) and abs(item) > LARGEST:
            raise ValueError(f"{where} is {shown(item)}, which is beyond every use; the largest allowed is {LARGEST}")
        if "temperature" in name and 0 < item < COLDEST:
            raise ValueError(f"{where} must be at least {COLDEST:g}: below it exponents overflow, got {item}")
        if item < least or (item == least and not allowed):
            raise ValueError(f"{where} must be {'at least' if allowed else 'more than'} {least:g}, got {item}")


def checked(options: Mapping[str, Any], known: Mapping[str, Parameter], where: str) -> dict[str, Any]:
    """Options of a row, each of the declared type and in range; unknown ones are left for others to refuse."""
    found = dict(options)
    for name in options:
        if name in known:
            found[name] = of_type(options[name], known[name], f"{where}.{name}")
            in_range(found[name], name, f"{where}.{name}")
    return found


def _wanted(parameter: Parameter) -> type | None:
    """The type of an option: that of its default, or where there is none the first that the signature names."""
    if parameter.choices:
        return str
    if parameter.default is not None:
        return next((kind for kind in (bool, int, float, str, tuple) if isinstance(parameter.default, kind)), None)
    words = {"bool": bool, "int": int, "float": float, "str": str, "tuple": tuple}
    return next((words[word] for word in re.findall(r"\w+", parameter.annotation) if word in words), None)
