"""Claims about SIGReg, TiCo and VICReg: how the regularizers of 2021 to 2025 are related, and what their loss tells."""

from vergence.claims.claim import claims_of
from vergence.claims.regularizers import moments, training

CLAIMS = claims_of(
    "regularizers",
    moments.tico_is_spectral_with_a_memory,
    moments.vicreg_is_the_two_moment_case,
    moments.sigreg_on_a_sphere_is_an_energy,
    moments.small_batches_hide_dimensional_collapse,
    training.the_loss_ranks_models,
)
