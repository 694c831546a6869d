"""The sections that show samples: the map of the embedding and nearest neighbors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from markupsafe import Markup

from vergence.report import figures
from vergence.report.document import Section, section
from vergence.report.embedding import Points, nearest, scatter
from vergence.report.gains import percent
from vergence.report.maps import Map
from vergence.report.pieces import details, paragraph, picture, piece, shortened, side_by_side, table
from vergence.report.record import Record
from vergence.report.sprite import Pictures

QUERIES = 8  # samples whose neighbors are shown: a screenful
PICTURES, WORDS = 7, 4  # how many neighbors of each: thumbnails in a row, sentences one under the other
MOST_NAMES = 2000  # as many as there are thumbnails: more would outweigh the rest of the page
TINY = float(np.finfo(np.float32).tiny)  # keeps a row of zeros from dividing by zero


@dataclass(frozen=True)
class HeldOut:
    """What is known of the held-out samples beside their features; ``labels`` below zero are absent ones."""

    labels: Int[np.ndarray, " n"] | None
    classes: Sequence[str]
    names: Sequence[str]
    thumbnails: int
    rows: Int[np.ndarray, " n"] | None = None

    def called(self, number: int) -> str:
        """The class of a sample, or its row in the data."""
        label = -1 if self.labels is None else self.labels[number]
        return self.classes[label] if label >= 0 else f"{self.row(number)}"

    def row(self, number: int) -> int:
        """The row of a sample in the data; the page numbers them in an order of its own."""
        return number if self.rows is None else int(self.rows[number])


def embedding(record: Record, thumbnails: int, found: Map | None) -> Section | None:
    """The picture of the embedding: the circle when it is one, otherwise the map that keeps most neighbors."""
    samples = _samples(record, thumbnails)
    z = _finite_rows(record.features.get("test_z1"))
    if z is not None and z[0].shape[1] == 2 and len(z[0]):
        return section("The embedding", _circle(*z, samples))
    return None if found is None else section("The embedding", _plane(found, samples))


def neighbors(record: Record, pictures: Pictures) -> Section | None:
    """A few samples with their nearest neighbors by cosine: what the encoder takes for the same.

    As thumbnails, or as names where there are none (sentences, say).
    """
    samples = _samples(record, pictures.count)
    known = pictures.count or len(samples.names)
    kept = _finite_rows(record.features.get("test_h"))
    if kept is None or (kept[1] < known).sum() < 3:
        return None
    h, rows = (part[kept[1] < known] for part in kept)
    anchors = _anchors(None if samples.labels is None else samples.labels[rows], len(h))
    found = rows[nearest(_unit(h), anchors, min(PICTURES if pictures.count else WORDS, len(h) - 1))]
    lines = [
        (_sample(samples, number, pictures), [_sample(samples, near, pictures, beside=number) for near in line])
        for number, line in zip(rows[anchors].tolist(), found.tolist(), strict=True)
    ]
    note = "" if samples.labels is None else " A dashed outline marks a neighbor of another class."
    text = f"Each row: a held-out sample, then its nearest among {len(h):,}, by the cosine of their features.{note}"
    return section("Nearest neighbors", paragraph(text), piece("neighbors", lines))


def _circle(z: Float[np.ndarray, "n 2"], rows: Int[np.ndarray, " n"], samples: HeldOut) -> Markup | None:
    description = f"{len(z):,} held-out embeddings on the unit circle."
    density = picture(
        figures.circle_density(_unit(z)),
        "How evenly the circle is covered: a flat line at 1 is the uniform law.",
        description="Density of directions around the circle.",
    )
    caption = f"{description} The embedding has two dimensions, so this is all of it."
    return side_by_side(_map(_unit(z), rows, samples, description, caption, circle=True), density)


def _plane(found: Map, samples: HeldOut) -> Markup:
    plane = found.projection
    description = f"{len(found.rows):,} samples projected to two dimensions by {plane.name}."
    others = [f"{name} {percent(share)}" for name, share in plane.tried if name != plane.name]
    chosen = f", more than {' and '.join(others)}" if others else ""
    caption = (
        f"{description} It keeps {percent(plane.preserved)} of each sample's {plane.neighbors} nearest neighbors"
        f"{chosen}; a random picture would keep {percent(plane.chance)}. Near groups are alike; distances between far "
        "groups mean little. Click, then turn the wheel to zoom; drag to move."
    )
    columns: dict[str, Any] = {"groups": dict(found.groups), "measures": dict(found.numbers)}
    return _map(plane.points, found.rows, samples, description, caption, **columns)


def _map(
    points: Points,
    rows: Int[np.ndarray, " n"],
    samples: HeldOut,
    description: str,
    caption: str,
    *,
    circle: bool = False,
    **columns: Any,
) -> Markup:
    labels = None if samples.labels is None else samples.labels[rows]
    drawing = scatter(
        points,
        labels=labels,
        classes=samples.classes,
        rows=rows,
        names=samples.names[:MOST_NAMES],
        numbers=None if samples.rows is None else samples.rows[rows],
        circle=circle,
        **columns,
        description=description,
        caption=caption,
    )
    if labels is None:
        return drawing
    middles = [
        [name, int(mine.sum()), *np.median(points[mine], axis=0).astype(float).tolist()]
        for number, name in enumerate(samples.classes)
        if (mine := labels == number).any()
    ]
    return drawing + details("The map in numbers", table(["class", "samples", "median across", "median up"], middles))


def _sample(samples: HeldOut, number: int, pictures: Pictures, *, beside: int | None = None) -> Markup:
    """A thumbnail over its class, or a name; one of another class than ``beside`` is marked."""
    differs = beside is not None and samples.labels is not None and samples.labels[number] != samples.labels[beside]
    if not pictures.count:
        return piece("sample", "", samples.names[number], bool(differs))
    name = samples.called(number)
    return piece("sample", pictures.sample(number), shortened(name), bool(differs))


def _samples(record: Record, thumbnails: int) -> HeldOut:
    labels = record.features.get("test_labels")
    lengths = {record.features[name].shape[:1] for name in ("test_h", "test_z1") if name in record.features}
    if labels is not None and lengths != {labels.shape}:
        labels = None
    given = list(record.results.classes)
    count = 0 if labels is None else int(labels.max(initial=-1)) + 1
    classes = [given[number] if number < len(given) else f"class {number}" for number in range(count)]
    names = list(record.results.names or ())
    rows = record.features.get("test_rows")
    return HeldOut(None if labels is None else labels.astype(np.int64), classes, names, thumbnails, rows)


def _finite_rows(array: np.ndarray | None) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, " n"]] | None:
    """The rows without NaN or infinity as float32, and their numbers."""
    if array is None or array.ndim != 2:
        return None
    rows = np.flatnonzero(np.isfinite(array).all(axis=1))
    return array[rows].astype(np.float32), rows


def _anchors(labels: Int[np.ndarray, " n"] | None, count: int) -> Int[np.ndarray, " m"]:
    """The samples to show: the first of each class, then evenly spaced ones."""
    first = [] if labels is None else sorted(np.unique(labels, return_index=True)[1].tolist(), key=lambda i: labels[i])
    even = np.linspace(0, count - 1, QUERIES).astype(np.int64).tolist()
    return np.array(list(dict.fromkeys([*first, *even]))[:QUERIES])


def _unit(h: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), TINY)
