"""RESULTS: theorems evaluated on features; a module per line of work."""

from vergence.tables import Rows
from vergence.theory.certificate import Certificate
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
    },
)

__all__ = [
    "RESULTS",
    "Certificate",
    "contrastive_limit",
    "limit_deviation",
    "limit_of_contrastive",
    "limit_rate",
    "resubstitution_entropy",
    "uniformity_potential",
    "von_mises_fisher_log_normaliser",
]
