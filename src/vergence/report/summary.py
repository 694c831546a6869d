"""A run in a few lines of plain text, the same on the page and in the terminal: what it is worth first."""

from collections.abc import Iterator
from pathlib import Path

from vergence.report.gains import percent, worth
from vergence.report.pieces import shown
from vergence.report.record import Record, flat, read
from vergence.runs.results import TRAINED, Results

# Measures of texts that stand in the table alone: the line has one of each kind.
SECONDARY = ("Pearson", "alignment", "uniformity", "recall@1", "recall@5", "recall@10", "nDCG@10")


def summary(run_directory: str | Path) -> list[str]:
    """What training gave, where the loss stands, where a baseline wins, what ran, the geometry: as far as known."""
    record = read(run_directory)
    return [*worth(record.results), *_measured(record)]


def summary_lines(record: Record) -> list[str]:
    """What follows the worth of a run on its page."""
    return [*_measured(record), *_training(record)]


def _measured(record: Record) -> list[str]:
    changed = [record.results.changes.sentence] if record.results.changes else []
    return [
        *changed,
        *texts(record.results),
        *_thermometer(record),
        *_beaten(record.results),
        *_few(record),
        *_geometry(record),
    ]


def texts(results: Results) -> Iterator[str]:
    """What an encoder of texts is worth, a line for each set of evaluation data, TF-IDF always beside it."""
    rows = [row for row in results.sentences if row.set in ("all", "mean") and row.measure not in SECONDARY]
    for data, measure in dict.fromkeys((row.data, row.measure) for row in rows):
        mine = {row.features: row for row in rows if (row.data, row.measure) == (data, measure)}
        if TRAINED not in mine:
            continue
        own = mine.pop(TRAINED)
        others = "; ".join(f"{name} {row.value:.3f}" for name, row in sorted(mine.items()))
        ahead = [name for name, row in sorted(mine.items()) if row.value >= own.value]
        told = f" Not above {' and '.join(ahead)}." if ahead else ""
        interval = f"[{own.low:.3f}, {own.high:.3f}]"
        yield f"{data}, {measure}: {TRAINED} {own.value:.3f} {interval}; {others} (n = {own.n:,}).{told}"


def _beaten(results: Results) -> Iterator[str]:
    """Wherever a baseline is ahead of the trained encoder, it is said, and whether the interval is sure of it."""
    sure = {(gain.over, gain.classifier, gain.per_class): gain.high < 0 for gain in results.gains}
    trained = {(row.classifier, row.per_class): row for row in results.accuracy if row.features == TRAINED}
    lines = []
    for row in results.accuracy:
        mine = trained.get((row.classifier, row.per_class))
        if row.features == TRAINED or mine is None or row.accuracy <= mine.accuracy:
            continue
        certain = sure.get((row.features, row.classifier, row.per_class))
        doubt = " (within the error)" if certain is False else ""
        told = f"{percent(row.accuracy)} against {percent(mine.accuracy)}"
        lines.append(f"{row.features} with {row.classifier}, {row.labels}: {told}{doubt}")
    if lines:
        yield f"Ahead of the trained encoder: {'; '.join(lines)}."


def _training(record: Record) -> Iterator[str]:
    settings = flat(record.config)
    facts = [f"{name} {shown(settings[name])}" for name in ("method", "data", "encoder", "epochs") if name in settings]
    steps = record.series("step", "loss")[0]
    if len(steps):
        facts.append(f"{steps[-1]:,.0f} steps")
    if facts:
        yield f"Training: {', '.join(facts)}."


def _few(record: Record) -> Iterator[str]:
    """With few labels, each kind of features with the classifier that did best on it; unless that was told first."""
    told = len(worth(record.results)) > 1
    rows = [row for row in record.results.accuracy if row.per_class is not None and not told]
    for per_class in dict.fromkeys(row.per_class for row in rows):
        best = {name: record.results.best(name, per_class) for name in dict.fromkeys(row.features for row in rows)}
        known = [score for score in best.values() if score is not None]
        facts = [f"{score.features} {percent(score.accuracy)} ({score.classifier})" for score in known]
        yield f"Accuracy with {known[0].labels}: {', '.join(facts)}."


def _thermometer(record: Record) -> Iterator[str]:
    """Where the loss stands; unless that is the verdict, whose sentence says it."""
    heat = record.results.thermometer
    if heat is not None and heat.loss is not None and heat.verdict != record.results.verdict.label:
        where = f", {percent(heat.position)} of the way" if heat.position is not None else ""
        span = f"from chance {heat.chance:.3f} to floor {heat.floor:.3f}"
        yield f"Thermometer: loss {heat.loss:.3f}, {span}{where}: {heat.verdict}."


def _geometry(record: Record) -> Iterator[str]:
    known = {name: record.results.number(name) for name in ("alignment", "uniformity", "effective_rank")}
    facts = [f"{name.replace('_', ' ')} {shown(value)}" for name, value in known.items() if value is not None]
    if facts:
        yield f"Geometry: {', '.join(facts)}."
