"""A run in five lines of plain text, the same on the page and in the terminal."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vergence.report.pieces import percent, shown
from vergence.report.record import Record, finite, flat, mapping, read, sequence


def summary(run_directory: str | Path) -> list[str]:
    """What ran, the accuracies beside their baselines, where the loss stands, the geometry: as far as known."""
    return summary_lines(read(run_directory))


def summary_lines(record: Record) -> list[str]:
    return [*_training(record), *_accuracies(record), *_thermometer(record), *_geometry(record)]


def accuracy_rows(record: Record) -> list[Mapping[str, Any]]:
    """The accuracies that can be shown: those with a number, with every word present."""
    rows = [mapping(row) for row in sequence(record.results.get("accuracy"))]
    words = {"features": "features", "labels": "all", "classifier": "classifier"}
    known = [{**words, **row} for row in rows if finite(row.get("accuracy"))]
    return [{**row, "labels": _label_words(str(row["labels"]))} for row in known]


def _training(record: Record) -> Iterator[str]:
    settings = flat(record.config)
    facts = [f"{name} {shown(settings[name])}" for name in ("method", "data", "encoder", "epochs") if name in settings]
    steps = record.series("step", "loss")[0]
    if len(steps):
        facts.append(f"{steps[-1]:,.0f} steps")
    if facts:
        yield f"Training: {', '.join(facts)}."


def _accuracies(record: Record) -> Iterator[str]:
    """Per number of labels, each kind of features with the classifier that did best on it."""
    rows = accuracy_rows(record)
    for labels in dict.fromkeys(row["labels"] for row in rows):
        best: dict[str, Mapping[str, Any]] = {}
        for row in sorted((row for row in rows if row["labels"] == labels), key=lambda row: row["accuracy"]):
            best[row["features"]] = row
        order = [name for name in dict.fromkeys(row["features"] for row in rows) if name in best]
        facts = [f"{name} {percent(best[name]['accuracy'])} ({best[name]['classifier']})" for name in order]
        yield f"Accuracy with {labels}: {', '.join(facts)}."


def _thermometer(record: Record) -> Iterator[str]:
    heat = mapping(record.results.get("thermometer"))
    if all(finite(heat.get(key)) for key in ("loss", "chance", "floor")):
        where = f", {percent(heat['position'])} of the way" if finite(heat.get("position")) else ""
        verdict = f": {heat['verdict']}" if heat.get("verdict") else ""
        span = f"from chance {heat['chance']:.3f} to floor {heat['floor']:.3f}"
        yield f"Thermometer: loss {heat['loss']:.3f}, {span}{where}{verdict}."


def _geometry(record: Record) -> Iterator[str]:
    names = ("alignment", "uniformity", "effective_rank")
    known = {name: record.diagnostic(name) for name in names}
    facts = [f"{name.replace('_', ' ')} {shown(value)}" for name, value in known.items() if value is not None]
    if facts:
        yield f"Geometry: {', '.join(facts)}."


def _label_words(labels: str) -> str:
    """``all`` and ``5 per class`` as they read in a sentence."""
    return "all labels" if labels == "all" else labels.replace(" per ", " labels per ")
