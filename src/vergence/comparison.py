"""Comparison: what the results of several runs say side by side."""

from collections.abc import Mapping
from typing import Any

from vergence.diagnostics import selection
from vergence.diagnostics.selection import Ranking
from vergence.run import Run


def row(run: Run) -> dict[str, str]:
    """A run as one line of a comparison."""
    results, config = run.read_json("results.json") or {}, run.config
    cells = {"method": config.method, "encoder": config.encoder, "epochs": str(config.epochs)}
    cells["verdict"] = results.get("verdict", {}).get("label", "not examined")
    for entry in results.get("accuracy", ()):
        if entry["features"] == "trained encoder":
            cells[f"{entry['classifier']}, {entry['labels']}"] = f"{entry['accuracy']:.3f}"
    for name in ("alignment", "uniformity", "effective_rank"):
        if name in results.get("diagnostics", {}):
            cells[name] = f"{results['diagnostics'][name]['value']:.3f}"
    return cells


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
