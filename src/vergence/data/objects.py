"""Objects from Python as samples: torch datasets and loaders, frames, Hugging Face datasets, lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vergence.data.arrays import divided as divided_arrays
from vergence.data.arrays import from_array, label_fields
from vergence.data.hub import split_of
from vergence.data.images import SUFFIXES, image_files, pixels
from vergence.data.samples import Samples
from vergence.data.splits import part
from vergence.data.text import from_texts

LABELS = ("label", "labels", "class", "target", "y", "fine_label", "coarse_label")
PATHS = ("path", "file", "filename", "file_name", "image_path")
INPUTS = ("image", "img", *PATHS, "text", "sentence", "x", "pixel_values", "embedding", "vector", "features")
SIDE = 64  # pixels, for images of several sizes, as a folder's

_READ: dict[int, tuple[Any, int, Samples]] = {}  # the last object that was read: its splits are asked for in turn


def divided(value: Any, split: str, *, size: int = 0) -> Samples:
    """The ``train``, ``test`` or ``all`` part of whatever was given from Python; ``size`` is the side of its images."""
    if isinstance(value, Mapping) and value and all(_is_table(each) for each in value.values()):
        chosen, own = split_of(value, split)  # what `datasets.load_dataset` gives: a dataset for each split
        return divided(chosen, "all" if own else split, size=size)
    known = _READ.get(id(value))
    if known is not None and known[0] is value and known[1] == size:
        return part(known[2], split)
    rows = _rows(value)
    if rows is None:
        return divided_arrays(value, split)
    inputs, labels, classes = rows
    samples = _samples(inputs, size)
    if labels is not None:
        samples = replace(samples, **label_fields(np.asarray(labels)))
        if classes and all(str(name).isdigit() for name in samples.classes):
            samples = replace(samples, classes=tuple(str(classes[int(name)]) for name in samples.classes))
    _READ.clear()
    _READ[id(value)] = (value, size, samples)
    return part(samples, split)


Rows = tuple[Any, Sequence[Any] | None, Sequence[str]]  # inputs, labels, names of classes


def _rows(value: Any) -> Rows | None:
    """Inputs, labels and names of classes of an object that is not an array; None for what is one."""
    if isinstance(value, Samples | np.ndarray | torch.Tensor | tuple):
        return None
    columns = _columns(value)
    if columns is not None:
        return _of_columns(columns, _class_names(value))
    if isinstance(value, torch.utils.data.DataLoader):
        return _of_loader(value)
    if isinstance(value, torch.utils.data.Dataset):
        items: Any = (value[place] for place in range(len(value))) if hasattr(value, "__len__") else value
        return _of_items(items, _classes(value))
    if isinstance(value, list) and value and isinstance(value[0], str | Path | Image.Image):
        return value, None, ()
    return None


def _is_table(value: Any) -> bool:
    return bool(getattr(value, "column_names", None)) and hasattr(value, "features")


def _classes(dataset: Any) -> Sequence[str]:
    """The names of the classes of a torch dataset, or of the one that it is a part of."""
    while not hasattr(dataset, "classes") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return getattr(dataset, "classes", ())


def _columns(value: Any) -> Mapping[str, Any] | None:
    """The columns of a frame or a table by name: pandas, polars, pyarrow, Hugging Face datasets, a dict of arrays."""
    if isinstance(value, Mapping):
        return value
    names = getattr(value, "column_names", None) or getattr(value, "columns", None)
    if names is None or not hasattr(value, "__getitem__") or isinstance(value, torch.utils.data.Dataset):
        return None
    return {str(name): value[name] for name in list(names)}


def _of_columns(columns: Mapping[str, Any], classes: Sequence[str]) -> Rows:
    """The column of labels by its name; of the others the one with a usual name, or all that are numbers."""
    label = next((name for name in LABELS if name in columns), None)
    rest = {name: column for name, column in columns.items() if name != label}
    labels = None if label is None else _listed(columns[label])
    chosen = next((name for name in INPUTS if name in rest), None)
    if chosen is not None:
        return _listed(rest[chosen]), labels, classes
    numbers = {name: np.asarray(column) for name, column in rest.items()}
    numbers = {name: column for name, column in numbers.items() if column.dtype.kind in "fiub" and column.ndim == 1}
    if not numbers:
        raise ValueError(
            f"The columns {', '.join(columns)} hold no samples: expected one called {', '.join(INPUTS)}, or numbers."
        )
    return np.column_stack(list(numbers.values())).astype(np.float32), labels, classes


def _of_items(items: Iterable[Any], classes: Sequence[str]) -> Rows:
    """Items of a dataset: a sample, a pair of sample and label, or a mapping of columns."""
    listed = list(items)
    if not listed:
        raise ValueError("The dataset is empty.")
    if isinstance(listed[0], Mapping):
        return _of_columns({name: [item[name] for item in listed] for name in listed[0]}, classes)
    if not isinstance(listed[0], tuple | list):
        return listed, None, classes
    labels = [item[1] for item in listed] if len(listed[0]) > 1 else None
    if labels is not None and not all(np.ndim(label) == 0 for label in labels):
        labels = None  # a second view, a mask: not a label
    return [item[0] for item in listed], labels, classes


def _of_loader(loader: Any) -> Rows:
    """What a loader reads: its dataset, in order; of a stream, the batches as they come."""
    if hasattr(loader.dataset, "__getitem__") and hasattr(loader.dataset, "__len__"):
        found = _rows(loader.dataset)
        assert found is not None, "a dataset of torch has rows"
        return found
    inputs, labels = [], []
    for batch in loader:
        x, y = (batch[0], batch[1]) if isinstance(batch, tuple | list) and len(batch) > 1 else (batch, None)
        inputs += list(x)
        labels += [] if y is None else list(y)
    return inputs, labels if len(labels) == len(inputs) else None, ()


def _class_names(value: Any) -> Sequence[str]:
    """The names of a Hugging Face dataset's classes."""
    features = getattr(value, "features", None)
    if not isinstance(features, Mapping):
        return ()
    return next((features[name].names for name in LABELS if hasattr(features.get(name), "names")), ())


def _samples(inputs: Any, size: int) -> Samples:
    """Inputs as samples: images, files of images, texts, or arrays of one shape."""
    if isinstance(inputs, np.ndarray):
        return from_array(inputs, kind="", source="memory")
    first = inputs[0]
    if isinstance(first, Image.Image):
        square = first.width == first.height and _alike(inputs, lambda image: image.size)
        side = size or (first.width if square else SIDE)
        channels = 1 if first.mode in ("L", "1") else 3
        made = np.stack([pixels(image.copy(), size=side, channels=channels) for image in inputs])
        return from_array(made, kind="image", source="memory")
    if isinstance(first, str | Path) and Path(first).suffix.lower() in SUFFIXES:
        return replace(image_files([str(path) for path in inputs], size=size or SIDE), source="memory")
    if isinstance(first, str):
        return from_texts(list(inputs), source="memory")
    arrays = [np.asarray(each) for each in inputs]
    if not _alike(arrays, lambda array: array.shape):
        shapes = sorted({str(list(array.shape)) for array in arrays})[:4]
        raise ValueError(f"The samples have several shapes ({', '.join(shapes)}): bring them to one.")
    return from_array(np.stack(arrays), kind="", source="memory")


def _alike(items: Sequence[Any], measure: Callable[[Any], Any]) -> bool:
    return len({measure(item) for item in items}) == 1


def _listed(column: Any) -> Any:
    """A column of a frame, an array or a list as a list."""
    for method in ("to_list", "tolist"):
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column)
