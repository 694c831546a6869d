"""``vergence compare``: what the results of several runs say side by side."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vergence import report
from vergence.diagnostics import selection
from vergence.diagnostics.selection import Ranking
from vergence.runs.results import Answer
from vergence.runs.run import Run, write_bytes


def compare(runs: tuple[Path, ...], *, output: Path | None = None) -> Answer:
    """Set several runs side by side: accuracies, thermometers, geometry, and the settings in which they differ."""
    rows = {str(path): cells(Run(path)) for path in runs}
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    width = max(len(name) for name in rows)
    lines = [" " * width + "  " + "  ".join(columns)]
    for name, row in rows.items():
        lines.append(f"{name:{width}}  " + "  ".join(f"{row.get(key, ''):>{len(key)}}" for key in columns))
    if output is not None:
        write_bytes(Path(output), report.compare([Path(path) for path in runs]).encode())
        lines.append(f"Page: {output}")
    found = {str(path): Run(path).read_json("results.json") or {} for path in runs}
    rankings = label_free(found) if len(found) > 1 else ()
    lines += [order(ranking) for ranking in rankings]
    return Answer(tuple(lines), {"runs": rows, "selection": [ranking.to_dict() for ranking in rankings]})


def cells(run: Run) -> dict[str, str]:
    """A run as one line of a comparison."""
    results, config = run.read_json("results.json") or {}, run.config
    found = {"method": config.method, "encoder": config.encoder, "epochs": str(config.epochs)}
    found["verdict"] = results.get("verdict", {}).get("label", "not examined")
    for entry in results.get("accuracy", ()):
        if entry["features"] == "trained encoder":
            found[f"{entry['classifier']}, {entry['labels']}"] = f"{entry['accuracy']:.3f}"
    for name in ("alignment", "uniformity", "effective_rank"):
        if name in results.get("diagnostics", {}):
            found[name] = f"{results['diagnostics'][name]['value']:.3f}"
    return found


def label_free(found: Mapping[str, Mapping[str, Any]]) -> tuple[Ranking, ...]:
    """Runs ranked by each label-free score; where all have labels, how well each score ranked them."""
    accuracy = {name: probe for name, results in found.items() if (probe := _probed(results)) is not None}
    diagnostics = {name: results.get("diagnostics", {}) for name, results in found.items()}
    return selection(diagnostics, accuracy if len(accuracy) == len(found) else None)


def order(ranking: Ranking) -> str:
    """The runs from best to worst by a score, and how well it agrees with the probe."""
    line = f"By {ranking.score}: {' > '.join(ranking.runs)}"
    if ranking.agreement is None or ranking.interval is None:
        return line
    low, high = ranking.interval
    return f"{line} (rank correlation with the probe {ranking.agreement:.2f} [{low:.2f}, {high:.2f}])"


def _probed(results: Mapping[str, Any]) -> float | None:
    """The accuracy of the first linear probe, where there is one."""
    entries = (row for row in results.get("accuracy", ()) if row["classifier"].startswith("linear probe"))
    return next((float(entry["accuracy"]) for entry in entries), None)
