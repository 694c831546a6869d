"""Assignments: how rows are spread over prototypes, where embeddings are scores with prototypes (SwAV, DINO)."""

from dataclasses import dataclass

from vergence.diagnostics.arrays import Array, sampled
from vergence.diagnostics.thermometer import Thermometer
from vergence.objectives.codes import entropies

ROWS = 4096  # entropies of more rows are the same to three digits


@dataclass(frozen=True)
class Assigned:
    """Entropies in nats of the shares of K prototypes: of a row and of the mean row, for the student and the teacher.

    The teacher is read from the student's scores, which its own follow: centered by their mean, and sharpened.
    """

    student: float
    student_together: float
    teacher: float
    teacher_together: float
    prototypes: int
    n: int


def assigned(z1: Array, objective: str, reading: Thermometer, seed: int = 0) -> Assigned | None:
    """The entropies of a run of SwAV or DINO, at its temperatures; None for other objectives."""
    if objective not in ("swav", "dino"):
        return None
    scores = sampled(z1, ROWS, seed=seed, name="z1").double()
    options = reading.hyperparameters
    sharper = options["key_temperature"] if objective == "dino" else options["epsilon"]
    student, together = (float(part) for part in entropies(scores, temperature=options["temperature"]))
    teacher, used = (float(part) for part in entropies(scores, temperature=sharper, center=scores.mean(0)))
    return Assigned(student, together, teacher, used, scores.shape[1], len(scores))
