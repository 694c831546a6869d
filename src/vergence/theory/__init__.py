"""RESULTS: theorems evaluated on features; a module per line of work."""

from vergence.tables import Rows
from vergence.theory.certificate import Certificate
from vergence.theory.graph import AugmentationGraph, label_residual, probe_error, recovery_theorem
from vergence.theory.hypersphere import (
    contrastive_limit,
    limit_deviation,
    limit_of_contrastive,
    limit_rate,
    resubstitution_entropy,
    uniformity_potential,
    von_mises_fisher_log_normaliser,
)

RESULTS = Rows(
    "result",
    {
        "limit_of_contrastive": limit_of_contrastive,
        "label_residual": label_residual,
        "probe_error": probe_error,
        "recovery_theorem": recovery_theorem,
    },
)

__all__ = [
    "RESULTS",
    "AugmentationGraph",
    "Certificate",
    "contrastive_limit",
    "label_residual",
    "limit_deviation",
    "limit_of_contrastive",
    "limit_rate",
    "probe_error",
    "recovery_theorem",
    "resubstitution_entropy",
    "uniformity_potential",
    "von_mises_fisher_log_normaliser",
]
