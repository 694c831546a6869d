"""The losses that the claims about half precision compare are those of the product, but for rounding."""

import pytest
import torch

from vergence.claims.flatnce.training import half_flat_nce, half_info_nce
from vergence.objectives import flat_nce, nt_xent


@pytest.mark.parametrize(("half", "whole"), [(half_info_nce, nt_xent), (half_flat_nce, flat_nce)])
def test_a_loss_in_half_precision_is_that_of_the_product_up_to_rounding(half, whole):
    z1, z2 = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    torch.testing.assert_close(half(z1, z2), whole(z1, z2, temperature=0.1), atol=1e-2, rtol=1e-2)
    gradients = [torch.autograd.grad(loss(z1, z2, temperature=0.1), (z1, z2)) for loss in (half, whole)]
    torch.testing.assert_close(*gradients, atol=5e-3, rtol=2e-2)


def test_in_half_precision_only_flat_nce_keeps_a_gradient_once_positives_win():
    z = torch.eye(16).requires_grad_()
    norms = [float(torch.autograd.grad(loss(z, torch.eye(16), temperature=0.05), z)[0].norm()) for loss in
             (half_info_nce, half_flat_nce)]  # fmt: skip
    assert norms[0] < 1e-6 < 0.1 < norms[1]
