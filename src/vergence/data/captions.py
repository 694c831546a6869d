"""Captions: the texts of images, from a table that lies beside them."""

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from vergence.data.samples import Samples
from vergence.data.text import tokenized
from vergence.data.tokens import PADDING
from vergence.values import shown

TABLES = ("captions.csv", "captions.jsonl")
COLUMNS = ("file", "caption")
LENGTH = 76  # tokens, as in CLIP (Sec. 2.4)


def captioned(samples: Samples, root: Path) -> Samples:
    """Images with the texts that a ``captions.csv`` or ``captions.jsonl`` in their folder gives them, if there is one.

    Its columns are file, relative to the folder, and caption; of several captions of a file the first counts.
    """
    table = next((root / name for name in TABLES if (root / name).is_file()), None)
    if table is None:
        return samples
    found: dict[str, str] = {}
    for file, caption in _rows(table):
        found.setdefault(str(Path(file)), caption)
    names = samples.names or ()
    missing = [name for name in names if not found.get(name, "").strip()]
    if missing:
        raise ValueError(f"{table} has no caption for {len(missing)} of {len(names)} images; one is {missing[0]}.")
    tokens = tokenized([found[name] for name in names], length=LENGTH)
    longest = int((tokens != PADDING).sum(1).max())
    return replace(samples, captions=tokens[:, :longest])


def _rows(table: Path) -> Iterator[tuple[str, str]]:
    """File and caption of every line."""
    with table.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.DictReader(lines) if table.suffix == ".csv" else (_object(line, table) for line in lines)
        try:
            for number, row in enumerate(rows, 1):
                if any(not isinstance(row.get(column), str) for column in COLUMNS):
                    raise ValueError(f"{table}, row {number}: expected {' and '.join(COLUMNS)}, got {shown(row)}.")
                yield row["file"], row["caption"]
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{table} cannot be read: {error}.") from error


def _object(line: str, table: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{table} is not JSON by lines: {error}.") from None
    return row if isinstance(row, dict) else {}
