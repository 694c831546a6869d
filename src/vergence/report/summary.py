"""A run in five lines of plain text, the same on the page and in the terminal."""

from collections.abc import Iterator
from pathlib import Path

from vergence.report.pieces import percent, shown
from vergence.report.record import Record, flat, read


def summary(run_directory: str | Path) -> list[str]:
    """What ran, the accuracies beside their baselines, where the loss stands, the geometry: as far as known."""
    return summary_lines(read(run_directory))


def summary_lines(record: Record) -> list[str]:
    return [*_training(record), *_accuracies(record), *_thermometer(record), *_geometry(record)]


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
    rows = record.results.accuracy
    for per_class in dict.fromkeys(row.per_class for row in rows):
        best = {name: record.results.best(name, per_class) for name in dict.fromkeys(row.features for row in rows)}
        known = [score for score in best.values() if score is not None]
        facts = [f"{score.features} {percent(score.accuracy)} ({score.classifier})" for score in known]
        yield f"Accuracy with {known[0].labels}: {', '.join(facts)}."


def _thermometer(record: Record) -> Iterator[str]:
    heat = record.results.thermometer
    if heat is not None and heat.loss is not None:
        where = f", {percent(heat.position)} of the way" if heat.position is not None else ""
        span = f"from chance {heat.chance:.3f} to floor {heat.floor:.3f}"
        yield f"Thermometer: loss {heat.loss:.3f}, {span}{where}: {heat.verdict}."


def _geometry(record: Record) -> Iterator[str]:
    known = {name: record.results.number(name) for name in ("alignment", "uniformity", "effective_rank")}
    facts = [f"{name.replace('_', ' ')} {shown(value)}" for name, value in known.items() if value is not None]
    if facts:
        yield f"Geometry: {', '.join(facts)}."
