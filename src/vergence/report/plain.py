"""Results as plain text, for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def spoken(results: Mapping[str, Any]) -> Iterator[str]:
    """Results as lines for a person."""
    verdict = results["verdict"]
    yield f"{verdict['label'].upper()}: {verdict['sentence']}"
    yield from (f"  - {line}" for line in verdict.get("evidence", ()))
    reading = results.get("thermometer")
    if reading:
        yield f"Thermometer ({reading['objective']}): chance {reading['chance']:.4f}, floor {reading['floor']:.4f}"
        if reading.get("loss") is not None and reading.get("position") is not None:
            yield f"  loss {reading['loss']:.4f}: {reading['position']:.2f} of the way from chance (0) to the floor (1)"
    for name, entry in results.get("diagnostics", {}).items():
        if isinstance(entry, Mapping) and entry.get("value") is not None:
            yield f"  {name.replace('_', ' '):24} {entry['value']:.4g}{_precision(entry, '.4g')}"
    for row in results.get("accuracy", ()):
        what = ", ".join(str(row[key]) for key in ("features", "classifier", "labels") if key in row)
        yield f"  accuracy {row['accuracy']:.3f}{_precision(row, '.3f')}  ({what})"
    for row in results.get("layers", ()):
        what = f"{row['layer']}, {row['width']} wide, {row['classifier']}"
        yield f"  accuracy {row['accuracy']:.3f}{_precision(row, '.3f')}  ({what})"
    yield from _label_curves(results.get("few_labels", ()))
    for row in results.get("certificates", ()):
        yield f"  certificate, {row['verdict']}: {row['statement']}: {row['left']:.4g} <= {row['right']:.4g}"
    yield from (f"  note: {note}" for note in results.get("notes", ()))
    for number, advice in enumerate(results.get("recommendations", ()), 1):
        yield f"{number}. {advice['sentence']} ({advice['measurement']}) {advice.get('override', '')}".rstrip()


def _precision(entry: Mapping[str, Any], form: str) -> str:
    """The interval and the number of samples, as far as known."""
    low, high, n = (entry.get(key) for key in ("low", "high", "n"))
    interval = f" [{low:{form}}, {high:{form}}]" if low is not None and high is not None else ""
    return f"{interval} n={n:,}" if n is not None else interval


def _label_curves(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for kind in dict.fromkeys(row["features"] for row in rows):
        points = [f"{row['per_class']:.0f}: {row['accuracy']:.3f}" for row in rows if row["features"] == kind]
        yield f"  accuracy by labels of each class, nearest center, {kind}: {', '.join(points)}"
