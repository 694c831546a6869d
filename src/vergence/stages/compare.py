"""``vergence compare``: what the results of several runs say side by side, of like with like."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vergence import report
from vergence.diagnostics import selection
from vergence.diagnostics.selection import WRONG, Ranking, unlike
from vergence.methods import customized
from vergence.runs import results
from vergence.runs.results import TRAINED, Answer, Results
from vergence.runs.run import Run, file_to_write, write_bytes

LEADING = ("Spearman", "accuracy", "MRR")  # measures of texts for which what needs no training stands beside them
FEWEST_RANKED = 4  # runs: the interval of a rank correlation over fewer goes from -1 to 1


def compare(runs: tuple[Path, ...], *, output: Path | None = None) -> Answer:
    """Set several runs side by side: accuracies, thermometers, geometry, and the settings in which they differ.

    Runs on different data are shown in groups of their own. The label-free scores rank runs of one group only.
    """
    if not runs:
        raise ValueError("Nothing to compare: name at least one run directory.")
    output = None if output is None else file_to_write(output)
    groups = like_with_like(runs)
    lines: list[str] = []
    for name, members in groups.items():
        lines += [
            *([f"On {name}:"] if len(groups) > 1 else []),
            *_table({str(path): cells(Run(path)) for path in members}),
        ]
    if len(groups) > 1:
        lines.append("These runs were trained on different data: numbers of different groups are not comparable.")
    found = {name: _ranked(members) for name, members in groups.items()}
    rankings = [ranking for ranked, _ in found.values() for ranking in ranked]
    refusals = [f"{name}: {why}" for name, (_, why) in found.items() if why]
    lines += [*refusals, *(order(ranking) for ranking in rankings)]
    if output is not None:
        write_bytes(output, _page(runs, found).encode())
        lines.append(f"Page: {output}")
    values = {
        "runs": {str(path): cells(Run(path)) for path in runs},
        "groups": {name: [str(path) for path in members] for name, members in groups.items()},
        "selection": [ranking.to_dict() for ranking in rankings],
        "not_ranked": refusals,
    }
    return Answer(tuple(lines), values)


def _page(runs: Sequence[Path], found: Mapping[str, tuple[tuple[Ranking, ...], str | None]]) -> str:
    """The page, with what label-free scores say: the leading one first."""
    said = {name: [*([why] if why else []), *map(order, ranked)] for name, (ranked, why) in found.items()}
    return report.compare([Path(path) for path in runs], label_free=said)


def like_with_like(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Runs grouped by the data they were trained on."""
    groups: dict[str, list[Path]] = {}
    for path in runs:
        config = Run(path).config
        limit, size = (f", {name} {value}" if (value := getattr(config, name)) else "" for name in ("limit", "size"))
        groups.setdefault(f"{config.data}{limit}{size}", []).append(path)
    return groups


def cells(run: Run) -> dict[str, str]:
    """A run as one line of a comparison; of its loss, the place between chance and floor, which batches do not move."""
    found, config = results.read(run.path), run.config
    line = {
        "method": config.method,
        "encoder": config.encoder,
        "epochs": str(config.epochs),
        "batch": str(config.batch),
    }
    line["verdict"] = found.verdict.label if found else "not examined"
    for row in found.accuracy if found else ():
        if row.features == TRAINED:
            line[f"{row.classifier}, {row.labels}"] = f"{row.accuracy:.3f}"
    for tuned in found.finetuning if found else ():
        line[f"fine-tuned, {tuned.labels}"] = f"{tuned.scores[0].accuracy:.3f}"
    for judged in found.sentences if found else ():
        own = judged.features == TRAINED
        if judged.set in ("all", "mean") and (own or judged.measure.startswith(LEADING)):
            beside = "" if own else f" of {judged.features}"
            line[f"{judged.data}, {judged.measure}{beside}"] = f"{judged.value:.3f}"
    if found and found.thermometer and found.thermometer.position is not None:
        line["thermometer"] = f"{found.thermometer.position:.2f}"
    for name in ("alignment", "uniformity", "effective_rank"):
        if found and (value := found.number(name)) is not None:
            line[name] = f"{value:.3f}"
    return line


def label_free(
    found: Mapping[str, Results], settings: Mapping[str, Mapping[str, Any]]
) -> tuple[tuple[Ranking, ...], str | None]:
    """Runs ranked by each label-free score, or why they are not; where labels judge the scores, how well each ranked.

    Without labels, or with too few runs to judge a score, only runs on the same data, with the same augmentation and
    family of encoders are ranked.
    """
    accuracy = {name: probe for name, each in found.items() if (probe := _probed(each)) is not None}
    judged = accuracy if len(accuracy) == len(found) >= FEWEST_RANKED else None
    numbers = {name: {key: entry.value for key, entry in each.diagnostics.items()} for name, each in found.items()}
    return selection(numbers, judged, settings), None if judged else unlike(settings)


def alike_by(run: Run) -> dict[str, Any]:
    """What runs must have in common to be ranked together without labels."""
    config = run.config
    method = customized(config.method, heads=config.heads, objective=config.objective)
    return {
        "data": (config.data, config.limit, config.size),
        "views": (config.views, config.view),
        "encoder": config.encoder,
        "objective": method.objective,
        "hyperparameters": method.reading(hard_negatives=config.view.get("negatives", 0)),
        "batch": config.batch,
    }


def order(ranking: Ranking) -> str:
    """The runs from best to worst by a score, and how well it agrees with the probe."""
    line = f"By {ranking.score}{' (experimental)' * ranking.experimental}: {' > '.join(ranking.runs)}"
    if ranking.agreement is None and not ranking.experimental:
        wrong = f"{WRONG[0]:.0%} to {WRONG[1]:.0%} of pairs"
        return f"{line} (a guess: among short runs of many methods it had {wrong} wrong)"
    if ranking.agreement is None or ranking.interval is None or math.isnan(ranking.agreement):
        return line
    low, high = ranking.interval
    return f"{line} (rank correlation with the probe {ranking.agreement:.2f} [{low:.2f}, {high:.2f}])"


def _ranked(members: Sequence[Path]) -> tuple[tuple[Ranking, ...], str | None]:
    """Label-free rankings of one group, or why there are none."""
    found = {str(path): each for path in members if (each := results.read(path)) is not None}
    if len(found) < 2:
        return (), None
    return label_free(found, {name: alike_by(Run(name)) for name in found})


def _table(rows: Mapping[str, Mapping[str, str]]) -> list[str]:
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    width = max(len(name) for name in rows)
    widths = {key: max(len(key), *(len(row.get(key, "")) for row in rows.values())) for key in columns}
    head = " " * width + "  " + "  ".join(f"{key:>{widths[key]}}" for key in columns)
    return [
        head,
        *(
            f"{name:{width}}  " + "  ".join(f"{row.get(key, ''):>{widths[key]}}" for key in columns)
            for name, row in rows.items()
        ),
    ]


def _probed(found: Results) -> float | None:
    """The accuracy of the first linear probe with all labels, where there is one."""
    return next((row.accuracy for row in found.accuracy if row.protocol is not None), None)
