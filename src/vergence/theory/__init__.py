"""RESULTS: theorems evaluated on features; a module per line of work."""

from vergence.tables import Table
from vergence.theory.centers import chance_error, class_centers, nearest_center_classes, nearest_center_error
from vergence.theory.certificate import Certificate
from vergence.theory.clique import Clique, cover_clique, maximum_clique
from vergence.theory.concentration import (
    Concentration,
    MainPart,
    concentration,
    concentration_curve,
    curve_of_views,
    ranked_by_concentration,
    shares_outside,
)
from vergence.theory.distance import augmented_distance, closest_views, within_classes
from vergence.theory.divergence import (
    cross_correlation,
    cross_correlation_alignment,
    cross_correlation_divergence,
    cross_correlation_error,
    cross_correlation_parts,
    derived_remainder,
    info_nce_divergence,
    info_nce_error,
    info_nce_parts,
    measured_remainder,
    standardized,
)
from vergence.theory.generalization import divergence_threshold, generalization_bound, rho, separation
from vergence.theory.graph import AugmentationGraph, label_residual, probe_error, recovery_theorem
from vergence.theory.hypersphere import (
    contrastive_limit,
    limit_deviation,
    limit_of_contrastive,
    limit_rate,
    resubstitution_entropy,
    uniformity_potential,
    von_mises_fisher_log_normalizer,
)
from vergence.theory.stability import (
    eta,
    eta_squared,
    expected_alignment,
    lipschitz_estimate,
    stability,
    unstable_share,
    view_spread,
)

# The spellings of the first release, kept for code that uses them.
class_centres = class_centers
generalisation_bound = generalization_bound
nearest_centre_classes = nearest_center_classes
nearest_centre_error = nearest_center_error
standardised = standardized
von_mises_fisher_log_normaliser = von_mises_fisher_log_normalizer

RESULTS = Table(
    "result",
    {
        "generalization_bound": generalization_bound,
        "separation": separation,
        "stability": stability,
        "info_nce_divergence": info_nce_divergence,
        "info_nce_error": info_nce_error,
        "cross_correlation_alignment": cross_correlation_alignment,
        "cross_correlation_divergence": cross_correlation_divergence,
        "cross_correlation_error": cross_correlation_error,
        "limit_of_contrastive": limit_of_contrastive,
        "label_residual": label_residual,
        "probe_error": probe_error,
        "recovery_theorem": recovery_theorem,
    },
    room="results",
)

__all__ = [
    "RESULTS",
    "AugmentationGraph",
    "Certificate",
    "Clique",
    "Concentration",
    "MainPart",
    "augmented_distance",
    "chance_error",
    "class_centers",
    "closest_views",
    "concentration",
    "concentration_curve",
    "contrastive_limit",
    "cover_clique",
    "cross_correlation",
    "cross_correlation_alignment",
    "cross_correlation_divergence",
    "cross_correlation_error",
    "cross_correlation_parts",
    "curve_of_views",
    "derived_remainder",
    "divergence_threshold",
    "eta",
    "eta_squared",
    "expected_alignment",
    "generalization_bound",
    "info_nce_divergence",
    "info_nce_error",
    "info_nce_parts",
    "label_residual",
    "limit_deviation",
    "limit_of_contrastive",
    "limit_rate",
    "lipschitz_estimate",
    "maximum_clique",
    "measured_remainder",
    "nearest_center_classes",
    "nearest_center_error",
    "probe_error",
    "ranked_by_concentration",
    "recovery_theorem",
    "resubstitution_entropy",
    "rho",
    "separation",
    "shares_outside",
    "stability",
    "standardized",
    "uniformity_potential",
    "unstable_share",
    "view_spread",
    "von_mises_fisher_log_normalizer",
    "within_classes",
]
