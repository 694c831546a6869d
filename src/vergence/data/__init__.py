"""Where samples come from: ``load("digits")``, ``load("folder:photos,size=96")``, ``load("array:x.npy")``."""

import inspect
import re
from typing import Any

import yaml

from vergence.data.arrays import array, from_arrays
from vergence.data.builtin import breast_cancer, digits, iris, wine
from vergence.data.hub import hugging_face
from vergence.data.images import folder
from vergence.data.published import cifar10, cifar100, fashion_mnist, mnist, stl10
from vergence.data.samples import Samples, in_memory, require_pairs
from vergence.data.series import series
from vergence.data.splits import carved, first
from vergence.data.text import text
from vergence.tables import Rows, UnknownName

__all__ = ["DATASETS", "SPLITS", "Samples", "from_arrays", "load"]

DATASETS = Rows(
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
        "series": series,
        "hf": hugging_face,
    },
)
SPLITS = ("train", "test", "validation", "all")
TEST_PER_TRAIN = 5  # a limit of 10,000 leaves 2,000 to test on, the proportion of CIFAR-10


def load(
    source: str,
    *,
    split: str = "train",
    limit: int | None = None,
    validation: float = 0.0,
    memory: float = 4.0,
    **options: Any,
) -> Samples:
    """The samples of a source: the name of a dataset, or ``folder:PATH``, ``array:PATH`` and the like.

    ``limit`` keeps that many for training, the first of each class in equal numbers, and a fifth as many of the test
    split. ``validation`` is a share of the training split to hold out. What needs more than ``memory`` GiB stays on
    disk. Other options belong to the source, and may stand behind it: ``folder:photos,size=96``.
    """
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
    name, argument, written = parsed(source)
    settings = {"limit": limit, "validation": validation, "memory": memory} | written | options
    limit, validation, memory = (settings.pop(key) for key in ("limit", "validation", "memory"))
    samples = _row(name, argument, "train" if split == "validation" else split, settings)
    samples = carved(samples, split, validation=validation)
    if limit is not None:
        samples = first(samples, max(1, limit // TEST_PER_TRAIN) if split == "test" else limit)
    samples = in_memory(samples, memory=memory)
    return require_pairs(samples) if split in ("train", "all") else samples


def parsed(source: str) -> tuple[str, str, dict[str, Any]]:
    """A source in its parts: ``array:x.npy,labels=y.npy`` is ``("array", "x.npy", {"labels": "y.npy"})``."""
    plain, *written = re.split(r",(?=[a-z_]+=)", source)
    name, _, argument = plain.partition(":")
    pairs = (option.split("=", 1) for option in written)
    return name, argument, {key: yaml.safe_load(value) for key, value in pairs}


def _row(name: str, argument: str, split: str, options: dict[str, Any]) -> Samples:
    row = DATASETS[name]
    parameters = inspect.signature(row).parameters
    known = [key for key, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    for key in options:
        if key not in known:
            raise UnknownName(f"option of {name}", key, [*known, "limit", "validation", "memory"])
    takes_argument = next(iter(parameters)) != "split"
    if takes_argument and not argument:
        raise ValueError(f"{name} needs a place, as in {name}:PATH.")
    if argument and not takes_argument:
        raise ValueError(
            f"{name} takes nothing after a colon, but got {argument!r}. For fewer samples write {name},limit=1000."
        )
    return row(argument, split, **options) if takes_argument else row(split, **options)
