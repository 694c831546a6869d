"""Claims about second moments and characteristic functions."""

import math
from itertools import pairwise

import numpy as np
import torch
from scipy.special import hyp0f1
from torch import Tensor

from vergence.claims.claim import Outcome, claim, within
from vergence.claims.draws import directions, gaussian, mean_and_error
from vergence.objectives import sigreg, spectral, tico, uniformity
from vergence.objectives.characteristic import grid, unit_slices


@claim(
    301,
    "TiCo is the spectral loss on the sphere with an exponentially weighted memory of negatives.",
    tolerance="1e-12",
)
def tico_is_spectral_with_a_memory() -> Outcome:
    memory, weight, n, d = 0.9, 8.0, 24, 6
    past, batches = torch.zeros(d, d, dtype=torch.float64), []
    worst = 0.0
    for step in range(5):
        z = directions(n, d, seed=step)
        batches.append(z)
        value = float(tico(z, z, past=past, memory=memory, weight=weight))
        # Squared scores with every batch so far; rows of the present one meet themselves too.
        repulsion = sum(
            (1 - memory) * memory**age * float((z @ old.T).square().mean()) for age, old in enumerate(reversed(batches))
        )
        worst = max(worst, abs(value - weight * repulsion))
        past = memory * past + (1 - memory) * z.T @ z / n
    z = batches[0]
    alone = float(tico(z, z, memory=0.0, weight=0.5))
    pairs = 0.5 * ((n - 1) / n * (float(spectral(z, z)) + 2) + 1 / n)
    return within(max(worst, abs(alone - pairs)), 1e-12)


@claim(
    302,
    "VICReg is the two-moment case of SIGReg: near t = 0 SIGReg sees means, variances and covariances only.",
    tolerance="1e-3 of the value at the limit 0.02; batches of equal moments differ by 1e-3 of it, and not at 3",
)
def vicreg_is_the_two_moment_case() -> Outcome:
    z = 1.3 * gaussian(40, 3)
    z = z - z.mean(0)
    moments = z.T @ z / len(z)
    across = unit_slices(1024, 3, 0)
    # |phi - g|^2 = t^4 (a'Sa - 1)^2 / 4 + ... of centered rows: (diagonal - 1)^2 and squared covariances.
    small = 0.02
    t, _, weights = grid(17, small)
    leading = float((weights * t**4).sum()) / 4
    expected = len(z) * leading * float(((across @ moments * across).sum(1) - 1).square().mean())
    error = abs(float(sigreg(z, limit=small)) / expected - 1)
    # Rows of another law with the same two moments: signs, mixed by the same root.
    signs = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=torch.float64).repeat(10, 1)
    other = signs @ torch.linalg.cholesky(moments).T
    gap = {limit: abs(float(sigreg(other, limit=limit) / sigreg(z, limit=limit)) - 1) for limit in (small, 3.0)}
    said = (
        f"error {error:.1e}; equal moments differ by {gap[small]:.1e} at the limit {small} and by {gap[3.0]:.2f} at 3"
    )
    return Outcome(
        error < 1e-3 and gap[small] < 1e-3 < 0.05 < gap[3.0],
        said,
        {"gap": {str(limit): value for limit, value in gap.items()}},
    )


@claim(
    303,
    "SIGReg and uniformity have the same minimizer up to scale: on a sphere both are energies of pairs, least where "
    "rows are spread evenly.",
    kind="monte_carlo",
    tolerance="kernel identity to 5 standard errors; both rise with concentration",
)
def sigreg_on_a_sphere_is_an_energy() -> Outcome:
    n, d = 24, 4
    z = math.sqrt(d) * directions(n, d)
    closed = _energy(z)
    values = [sigreg(z, slices=2048, seed=seed) for seed in range(8)]
    value, error = mean_and_error(values)
    off = abs(value - closed) / error
    orders = []
    for pull in (0.0, 0.5, 1.0, 2.0):
        rows = gaussian(512, 8, seed=1) + pull * torch.eye(8, dtype=torch.float64)[0]
        u = torch.nn.functional.normalize(rows, dim=1)
        orders.append((float(uniformity(u)), _energy(math.sqrt(8) * u)))
    rising = all(a < b for pair in zip(*orders, strict=True) for a, b in pairwise(pair))
    said = f"kernel form off by {off:.1f} standard errors; uniformity and SIGReg by concentration: "
    return Outcome(off < 5 and rising, said + ", ".join(f"({u:.2f}, {s:.1f})" for u, s in orders))


def _energy(z: Tensor) -> float:
    """SIGReg over all directions of rows of one length: sums of 0F1 over pairs, and terms of the length alone."""
    n, d = z.shape
    t, gaussian_there, weights = (part.numpy() for part in grid(17, 3.0))
    squared = torch.cdist(z, z).square().numpy()
    lengths = z.square().sum(1).numpy()
    total = 0.0
    for point, other, weight in zip(t, gaussian_there, weights, strict=True):
        pairs = hyp0f1(d / 2, -(point**2) * squared / 4).mean()
        cross = hyp0f1(d / 2, -(point**2) * lengths / 4).mean()
        total += weight * float(pairs - 2 * other * cross + other**2)
    return n * total


@claim(
    304,
    "Small batches hide dimensional collapse from SIGReg: rows of rank 8 among 64 give about 2.9 for 64 rows and 35 "
    "for 1024, where Gaussian rows give 1.05.",
    kind="monte_carlo",
    tolerance="between 2 and 4, and between 27 and 45",
)
def small_batches_hide_dimensional_collapse() -> Outcome:
    found: dict[str, float] = {}
    full: dict[str, float] = {}
    for n in (64, 1024):
        draws = range(6)
        flat = [gaussian(n, 8, seed=seed) @ gaussian(8, 64, seed=seed + 50) / math.sqrt(8) for seed in draws]
        found[str(n)] = float(np.mean([float(sigreg(z, slices=256, seed=seed)) for seed, z in enumerate(flat)]))
        wide = [sigreg(gaussian(n, 64, seed=seed), slices=256, seed=seed) for seed in draws]
        full[str(n)] = float(np.mean([float(value) for value in wide]))
    holds = 2 < found["64"] < 4 and 27 < found["1024"] < 45
    return Outcome(holds, "; ".join(f"{n} rows: rank 8 {found[n]:.1f}, rank 64 {full[n]:.2f}" for n in found), found)
