"""Coupling flows: encoders with an exact inverse, so that no information can be lost.

zuko's coupling transforms serve density estimation and hide the layers behind lazy distributions; the experiment needs
the bare bijection with the authors' initialization and shift-only coupling, which is the forty lines below.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SMALLEST_SCALE = 1e-7  # added to the softplus, as in the notebook of Tschannen et al., so that a scale never is zero


class Coupling(nn.Module):
    """One coupling followed by a fixed random permutation.

    The first half passes; the second becomes ``scale(first) * second + shift(first)`` with scale 1 when additive.
    """

    order: Tensor

    def __init__(self, width: int, *, hidden: int, affine: bool, std: float, generator: torch.Generator):
        super().__init__()
        self.passed, self.affine = width // 2, affine
        after = (2 if affine else 1) * (width - self.passed)
        sizes = [self.passed, hidden, hidden, after]
        linears = [nn.Linear(before, size) for before, size in pairwise(sizes)]
        for linear in linears:
            nn.init.trunc_normal_(linear.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
            nn.init.zeros_(linear.bias)
        self.network = nn.Sequential(linears[0], nn.ReLU(), linears[1], nn.ReLU(), linears[2])
        self.register_buffer("order", torch.randperm(width, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        return self.with_log_determinant(x)[0]

    def with_log_determinant(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = x[:, : self.passed], x[:, self.passed :]
        shift, scale = self._shift_and_scale(first)
        y = torch.cat([first, scale * second + shift], dim=1)[:, self.order]
        return y, scale.log().expand_as(second).sum(1)

    def inverse(self, y: Tensor) -> Tensor:
        x = torch.empty_like(y)
        x[:, self.order] = y
        first, second = x[:, : self.passed], x[:, self.passed :]
        shift, scale = self._shift_and_scale(first)
        return torch.cat([first, (second - shift) / scale], dim=1)

    def _shift_and_scale(self, first: Tensor) -> tuple[Tensor, Tensor]:
        output = self.network(first)
        if not self.affine:
            return output, torch.ones_like(output[:1, :1])
        shift, raw = output.chunk(2, dim=1)
        return shift, F.softplus(raw) + SMALLEST_SCALE


class CouplingFlow(nn.Module):
    """A stack of couplings over the flattened sample: as wide as its input, and invertible."""

    def __init__(self, width: int, couplings: int, *, hidden: int, affine: bool, std: float, seed: int):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.couplings = nn.ModuleList(
            Coupling(width, hidden=hidden, affine=affine, std=std, generator=generator) for _ in range(couplings)
        )
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return self.with_log_determinant(x)[0]

    def with_log_determinant(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The representation and the log of the absolute determinant of the Jacobian, a number per sample."""
        x = x.flatten(1)
        total = x.new_zeros(len(x))
        for coupling in self.couplings:
            x, log_determinant = coupling.with_log_determinant(x)  # type: ignore[operator]
            total = total + log_determinant
        return x, total

    def inverse(self, h: Tensor) -> Tensor:
        """The flattened sample that has the representation ``h``."""
        for coupling in reversed(self.couplings):
            h = coupling.inverse(h)  # type: ignore[operator]
        return h


def additive_flow(shape: tuple[int, ...], *, couplings: int = 30, hidden: int = 512, seed: int = 0) -> nn.Module:
    """Thirty additive couplings with random permutations: volume-preserving, |det J| = 1.

    References:
        Dinh et al. (2015), NICE; Tschannen et al. (2020), Sec. 3.1, whose "RealNVP" is additive in their code.
    """
    return CouplingFlow(math.prod(shape), couplings, hidden=hidden, affine=False, std=1e-4, seed=seed)


def affine_flow(shape: tuple[int, ...], *, couplings: int = 30, hidden: int = 512, seed: int = 0) -> nn.Module:
    """Thirty affine couplings (softplus scale) with random permutations: invertible, the volume may change.

    References:
        Dinh et al. (2017), RealNVP; Tschannen et al. (2020), Fig. 1c.
    """
    return CouplingFlow(math.prod(shape), couplings, hidden=hidden, affine=True, std=1e-4, seed=seed)
