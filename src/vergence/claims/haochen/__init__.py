"""Claims of HaoChen et al. (2021), spectral contrastive loss."""

from vergence.claims.claim import claims_of
from vergence.claims.haochen import spectral, training

CLAIMS = claims_of(
    "haochen",
    spectral.factorization_is_the_spectral_loss,
    spectral.minimum_is_the_top_eigenspace,
    spectral.kernels_make_positive_graphs,
    spectral.components_are_separable,
    spectral.probe_ignores_scaling_and_mixing,
    spectral.label_residual_is_bounded,
    spectral.batch_estimate_is_unbiased,
    spectral.mu_clips_to_the_ball,
    spectral.conductance_counts_self_loops,
    spectral.dimensions_must_reach_the_sub_graphs,
    spectral.edges_are_joint_probabilities,
    spectral.features_are_rescaled_eigenvectors,
    spectral.only_positive_graphs_factorize,
    spectral.singletons_do_not_leak_everything,
    training.spectral_against_others,
)
