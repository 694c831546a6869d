"""Claims about estimators that train: the largest information they can report, and how much they vary."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import Contrast, contrast
from vergence.claims.laboratory import Laboratory, Row, column, mean, stated
from vergence.information import staircase
from vergence.information.exact import correlated_information
from vergence.report.colors import INK, LINE, QUIET, category
from vergence.report.experiments import along_training, curves, thinned

STAIRS = (2.0, 4.0, 6.0, 8.0, 10.0)
WITH_A_CRITIC = {
    "InfoNCE": "info_nce",
    "NWJ": "nwj",
    "Donsker-Varadhan": "donsker_varadhan",
    "MINE": "mine",
    "SMILE, clip 5": "smile",
    "interpolated": "interpolated",
}
CLIMBERS = {**WITH_A_CRITIC, "entropies": "entropies"}
BATCH = 64


@claim(
    62,
    "Of pairs with 6 nats and more InfoNCE sees log 64, NWJ wavers more and more, and at 10 SMILE is the nearest.",
    kind="training",
    tolerance="InfoNCE from 80 % of log 64 to log 64; NWJ's deviations by their ratio; SMILE among those with a critic",
    minutes=9.0,
)
def every_estimator_climbs(laboratory: Laboratory) -> Outcome:
    steps = {"smallest": 20, "small": 1000, "medium": 1000, "paper": 4000}[laboratory.name]
    climbs = {name: _climbs(laboratory, bound, steps) for name, bound in CLIMBERS.items()}
    means, deviations = _over_seeds(climbs, "mean"), _over_seeds(climbs, "deviation")
    saturated = all(0.8 * math.log(BATCH) <= value <= math.log(BATCH) for value in means["InfoNCE"][2:])
    nwj = deviations["NWJ"][::2]
    nearest = min(WITH_A_CRITIC, key=lambda name: abs(means[name][-1] - STAIRS[-1]))
    return Outcome(
        saturated and nwj == sorted(nwj) and nearest.startswith("SMILE"),
        f"InfoNCE {_row(means['InfoNCE'][2:])} at 6, 8 and 10 nats (log 64 is {math.log(BATCH):.2f}); deviation of NWJ "
        f"{_row(nwj)} at 2, 6 and 10; at 10: {', '.join(f'{name} {row[-1]:.2f}' for name, row in means.items())}",
        {"means": means, "deviations": deviations},
        {"staircase": _staircases(climbs), "deviation": _by_stair(climbs, "deviation", "deviation of a batch in nats")},
        why=f"Nearest to 10 nats is {nearest}." if not nearest.startswith("SMILE") else "",
        contrasts=_climbed(climbs),
    )


def _climbed(climbs: Mapping[str, list[list[Row]]]) -> list[Contrast]:
    """InfoNCE near its ceiling from 6 nats on, NWJ's deviation rising, SMILE's error at 10 below that of the others.

    Deviations are compared by their ratio: they grow like the exponential of the information, and a difference of
    them says more of the one seed with the largest than of the order.
    """
    stairs = {name: [list(seeds) for seeds in zip(*runs, strict=True)] for name, runs in climbs.items()}
    found = []
    for nats, rows in zip(STAIRS[2:], stairs["InfoNCE"][2:], strict=True):
        least = [0.8 * math.log(BATCH)] * len(rows)
        found.append(contrast(f"InfoNCE at {nats:g} over .8 log 64", column(rows, "mean"), least, about="InfoNCE"))
    for low, high in ((0, 2), (2, 4)):
        both = ([math.log(row["deviation"]) for row in stairs["NWJ"][place]] for place in (high, low))
        name = f"log of NWJ's deviation at {STAIRS[high]:g} over {STAIRS[low]:g} nats"
        found.append(contrast(name, *both, about="NWJ"))
    errors = {name: [abs(row["mean"] - STAIRS[-1]) for row in stairs[name][-1]] for name in WITH_A_CRITIC}
    smile = errors.pop("SMILE, clip 5")
    found += [contrast(f"error of {name} over SMILE's", error, smile, about="SMILE") for name, error in errors.items()]
    return found


@claim(
    63,
    "A difference of entropies finds 18.41 nats from batches of 128, where InfoNCE stays below ln 128.",
    kind="training",
    tolerance="entropies within 1.5 nats, InfoNCE at most 4.86",
    minutes=3.2,
)
def entropies_count_beyond_the_batch(laboratory: Laboratory) -> Outcome:
    nats = 128 * correlated_information(0.5)
    steps = {"smallest": 20, "small": 6000, "medium": 6000, "paper": 6000}[laboratory.name]
    setting = {"stairs": [nats], "steps": steps, "d": 128, "batch": 128}
    cells = {
        name: [_climb(laboratory, bound, seed, setting)[0] for seed in laboratory.seeds]
        for name, bound in {"entropies": "entropies", "InfoNCE": "info_nce"}.items()
    }
    error = abs(mean(cells["entropies"], "mean") - nats)
    holds = error < 1.5 and max(column(cells["InfoNCE"], "mean")) <= 4.86
    last = fmean(row["line"][-1] for row in cells["entropies"])
    return Outcome(
        holds,
        f"true information {nats:.2f} nats; "
        + ", ".join(f"{name} {stated(rows, 'mean')}" for name, rows in cells.items()),
        {"truth": nats, "error": error, "last": last},
        {"along": along_training(cells, "estimate in nats", {"truth": nats, "ln 128": math.log(128)})},
        why=""
        if holds
        else f"The mean is over the second half of training; entropies are still rising, to {last:.2f} nats.",
        contrasts=[
            Contrast(
                "1.5 nats over the error of entropies",
                tuple(1.5 - abs(row["mean"] - nats) for row in cells["entropies"]),
            ),
            Contrast("4.86 nats over InfoNCE", tuple(4.86 - row["mean"] for row in cells["InfoNCE"])),
        ],
    )


def _climbs(laboratory: Laboratory, bound: str, steps: int) -> list[list[Row]]:
    """The estimates on every stair, with every seed."""
    setting = {"stairs": list(STAIRS), "steps": steps, "batch": BATCH}
    return [_climb(laboratory, bound, seed, setting) for seed in laboratory.seeds]


def _climb(laboratory: Laboratory, bound: str, seed: int, setting: Row) -> list[Row]:
    def climb() -> Row:
        found = staircase(bound, seed=seed, **setting)
        return {
            "stairs": [
                {"nats": stair.nats, "mean": stair.mean, "deviation": stair.deviation, "line": thinned(stair.values)}
                for stair in found
            ]
        }

    return laboratory.remember("staircase", {"method": bound, "seed": seed, **setting}, climb)["stairs"]


def _over_seeds(climbs: Mapping[str, list[list[Row]]], key: str) -> dict[str, list[float]]:
    """A figure of every stair, averaged over seeds."""
    return {
        name: [fmean(row[key] for row in stair) for stair in zip(*seeds, strict=True)] for name, seeds in climbs.items()
    }


def _row(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _by_stair(climbs: Mapping[str, list[list[Row]]], key: str, up: str) -> Figure:
    cells = {
        name: {stair[0]["nats"]: column(stair, key) for stair in zip(*seeds, strict=True)}
        for name, seeds in climbs.items()
    }
    figure = curves(cells, "information in nats", up)
    figure.axes[0].set_yscale("log")
    return figure


def _staircases(climbs: Mapping[str, list[list[Row]]]) -> Figure:
    """The usual figure: a panel for each estimator, its estimates along training and the true steps."""
    figure = Figure(figsize=(5.0, 6.4), layout="constrained", facecolor="none")
    panels = list(figure.subplots(4, 2, sharex=True, sharey=True).flat)
    for number, (axes, (name, seeds)) in enumerate(zip(panels, climbs.items(), strict=False)):
        lines = np.array([[value for stair in climb for value in stair["line"]] for climb in seeds])
        x = (np.arange(lines.shape[1]) + 0.5) * len(STAIRS) / lines.shape[1]
        axes.fill_between(x, lines.min(0), lines.max(0), color=category(number), alpha=0.25, linewidth=0)
        axes.plot(x, lines.mean(0), color=category(number), linewidth=1.6)
        axes.stairs(STAIRS, range(len(STAIRS) + 1), baseline=None, color=INK, linestyle="--", linewidth=1.2)
        axes.axhline(math.log(BATCH), color=QUIET, linestyle=":", linewidth=1.2)
        axes.set_title(name, fontsize=10, color=INK)
        axes.set_ylim(0, 14)
        axes.set_xticks(np.arange(len(STAIRS)) + 0.5, [f"{nats:g}" for nats in STAIRS])
        axes.grid(color=LINE, linewidth=0.6)
        axes.tick_params(colors=QUIET, length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
    panels[-1].set_axis_off()
    panels[-1].plot([], [], color=INK, linestyle="--", label="truth")
    panels[-1].plot([], [], color=QUIET, linestyle=":", label="log 64, the ceiling of InfoNCE")
    panels[-1].fill_between([], [], [], color=category(0), alpha=0.25, label="least to largest seed")
    panels[-1].legend(frameon=False, fontsize=9, labelcolor=INK, loc="center")
    figure.supxlabel("true information in nats, raised along training", color=QUIET, fontsize=10)
    figure.supylabel("estimate in nats", color=QUIET, fontsize=10)
    return figure
