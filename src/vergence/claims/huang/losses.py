"""Claims of Huang et al. about losses: the revised InfoNCE, and the linear contrastive loss."""

from vergence.claims.claim import Outcome, claim, within
from vergence.claims.draws import gaussian
from vergence.claims.evidence import contrast
from vergence.claims.laboratory import SLACK, Laboratory, Row, column, mean, stated
from vergence.objectives import decoupled, revised_info_nce
from vergence.report.experiments import curves, marks

TEMPERATURES = (1.0, 0.5, 0.2)


@claim(41, "The revised InfoNCE with weight 2T equals 2 + 2T times the decoupled loss.", tolerance="1e-12")
def revised_is_decoupled() -> Outcome:
    (z1, noise), temperature = gaussian(2, 8, 5), 0.2
    z2 = z1 + 0.5 * noise
    revised = revised_info_nce(z1, z2, temperature=temperature, weight=2 * temperature)
    return within(abs((revised - 2 - 2 * temperature * decoupled(z1, z2, temperature=temperature)).item()), 1e-12)


@claim(
    222,
    "The revised InfoNCE is as accurate as SimCLR's loss or better, at temperatures 1, 0.5 and 0.2.",
    kind="training",
    tolerance="mean kNN accuracy over seeds no more than 0.01 below, at each temperature",
    minutes=6.0,
)
def revised_against_simclr(laboratory: Laboratory) -> Outcome:
    names = {"SimCLR": "simclr", "revised InfoNCE": "revised_info_nce"}
    rows = {
        name: {
            t: laboratory.trials(method=method, objective={"temperature": t}, **laboratory.short) for t in TEMPERATURES
        }
        for name, method in names.items()
    }
    plain, revised = rows.values()
    holds = all(mean(revised[t], "knn") >= mean(plain[t], "knn") - SLACK for t in TEMPERATURES)
    pairs = [f"T = {t:g}: {stated(revised[t], 'knn')} against {stated(plain[t], 'knn')}" for t in TEMPERATURES]
    accuracies = {name: {t: column(cell, "knn") for t, cell in cells.items()} for name, cells in rows.items()}
    picture = curves(accuracies, "temperature", "kNN accuracy", logarithmic=True)
    contrasts = [
        contrast(f"revised over SimCLR at {t:g}", *(column(cells[t], "knn") for cells in (revised, plain)),
                 margin=-SLACK, about=f"T = {t:g}", unit="accuracy")
        for t in TEMPERATURES
    ]  # fmt: skip
    return Outcome(holds, "; ".join(pairs), accuracies, {"temperatures": picture}, contrasts=contrasts)


@claim(
    223,
    "The linear contrastive loss collapses in dimension, where SimCLR's loss does not.",
    kind="training",
    tolerance="effective rank of the embeddings below half of SimCLR's, under SimCLR's heads",
    minutes=3.0,
)
def linear_collapses(laboratory: Laboratory) -> Outcome:
    rows = {
        "SimCLR": laboratory.trials(method="simclr", objective={"temperature": 0.5}, **laboratory.short),
        "linear contrastive": _linear(laboratory, last_norm=False),
        "linear, last norm": _linear(laboratory, last_norm=True),
    }
    plain, linear, _ = rows.values()
    words = [f"{name} {stated(cell, 'rank_z')} (kNN {stated(cell, 'knn')})" for name, cell in rows.items()]
    ranks = {name: column(cell, "rank_z") for name, cell in rows.items()}
    half = [rank / 2 for rank in ranks["SimCLR"]]
    return Outcome(
        mean(linear, "rank_z") < mean(plain, "rank_z") / 2,
        "effective rank: " + "; ".join(words),
        {"rank": ranks, "knn": {name: column(cell, "knn") for name, cell in rows.items()}},
        {"ranks": marks({"": ranks}, "effective rank of the embeddings")},
        contrasts=[contrast("half of SimCLR's rank over the linear loss's", half, ranks["linear contrastive"])],
    )


def _linear(laboratory: Laboratory, *, last_norm: bool) -> list[Row]:
    heads = {"projector_final_norm": last_norm}
    return laboratory.trials(method="linear_contrastive", heads=heads, **laboratory.short)
