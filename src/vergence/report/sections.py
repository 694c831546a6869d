"""The sections of a run's page: each takes the record, and is None when the run has nothing to say there."""

import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from vergence import __version__
from vergence.report import figures
from vergence.report.document import Section, section
from vergence.report.embedding import nearest, principal_plane, scatter, shown_rows
from vergence.report.pieces import (
    bullets,
    code,
    details,
    paragraph,
    percent,
    picture,
    piece,
    shown,
    side_by_side,
    table,
)
from vergence.report.record import Record, finite, flat, mapping, sequence
from vergence.report.sprite import Sprite
from vergence.report.summary import accuracy_rows, label_words

QUERIES, NEIGHBOURS = 8, 8  # samples whose neighbours are shown, and how many of them: a screenful


def recommendations(record: Record) -> Section | None:
    """What to change: each piece of advice with the measurement behind it and the override that does it."""
    rows = [mapping(row) for row in sequence(record.results.get("recommendations"))]
    cells = [[row.get("sentence"), row.get("measurement"), row.get("override")] for row in rows]
    return section("What to change", table(["advice", "because", "override"], cells)) if cells else None


def learning(record: Record) -> Section | None:
    """The loss, where it stands, and the path of training in the alignment-uniformity plane."""
    heat = {key: value for key, value in mapping(record.results.get("thermometer")).items() if finite(value)}
    left = Markup("").join(drawn for drawn in (_loss(record, heat), _thermometer(heat)) if drawn)
    return section("Is it learning?", side_by_side(left, _plane(record)))


def accuracies(record: Record) -> Section | None:
    """What the representation is worth, beside an untrained encoder and the raw input."""
    rows = [{**row, "labels": label_words(row["labels"])} for row in accuracy_rows(record)]
    if not rows:
        return None
    cells = [
        [row["classifier"], row["labels"], row["features"], percent(row["accuracy"]), *_interval(row, percent)]
        for row in rows
    ]
    best = max(rows, key=lambda row: row["accuracy"])
    return section(
        "What it is worth",
        side_by_side(
            picture(
                figures.accuracies(rows),
                "Bars are intervals. An encoder no better than its untrained self has learned nothing these labels ask for.",
                description=f"{len(rows)} accuracies, all in the table; the best is {percent(best['accuracy'])}, "
                f"of {best['features']} by {best['classifier']}.",
            ),
            table(["classifier", "labels", "features", "accuracy", "interval", "n"], cells),
        ),
    )


def embedding(record: Record, sprite: Sprite | None) -> Section | None:
    """The picture of the embedding: the circle when it is one, otherwise the plane of largest variance."""
    z, h = (_finite_rows(record.features.get(name)) for name in ("test_z1", "test_h"))
    if z is not None and z[0].shape[1] == 2:
        return section("The embedding", *_circle(record, *z, sprite))
    if h is None or len(h[0]) < 3:
        return None
    return section("The embedding", *_plane_of_variance(record, *h, sprite))


def neighbours(record: Record, sprite: Sprite | None) -> Section | None:
    """A few samples with their nearest neighbours by cosine: what the encoder takes for the same."""
    kept = _finite_rows(record.features.get("test_h"))
    count = 0 if kept is None or sprite is None else int((kept[1] < sprite.count).sum())
    if kept is None or sprite is None or count < 3:
        return None
    h, rows = kept[0][:count], kept[1][:count]
    unit = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    labels = _labels(record)
    anchors = _spread(None if labels is None else labels[rows], count)

    def sample(position: int, beside: int | None = None) -> Markup:
        number = int(rows[position])
        name = _class_names(record)[labels[number]] if labels is not None and labels[number] >= 0 else f"{number}"
        agrees = None if beside is None or labels is None else bool(labels[number] == labels[rows[beside]])
        return piece("sample", sprite.thumbnail(number, f"sample {number}, {name}"), name, agrees)

    found = nearest(unit, anchors, min(NEIGHBOURS, count - 1))
    lines = [
        (sample(a), [sample(b, a) for b in near]) for a, near in zip(anchors.tolist(), found.tolist(), strict=True)
    ]
    note = "" if labels is None else " A dashed outline marks a neighbour of another class."
    text = f"Each row: a held-out sample, then its nearest among the {count:,} with a thumbnail, by cosine.{note}"
    return section("Nearest neighbours", paragraph(text), piece("neighbours", lines))


def spectrum(record: Record) -> Section | None:
    """The singular values of the representation."""
    values = [
        value for value in sequence(mapping(record.results.get("spectrum")).get("singular_values")) if finite(value)
    ]
    if not values:
        return None
    rank = record.diagnostic("effective_rank")
    words = f"{len(values)} singular values" + ("" if rank is None else f", effective rank {rank:.1f}")
    drawing = figures.spectrum(np.array(values, dtype=float), effective_rank=rank)
    caption = "A slow fall means that many directions are used; a cliff means that the others have died."
    return section("The spectrum", picture(drawing, caption, description=f"{words}."))


def diagnostics(record: Record) -> Section | None:
    """Every diagnostic with its interval and its n."""
    entries = mapping(record.results.get("diagnostics"))
    if not entries:
        return None
    rows = [[name.replace("_", " "), *_diagnostic(entry)] for name, entry in entries.items()]
    return section("Diagnostics", table(["diagnostic", "value", "interval", "n", "beside"], rows))


def certificates(record: Record) -> Section | None:
    """Inequalities of the theory with both sides measured; a violated one is a finding."""
    rows = [mapping(row) for row in sequence(record.results.get("certificates"))]
    keys = ("statement", "verdict", "left", "right", "slack", "source")
    cells = [[*(row.get(key) for key in keys), mapping(row.get("assumptions"))] for row in rows]
    return section("Certificates", table([*keys, "assumptions"], cells)) if cells else None


def data(record: Record) -> Section | None:
    """Notes, and the files that could not be read."""
    notes = [str(note) for note in sequence(record.results.get("notes"))]
    skipped = [sequence(row) for row in sequence(record.results.get("skipped")) if len(sequence(row)) == 2]
    listing = details(f"{len(skipped):,} skipped files", table(["file", "reason"], skipped)) if skipped else None
    return section("Notes on the data", bullets(notes) if notes else None, listing)


def repetition(record: Record) -> Section | None:
    """The command that repeats the run, its config and where it ran."""
    name = shlex.quote(record.name)
    command = f"vergence train --config {name}/config.yaml --run {shlex.quote(record.name + '-again')}"
    config = [[key, value] for key, value in flat(record.config).items()]
    machine = [[key, value] for key, value in flat(record.environment).items()]
    version = record.environment.get("vergence", __version__)
    return section(
        "How to repeat it",
        code(command) if config else None,
        paragraph(f"Cite as: Vergence, version {version}; `vergence list methods` names the paper of each method."),
        details("The config", table(["setting", "value"], config)) if config else None,
        details("The environment", table(["", "value"], machine)) if machine else None,
    )


def missing(record: Record) -> Section | None:
    """What this page could not show, and why."""
    return section("What is missing", bullets(record.missing)) if record.missing else None


def _loss(record: Record, heat: Mapping[str, float]) -> Markup | None:
    steps, loss = record.series("step", "loss")
    if not len(steps):
        return None
    levels = {key: heat[key] for key in ("chance", "floor", "random") if key in heat}
    words = "".join(f" {name.capitalize()} is {value:.3f}." for name, value in levels.items())
    return picture(
        figures.loss_curve(steps, loss, **levels),
        "The loss along training.",
        description=f"The loss goes from {loss[0]:.3f} to {loss[-1]:.3f} in {steps[-1]:,.0f} steps.{words}",
    )


def _thermometer(heat: Mapping[str, float]) -> Markup | None:
    if not {"position", "chance", "floor"} <= heat.keys():
        return None
    positions = {"this run": float(heat["position"])}
    if "random" in heat and heat["chance"] != heat["floor"]:
        positions["random embeddings"] = (heat["chance"] - heat["random"]) / (heat["chance"] - heat["floor"])
    return picture(
        figures.thermometer(positions, chance=float(heat["chance"]), floor=float(heat["floor"])),
        "The thermometer: where the loss stands between collapse and the best that is attainable.",
        description=f"The loss stands at {heat['position']:.2f} of the way from chance to floor.",
    )


def _plane(record: Record) -> Markup | None:
    steps, align, uniform = record.series("step", "alignment", "uniformity")
    if not len(steps):
        return None
    floor = record.diagnostic("uniformity", "floor")
    return picture(
        figures.alignment_uniformity_plane(align, uniform, steps=steps, floor=floor),
        "Alignment and uniformity along training: lower left is better.",
        description=f"Alignment goes from {align[0]:.3f} to {align[-1]:.3f}, "
        f"uniformity from {uniform[0]:.3f} to {uniform[-1]:.3f}.",
    )


def _circle(record: Record, z: np.ndarray, rows: np.ndarray, sprite: Sprite | None) -> list[Markup]:
    unit = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    description = f"{len(z):,} held-out embeddings on the unit circle."
    caption = f"{description} The embedding has two dimensions, so this is all of it."
    density = picture(
        figures.circle_density(unit),
        "How evenly the circle is covered.",
        description="Density of directions around the circle.",
    )
    return [side_by_side(_map(record, unit, rows, sprite, description, caption, circle=True), density)]


def _plane_of_variance(record: Record, h: np.ndarray, rows: np.ndarray, sprite: Sprite | None) -> list[Markup]:
    chosen = shown_rows(len(h), sprite.count if sprite else 0)
    h, rows = h[chosen], rows[chosen]
    plane = principal_plane(h)
    description = f"{len(h):,} held-out samples: {h.shape[1]} dimensions projected to two by PCA."
    caption = (
        f"{description} The projection keeps {percent(plane.explained)} of the variance and {percent(plane.preserved)} "
        f"of each sample's {plane.neighbours} nearest neighbours; a random picture would keep {percent(plane.chance)}."
    )
    return [_map(record, plane.points, rows, sprite, description, caption)]


def _map(
    record: Record, points: np.ndarray, rows: np.ndarray, sprite: Sprite | None, description: str, caption: str,
    *, circle: bool = False,
) -> Markup:  # fmt: skip
    labels = _labels(record)
    names = [str(name) for name in sequence(record.results.get("names"))]
    drawing = scatter(
        points,
        labels=None if labels is None else labels[rows],
        classes=_class_names(record),
        rows=rows,
        names=names,
        circle=circle,
        thumbnails=sprite is not None,
        description=description,
        caption=caption,
    )
    if labels is None:
        return drawing
    centres = [
        [name, int(mine.sum()), *np.median(points[mine], axis=0).round(3).tolist()]
        for number, name in enumerate(_class_names(record))
        if (mine := labels[rows] == number).any()
    ]
    return drawing + details("The map in numbers", table(["class", "samples", "median across", "median up"], centres))


def _labels(record: Record) -> np.ndarray | None:
    """Labels of the held-out samples, when there is one for each."""
    labels, h = record.features.get("test_labels"), record.features.get("test_h", record.features.get("test_z1"))
    return labels.astype(np.int64) if labels is not None and h is not None and len(labels) == len(h) else None


def _class_names(record: Record) -> list[str]:
    labels = _labels(record)
    count = 0 if labels is None or not len(labels) else int(labels.max()) + 1
    given = [str(name) for name in sequence(record.results.get("classes"))]
    return [given[number] if number < len(given) else f"class {number}" for number in range(count)]


def _finite_rows(array: np.ndarray | None) -> tuple[np.ndarray, np.ndarray] | None:
    """The rows without NaN or infinity as float32, and their numbers."""
    if array is None or array.ndim != 2 or not len(array):
        return None
    rows = np.flatnonzero(np.isfinite(array).all(axis=1))
    return array[rows].astype(np.float32), rows


def _spread(labels: np.ndarray | None, count: int) -> np.ndarray:
    """Anchors for the neighbours: the first sample of each class, or evenly spaced ones."""
    first = np.array([], dtype=np.int64) if labels is None else np.unique(labels, return_index=True)[1]
    even = np.linspace(0, count - 1, QUERIES).astype(np.int64)
    return np.array(list(dict.fromkeys([*first.tolist(), *even.tolist()]))[:QUERIES], dtype=np.int64)


def _interval(row: Mapping[str, Any], form: Any) -> list[Any]:
    known = finite(row.get("low")) and finite(row.get("high"))
    return [f"{form(row['low'])} to {form(row['high'])}" if known else None, row.get("n")]


def _diagnostic(entry: Any) -> list[Any]:
    """Value, interval, n, and whatever else the diagnostic carries."""
    parts = entry if isinstance(entry, Mapping) else {"value": entry}
    rest = {key: value for key, value in parts.items() if key not in ("value", "low", "high", "n")}
    return [parts.get("value"), *_interval(parts, shown), rest or None]
