"""Claims of McAllester & Stratos (2020), Poole et al. (2019) and Song & Ermon (2020), limits of estimators."""

from vergence.claims.claim import claims_of
from vergence.claims.limits import bounds, staircases

CLAIMS = claims_of(
    "limits",
    bounds.info_nce_stays_below_log_k,
    bounds.donsker_varadhan_is_above_nwj,
    bounds.nwj_is_tight,
    bounds.the_gaussian_ratio_varies,
    bounds.donsker_varadhan_overestimates,
    bounds.the_log_mean_ratio_varies,
    bounds.clipped_ratios_vary_little,
    bounds.smile_tends_to_donsker_varadhan,
    bounds.smile_has_the_jensen_shannon_gradient,
    bounds.leave_one_out_is_above,
    bounds.the_interpolated_bound_has_two_known_ends,
    bounds.a_little_of_p_hides_the_divergence,
    bounds.the_entropy_ceiling_is_below,
    staircases.every_estimator_climbs,
    staircases.entropies_count_beyond_the_batch,
    bounds.the_interpolated_bound_exceeds_its_printed_ceiling,
    bounds.the_entropy_ceiling_is_not_a_product,
    bounds.divergence_may_be_symmetric,
)
