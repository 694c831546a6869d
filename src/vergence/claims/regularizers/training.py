"""LeJEPA's headline, tested: does the training loss rank models as the linear probe does?"""

import math
from typing import Any

from vergence import features
from vergence.claims.claim import Outcome, claim
from vergence.claims.evidence import Contrast
from vergence.claims.laboratory import Laboratory, Row, measured
from vergence.config import Optim
from vergence.diagnostics import DIAGNOSTICS, measure
from vergence.diagnostics.measures import plain
from vergence.diagnostics.selection import SCORES, spearman, spearman_interval
from vergence.runs.assembly import Assembled

WEIGHTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
RATES = (5e-4, 2e-3)
POWER = 0.4  # of the weight, by which the authors divide the loss (Eq. 8)
PUBLISHED = 0.94  # Balestriero & LeCun (2025), Fig. 1
RESCALED = 0.99  # their Sec. 6.2, of the loss divided by weight^0.4; the loss itself about .85


@claim(
    305,
    "The training loss of LeJEPA, divided by its weight to the power 0.4, ranks models as a linear probe does: a "
    "Spearman correlation of .94 and more.",
    kind="training",
    tolerance="Spearman of minus that loss with probe accuracy at least .94, over 24 runs",
    minutes=12.0,
)
def the_loss_ranks_models(laboratory: Laboratory) -> Outcome:
    runs = list(_runs(laboratory))
    accuracy = [row["probe"] for row in runs]
    found = {name: spearman(values, accuracy) for name, values in _orders(runs).items()}
    rescaled = found["rescaled loss"]
    low, high = spearman_interval(rescaled, len(runs))
    said = f"{len(runs)} runs, interval of the rescaled loss [{low:.2f}, {high:.2f}]; "
    said += ", ".join(f"{name} {value:.2f}" for name, value in sorted(found.items(), key=lambda pair: -pair[1]))
    holds = rescaled >= PUBLISHED
    why = "The authors' runs are hundreds of times longer; here short runs differ more in how far they came."
    figures, beside = {"correlations": found, "probe": accuracy}, [correlation_above(rescaled, len(runs), PUBLISHED)]
    return Outcome(holds, said, figures, why="" if holds else why, contrasts=beside)


def correlation_above(correlation: float, n: int, bar: float) -> Contrast:
    """Whether a rank correlation of n runs is at least ``bar``: the difference of their Fisher transforms.

    That of a sample is normal around the true one, with a deviation of about sqrt(1.06 / (n - 3)).

    References:
        Fieller, Hartley & Pearson (1957), for ranks. doi:10.1093/biomet/44.3-4.470
    """
    gap, claimed = (math.atanh(min(value, 1 - 1e-9)) - math.atanh(bar) for value in (correlation, RESCALED))
    deviation = math.sqrt(1.06 / (n - 3))
    name = f"Fisher transform of the correlation over that of {bar:g}"
    return Contrast(name, (gap,), reported=claimed, spread=deviation, freedom=math.inf)


def _orders(runs: list[Row]) -> dict[str, list[float]]:
    """What each score says of the runs, larger is better: the loss in both forms, its geometry, and SCORES."""
    found = {
        "training loss": [-row["loss"] for row in runs],
        "rescaled loss": [-row["loss"] / row["weight"] ** POWER for row in runs],
        "alignment": [-row["alignment"] for row in runs],
    }
    for key, badness in SCORES.items():
        if all(key in row["scores"] for row in runs):
            found[key.replace("_", " ")] = [-badness(row["scores"][key]) for row in runs]
    return found


def _runs(laboratory: Laboratory) -> list[Row]:
    """24 runs: six weights of SIGReg, two rates, two lengths of training."""
    found: list[Row] = []
    for epochs in (max(1, laboratory.scale.epochs // 2), laboratory.scale.epochs):
        for rate in RATES:
            for weight in WEIGHTS:
                settings: dict[str, Any] = {"objective": {"weight": weight}, "optim": Optim(learning_rate=rate)}
                row = laboratory.trial(method="lejepa", epochs=epochs, seed=0, measure=scored, **settings)
                found.append({**row, "weight": weight})
    return found


def scored(parts: Assembled) -> Row:
    """Accuracies and geometry, and the scores that need no labels."""
    test = features.extract(parts.learner.encoder, parts.test, parts.recipe, branches=parts.learner.branches)
    rows = {key: DIAGNOSTICS[key] for key in SCORES if key != "held_out_loss"}
    found = measure(test.h, z1=test.z1, z2=test.z2, rows=rows)
    return {**measured(parts), "scores": {key: float(plain(value.value)["value"]) for key, value in found.items()}}
