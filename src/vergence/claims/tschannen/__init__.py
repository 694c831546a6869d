"""Claims of Tschannen et al. (2020), mutual information maximization."""

from vergence.claims.claim import claims_of
from vergence.claims.tschannen import adversary, boundary, designs, encoders, infomax, information

CLAIMS = claims_of(
    "tschannen",
    information.info_nce_is_below_the_information,
    information.cubing_changes_nothing,
    information.processing_loses,
    information.dependent_batches_look_informative,
    information.info_nce_is_the_k_pair_loss,
    encoders.additive_couplings_are_invertible,
    infomax.accuracy_rises_at_constant_information,
    adversary.an_invertible_encoder_can_be_bad,
    encoders.identity_start_is_well_conditioned,
    designs.a_tighter_bound_is_no_better,
    designs.the_encoder_decides_at_equal_bounds,
    infomax.the_held_out_bound_sees_held_out_pairs,
    infomax.the_condition_number_grows,
    boundary.capacity_belongs_in_the_encoder,
    information.dependent_batches_deceive_a_trained_critic,
)
