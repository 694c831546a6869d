"""Claims of Huang et al. (2023), generalization of contrastive learning."""

from vergence.claims.claim import claims_of
from vergence.claims.huang import augmentations, generalization, losses

CLAIMS = claims_of(
    "huang",
    generalization.info_nce_splits,
    generalization.nearest_center_is_linear,
    generalization.separation_bounds_the_error,
    generalization.eta_closed_form,
    generalization.eta_slopes,
    generalization.stability_follows_from_alignment,
    generalization.generalization_holds,
    generalization.published_step_holds,
    generalization.perfect_case,
    generalization.info_nce_separates_centers,
    generalization.sharper_is_sharper,
    generalization.linear_contrastive_is_a_limit,
    generalization.barlow_twins_splits,
    generalization.cross_correlation_aligns,
    generalization.center_identity,
    generalization.what_the_centers_leave,
    generalization.cross_correlation_separates_centers,
    generalization.concentration_is_monotone,
    generalization.cover_is_within_two,
    generalization.no_triangle_inequality,
    losses.revised_is_decoupled,
    augmentations.richer_augmentation,
    augmentations.order_of_crop_pairs,
    generalization.eta_is_inverse,
    generalization.arxiv_form_holds,
    augmentations.stronger_distortion,
    losses.revised_against_simclr,
    losses.linear_collapses,
)
