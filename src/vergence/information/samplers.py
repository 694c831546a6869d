"""Pairs of variables that know how many nats they share, and transformations that leave it unchanged."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.information.exact import (
    correlated_information,
    correlation_for,
    mutual_information,
    student_information,
    uniform_noise_information,
)
from vergence.types import Embedding


@dataclass(frozen=True)
class Pairs:
    """Samples of two variables, row by row, and what they share in truth."""

    x: Tensor
    y: Tensor
    nats: float


def correlated_gaussians(n: int, *, d: int = 1, nats: float = 1.0, seed: int = 0) -> Pairs:
    """d independent pairs of Gaussians with equal correlation, chosen so that they share ``nats`` in all."""
    x, noise = torch.randn(2, n, d, generator=_generator(seed), dtype=torch.float64)
    correlation = correlation_for(nats, d=d)
    return Pairs(x, correlation * x + math.sqrt(1 - correlation**2) * noise, nats)


def cubed_gaussians(n: int, *, d: int = 1, nats: float = 1.0, seed: int = 0) -> Pairs:
    """``correlated_gaussians`` with every coordinate of y cubed: the same information, a harder critic.

    References:
        Poole et al. (2019), Sec. 4. https://arxiv.org/abs/1905.06922
    """
    pairs = correlated_gaussians(n, d=d, nats=nats, seed=seed)
    return Pairs(pairs.x, cube(pairs.y), nats)


def shared_offset(n: int, *, batch: int = 128, seed: int = 0) -> Pairs:
    r"""Pairs that are not independent of each other: all pairs of a batch share one offset.

    :math:`(X, Y) = Z + \epsilon`, with Z of correlation -0.5 drawn once a batch and :math:`\epsilon` of correlation
    0.9 drawn for each pair, so that the marginal correlation is 0.2. Within a batch the offset is constant, and
    estimators that take the batch for independent draws see more than there is.

    References:
        Tschannen et al. (2020), Sec. 4. https://arxiv.org/abs/1907.13625
    """
    generator = _generator(seed)
    offset = _correlated(-(-n // batch), -0.5, generator).repeat_interleave(batch, dim=0)[:n]
    x, y = (offset + _correlated(n, 0.9, generator)).split(1, dim=1)
    return Pairs(x, y, correlated_information(0.2))


def uniform_noise(n: int, *, width: float = 0.1, seed: int = 0) -> Pairs:
    """A uniform variable and the same with uniform noise: densities with hard edges."""
    x, noise = torch.rand(2, n, 1, generator=_generator(seed), dtype=torch.float64)
    return Pairs(x, x + width * (2 * noise - 1), uniform_noise_information(width))


def student(n: int, *, dx: int = 2, dy: int = 2, degrees: int = 2, seed: int = 0) -> Pairs:
    """Uncorrelated parts of a multivariate Student-t: they share only how far out they are, and the tails are heavy."""
    generator = _generator(seed)
    z = torch.randn(n, dx + dy, generator=generator, dtype=torch.float64)
    scale = torch.randn(n, degrees, generator=generator, dtype=torch.float64).square().mean(1, keepdim=True).sqrt()
    x, y = (z / scale).split([dx, dy], dim=1)
    return Pairs(x, y, student_information(float(degrees), dx=dx, dy=dy))


def discrete_channel(n: int, joint: Float[Tensor, "rows columns"], *, seed: int = 0) -> Pairs:
    """Row and column numbers drawn from a joint table, as integers ``[n, 1]``."""
    cells = torch.multinomial(joint.flatten(), n, replacement=True, generator=_generator(seed))[:, None]
    return Pairs(cells // joint.shape[1], cells % joint.shape[1], float(mutual_information(joint)))


def labelled_mixture(n: int, *, separation: float = 2.0, seed: int = 0) -> Pairs:
    """A label (two, equally likely) and a unit Gaussian centered at plus or minus half the separation."""
    generator = _generator(seed)
    labels = torch.randint(2, (n, 1), generator=generator)
    x = separation * (labels - 0.5) + torch.randn(n, 1, generator=generator, dtype=torch.float64)
    # Quadrature of log 2 - E softplus(-s t), t ~ N(s/2, 1): the label's entropy less what x leaves of it.
    t = torch.linspace(-12, 12, 20001, dtype=torch.float64)
    weights = torch.exp(-0.5 * t**2) / math.sqrt(2 * math.pi) * (t[1] - t[0])
    left = torch.nn.functional.softplus(-separation * (t + separation / 2))
    return Pairs(x, labels, math.log(2) - float((weights * left).sum()))


def cube(x: Embedding) -> Embedding:
    """Every coordinate cubed: invertible, so mutual information is unchanged."""
    return x**3


def spiral(x: Embedding, *, speed: float = 1.0) -> Embedding:
    """The first two coordinates turned by ``speed`` times the mean square of the row: invertible, and winding."""
    angle = speed * (x**2).mean(1)
    a, b = x[:, 0], x[:, 1]
    turned = torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=1)
    return torch.cat([turned, x[:, 2:]], dim=1)


def _correlated(n: int, correlation: float, generator: torch.Generator) -> Tensor:
    a, b = torch.randn(2, n, 1, generator=generator, dtype=torch.float64)
    return torch.cat([a, correlation * a + math.sqrt(1 - correlation**2) * b], dim=1)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
