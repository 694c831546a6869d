"""Diagnostics: embeddings in, numbers with intervals out."""

from vergence.diagnostics.collapse import Collapse, collapse
from vergence.diagnostics.estimate import Estimate
from vergence.diagnostics.faults import confident_errors, matching, steadiness
from vergence.diagnostics.geometry import alignment, divergence, hubness, norms, tolerance, uniformity
from vergence.diagnostics.negatives import duplicates, negatives
from vergence.diagnostics.selection import selection
from vergence.diagnostics.spectrum import (
    effective_rank,
    effective_rank_variants,
    isotropy,
    lidar,
    singular_values,
    spectrum,
)
from vergence.diagnostics.thermometer import SCALES, Thermometer, coincidences, thermometer
from vergence.tables import Table

DIAGNOSTICS = Table(
    "diagnostic",
    {
        "thermometer": thermometer,
        "alignment": alignment,
        "uniformity": uniformity,
        "tolerance": tolerance,
        "divergence": divergence,
        "norms": norms,
        "hubness": hubness,
        "effective_rank": effective_rank,
        "effective_rank_variants": effective_rank_variants,
        "spectrum": spectrum,
        "lidar": lidar,
        "isotropy": isotropy,
        "collapse": collapse,
        "matching": matching,
        "steadiness": steadiness,
        "confident_errors": confident_errors,
        "duplicates": duplicates,
        "negatives": negatives,
        "selection": selection,
    },
    room="diagnostics",
)

__all__ = [
    "DIAGNOSTICS",
    "SCALES",
    "Collapse",
    "Estimate",
    "Thermometer",
    "coincidences",
    "singular_values",
    *DIAGNOSTICS,
]
