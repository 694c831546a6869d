"""Where samples come from: ``load("digits")``, ``load("folder:photos,size=96")``, ``load("array:x.npy")``."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from vergence import tables
from vergence.data.arrays import array, from_arrays
from vergence.data.builtin import breast_cancer, digits, iris, wine
from vergence.data.guess import understood
from vergence.data.hub import hugging_face
from vergence.data.images import folder
from vergence.data.objects import divided
from vergence.data.pairs import pairs
from vergence.data.published import cifar10, cifar100, fashion_mnist, mnist, stl10
from vergence.data.samples import Samples, in_memory, require_pairs
from vergence.data.series import series
from vergence.data.shards import parquet, wds
from vergence.data.splits import carved, fewer
from vergence.data.streaming import batches_of
from vergence.data.text import text
from vergence.tables import Table, UnknownName

__all__ = ["SOURCES", "SPLITS", "Samples", "batches_of", "from_arrays", "load", "understood"]

SOURCES = Table(
    "dataset",
    {
        "digits": digits,
        "iris": iris,
        "wine": wine,
        "breast_cancer": breast_cancer,
        "mnist": mnist,
        "fashion_mnist": fashion_mnist,
        "cifar10": cifar10,
        "cifar100": cifar100,
        "stl10": stl10,
        "folder": folder,
        "array": array,
        "text": text,
        "pairs": pairs,
        "series": series,
        "hf": hugging_face,
        "parquet": parquet,
        "wds": wds,
    },
    room="data",
)
SPLITS = ("train", "test", "validation", "all")
MEMORY = 4.0  # GiB of samples that are kept in memory
TEST_PER_TRAIN = 5  # a limit of 10,000 leaves 2,000 to test on, the proportion of CIFAR-10


def load(
    source: str,
    *,
    split: str = "train",
    limit: int = 0,
    validation: float = 0.0,
    memory: float = MEMORY,
    fewest: int = 2,
    unread: bool = False,
    **options: Any,
) -> Samples:
    """The samples of a source: the name of a dataset, or ``folder:PATH``, ``array:PATH`` and the like.

    ``limit`` keeps that many for training, drawn from each class in equal numbers, and a fifth as many of the test
    split. ``validation`` is a share of the training split to hold out. Fewer than ``fewest`` samples to train on are
    refused: contrast needs two. What needs more than ``memory`` GiB stays on disk; with ``unread`` all of it does, and
    what cannot be read is found when its turn comes. Other options belong to the source. All
    options may stand behind it: ``folder:photos,size=96,limit=1000``, ``hf:NAME,streaming``.
    """
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
    given = {"limit": limit, "validation": validation, "memory": memory, **options}
    source = understood(source)
    name, argument, settings = settled(source, given)
    limit, validation, memory = (settings.pop(key) for key in ("limit", "validation", "memory"))
    if not 0 <= validation < 1:
        raise ValueError(f"validation is a share of the training data, from 0 to below 1, not {validation}.")
    part = "train" if split == "validation" else split
    row = SOURCES[name]
    if callable(row):
        samples = row(*([argument] if argument else []), part, **settings)
    else:
        samples = divided(row, part, **settings)
    samples = carved(samples, split, validation=validation)
    if limit:
        samples = fewer(samples, max(1, limit // TEST_PER_TRAIN) if split == "test" else limit)
    samples = samples if unread else in_memory(samples, memory=memory)
    if not len(samples) and split != "validation":  # whoever measures along training does without
        raise ValueError(f"{source} has too few samples: none of them is in the {split} split.")
    return require_pairs(samples) if split in ("train", "all") and fewest > 1 else samples


def settled(source: str, given: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """A source in its parts, with all options: ``folder:photos,size=96`` is ``("folder", "photos", {"size": 96})``."""
    plain, *written = re.split(r",(?=[a-z_]+=)", source)
    name, argument = parts(plain)
    row = SOURCES[name]
    argument, flags = _flags(argument, row)
    if not callable(row):
        return name, "", dict(given)
    if bool(argument) != (next(iter(inspect.signature(row).parameters)) != "split"):
        surplus = f"takes nothing after a colon. For fewer samples write {name},limit=10000"
        raise ValueError(f"{source!r}: {name} {surplus if argument else f'needs a place, as in {name}:PATH'}.")
    hidden = ("split", "fewest", "unread")
    defaults = {key: value for key, value in (_defaults(load) | _defaults(row)).items() if key not in hidden}
    texts = flags | dict(option.split("=", 1) for option in written)
    for key in (*texts, *given):
        if key not in defaults:
            raise UnknownName(f"option of {name}", key, defaults)
    return name, argument, {**given, **{key: _value(key, text, defaults[key]) for key, text in texts.items()}}


def _flags(argument: str, row: Any) -> tuple[str, dict[str, str]]:
    """A place without the options behind it that are only named: ``hf:NAME,streaming`` turns streaming on."""
    known = {key for key, value in (_defaults(row) if callable(row) else {}).items() if value is False}
    flags = {}
    while (last := argument.rpartition(","))[2] in known and last[0]:
        argument, flags[last[2]] = last[0], "true"
    return argument, flags


def parts(source: str) -> tuple[str, str]:
    """The row of a source and what comes after it: ``folder:photos``; from outside ``package.module:row:photos``."""
    name, _, argument = source.partition(":")
    if name in tables.names("data") or name in tables.OLD_SPELLINGS:
        return name, argument
    attribute, _, rest = argument.partition(":")
    return (f"{name}:{attribute}", rest) if attribute else (name, "")


def options_of(name: str) -> set[str]:
    """The options that a source takes."""
    row = SOURCES[name]
    return set(_defaults(row)) if callable(row) else set()


def _defaults(function: Callable[..., Samples]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.items()
    return {key: parameter.default for key, parameter in parameters if parameter.default is not parameter.empty}


def _value(key: str, text: str, like: Any) -> Any:
    """An option read from text, as the type of its default."""
    try:
        return {"true": True, "false": False}[text.lower()] if isinstance(like, bool) else type(like)(text)
    except (ValueError, KeyError):
        raise ValueError(f"The option {key} is of type {type(like).__name__}, so {text!r} makes no sense.") from None
