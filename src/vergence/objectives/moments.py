"""Objectives of second moments and of spectra: TiCo, W-MSE, MMCR and FroSSL, on Gram matrices of the smaller side."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.objectives.gram import refuse_second_derivative, squared_scores
from vergence.objectives.inputs import checked, directions, not_negative, positive
from vergence.types import Embedding, Scalar


def tico(
    z1: Embedding,
    z2: Embedding,
    *,
    past: Float[Tensor, "d d"] | None = None,
    memory: float = 0.9,
    weight: float = 8.0,
) -> Scalar:
    r"""Attract views by their cosine, and push embeddings off the directions that they have filled lately.

    .. math:: 1 - \mathbb{E}\, u_1 \cdot u_2 + \rho\, \mathbb{E}\, u_1^\top C u_1, \qquad
        C = \beta C_{\mathrm{past}} + (1 - \beta) \tfrac1n U_1^\top U_1

    on directions, with :math:`\beta` = ``memory`` and :math:`\rho` = ``weight``. ``past`` is :math:`C_{\mathrm{past}}`,
    0 where there is none. With :math:`\beta = 0` and :math:`\rho = 1/2` this is half of the spectral loss on the
    sphere, less constants: the memory adds past batches to the negatives, each weighing :math:`\beta` times the next.
    The gradient passes through this batch's share of C; lightly stops it there, which halves that share.

    References:
        Zhu et al. (2022), Alg. 1. https://arxiv.org/abs/2206.10698
    """
    not_negative(weight=weight, memory=memory)
    u1, u2 = directions(z1=z1, z2=z2)
    n = u1.shape[0]
    repulsion = (1 - memory) * squared_scores(u1, u1) / n**2
    if past is not None:
        with torch.autocast(u1.device.type, enabled=False):
            repulsion = repulsion + memory * ((u1 @ past.to(u1)) * u1).sum(1).mean()
    return 1 - (u1 * u2).sum(1).mean() + weight * repulsion


def w_mse(z1: Embedding, z2: Embedding, *, epsilon: float = 1e-5) -> Scalar:
    r"""Twice one minus the mean cosine of positive pairs after the batch of both views was whitened.

    .. math:: 2 - \frac2n \sum_i \frac{v_{1i}^\top P v_{2i}}{\sqrt{v_{1i}^\top P v_{1i}\; v_{2i}^\top P v_{2i}}},
        \qquad P = (\mathrm{Cov}(V) + \epsilon)^{-1}, \quad V = \text{all 2n rows, centered}

    Whitening cannot give directions to a batch that has none, so collapse does not lower it: 2 there, as for unrelated
    views. Any invertible linear map of the embeddings leaves it alone (but for epsilon). Through a matrix of the width
    or of the 2n rows, whichever is smaller, in float64. The authors' code whitens each view, and sub-batches of it,
    apart and by Cholesky, which makes the value depend on the order of columns; this is their Eq. 5 over all of V.

    References:
        Ermolov et al. (2021), Eqs. 3-5. https://arxiv.org/abs/2007.06346
    """
    positive(epsilon=epsilon)
    z1, z2 = checked(z1=z1, z2=z2)
    with torch.autocast(z1.device.type, enabled=False):
        v = _wide(torch.cat([z1, z2]))
        own, across = _whitened_products(v - v.mean(0), epsilon)
        # Whitened rows have a mean square of the width; far below it, there was nothing to whiten.
        lengths = own.clamp(min=1e-8 * v.shape[1]).sqrt()
        cosines = across / (lengths[: len(z1)] * lengths[len(z1) :])
    return (2 - 2 * cosines.mean()).to(z1.dtype)


def mmcr(z1: Embedding, z2: Embedding, *more: Embedding, weight: float = 0.0) -> Scalar:
    r"""Minus the nuclear norm of the centers of the samples' views: centers as long and as orthogonal as can be.

    .. math:: -\|C\|_* + \frac{w}{n} \sum_i \|Z_i\|_*, \qquad c_i = \frac1V \sum_v u_{vi}

    on directions, with :math:`Z_i` the V views of sample i. All rows equal give :math:`-\sqrt n`, and nothing is below
    :math:`-\sqrt{n \min(n, d)}`. The authors release w = 0; lightly takes 0.005. Gradients come from the Gram matrix
    of the smaller side, so that singular values of 0 pull nowhere.

    References:
        Yerxa et al. (2023), Eqs. 5 and 6. https://arxiv.org/abs/2303.03307
    """
    not_negative(weight=weight)
    u = directions(z1=z1, z2=z2, **{f"z{number}": z for number, z in enumerate(more, 3)})
    views = torch.stack(u, dim=1)
    loss = -nuclear_norm(views.mean(1)[None])[0]
    return loss + weight * nuclear_norm(views).mean() if weight else loss


def frossl(z1: Embedding, z2: Embedding, *more: Embedding, invariance: float = 1.0) -> Scalar:
    r"""Log-Frobenius norms of the views' correlations, and the distance of each view to their mean.

    .. math:: \sum_v \left( 2 \log \|K_v\|_F + \gamma \frac{V}{n} \|Z_v - \bar Z\|_F^2 \right), \qquad
        K_v = Z_v^\top Z_v / \mathrm{tr}

    with the columns of each view divided by their length (not centered), as in the authors' code. A view that
    coincides has :math:`\|K\|_F = 1` and adds 0; one that fills all r = min(n, d) directions adds -log r.

    References:
        Skean et al. (2024), Eqs. 3 and 6. https://arxiv.org/abs/2310.02903
    """
    not_negative(invariance=invariance)
    views = [_unit_columns(z) for z in checked(z1=z1, z2=z2, **{f"z{number}": z for number, z in enumerate(more, 3)})]
    everything = torch.stack(views)
    spread = sum((squared_scores(z.T.contiguous(), z.T.contiguous()).log() - 2 * z.square().sum().log()) for z in views)
    distance = (everything - everything.mean(0)).square().sum()
    return spread + invariance * len(views) / len(z1) * distance


def nuclear_norm(matrices: Float[Tensor, "batch rows columns"]) -> Float[Tensor, " batch"]:
    """The sum of the singular values of each matrix; of two matrices that share it, the subgradient least in norm."""
    return _NuclearNorm.apply(matrices)


class _NuclearNorm(torch.autograd.Function):
    """Through the eigenvalues of the smaller Gram matrix, in float64: ``sum sqrt(l)``, with gradient ``G^(-1/2) A``."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        with torch.autocast(a.device.type, enabled=False):
            wide = _wide(a)
            tall = wide.shape[1] > wide.shape[2]
            gram = wide.mT @ wide if tall else wide @ wide.mT
            values, vectors = torch.linalg.eigh(gram)
            # What rounding leaves of a zero eigenvalue is no direction.
            least = gram.shape[1] * torch.finfo(wide.dtype).eps * values[:, -1:]
            roots = torch.where(values > least, values, 0.0).sqrt()
            inverse = torch.where(roots > 0, 1 / roots, 0.0)
            root = (vectors * inverse[:, None, :]) @ vectors.mT
            ctx.save_for_backward((wide @ root if tall else root @ wide).to(a.dtype))
        return roots.sum(1).to(a.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        refuse_second_derivative()
        (gradient,) = ctx.saved_tensors
        return gradient * grad[:, None, None]


def _whitened_products(v: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Of centered rows under the inverse covariance: of each with itself, and of each with its partner.

    With more columns d than rows m, ``v (v'v/m + e)^-1 v' = m G (G + e)^-1`` with ``G = vv'/m``.
    """
    m, d = v.shape
    if d <= m:
        factor = torch.linalg.cholesky(v.T @ v / m + epsilon * torch.eye(d, dtype=v.dtype, device=v.device))
        white = torch.linalg.solve_triangular(factor, v.T, upper=False).T
        first, second = white.chunk(2)
        return white.square().sum(1), (first * second).sum(1)
    gram = v @ v.T / m
    products = m * torch.cholesky_solve(
        gram, torch.linalg.cholesky(gram + epsilon * torch.eye(m, dtype=v.dtype, device=v.device))
    )
    return products.diagonal(), products.diagonal(m // 2)


def _unit_columns(z: Tensor) -> Tensor:
    """Columns divided by their length; one that is all 0 stays so."""
    lengths = torch.linalg.vector_norm(z, dim=0)
    return z / torch.where(lengths > 0, lengths, 1.0)


def _wide(z: Tensor) -> Tensor:
    """Float64 where the device has it: inverses and roots of small numbers round."""
    return z if z.device.type == "mps" else z.double()
