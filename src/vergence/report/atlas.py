"""The map of a run as a Parquet file, which Embedding Atlas and other viewers open."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vergence.report import maps
from vergence.report.record import Record
from vergence.runs.run import write_bytes


def write_atlas(record: Record, path: Path) -> Path:
    """Write places, classes, groups, measures, names and thumbnails of the held-out samples, one row each.

    ``embedding-atlas FILE --x x --y y`` shows it, colored by any column.

    References:
        Ren, Hohman, Lin & Moritz (2025), Embedding Atlas. https://apple.github.io/embedding-atlas
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"Parquet needs an extra ({error}). Try: pip install 'vergence[parquet]'") from error
    found = maps.made(record)
    if found is None:
        raise ValueError(f"{record.path} has no features of held-out samples, so there is no map to write.")
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(_columns(record, found)), buffer, compression="zstd")
    return write_bytes(Path(path), buffer.getvalue())


def _columns(record: Record, found: maps.Map) -> dict[str, Any]:
    rows, features = found.rows, record.features
    columns: dict[str, Any] = {
        "x": found.projection.points[:, 0].astype(np.float32),
        "y": found.projection.points[:, 1].astype(np.float32),
        "sample": features["test_rows"][rows] if "test_rows" in features else rows,
    }
    labels, classes = features.get("test_labels"), record.results.classes
    if labels is not None and len(labels) == len(features["test_h"]):
        columns["class"] = [classes[code] if 0 <= code < len(classes) else str(code) for code in labels[rows]]
    for name, (codes, names) in found.groups.items():
        columns[name] = [names[code] for code in codes]
    columns |= {name.replace(" ", "_"): values for name, values in found.numbers.items()}
    known = record.results.names
    if known is not None:
        columns["name"] = [known[row] if row < len(known) else None for row in rows]
    pictures = features.get("thumbnails")
    if pictures is not None and pictures.ndim == 4:
        columns["image"] = [{"bytes": _png(pictures[row])} if row < len(pictures) else None for row in rows]
    return columns


def _png(picture: np.ndarray) -> bytes:
    """A thumbnail ``[c, h, w]`` as a PNG file."""
    pixels = picture[0] if len(picture) < 3 else np.moveaxis(picture[:3], 0, -1)
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "png")
    return buffer.getvalue()
