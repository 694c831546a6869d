"""Diagnostics: embeddings in, numbers with intervals and findings with their cost out.

Two tables run: every row of DIAGNOSTICS whose arguments are there is measured, every row of FAULTS is looked for.
"""

from collections.abc import Callable, Mapping
from typing import Any

from vergence.diagnostics import measures
from vergence.diagnostics.collapse import Collapse, collapse
from vergence.diagnostics.copies import Copies, duplicates
from vergence.diagnostics.diagnosis import Diagnosis, diagnose, gather
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.faults import FAULTS
from vergence.diagnostics.faults.texts import frequency_bias, length_bias, mean_cosine
from vergence.diagnostics.findings import Finding, Verdict
from vergence.diagnostics.geometry import alignment, divergence, hubness, norms, tolerance, uniformity
from vergence.diagnostics.measures import (
    Measured,
    accuracy_without_copies,
    alignment_of_views,
    collapse_of_embeddings,
    collapse_of_rows,
    contradicted,
    decay,
    divergence_max,
    divergence_mean,
    effective_rank_of_many,
    effective_share,
    embedding_length,
    evenness,
    false_share,
    hubs,
    isotropy_of_rows,
    length,
    lidar_of_views,
    loss_again,
    loss_reading,
    matching_of_views,
    neighbors_accuracy,
    participation,
    prototypes_used,
    rank_variants,
    repeated_rows,
    retrieval,
    stability,
    steadiness,
    steady_blocks,
    student_entropy,
    teacher_entropy,
    tolerance_of_classes,
    vanished_float16,
    vanished_float32,
    whole_spectrum,
)
from vergence.diagnostics.negatives import negatives
from vergence.diagnostics.selection import selection, unlike
from vergence.diagnostics.spectrum import (
    effective_rank,
    effective_rank_variants,
    isotropy,
    lidar,
    singular_values,
    spectrum,
)
from vergence.diagnostics.thermometer import SCALES, Thermometer, coincidences, thermometer
from vergence.diagnostics.view_trials import matching
from vergence.tables import Table

DIAGNOSTICS = Table(
    "diagnostic",
    {
        "thermometer": loss_reading,
        "held_out_loss": loss_again,
        "alignment": alignment_of_views,
        "uniformity": evenness,
        "matching": matching_of_views,
        "retrieval": retrieval,
        "neighbors_accuracy": neighbors_accuracy,
        "accuracy_without_copies": accuracy_without_copies,
        "tolerance": tolerance_of_classes,
        "divergence_max": divergence_max,
        "divergence_mean": divergence_mean,
        "confident_errors": contradicted,
        "effective_rank": effective_rank_of_many,
        "participation_ratio": participation,
        "stable_rank": stability,
        "decay_exponent": decay,
        "effective_rank_variants": rank_variants,
        "spectrum": whole_spectrum,
        "lidar": lidar_of_views,
        "isotropy": isotropy_of_rows,
        "norm": length,
        "embedding_norm": embedding_length,
        "hubness": hubs,
        "duplicates": repeated_rows,
        "mean_cosine": mean_cosine,
        "length_bias": length_bias,
        "frequency_bias": frequency_bias,
        "steadiness": steady_blocks,
        "collapse": collapse_of_rows,
        "collapse_of_embeddings": collapse_of_embeddings,
        "student_entropy": student_entropy,
        "teacher_entropy": teacher_entropy,
        "prototypes_used": prototypes_used,
        "false_negatives": false_share,
        "effective_negatives": effective_share,
        "vanished_float32": vanished_float32,
        "vanished_float16": vanished_float16,
    },
    room="diagnostics",
)


def measure(h: Any, *, rows: Mapping[str, Callable[..., Any]] | None = None, **given: Any) -> dict[str, Measured]:
    """Every row of ``rows`` (DIAGNOSTICS) whose arguments are among ``h, z1, z2, labels, seed, objective, loss``."""
    return measures.measure(gather(h, **given), DIAGNOSTICS if rows is None else rows)


__all__ = [
    "DIAGNOSTICS",
    "FAULTS",
    "SCALES",
    "Collapse",
    "Copies",
    "Diagnosis",
    "Estimate",
    "Finding",
    "Measured",
    "Thermometer",
    "Verdict",
    "alignment",
    "coincidences",
    "collapse",
    "diagnose",
    "divergence",
    "duplicates",
    "effective_rank",
    "effective_rank_variants",
    "gather",
    "hubness",
    "isotropy",
    "lidar",
    "matching",
    "measure",
    "negatives",
    "norms",
    "selection",
    "singular_values",
    "spectrum",
    "steadiness",
    "thermometer",
    "tolerance",
    "uniformity",
    "unlike",
]
