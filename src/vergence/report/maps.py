"""The map of a run: made once, with what is known of each sample beside its place, and kept in ``map.safetensors``."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vergence.report.embedding import Projection, nearest, shown_rows
from vergence.report.projection import Told, best_projection, landmarks, near_bank
from vergence.report.record import Record
from vergence.runs.run import write_bytes

FILE = "map.safetensors"
NEIGHBORS = 10
CLUSTERS = 10  # where no labels say how many groups to look for
MOST_CLUSTERS = 50
STARTS, ROUNDS = 3, 50  # of k-means, of which the tightest wins; rounds at most
MOVING = 10_000  # rows that move centers; the others only join the nearest
HARDEST = 0.02  # share of the samples whose views are furthest apart
SAME = 1 - 1e-6  # cosine from which two samples are the same for the encoder
FINDINGS = ("nothing", "hardest positives", "matched to another sample", "copy of another", "neighbors disagree")
TINY = float(np.finfo(np.float32).tiny)  # keeps a row of zeros from dividing by zero


@dataclass(frozen=True)
class Map:
    """Points of the samples ``rows``, how they were made, and columns with a value for each: numbers or groups."""

    rows: Int[np.ndarray, " n"]
    projection: Projection
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)
    groups: Mapping[str, tuple[np.ndarray, tuple[str, ...]]] = field(default_factory=dict)


def made(record: Record, *, told: Told | None = None) -> Map | None:
    """The map of a run's held-out samples: read where it is kept and still true, otherwise made."""
    h = record.features.get("test_h")
    if h is None or h.ndim != 2:
        return None
    finite = np.flatnonzero(np.isfinite(h).all(axis=1))
    if len(finite) < 3:
        return None
    thumbnails = record.features.get("thumbnails")
    rows = finite[shown_rows(len(finite), 0 if thumbnails is None else len(thumbnails))]
    kept = _read(record.path, h[rows])
    if kept is not None:
        return kept
    own = h[rows].astype(np.float32)
    projection = best_projection(own, told=told)
    numbers, groups = _columns(record, rows, own)
    return Map(rows, projection, numbers, groups)


def keep(record: Record, found: Map) -> Path:
    """Write a map beside the run it is of."""
    projection = found.projection
    facts = {
        "projection": {key: value for key, value in vars(projection).items() if key != "points"},
        "groups": {name: list(names) for name, (_, names) in found.groups.items()},
    }
    arrays = {"rows": found.rows.astype(np.int64), "points": projection.points.astype(np.float32)}
    arrays |= {f"number|{name}": values.astype(np.float32) for name, values in found.numbers.items()}
    arrays |= {f"group|{name}": values.astype(np.int64) for name, (values, _) in found.groups.items()}
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    told = json.dumps(facts)
    digest = _digest(record.features["test_h"][found.rows], whole, told)
    return write_bytes(record.path / FILE, save(whole, metadata={"map": told, "digest": digest}))


def _read(folder: Path, h: np.ndarray) -> Map | None:
    """The kept map, if it is of these features and as it was written; one that is not is made again."""
    try:
        with safe_open(folder / FILE, framework="numpy") as file:
            told = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if told["digest"] != _digest(h, arrays, told["map"]):
            return None
        facts = json.loads(told["map"])
        plain = facts["projection"]
        tried = tuple((name, share) for name, share in plain.pop("tried"))
        projection = Projection(points=arrays["points"], tried=tried, **plain)
        numbers = {name[7:]: array for name, array in arrays.items() if name.startswith("number|")}
        groups = {name: (arrays[f"group|{name}"], tuple(words)) for name, words in facts["groups"].items()}
        return Map(arrays["rows"], projection, numbers, groups)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def _digest(h: np.ndarray, arrays: Mapping[str, np.ndarray], told: str) -> str:
    """Of the features that a map is of, and of all that is kept of it: one changed bit is another digest."""
    digest = hashlib.blake2b(told.encode(), digest_size=16)
    for name, array in [("h", h), *sorted(arrays.items())]:
        digest.update(f"{name} {array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _columns(record: Record, rows: np.ndarray, h: Float[np.ndarray, "n d"]) -> tuple[dict, dict]:
    """What a map can be colored by besides the label."""
    labels = record.features.get("test_labels")
    own = labels[rows] if labels is not None and len(labels) == len(record.features["test_h"]) else None
    directions = unit(h)
    similar, agreement = _neighborhood(directions, own)
    numbers = {"similarity of the nearest sample": similar, "length of the representation": np.linalg.norm(h, axis=1)}
    if agreement is not None:
        numbers["share of neighbors of the same class"] = agreement
    positive = positive_similarity(record, rows)
    if positive is not None:
        numbers["similarity of its two views"] = positive
    groups = {"cluster": _clusters(directions, own)}
    groups["finding"] = (_findings(similar, agreement, positive, record, rows), FINDINGS)
    return numbers, groups


def _neighborhood(directions: np.ndarray, labels: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """The cosine of each row's nearest other row and, with labels, the share of its neighbors that have its own."""
    n, count = len(directions), min(NEIGHBORS, len(directions) - 1)
    bank = landmarks(n)
    if len(bank) == n:
        found = nearest(directions, np.arange(n), count)
    else:  # one more than needed: a row in the bank finds itself
        parts = np.array_split(np.arange(n), -(-n // 1000))
        found = bank[np.concatenate([near_bank(directions[part], directions[bank], count + 1) for part in parts])]
    itself = found == np.arange(n)[:, None]
    cosines = np.einsum("nkd,nd->nk", directions[found], directions) if n * count * directions.shape[1] < 2**28 else (
        np.stack([np.einsum("nd,nd->n", directions[found[:, place]], directions) for place in range(found.shape[1])], 1)
    )  # fmt: skip
    similar = np.where(itself, -1.0, cosines).max(axis=1)
    if labels is None:
        return similar, None
    same = (labels[found] == labels[:, None]) & ~itself
    return similar, same.sum(axis=1) / np.maximum((~itself).sum(axis=1), 1)


def positive_similarity(record: Record, rows: np.ndarray) -> np.ndarray | None:
    """The cosine of the embeddings of two views of each sample."""
    z1, z2 = (record.features.get(name) for name in ("test_z1", "test_z2"))
    if z1 is None or z2 is None or z1.shape != z2.shape or len(z1) != len(record.features["test_h"]):
        return None
    one, other = (unit(np.nan_to_num(z[rows].astype(np.float32))) for z in (z1, z2))
    return np.einsum("nd,nd->n", one, other)


def _clusters(directions: np.ndarray, labels: np.ndarray | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Groups by k-means on directions, as many as there are classes, numbered from the largest."""
    classes = CLUSTERS if labels is None else len(np.unique(labels[labels >= 0])) or CLUSTERS
    count = min(max(2, classes), MOST_CLUSTERS, len(np.unique(directions, axis=0)))
    found = min((_k_means(directions, count, seed=start) for start in range(STARTS)), key=lambda pair: pair[1])[0]
    order = np.argsort(-np.bincount(found, minlength=count), kind="stable")
    return np.argsort(order)[found], tuple(f"cluster {number + 1}" for number in range(count))


def _k_means(x: np.ndarray, count: int, *, seed: int) -> tuple[np.ndarray, float]:
    """Lloyd's rounds from centers drawn far apart: the nearest center of each row, and the sum of squared distances.

    Of many rows a draw moves the centers. Arthur & Vassilvitskii (2007), k-means++.
    """
    generator = np.random.default_rng(seed)
    rows = x if len(x) <= MOVING else x[generator.permutation(len(x))[:MOVING]]
    centers, apart = rows[generator.integers(len(rows))][None], np.full(len(rows), np.inf)
    while len(centers) < count:
        apart = np.minimum(apart, np.square(rows - centers[-1]).sum(axis=1))
        chances = apart / apart.sum() if apart.sum() else None
        centers = np.vstack([centers, rows[generator.choice(len(rows), p=chances)]])
    member = np.full(len(rows), -1)
    for _ in range(ROUNDS):
        before, member = member, _nearest(rows, centers)[0]
        if np.array_equal(before, member):
            break
        kept = [rows[member == number] for number in range(count)]
        centers = np.stack(
            [own.mean(axis=0) if len(own) else center for own, center in zip(kept, centers, strict=True)]
        )
    found, squares = _nearest(x, centers)
    return found, float(squares.sum())


def _nearest(x: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest center of each row, and the squared distance less the row's own square."""
    squares = np.square(centers).sum(axis=1) - 2 * x @ centers.T
    return squares.argmin(axis=1), squares.min(axis=1)


def _findings(
    similar: np.ndarray, agreement: np.ndarray | None, positive: np.ndarray | None, record: Record, rows: np.ndarray
) -> np.ndarray:
    """Which of FINDINGS each sample stands out by; the last that applies."""
    found = np.zeros(len(rows), dtype=np.int64)
    if agreement is not None:
        found[agreement == 0] = 4
    if positive is not None:
        found[positive <= np.quantile(positive, HARDEST)] = 1
        z = unit(np.nan_to_num(record.features["test_z1"][rows].astype(np.float32)))
        bank = landmarks(len(rows))
        for block in np.array_split(np.arange(len(rows)), -(-len(rows) // 1000)):
            closeness = z[block] @ z[bank].T
            closeness[block[:, None] == bank] = -1
            found[block[closeness.max(axis=1) > positive[block]]] = 2
    found[similar >= SAME] = 3
    return found


def unit(h: np.ndarray) -> np.ndarray:
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), TINY)
