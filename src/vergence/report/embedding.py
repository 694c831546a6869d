"""The map of an embedding: which picture, how faithful it is, and the scatter that shows it."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from markupsafe import Markup

from vergence.report.pieces import piece

Points = Float[np.ndarray, "n 2"]

MOST_SAMPLES = 100_000  # points of a larger map hide one another, and the page is slow to open
ANCHORS = 500  # samples whose neighbors are compared: the standard error of the share is then under 0.01
BLOCK = 64  # anchors whose distances are in memory at once
NO_LABEL = 65_535  # what the script reads as a sample without a value


@dataclass(frozen=True)
class Projection:
    """Points in the plane, with the share of variance they keep and the share of neighbors they preserve."""

    points: Points
    explained: float
    preserved: float
    chance: float
    neighbors: int
    name: str = "PCA"
    tried: tuple[tuple[str, float], ...] = ()


def principal_plane(h: Float[np.ndarray, "n d"], *, neighbors: int = 10) -> Projection:
    """The two directions of largest variance (PCA), exact and without parameters.

    A linear picture of a curved thing: ``preserved`` is the share of each sample's nearest neighbors that are still
    among its nearest in the picture, and ``chance`` what a random picture would keep.
    """
    centered = h - h.mean(axis=0)
    variances, directions = np.linalg.eigh((centered.T @ centered).astype(np.float64))
    plane = directions[:, ::-1][:, :2]
    # The sign of an eigenvector is arbitrary: fix it, so that the same features give the same picture.
    plane = plane * np.where(plane.sum(axis=0) < 0, -1.0, 1.0)
    points = centered @ plane
    if points.shape[1] < 2:
        points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    total = variances.sum()
    neighbors = min(neighbors, len(h) - 1)
    return Projection(
        points=points,
        explained=float(variances[-2:].sum() / total) if total > 0 else 1.0,
        preserved=preserved_neighbors(centered, points, neighbors=neighbors),
        chance=neighbors / max(len(h) - 1, 1),
        neighbors=neighbors,
    )


def preserved_neighbors(h: Float[np.ndarray, "n d"], points: Points, *, neighbors: int) -> float:
    """The share of the nearest neighbors in ``h`` that are also nearest in ``points``, over evenly spaced anchors."""
    anchors = np.unique(np.linspace(0, len(h) - 1, min(ANCHORS, len(h))).astype(int))
    pairs = zip(nearest(h, anchors, neighbors), nearest(points, anchors, neighbors), strict=True)
    shares = [len(np.intersect1d(high, low)) / max(neighbors, 1) for high, low in pairs]
    return float(np.mean(shares))


def nearest(h: Float[np.ndarray, "n d"], anchors: Int[np.ndarray, " m"], count: int) -> Int[np.ndarray, "m k"]:
    """The ``count`` rows nearest to each anchor row, itself excluded, nearest first."""
    squares = np.einsum("nd,nd->n", h, h)
    found = []
    for block in np.array_split(anchors, -(-len(anchors) // BLOCK)):
        distances = squares - 2 * (h[block] @ h.T)
        distances[np.arange(len(block)), block] = np.inf
        closest = np.argpartition(distances, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(distances, closest, axis=1), axis=1, kind="stable")
        found.append(np.take_along_axis(closest, order, axis=1))
    return np.concatenate(found)


def shown_rows(n: int, thumbnails: int) -> Int[np.ndarray, " m"]:
    """Which of ``n`` samples a map shows: all, or those with a thumbnail and an even choice of the others."""
    if n <= MOST_SAMPLES:
        return np.arange(n)
    first = min(thumbnails, MOST_SAMPLES)
    return np.concatenate([np.arange(first), np.linspace(first, n - 1, MOST_SAMPLES - first).astype(np.int64)])


def scatter(
    points: Points,
    *,
    labels: Int[np.ndarray, " n"] | None = None,
    classes: Sequence[str] = (),
    rows: Int[np.ndarray, " n"] | None = None,
    names: Sequence[str] = (),
    numbers: Int[np.ndarray, " n"] | None = None,
    groups: Mapping[str, tuple[np.ndarray, Sequence[str]]] | None = None,
    measures: Mapping[str, np.ndarray] | None = None,
    circle: bool = False,
    description: str,
    caption: str,
) -> Markup:
    """A map that can be zoomed and moved; the pointer, a finger or arrow keys show a sample, a lasso lists some.

    ``rows`` are the places of the points among the page's thumbnails and names when they are not 0, 1, 2, …;
    ``numbers`` are their rows in the data where these are others. It is colored by ``labels``, or by a column of
    ``groups`` (a code and a name for each) or ``measures``, whichever the reader chooses.
    """
    low, high = (np.full(2, -1.0), np.full(2, 1.0)) if circle else (points.min(axis=0), points.max(axis=0))
    extent = np.maximum(high - low, 1e-12 + 1e-6 * (high - low).max())
    known = {} if labels is None else {"class": (labels, classes)}
    columns = [_group(name, *column) for name, column in {**known, **(groups or {})}.items()]
    columns += [_measure(name, values) for name, values in (measures or {}).items()]
    data = {
        "points": _packed(np.round((points - low) / extent * 65_535), "<u2"),
        "extent": (extent / extent.max()).tolist(),
        "rows": None if rows is None or np.array_equal(rows, np.arange(len(rows))) else _packed(rows, "<u4"),
        "numbers": None if numbers is None else _packed(numbers, "<u4"),
        "columns": columns,
        "names": list(names),
        "circle": circle,
    }
    return piece("scatter", data, [column["name"] for column in columns], description, caption)


def _group(name: str, codes: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """A column of groups; codes below zero are samples without one."""
    return {
        "name": name,
        "kind": "group",
        "values": _packed(np.where(codes < 0, NO_LABEL, codes), "<u2"),
        "names": list(names),
    }


def _measure(name: str, values: np.ndarray) -> dict[str, Any]:
    """A column of numbers, from its 1st to its 99th percentile, so that one extreme does not hide the rest."""
    finite = np.isfinite(values)
    low, high = np.percentile(values[finite], (1, 99)).tolist() if finite.any() else (0.0, 1.0)
    shares = (np.where(finite, values, low).clip(low, high) - low) / max(high - low, 1e-12)
    codes = np.where(finite, np.round(shares * (NO_LABEL - 1)), NO_LABEL)
    return {"name": name, "kind": "number", "values": _packed(codes, "<u2"), "low": low, "high": high}


def _packed(values: np.ndarray, kind: str) -> str:
    """Integers as little-endian bytes in base64: two bytes a coordinate instead of twenty characters."""
    return base64.b64encode(values.astype(kind).tobytes()).decode()
