"""WebDataset shards: plain tar files in which the members of a sample share a name and differ in their ending.

``000017.jpg``, ``000017.cls`` and ``000017.txt`` are an image, its label and its caption. Only the headers are read
when a shard is opened; members are read from the mapped file when they are asked for, so an open shard takes no memory
of its own.

References:
    The format of WebDataset. https://github.com/webdataset/webdataset
"""

import io
import json
import mmap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vergence.data.images import SUFFIXES
from vergence.data.shards.records import Damaged, Form, Listing, Roles

BLOCK = 512  # bytes: a header, and what members are padded to
REGULAR = (b"0", b"\0", b"7")
LABELS = ("cls", "label", "class")
CAPTIONS = ("txt", "text", "caption")
IMAGE = "image"  # the role of data that are whichever image a sample has: jpg in one, png in another
IMAGES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)


@dataclass(frozen=True)
class Member:
    """Where the bytes of one member lie."""

    offset: int
    size: int


@dataclass(frozen=True, eq=False)
class TarRecords:
    """The samples of an open tar file: ``keys`` and, for each, its members by their ending."""

    path: Path
    held: Any
    keys: tuple[str, ...]
    members: tuple[dict[str, Member], ...]
    fault: str = ""

    def __len__(self) -> int:
        return len(self.keys)

    def name(self, row: int) -> str:
        return self.keys[row]

    def data(self, row: int, roles: Roles) -> Any:
        """The sample: bytes of an image, an array, or a text."""
        ending = roles.data
        if ending == IMAGE and row < len(self.members):
            ending = next((each for each in self.members[row] if each in IMAGES), "jpg")
        content = self.content(row, ending)
        if roles.form == "bytes":
            return content
        return text_in(content) if roles.form == "text" else array_in(content)

    def label(self, row: int, roles: Roles) -> Any:
        found = self._text(row, roles.label)
        return int(found) if _is_whole(found) else found

    def caption(self, row: int, roles: Roles) -> str:
        return self._text(row, roles.caption)

    def content(self, row: int, ending: str) -> bytes:
        if row >= len(self.members):
            raise Damaged(self.fault or "the shard holds fewer samples than its index says")
        member = self.members[row].get(ending)
        if member is None:
            raise Damaged(f"the sample has no .{ending}; it has {', '.join(self.members[row])}")
        return bytes(self.held[member.offset : member.offset + member.size])

    def _text(self, row: int, role: str) -> str:
        ending, _, key = role.partition(":")
        content = text_in(self.content(row, ending)).strip()
        if not key:
            return content
        try:
            return str(json.loads(content)[key])
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"its .json has no {key!r}: {error}") from None

    @cached_property
    def endings(self) -> dict[str, int]:
        """How many samples have each ending."""
        found: dict[str, int] = {}
        for members in self.members:
            for ending in members:
                found[ending] = found.get(ending, 0) + 1
        return found


def opened(path: Path) -> TarRecords:
    """The samples of a tar file. One that ends too early gives those before its end, and says so in ``fault``."""
    size = path.stat().st_size
    if size == 0:
        raise Damaged("the file is empty")
    with path.open("rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    keys: list[str] = []
    samples: list[dict[str, Member]] = []
    fault = ""
    try:
        for name, member in _members(held, size):
            folder, _, last = name.rpartition("/")
            stem, dot, ending = last.partition(".")
            if not dot or last.startswith("."):
                continue
            key = f"{folder}/{stem}" if folder else stem
            if not keys or keys[-1] != key:
                keys.append(key)
                samples.append({})
            samples[-1][ending.lower()] = member
    except Damaged as error:
        fault = str(error)
        if keys:  # its members may be among those that are missing
            keys.pop()
            samples.pop()
    if not keys:
        raise Damaged(fault or "the tar file holds no samples")
    return TarRecords(path, held, tuple(keys), tuple(samples), fault)


def listed(path: Path, data: str = "") -> Listing:
    """How many samples a tar file holds, what they consist of, and which labels there are."""
    records = opened(path)
    found = roles_of(records, data)
    return Listing((len(records),), found, _labels(records, found) if found.label else None, records.fault)


def _labels(records: TarRecords, roles: Roles) -> set[Any]:
    found = set()
    for row in range(len(records)):
        with suppress(Damaged):  # it will be skipped when its turn comes
            found.add(records.label(row, roles))
    return found


def roles_of(records: TarRecords, data: str = "") -> Roles:
    """Which member is the sample, which its label and which its caption, by the endings of the first sample."""
    first = records.members[0]
    image = next((ending for ending in first if ending in IMAGES), "")
    chosen = (
        data or (IMAGE if image else "") or next((ending for ending in ("npy", "txt", "text") if ending in first), "")
    )
    if not chosen or (chosen != IMAGE and chosen not in first):
        raise ValueError(
            f"{records.path}: the samples have the endings {', '.join(first)}; expected an image (jpg, png, "
            "...), a .npy array or a .txt text. Name one with column=ENDING."
        )
    form: Form = "bytes" if chosen in (IMAGE, *IMAGES) else "array" if chosen == "npy" else "text"
    inside = _keys_of_json(records) if "json" in first else ()
    label = next((ending for ending in LABELS if ending in first), "")
    label = label or next((f"json:{key}" for key in LABELS if key in inside), "")
    caption = next((ending for ending in CAPTIONS if ending in first and ending != chosen), "")
    caption = caption or next((f"json:{key}" for key in CAPTIONS if key in inside), "")
    everywhere = not label or records.endings.get(label.partition(":")[0], 0) == len(records)
    return Roles(chosen, form, label if everywhere else "", caption if form == "bytes" else "")


def array_in(content: bytes) -> np.ndarray:
    """A .npy array from its bytes."""
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # a damaged header is parsed as Python and may raise anything
        raise Damaged(f"not a .npy array: {str(error)[:100]}") from None


def text_in(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged(f"not UTF-8 text: byte {error.start}") from None


def _members(held: Any, size: int) -> Iterator[tuple[str, Member]]:
    """Name and place of every regular member; long names of GNU and POSIX tar are followed."""
    at, long_name, long_size = 0, "", None
    while at + BLOCK <= size:
        header = held[at : at + BLOCK]
        if header[0] == 0 and not any(header):
            return
        length, kind = _checked_size(header, at), header[156:157]
        offset = at + BLOCK
        if kind in REGULAR and long_size is not None:
            length = long_size
        if offset + length > size:
            if kind in REGULAR:
                yield long_name or _name(header), Member(offset, 0)  # so that it is known whose member is missing
            raise Damaged(
                f"the tar file is cut off: a member at byte {at} needs {length} bytes, {size - offset} are there"
            )
        if kind == b"L":
            long_name = held[offset : offset + length].split(b"\0")[0].decode("utf-8", "replace")
        elif kind == b"x":
            found = _extended(held[offset : offset + length])
            long_name, long_size = found.get("path", ""), int(found["size"]) if "size" in found else None
        else:
            if kind in REGULAR:
                yield long_name or _name(header), Member(offset, length)
            long_name, long_size = "", None
        at = offset + -(-length // BLOCK) * BLOCK
    raise Damaged(f"the tar file has no end: it stops at byte {size}")


def _checked_size(header: bytes, at: int) -> int:
    """The size in a header whose checksum agrees."""
    try:
        expected = int(header[148:156].split(b"\0")[0].strip() or b"0", 8)
        if sum(header) - sum(header[148:156]) + 8 * 32 != expected:
            raise Damaged(f"the tar header at byte {at} does not match its checksum")
        field = header[124:136]
        if field[0] & 0x80:  # base 256, for members beyond 8 GB
            return int.from_bytes(field[1:], "big")
        return int(field.split(b"\0")[0].strip() or b"0", 8)
    except ValueError:
        raise Damaged(f"there is no tar header at byte {at}") from None


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0")[0].decode("utf-8", "replace")
    prefix = header[345:500].split(b"\0")[0].decode("utf-8", "replace") if header[257:262] == b"ustar" else ""
    return f"{prefix}/{name}" if prefix and header[257:263] == b"ustar\0" else name


def _extended(content: bytes) -> dict[str, str]:
    """The records ``LENGTH KEY=VALUE`` of a POSIX extended header."""
    found, rest = {}, content
    while rest:
        length = rest.split(b" ", 1)[0]
        if not length.isdigit() or not 0 < int(length) <= len(rest):
            break
        key, _, value = rest[len(length) + 1 : int(length) - 1].partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        rest = rest[int(length) :]
    return found


def _keys_of_json(records: TarRecords) -> tuple[str, ...]:
    try:
        found = json.loads(records.content(0, "json"))
    except (ValueError, Damaged):
        return ()
    return tuple(found) if isinstance(found, dict) else ()


def _is_whole(text: str) -> bool:
    return text.isdecimal() and text.isascii()
