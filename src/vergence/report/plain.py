"""Results as plain text, for a terminal."""

from collections.abc import Iterator, Sequence

from vergence.report.gains import badge, worth
from vergence.runs.results import Changes, Found, Judged, Layer, Number, Reading, Results, Score


def spoken(results: Results) -> Iterator[str]:
    """Results as lines for a person; what one line says, no other repeats."""
    told = worth(results) if results.gains else []
    yield f"{badge(results).upper()}: {' '.join([*told, results.verdict.sentence])}"
    yield from _found(results)
    yield from _reading(results.thermometer)
    for name, number in results.diagnostics.items():
        if number.value is not None:
            yield f"  {number.title or name.replace('_', ' '):24} {number.value:.4g}{_precision(number, '.4g')}"
    for row in results.accuracy:
        what = f"{row.features}, {row.classifier}, {row.labels}"
        yield f"  accuracy {row.accuracy:.3f}{_precision(row, '.3f')}  ({what})"
    yield from _sentences(results.sentences)
    for layer in results.layers:
        what = f"{layer.layer}, {layer.width} wide, {layer.classifier}"
        yield f"  accuracy {layer.accuracy:.3f}{_precision(layer, '.3f')}  ({what})"
    yield from _label_curves(results.few_labels)
    yield from _changes(results.changes)
    for tuned in results.finetuning:
        figures = ", ".join(f"{row.features} {row.accuracy:.3f}{_precision(row, '.3f')}" for row in tuned.scores)
        yield f"  with {tuned.labels} ({tuned.count:,} labels): {figures}"
    for proof in results.certificates:
        yield f"  certificate, {proof.verdict}: {proof.statement}: {_known(proof.left)} <= {_known(proof.right)}"
    findings = [found.sentence for found in results.findings]
    yield from (f"  note: {note}" for note in results.notes if note not in findings)
    yield from _advice(results, findings)


def _advice(results: Results, told: Sequence[str]) -> Iterator[str]:
    """What to change, numbered, without what was told: sentences of findings, and advice that the verdict gave."""
    place = 0
    for advice in results.recommendations:
        words = advice.sentence
        for sentence in told:
            words = words.replace(sentence, "").strip()
        if advice.override or words not in results.verdict.sentence:
            place += 1
            yield f"{place}. {words} ({advice.measurement}) {advice.override or ''}".rstrip()


def _found(results: Results) -> Iterator[str]:
    """The evidence and the findings, each once with its cost, and a word on rows, on pairs and on the learning."""
    findings = {found.sentence: found for found in results.findings}
    for line in results.verdict.evidence:
        yield _finding(findings[line]) if line in findings else f"  - {line}"
    for about, verdict in results.verdicts.items():
        why = f": {verdict.sentence}" if verdict.label == "not examined" else ""
        yield f"{about:9} {verdict.label}{why}"
    for sentence, found in findings.items():
        if sentence not in results.verdict.evidence:
            yield _finding(found)


def _sentences(rows: Sequence[Judged]) -> Iterator[str]:
    """Results on texts, a line for each data set and measure, the rows that need no training beside them."""
    for data, measure, part in dict.fromkeys((row.data, row.measure, row.set) for row in rows):
        mine = [row for row in rows if (row.data, row.measure, row.set) == (data, measure, part)]
        words = (
            f"{row.features} {row.value:.3f}{f' [{row.low:.3f}, {row.high:.3f}]' * (row.low < row.high)}"
            for row in mine
        )
        yield f"  {data}, {measure}{f', {part}' if part != 'all' else ''}: {'; '.join(words)}"


def cost_and_gain(found: Found) -> str:
    """What a finding costs on these rows and what the remedy that was tried gave, in words."""
    parts = []
    if found.cost is not None and found.cost.value is not None and found.cost.value > 0:
        parts.append(f"costs {found.cost.value:.3f}{_precision(found.cost, '.3f')}")
    if found.remedy and found.gain is not None and found.gain.value is not None:
        parts.append(f"tried: {found.remedy}, gain {found.gain.value:+.3f}")
    return "; ".join(parts)


def _finding(found: Found) -> str:
    told = cost_and_gain(found)
    level = "open" if found.level == "unknown" else found.level
    return f"  - {level}, {found.fault}: {found.sentence}" + (f" ({told})" if told else "")


def _reading(reading: Reading | None) -> Iterator[str]:
    if reading is None:
        return
    yield f"Thermometer ({reading.objective}): chance {reading.chance:.4f}, floor {reading.floor:.4f}"
    if reading.loss is not None and reading.position is not None:
        yield f"  loss {reading.loss:.4f}: {reading.position:.2f} of the way from chance (0) to the floor (1)"


def _precision(entry: Number | Score | Layer, form: str) -> str:
    """The interval and the number of samples, as far as known."""
    known = entry.low is not None and entry.high is not None
    interval = f" [{entry.low:{form}}, {entry.high:{form}}]" if known else ""
    return f"{interval} n={entry.n:,}" if entry.n is not None else interval


def _changes(changes: Changes | None) -> Iterator[str]:
    if changes is None:
        return
    yield f"Since the start ({changes.source}): {changes.label.upper()}. {changes.sentence}"
    for row in changes.rows:
        interval = "" if row.low is None else f", difference [{row.low:+.3f}, {row.high:+.3f}]"
        before = "" if row.before is None else f"{row.before:.3f} -> "
        yield f"  {row.name:24} {before}{row.after:.3f}{interval}{f'  {row.verdict}' if row.verdict else ''}"


def _known(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _label_curves(rows: Sequence[Score]) -> Iterator[str]:
    for kind in dict.fromkeys(row.features for row in rows):
        points = [f"{row.per_class:.0f}: {row.accuracy:.3f}" for row in rows if row.features == kind]
        yield f"  accuracy by labels of each class, nearest center, {kind}: {', '.join(points)}"
