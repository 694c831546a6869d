"""Claims of Wang & Isola that need training: alignment and uniformity must be in balance."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import Contrast, contrast
from vergence.claims.laboratory import Laboratory, Row, column, mean, measured, stated, train
from vergence.config import Optim
from vergence.objectives import Objective
from vergence.report.experiments import curves, marks
from vergence.runs.assembly import Assembled

SHARES = (0.0, 0.3, 0.5, 0.8, 1.0)  # the paper's collapse lies between 0.845 and 0.85
TEMPERATURES = (0.005, 0.2, 0.5, 5.0)  # the paper's best is 0.19
BATCHES = (2, 16, 64)
COLLAPSED = 0.5  # average potential: 0.02 for a uniform law in 128 dimensions, 1 for a point
TUNING: Mapping[str, Row] = {
    "alignment only": {"align_weight": 1.0, "uniform_weight": 0.0},
    "uniformity only": {"align_weight": 0.0, "uniform_weight": 1.0},
    "both": {"align_weight": 1.0, "uniform_weight": 1.0},
}
OUTPUT, REPRESENTATION = "output", "probe"
# What the authors print for the output on STL-10 (their Table 1 and ablations): the best less the ends nearest to ours.
PRINTED_WEIGHTS = (0.8058 - 0.5678, 0.8058 - 0.10)  # weights of .02 and .98, and of .9 and .1
PRINTED_TEMPERATURES = (0.8046 - 0.681, 0.8046 - 0.558)  # temperatures of .005 and 5
PRINTED_BATCHES = (0.739 - 0.193, 0.739 - 0.9 * 0.808)  # batches of 16 over 2, and over nine tenths of 256
LAYERS = {"output": OUTPUT, "representation": REPRESENTATION}


@torch.enable_grad()
def fine_tuned(parts: Assembled) -> Row:
    """The same before, and after a little more training with one of the two losses, or with both."""
    before = {name: tensor.clone() for name, tensor in parts.learner.state_dict().items()}
    rate = parts.config.optim.rate / 10
    config = replace(
        parts.config, epochs=max(1, parts.config.epochs // 4), optim=replace(parts.config.optim, learning_rate=rate)
    )
    rows = {"before": measured(parts)}
    for name, weights in TUNING.items():
        parts.learner.load_state_dict(before)
        parts.learner.objective = Objective("align_uniform", **weights)
        train(replace(parts, config=config))
        rows[name] = measured(parts)
    return rows


@claim(
    18,
    "Accuracy is an inverted U in the weight of alignment over uniformity, and alignment alone collapses.",
    kind="training",
    tolerance="both ends below the peak by more than the spread over seeds; potential above 0.5",
    minutes=10.0,
)
def weights_give_an_inverted_u(laboratory: Laboratory) -> Outcome:
    cells = {share: balanced(laboratory, share) for share in SHARES}
    peak, alone = peak_of(cells), cells[1.0]
    words = (
        f"accuracy of the output {stated(cells[0.0], OUTPUT)} with uniformity alone, {stated(cells[peak], OUTPUT)} at "
        f"the best ratio {ratio(peak)}, {stated(alone, OUTPUT)} with alignment alone, where the average potential is "
        f"{stated(alone, 'potential')} and the probe scales up what remains; {_collapse(cells)}; accuracy of the "
        f"representation at these weights {mean(cells[0.0], REPRESENTATION):.3f}, "
        f"{mean(cells[peak], REPRESENTATION):.3f} and {mean(alone, REPRESENTATION):.3f}"
    )
    across = "share of alignment in the weights (5 to 1 is 0.83)"
    accuracy = {name: {x: column(rows, key) for x, rows in cells.items()} for name, key in LAYERS.items()}
    potential = {"output": {x: column(rows, "potential") for x, rows in cells.items()}}
    pictures = {
        "accuracy": curves(accuracy, across, "accuracy of a linear probe"),
        "potential": curves(potential, across, "average potential (1 is collapse)"),
    }
    holds = _inverted_u(cells) and mean(alone, "potential") > COLLAPSED
    collapse = contrast("potential of alignment alone", column(alone, "potential"), [COLLAPSED] * len(alone))
    figures = {str(share): averages(rows) for share, rows in cells.items()}
    return Outcome(holds, words, figures, pictures, contrasts=[*_falls(cells, PRINTED_WEIGHTS), collapse])


@claim(
    19,
    "Fine-tuning with only one of alignment and uniformity makes the other worse.",
    kind="training",
    tolerance="every seed",
    minutes=2.0,
)
def one_alone_degrades_the_other(laboratory: Laboratory) -> Outcome:
    # A temperature of 2.5, as in the paper, leaves room for both to improve.
    rows = laboratory.trials(method="simclr", objective={"temperature": 2.5}, measure=fine_tuned, **laboratory.short)
    stages = {name: [row[name] for row in rows] for name in ("before", *TUNING)}
    scattered = [
        after["uniformity"] > before["uniformity"]
        for before, after in zip(stages["before"], stages["alignment only"], strict=True)
    ]
    apart = [
        after["alignment"] > before["alignment"]
        for before, after in zip(stages["before"], stages["uniformity only"], strict=True)
    ]
    words = "; ".join(
        f"{name}: alignment {stated(part, 'alignment')}, uniformity {stated(part, 'uniformity')}, accuracy "
        f"{stated(part, OUTPUT)}"
        for name, part in stages.items()
    )
    pictures = {
        key: marks({key: {name: column(part, key) for name, part in stages.items()}}, label)
        for key, label in {
            "alignment": "distance of views (lower is better)",
            "uniformity": "uniformity (lower is better)",
            OUTPUT: "accuracy of a linear probe on the output",
        }.items()
    }
    figures = {name: averages(part) for name, part in stages.items()}
    contrasts = [
        contrast(f"{other} after {name} over before", column(stages[name], other), column(stages["before"], other))
        for name, other in (("alignment only", "uniformity"), ("uniformity only", "alignment"))
    ]
    return Outcome(all(scattered) and all(apart), words, figures, pictures, contrasts=contrasts)


@claim(
    202,
    "Accuracy is an inverted U in the temperature of the contrastive loss.",
    kind="training",
    tolerance="both ends below the peak by more than the spread over seeds",
    minutes=6.0,
)
def temperature_gives_an_inverted_u(laboratory: Laboratory) -> Outcome:
    cells = {temperature: contrastive_at(laboratory, temperature) for temperature in TEMPERATURES}
    words = "accuracy of the output " + ", ".join(f"{stated(rows, OUTPUT)} at {x:g}" for x, rows in cells.items())
    accuracy = {name: {x: column(rows, key) for x, rows in cells.items()} for name, key in LAYERS.items()}
    picture = curves(accuracy, "temperature", "accuracy of a linear probe", logarithmic=True)
    figures = {f"{x:g}": averages(rows) for x, rows in cells.items()}
    return Outcome(
        _inverted_u(cells), words, figures, {"accuracy": picture}, contrasts=_falls(cells, PRINTED_TEMPERATURES)
    )


@claim(
    203,
    "Training for alignment and uniformity needs batches of about 16 or more.",
    kind="training",
    tolerance="2 below 16 by more than the spread over seeds, 16 within a tenth of the best",
    minutes=7.0,
)
def small_batches_lose(laboratory: Laboratory) -> Outcome:
    batches = [float(batch) for batch in BATCHES if batch <= laboratory.scale.batch]
    cells: dict[str, dict[float, list[Row]]] = {
        "alignment and uniformity": {batch: _in_batches(laboratory, "align_uniform", batch) for batch in batches},
        "contrastive loss": {batch: _in_batches(laboratory, "simclr", batch) for batch in batches[1:]},
    }
    ours = cells["alignment and uniformity"]
    loses = mean(ours[16], OUTPUT) - mean(ours[2], OUTPUT) > spread(ours[16], ours[2])
    holds = loses and mean(ours[16], OUTPUT) > 0.9 * mean(ours[peak_of(ours)], OUTPUT)
    words = "; ".join(
        f"{name}: " + ", ".join(f"{stated(rows, OUTPUT)} in batches of {batch:g}" for batch, rows in group.items())
        for name, group in cells.items()
    )
    accuracy = {name: {batch: column(rows, OUTPUT) for batch, rows in group.items()} for name, group in cells.items()}
    picture = curves(accuracy, "batch size", "accuracy of the output", logarithmic=True)
    figures = {name: {f"{b:g}": averages(rows) for b, rows in group.items()} for name, group in cells.items()}
    best = [0.9 * value for value in column(ours[peak_of(ours)], OUTPUT)]
    contrasts = [
        contrast("batch 16 over 2", column(ours[16], OUTPUT), column(ours[2], OUTPUT), reported=PRINTED_BATCHES[0]),
        contrast("16 over nine tenths of the best", column(ours[16], OUTPUT), best, reported=PRINTED_BATCHES[1]),
    ]
    return Outcome(holds, f"accuracy of the output, {words}", figures, {"accuracy": picture}, contrasts=contrasts)


def balanced(laboratory: Laboratory, share: float) -> list[Row]:
    weights = {"align_weight": share, "uniform_weight": round(1 - share, 3)}
    return laboratory.trials(method="align_uniform", objective=weights, **laboratory.short)


def contrastive_at(laboratory: Laboratory, temperature: float) -> list[Row]:
    return laboratory.trials(method="simclr", objective={"temperature": temperature}, **laboratory.short)


def _in_batches(laboratory: Laboratory, method: str, batch: float) -> list[Row]:
    """So many samples for so many epochs, whatever the batch; Adam's rate goes with the root of the batch.

    References:
        Malladi et al. (2022), for the rule. https://arxiv.org/abs/2205.10287
    """
    scale = laboratory.scale
    rate = Optim().rate * math.sqrt(batch / scale.batch)
    return laboratory.trials(
        method=method, batch=int(batch), limit=min(scale.samples // 2, 10_000), epochs=max(1, scale.epochs // 2),
        optim=Optim(learning_rate=rate),
    )  # fmt: skip


def peak_of(cells: Mapping[float, Sequence[Row]]) -> float:
    return max(cells, key=lambda x: mean(cells[x], OUTPUT))


def _inverted_u(cells: Mapping[float, Sequence[Row]]) -> bool:
    """Whether the first and the last cell lie below the best by more than the spread."""
    best = cells[peak_of(cells)]
    return all(
        mean(best, OUTPUT) - mean(end, OUTPUT) > spread(best, end) for end in (cells[min(cells)], cells[max(cells)])
    )


def _falls(cells: Mapping[float, Sequence[Row]], printed: Sequence[float]) -> list[Contrast]:
    """The best cell above the first and above the last; chosen by the same figures, it is flattered a little."""
    peak = peak_of(cells)
    return [
        contrast(f"{peak:g} over {end:g}", column(cells[peak], OUTPUT), column(cells[end], OUTPUT), reported=reported)
        for end, reported in zip((min(cells), max(cells)), printed, strict=True)
    ]


def spread(*cells: Sequence[Row]) -> float:
    """The largest standard deviation over seeds."""
    return max(statistics.stdev(column(rows, OUTPUT)) for rows in cells)


def averages(rows: Sequence[Row]) -> dict[str, float]:
    return {key: mean(rows, key) for key in (OUTPUT, REPRESENTATION, "alignment", "uniformity", "potential")}


def ratio(share: float) -> str:
    return "infinity" if share == 1 else f"{share / (1 - share):.2g}"


def _collapse(cells: Mapping[float, Sequence[Row]]) -> str:
    uncollapsed = [share for share in cells if mean(cells[share], "potential") <= COLLAPSED]
    beyond = [share for share in cells if share > max(uncollapsed, default=-1.0)]
    if not uncollapsed or not beyond:
        return f"{'no' if uncollapsed else 'all'} weights collapse"
    return f"collapse begins between the ratios {ratio(max(uncollapsed))} and {ratio(beyond[0])}"
