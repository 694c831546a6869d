"""What to change: at most five recommendations, each tied to a measurement, and to the override where a run has one."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vergence.diagnostics.extrapolation import FURTHEST, Forecast, epochs_worth
from vergence.diagnostics.findings import Finding, faults_only
from vergence.diagnostics.measures import Measured

MOST = 5


def recommendations(
    findings: tuple[Finding, ...],
    measured: Mapping[str, Measured],
    *,
    trained: bool = False,
    losses: Sequence[float] = (),
    worth: tuple[Forecast, Forecast] | None = None,
    batch: int | None = None,
) -> tuple[dict[str, Any], ...]:
    """Remedies of the faults, gravest first; for a sound training run, what its own curves suggest.

    ``losses`` are the means of its epochs; ``worth`` is what :func:`batch_worth` says of its ``batch``.
    """
    remedies = [
        {
            "sentence": f"{finding.advice} {finding.sentence}",
            "measurement": finding.measurement,
            "override": finding.override if trained else None,
        }
        for finding in faults_only(findings)
    ]
    return tuple(
        [*remedies, *(() if remedies or not trained else _improvements(measured, losses, worth, batch))][:MOST]
    )


def _improvements(
    measured: Mapping[str, Measured],
    losses: Sequence[float],
    worth: tuple[Forecast, Forecast] | None,
    batch: int | None,
) -> Iterator[dict[str, Any]]:
    """For a sound run: where its own curves, or theory, say that room is left."""
    found = {name: entry.value for name, entry in measured.items()}
    scale = found.get("thermometer")
    temperature = scale.hyperparameters.get("temperature") if scale else None
    if scale and scale.verdict in ("learning", "not started"):
        yield from _longer(losses)
    if worth is not None and batch is not None and worth[1].value > batch:
        matched, larger = worth
        sentence = (
            f"{100 * matched.value:.0f} % of pairs are found among {batch} already (95 % between "
            f"{100 * matched.low:.0f} and {100 * matched.high:.0f} %), so negatives are easy; from a batch of "
            f"{larger.value:.0f} on (between {larger.low:.0f} and {larger.high:.0f}) one in ten is not."
        )
        yield {"sentence": sentence, "measurement": "matching by batch", "override": f"--batch {larger.value:.0f}"}
    spread = found.get("uniformity")
    if temperature and spread and "matching" in found and spread["low"] > 0.6 * spread["floor"]:
        sentence = (
            f"Uniformity is {spread['value']:.2f} where {spread['floor']:.2f} is possible: spread embeddings more."
        )
        override = f"--objective.temperature {temperature / 2:g}"
        yield {"sentence": sentence, "measurement": "uniformity", "override": override}
    if "vanished_float16" in found and found["vanished_float16"].value > 0.2:
        share = 100 * found["vanished_float16"].value
        sentence = (
            f"{share:.0f} % of anchors would lose their gradient in float16: use an objective whose gradient stays."
        )
        yield {"sentence": sentence, "measurement": "vanished_float16", "override": "--method flatclr"}


def _longer(losses: Sequence[float]) -> Iterator[dict[str, Any]]:
    """More epochs, as many as its own curve of the loss suggests; where it is too short to tell, twice as many."""
    done = len(losses)
    if not done:
        return
    found = epochs_worth(np.asarray(losses))
    if found is None:
        sentence = f"The loss went from {losses[0]:.3f} to {losses[-1]:.3f} in {done} epochs, too few or too uneven to "
        sentence += "extrapolate: train twice as long and look again."
        yield {"sentence": sentence, "measurement": "loss by epoch", "override": f"--epochs {2 * done}"}
        return
    limit, length = found
    if length.high <= done:
        return
    rounded = [_round(value) for value in (length.value, length.low, length.high)]
    told = f"The loss went from {losses[0]:.3f} to {losses[-1]:.3f} in {done} epochs, and its curve leads to "
    told += f"{limit.value:.3f} (95 % between {limit.low:.3f} and {limit.high:.3f})"
    if length.value >= FURTHEST * done:
        sentence = f"{told}, slowly: nine tenths of the fall take more than {rounded[0]} epochs."
    else:
        most = " or more" if length.high >= FURTHEST * done else ""
        between = f"between {rounded[1]} and {rounded[2]}{most}"
        sentence = f"{told}. About {rounded[0]} epochs ({between}) would take nine tenths of the fall."
    if rounded[0] > done:
        yield {"sentence": sentence, "measurement": "loss by epoch", "override": f"--epochs {rounded[0]}"}


def _round(value: float) -> int:
    """Two digits: more would pretend to a precision that an extrapolation does not have."""
    step = 10 ** max(0, math.floor(math.log10(max(1.0, value))) - 1)
    return int(math.ceil(value / step) * step)
