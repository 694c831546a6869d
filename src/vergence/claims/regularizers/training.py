"""LeJEPA's headline, tested: does the training loss rank models as the linear probe does?"""

from typing import Any

from vergence.claims.claim import Outcome, claim
from vergence.claims.laboratory import Laboratory, Row
from vergence.config import Optim
from vergence.diagnostics.selection import spearman, spearman_interval

WEIGHTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
RATES = (5e-4, 2e-3)
PUBLISHED = 0.94  # Balestriero & LeCun (2025), Fig. 1 and Sec. 6.4: Spearman of the training loss with the probe


@claim(
    305,
    "The training loss of LeJEPA ranks models as a linear probe with labels does: a Spearman correlation of .94.",
    kind="training",
    tolerance="Spearman of minus the loss with probe accuracy at least .94, over 24 runs",
    minutes=12.0,
)
def the_loss_ranks_models(laboratory: Laboratory) -> Outcome:
    runs = list(_runs(laboratory))
    accuracy = [row["probe"] for row in runs]
    scores = {
        "training loss": [-row["loss"] for row in runs],
        "effective rank": [row["rank"] for row in runs],
        "uniformity": [-row["uniformity"] for row in runs],
        "alignment": [-row["alignment"] for row in runs],
    }
    found = {name: spearman(values, accuracy) for name, values in scores.items()}
    low, high = spearman_interval(found["training loss"], len(runs))
    ordered = sorted(found.items(), key=lambda pair: -pair[1])
    said = f"{len(runs)} runs, interval of the loss [{low:.2f}, {high:.2f}]; "
    said += ", ".join(f"{name} {value:.2f}" for name, value in ordered)
    holds = found["training loss"] >= PUBLISHED
    why = "The runs differ in the weight of SIGReg, which scales the loss itself, and in rate and length of training."
    return Outcome(holds, said, {"correlations": found, "probe": accuracy}, why="" if holds else why)


def _runs(laboratory: Laboratory) -> list[Row]:
    """24 runs: six weights of SIGReg, two rates, two lengths of training."""
    found: list[Row] = []
    for epochs in (max(1, laboratory.scale.epochs // 2), laboratory.scale.epochs):
        for rate in RATES:
            for weight in WEIGHTS:
                settings: dict[str, Any] = {"objective": {"weight": weight}, "optim": Optim(learning_rate=rate)}
                found.append(laboratory.trial(method="lejepa", epochs=epochs, seed=0, **settings))
    return found
