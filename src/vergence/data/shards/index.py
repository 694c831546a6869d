"""The index of a folder of shards, ``index.json``: what ``vergence shard`` wrote, with a checksum for each shard.

With it nothing has to be looked through before training begins, also where the shards are far away.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vergence.data.shards.places import Unreachable, answered, remote
from vergence.data.shards.records import Roles

FILE = "index.json"
VERSION = 1


@dataclass(frozen=True)
class Entry:
    """One shard: its name, the samples in each of its pieces, its size and its SHA-256."""

    name: str
    records: tuple[int, ...]
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Index:
    """What a folder of shards holds."""

    format: str
    roles: Roles
    kind: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    entries: tuple[Entry, ...]

    def to_json(self) -> str:
        plain = {
            "version": VERSION,
            "format": self.format,
            "roles": vars(self.roles),
            "kind": self.kind,
            "shape": self.shape,
            "classes": self.classes,
            "shards": [vars(entry) for entry in self.entries],
        }
        return json.dumps(plain, indent=1) + "\n"


def read(text: str, where: str) -> Index:
    """An index from its text."""
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}, this program reads {VERSION}")
        roles = Roles(**{**found["roles"], "shape": tuple(found["roles"]["shape"])})
        entries = tuple(Entry(**{**each, "records": tuple(each["records"])}) for each in found["shards"])
        shape, classes = tuple(found["shape"]), tuple(found["classes"])
        return Index(found["format"], roles, found["kind"], shape, classes, entries)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{where} is not an index of shards: {error}. Remove it, or write the shards again."
        ) from error


def beside(places: Sequence[str], *, timeout: float, retries: int) -> Index | None:
    """The index that lies in the folder of all these shards and knows each of them; ``None`` where there is none."""
    folders = {place.rpartition("/")[0] for place in places}
    if len(folders) != 1:
        return None
    path = f"{folders.pop() or '.'}/{FILE}"
    text = _text(path, timeout=timeout, retries=retries)
    found = None if text is None else read(text, path)
    known: Mapping[str, Any] = {entry.name: entry for entry in found.entries} if found else {}
    return found if found and all(place.rpartition("/")[2] in known for place in places) else None


def _text(path: str, *, timeout: float, retries: int) -> str | None:
    if not remote(path):
        file = Path(path)
        return file.read_text(encoding="utf-8") if file.is_file() else None
    try:
        return answered(path, lambda system, inside: system.cat_file(inside).decode(), timeout=timeout, retries=retries)
    except Unreachable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
