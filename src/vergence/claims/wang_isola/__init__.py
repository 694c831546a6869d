"""Claims of Wang & Isola (2020), alignment and uniformity."""

from vergence.claims.claim import claims_of
from vergence.claims.wang_isola import balance, circle, direct, hypersphere

CLAIMS = claims_of(
    "wang_isola",
    hypersphere.unit_distance,
    hypersphere.uniform_law,
    hypersphere.circle_potential,
    hypersphere.uniform_law_is_best,
    hypersphere.simplex,
    hypersphere.supplement_normalization,
    hypersphere.alignment_pulls,
    hypersphere.contrastive_limit,
    hypersphere.rate_of_the_limit,
    hypersphere.deviation_bound,
    hypersphere.potential_is_uniformity,
    hypersphere.logarithm_inside,
    hypersphere.two_points,
    hypersphere.kernel_entropy,
    hypersphere.collapsed,
    hypersphere.rotation,
    hypersphere.collapse_is_stable,
    balance.weights_give_an_inverted_u,
    balance.one_alone_degrades_the_other,
    hypersphere.intra_batch_uniformity,
    circle.features_on_the_circle,
    balance.temperature_gives_an_inverted_u,
    balance.small_batches_lose,
    direct.direct_optimization_is_on_par,
    circle.minimizers_are_uniform,
    circle.scaling_sharpens_the_softmax,
    direct.the_layer_before_is_better,
    direct.direct_optimization_with_a_queue,
)
