"""Sharded sources: ``parquet:PATTERN`` and ``wds:PATTERN``, on a local disk or behind an address."""

import glob
import io
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vergence.data.arrays import _channels_first, _kind
from vergence.data.images import _reason, pixels
from vergence.data.progress import with_progress
from vergence.data.samples import Samples
from vergence.data.shards import index as indices
from vergence.data.shards import tables, tars
from vergence.data.shards.order import LANES, WINDOW
from vergence.data.shards.places import Spool, answered, expanded, remote
from vergence.data.shards.reading import Reading
from vergence.data.shards.records import Damaged, Listing, Roles
from vergence.data.shards.stored import Field, Names, Shards
from vergence.data.splits import part

__all__ = ["Shards", "parquet", "sharded", "wds"]

LISTERS = 16  # shards listed at the same time
ENDINGS = {"wds": (".tar",), "parquet": (".parquet", ".pq")}


def parquet(
    path: str, split: str, *, column: str = "", size: int = 64, channels: int = 3, length: int = 64, lanes: int = LANES,
    window: int = WINDOW, timeout: float = 30.0, retries: int = 5, room: float = 16.0,
) -> Samples:  # fmt: skip
    """Parquet shards: a file, a folder, a glob or a range ``{000..127}``, on disk or at an https, s3 or gs address.

    A row is a sample: a column of images (bytes), arrays or texts, ``column`` where the choice is not plain; label,
    caption and name are taken from columns of such names. Images become squares of ``size``. The order is a function
    of the seed, ``lanes`` and ``window`` alone. ``timeout`` seconds without an answer are tried again ``retries``
    times; ``room`` GiB hold copies of remote shards.
    """
    options: dict[str, Any] = {
        "column": column,
        "size": size,
        "channels": channels,
        "length": length,
        "lanes": lanes,
        "window": window,
    }
    return sharded("parquet", path, split, timeout=timeout, retries=retries, room=room, **options)


def wds(
    path: str, split: str, *, column: str = "", size: int = 64, channels: int = 3, length: int = 64, lanes: int = LANES,
    window: int = WINDOW, timeout: float = 30.0, retries: int = 5, room: float = 16.0,
) -> Samples:  # fmt: skip
    """WebDataset shards (tar files): a file, a folder, a glob or a range ``{000..127}``, on disk or at an address.

    Members of one name are a sample: an image, .npy or .txt, ``column`` names the ending where the choice is not
    plain; .cls is its label, .txt or the key caption of .json its caption. Other options as for ``parquet:``.
    """
    options: dict[str, Any] = {
        "column": column,
        "size": size,
        "channels": channels,
        "length": length,
        "lanes": lanes,
        "window": window,
    }
    return sharded("wds", path, split, timeout=timeout, retries=retries, room=room, **options)


def sharded(
    form: str, path: str, split: str, *, timeout: float, retries: int, room: float, lanes: int, window: int,
    files: Sequence[str] | None = None, **options: Any,
) -> Samples:  # fmt: skip
    """Samples in shards of a format; ``files`` are given where the pattern has been looked up already."""
    for name, value in {"lanes": lanes, "window": window, "retries": retries, "timeout": timeout}.items():
        if value <= 0:
            raise ValueError(f"{name} must be more than 0, not {value}.")
    source = f"{form}:{path}"
    places = files or expanded(path, ENDINGS[form], timeout=timeout, retries=retries)
    spool = Spool(timeout, retries, int(room * 2**30))
    index = indices.beside(places, timeout=timeout, retries=retries)
    skipped: list[tuple[str, str]] = []
    if index is not None:
        skipped = _missing(index, places) if files is None and _is_folder(path, form) else []
        known = {entry.name: entry for entry in index.entries}
        listings = [Listing(known[place.rpartition("/")[2]].records, index.roles) for place in places]
    else:
        places, listings, skipped = _listed(form, places, spool, str(options["column"]), source)
    roles = _agreed(places, listings)
    x = _stored(form, places, listings, roles, spool, index, {**options, "lanes": lanes, "window": window})
    given: dict[str, Any] = {"labels": Field(x, "labels")} if roles.label else {}
    given |= {"captions": Field(x, "captions")} if roles.caption else {}
    classes = x.reading.classes if roles.label else ()
    kind = x.reading.kind
    return part(
        Samples(x, kind, classes=classes, names=Names(x), skipped=tuple(skipped), source=source, **given), split
    )


def _listed(
    form: str, places: Sequence[str], spool: Spool, column: str, source: str
) -> tuple[list[str], list[Listing], list[tuple[str, str]]]:
    """What every shard holds, looked up side by side; damaged ones are left out and named."""

    def look(place: str) -> Listing | str:
        try:
            return _listing(form, place, spool, column)
        except Damaged as error:
            return str(error)

    with ThreadPoolExecutor(LISTERS) as pool:
        found = list(with_progress(pool.map(look, places), total=len(places), what="Looking through shards"))
    skipped = [(place, each) for place, each in zip(places, found, strict=True) if isinstance(each, str)]
    good = [(place, each) for place, each in zip(places, found, strict=True) if isinstance(each, Listing)]
    if not good:
        raise ValueError(f"None of the {len(places)} shards of {source} can be read. {skipped[0][0]}: {skipped[0][1]}.")
    skipped += [(place, each.fault) for place, each in good if each.fault]
    if skipped:
        named = "; ".join(f"{place}: {fault}" for place, fault in skipped[:3])
        warnings.warn(f"{len(skipped)} of {len(places)} shards are damaged. {named}.", stacklevel=3)
    return [place for place, _ in good], [each for _, each in good], skipped


def _is_folder(path: str, form: str) -> bool:
    """Whether a pattern stands for all shards of a folder, rather than for some that were chosen."""
    return not glob.has_magic(path) and not path.endswith(ENDINGS[form]) and "::" not in path and "{" not in path


def _missing(index: Any, places: Sequence[str]) -> list[tuple[str, str]]:
    """Shards that the index of their folder names and that are not there, which is said."""
    folder, there = places[0].rpartition("/")[0], {place.rpartition("/")[2] for place in places}
    lost = [f"{folder}/{entry.name}" for entry in index.entries if entry.name not in there]
    if lost:
        warnings.warn(
            f"{len(lost)} of the {len(index.entries)} shards that {folder}/{indices.FILE} names are missing: "
            f"{', '.join(lost[:3])}{', ...' * (len(lost) > 3)}.",
            stacklevel=3,
        )
    return [(place, "missing") for place in lost]


def _listing(form: str, place: str, spool: Spool, column: str) -> Listing:
    if form == "wds":
        return tars.listed(spool.local(place), column)
    if not remote(place):
        return tables.listed(Path(place), column)
    options: dict[str, Any] = {"timeout": spool.timeout, "retries": spool.retries}
    return answered(place, lambda system, path: _far_listing(system, path, column), **options)


def _far_listing(system: Any, path: str, column: str) -> Listing:
    with system.open(path, "rb") as file:  # the footer alone is read
        return tables.listed(file, column)


def _agreed(places: Sequence[str], listings: Sequence[Listing]) -> Roles:
    """The roles that all shards share. Samples in other columns or forms are refused; labels must be in all or none."""
    common = Counter((each.roles.data, each.roles.form, each.roles.shape) for each in listings).most_common(1)[0][0]
    typical = next(number for number, each in enumerate(listings) if _of(each) == common)
    for place, each in zip(places, listings, strict=True):
        if _of(each) != common:
            raise ValueError(
                f"The shards differ: {place} has its samples in {each.roles.described}, {places[typical]} in "
                f"{listings[typical].roles.described}. Leave one kind out, or name the column with column=NAME."
            )
    roles = listings[typical].roles
    chosen = {}
    for role in ("label", "caption"):
        values = [getattr(each.roles, role) for each in listings]
        lacking = [place for place, value in zip(places, values, strict=True) if not value]
        if lacking and len(lacking) < len(places):
            warnings.warn(
                f"{len(places) - len(lacking)} of {len(places)} shards have a {role}, {lacking[0]} has none: all are "
                f"used without {role}s.",
                stacklevel=3,
            )
        chosen[role] = "" if lacking else Counter(values).most_common(1)[0][0]
    return Roles(roles.data, roles.form, chosen["label"], chosen["caption"], roles.key, roles.shape)


def _of(listing: Listing) -> tuple[Any, ...]:
    return listing.roles.data, listing.roles.form, listing.roles.shape


def _stored(
    form: str, places: Sequence[str], listings: Sequence[Listing], roles: Roles, spool: Spool, index: Any, options: dict
) -> Shards:
    """The shards with the kind and shape of their samples, by the first that can be read."""
    records = np.array([count for each in listings for count in each.counts], np.int64)
    shard = np.repeat(np.arange(len(places)), [len(each.counts) for each in listings])
    number = np.concatenate([np.arange(len(each.counts)) for each in listings])
    classes, codes = _classes(listings, index) if roles.label else ((), None)
    first = _first(form, places, shard, number, roles, spool)
    kind, shape = _kind_and_shape(first, roles, form, options)
    tokens = {"length": options["length"]}
    reading = Reading(form, roles, kind, shape, classes, codes, tokens)
    lanes, window = options["lanes"], options["window"]
    return Shards(
        tuple(places),
        shard,
        number,
        records,
        reading,
        spool,
        lanes=lanes,
        window=window,
        most_open=lanes * (window + 1),
    )


def _first(form: str, places: Sequence[str], shard: Any, number: Any, roles: Roles, spool: Spool) -> Any:
    """What the first sound record holds."""
    fault = "no record"
    for piece in range(min(len(shard), 8)):
        try:
            path = spool.local(places[shard[piece]])
            records: Any = tars.opened(path) if form == "wds" else tables.opened(path, int(number[piece]), roles)
        except Damaged as error:
            fault = str(error)
            continue
        for row in range(min(len(records), 64)):
            try:
                value = records.data(row, roles)
                if roles.form == "bytes":
                    _decode(value)
                return value
            except Exception as error:  # a damaged image may raise anything
                fault = _reason(error)
    raise ValueError(f"No sample at the beginning of {places[0]} can be read: {fault}.")


def _decode(value: bytes) -> None:
    with Image.open(io.BytesIO(value)) as image:
        pixels(image, size=8)


def _kind_and_shape(first: Any, roles: Roles, form: str, options: dict[str, Any]) -> tuple[Any, tuple[int, ...]]:
    if roles.form == "text":
        return "text", (options["length"],)
    if roles.form == "bytes":
        return "image", (options["channels"], options["size"], options["size"])
    array = np.asarray(first)[None]
    kind = _kind(array, "", roles.data)
    return kind, tuple(_channels_first(array, kind, roles.data).shape[1:])


def _classes(listings: Sequence[Listing], index: Any) -> tuple[tuple[str, ...], Any]:
    """The names of the classes, and the code of each label where labels are not 0, 1, ... already."""
    if index is not None:
        return tuple(index.classes), None  # such shards hold the codes
    found = set().union(*(each.labels or set() for each in listings))
    if found and all(isinstance(label, int) and 0 <= label < tables.MANY for label in found):
        named = listings[0].classes if all(each.classes == listings[0].classes for each in listings) else ()
        return named if max(found) < len(named) else tuple(map(str, range(max(found) + 1))), None
    ordered = sorted(found, key=lambda label: (str(type(label)), label))
    return tuple(map(str, ordered)), {label: code for code, label in enumerate(ordered)}
