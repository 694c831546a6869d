"""Claims of Chen et al. (2021), FlatNCE."""

from vergence.claims.claim import claims_of
from vergence.claims.flatnce import gradients, training

CLAIMS = claims_of(
    "flatnce",
    gradients.flat_gradient,
    gradients.flat_with_the_positive,
    gradients.info_nce_fades,
    gradients.flat_value,
    gradients.fenchel_dual,
    gradients.flat_is_no_bound,
    gradients.float32_vanishes,
    gradients.float16_vanishes,
    gradients.effective_negatives,
    gradients.positive_is_outside,
    gradients.decoupled_is_flat,
    training.flat_in_small_batches,
    gradients.flat_gradient_as_printed,
    training.flat_in_half_precision,
    training.gradient_fades,
    training.effective_negatives_fall,
)
