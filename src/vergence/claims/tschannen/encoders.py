"""Claims about the encoders of Tschannen et al.: what is true of them before any training."""

import torch
from torch import Tensor, nn

from vergence.claims.claim import Outcome, claim, within
from vergence.encoders.flow import CouplingFlow
from vergence.encoders.mlp import residual_mlp

HALF = (392,)  # half of a 28 x 28 digit, as the paper has it


@claim(
    64,
    "A stack of 30 additive couplings with random permutations is inverted exactly and preserves volume.",
    tolerance="inverse 1e-5 in float32, |det J| = 1",
)
def additive_couplings_are_invertible() -> Outcome:
    flow = CouplingFlow(HALF[0], 30, hidden=512, affine=False, std=1e-4, seed=0)
    x = torch.rand(16, *HALF, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        h, log_determinant = flow.with_log_determinant(x)
        error = float((flow.inverse(h) - x).abs().max())
    volume = float(log_determinant.abs().max())
    return Outcome(error < 1e-5 and volume == 0, f"inverse error {error:.1e}, largest |log det J| {volume:.0e}")


@claim(67, "The identity-start residual perceptron begins with a log condition number under 0.05.", tolerance="0.05")
def identity_start_is_well_conditioned() -> Outcome:
    torch.manual_seed(0)
    encoder = residual_mlp(HALF).double()
    x = torch.rand(1, *HALF, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return within(float(log_condition_numbers(encoder, x)), 0.05, "log condition number")


def log_condition_numbers(encoder: nn.Module, x: Tensor) -> Tensor:
    """For each sample the log of the largest over the least singular value of the encoder's Jacobian there."""
    jacobians = torch.func.vmap(torch.func.jacrev(lambda sample: encoder(sample[None])[0]))(x)
    values = torch.linalg.svdvals(jacobians.flatten(2))
    return (values[:, 0] / values[:, -1]).log().detach()
