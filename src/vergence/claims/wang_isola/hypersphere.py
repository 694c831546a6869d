"""Claims about alignment, uniformity, and the limit of the contrastive loss."""

import math

import numpy as np
import torch
from scipy.special import hyp0f1, i0e, ive
from torch import Tensor
from torch.nn.functional import normalize

from vergence.claims.claim import Outcome, claim, within
from vergence.claims.draws import directions, gaussian
from vergence.objectives import (
    OBJECTIVES,
    align_uniform,
    alignment,
    info_nce,
    linear_contrastive,
    uniformity,
    uniformity_floor,
)
from vergence.theory import hypersphere as limits

# These treat columns one by one, so a rotation changes them.
BY_COLUMNS = ("barlow_twins", "vicreg", "frossl", "swav", "dino")
# These draw directions, which do not turn with the embeddings: equal in the mean over directions only.
BY_DRAWS = ("sigreg", "lejepa")


def _pairs(n: int, d: int, noise: float = 0.3, seed: int = 0) -> tuple[Tensor, Tensor]:
    z = directions(n, d, seed)
    return z, normalize(z + noise * directions(n, d, seed + 1), dim=1)


def _with_self_pairs(z: Tensor, t: float) -> float:
    """The log-potential of the law that puts equal mass on the rows: a pair may be one row twice."""
    n = len(z)
    return math.log(((n - 1) * math.exp(float(uniformity(z, t=t))) + 1) / n)


@claim(1, "For unit vectors, |u - v|^2 = 2 - 2 u.v.", tolerance="1e-12")
def unit_distance() -> Outcome:
    z1, z2 = _pairs(64, 16)
    return within(abs(float(alignment(z1, z2) - (2 - 2 * (z1 * z2).sum(1).mean()))), 1e-12)


@claim(
    2,
    "The uniform law on the sphere has uniformity -2t + log 0F1(; d/2; t^2).",
    kind="monte_carlo",
    tolerance="5 standard errors",
)
def uniform_law() -> Outcome:
    worst = 0.0
    for d in (2, 3, 16, 128):
        closed = hyp0f1(d / 2, 4.0) * math.exp(-4)
        values = [math.exp(float(uniformity(directions(64, d, seed), t=2.0))) for seed in range(100)]
        error = np.std(values) / math.sqrt(len(values))
        worst = max(worst, abs(np.mean(values) - closed) / error, abs(uniformity_floor(d) - math.log(closed)) / 1e-12)
    return Outcome(bool(worst < 5), f"largest deviation {worst:.1f} standard errors over d = 2, 3, 16, 128")


@claim(3, "On the circle at t = 2 the average potential is e^-4 I_0(4) = 0.2070.", tolerance="1e-9")
def circle_potential() -> Outcome:
    return within(abs(math.exp(uniformity_floor(2, t=2.0)) - i0e(4.0)), 1e-9)


@claim(4, "No law has a lower potential than the uniform one.", tolerance="1e-12 on 60 finite laws")
def uniform_law_is_best() -> Outcome:
    slack = math.inf
    for seed in range(20):
        clusters = directions(3, 3, seed).repeat(5, 1) + 0.1 * directions(15, 3, seed + 50)
        for z in (directions(40, 3, seed), clusters, torch.eye(3, dtype=torch.float64)[[0, 0, 1, 2]]):
            slack = min(slack, _with_self_pairs(z, 2.0) - uniformity_floor(3, t=2.0))
    return Outcome(slack >= -1e-12, f"smallest excess {slack:.3g}")


@claim(5, "Over distinct pairs, N points of a simplex reach -2tN/(N-1), below the uniform law.", tolerance="1e-10")
def simplex() -> Outcome:
    n, t = 6, 2.0
    corners = torch.eye(n, dtype=torch.float64) - 1 / n
    value = float(uniformity(corners, t=t))
    error = max(abs(value + 2 * t * n / (n - 1)), abs(value - uniformity_floor(n - 1, t=t, n=n)))
    return Outcome(error < 1e-10 and value < uniformity_floor(n - 1, t=t), f"{value:.6f}, error {error:.1e}")


@claim(
    6, "The supplement's 2/(K(K-1)) times the sum over i != j is the loss of the code plus log 2.", tolerance="1e-12"
)
def supplement_normalization() -> Outcome:
    z = directions(12, 5)
    kernel = torch.exp(-2 * torch.cdist(z, z).square()).fill_diagonal_(0)
    printed = (2 / (12 * 11) * kernel.sum()).log()
    return within(abs(float(printed - uniformity(z, t=2.0)) - math.log(2)), 1e-12)


@claim(7, "The gradient of alignment pulls views together: its sign is plus.", tolerance="strict")
def alignment_pulls() -> Outcome:
    z1, z2 = _pairs(32, 8, noise=1.0)
    z1.requires_grad_()
    before = alignment(z1, z2)
    (gradient,) = torch.autograd.grad(before, z1)
    after = alignment(z1 - 0.1 * gradient, z2)
    return Outcome(0 <= after.item() < before.item(), f"one step: {before.item():.6f} -> {after.item():.6f}")


@claim(
    8,
    "The contrastive loss minus log M tends to alignment plus uniformity as M grows.",
    kind="monte_carlo",
    tolerance="2c/M and 5 standard errors",
)
def contrastive_limit() -> Outcome:
    z1, z2 = _pairs(24, 4)
    anchors, positives = torch.cat([z1, z2]), torch.cat([z2, z1])
    limit, rate = (float(f(z1, z2, temperature=0.5)) for f in (limits.contrastive_limit, limits.limit_rate))
    generator = torch.Generator().manual_seed(0)
    parts, holds = [], True
    for m in (256, 1024, 4096):
        draws = [torch.randint(48, (m,), generator=generator) for _ in range(200)]
        losses = [float(info_nce(anchors, positives, negatives=anchors[k], temperature=0.5)) for k in draws]
        deviation, error = np.mean(losses) - math.log(m) - limit, np.std(losses) / math.sqrt(len(losses))
        holds &= abs(deviation) < 2 * abs(rate) / m + 5 * error
        parts.append(f"M={m}: {deviation:+.1e}")
    return Outcome(bool(holds), ", ".join(parts))


@claim(
    9,
    "M times the deviation from the limit tends to a constant: the rate is 1/M, not the paper's M^(-2/3).",
    kind="monte_carlo",
    tolerance="10 %",
)
def rate_of_the_limit() -> Outcome:
    z1, z2 = _pairs(24, 4)
    constant = float(limits.limit_rate(z1, z2, temperature=0.5))
    parts = [
        m * float(limits.limit_deviation(z1, z2, negatives=m, temperature=0.5, draws=2000).mean()) for m in (64, 256)
    ]
    error = abs(parts[-1] / constant - 1)
    return Outcome(error < 0.1, f"M x deviation {parts[0]:.4f}, {parts[1]:.4f}; constant {constant:.4f}")


@claim(10, "The deviation from the limit is at most e^(2/T) / M.", kind="monte_carlo")
def deviation_bound() -> Outcome:
    z1, z2 = _pairs(24, 4)
    certificates = [
        limits.limit_of_contrastive(z1, z2, negatives=m, temperature=temperature)
        for m in (16, 256)
        for temperature in (0.2, 0.5, 1.0)
    ]
    slack = min(certificate.slack for certificate in certificates)
    return Outcome(all(certificate.holds for certificate in certificates), f"smallest slack {slack:.2g}")


@claim(11, "log E e^(u.v/T) = 1/T + uniformity at t = 1/(2T).", tolerance="1e-12")
def potential_is_uniformity() -> Outcome:
    z, temperature = directions(20, 6), 0.3
    i, j = torch.triu_indices(20, 20, 1)
    direct = ((z[i] * z[j]).sum(1) / temperature).exp().mean().log()
    return within(abs(float(direct - 1 / temperature - uniformity(z, t=1 / (2 * temperature)))), 1e-12)


@claim(12, "E log E <= log E E for the potential, with equality where every point has the same.", tolerance="1e-12")
def logarithm_inside() -> Outcome:
    angles = 2 * math.pi * torch.arange(7, dtype=torch.float64) / 7
    polygon, cloud = torch.stack([angles.cos(), angles.sin()], 1), directions(20, 3)
    gaps = [_with_self_pairs(z, 1.0) + 2 - float(limits.uniformity_potential(z)) for z in (polygon, cloud)]
    return Outcome(abs(gaps[0]) < 1e-12 < gaps[1], f"gap {gaps[0]:.1e} for a polygon, {gaps[1]:.3g} for a cloud")


@claim(
    13,
    "The mean inner product is minimized by two opposite points, which do not minimize uniformity.",
    tolerance="strict",
)
def two_points() -> Outcome:
    u = directions(1, 3)
    z = torch.cat([u, -u]).repeat(8, 1)
    # Distinct pairs leave the n self-pairs out: their mean is -1/(n-1) where the law's is 0.
    mean = (15 * float(linear_contrastive(z, z) + 1) + 1) / 16
    excess = _with_self_pairs(z, 2.0) - uniformity_floor(3, t=2.0)
    return Outcome(abs(mean) < 1e-12 and excess > 0.1, f"|E u|^2 = {abs(mean):.0e}, excess uniformity {excess:.3f}")


@claim(
    14,
    "The uniformity term of the limit is minus the entropy of a von Mises-Fisher kernel estimate, plus a constant.",
    tolerance="1e-10",
)
def kernel_entropy() -> Outcome:
    d, temperature = 5, 0.4
    kappa, z = 1 / temperature, directions(30, d)
    log_constant = (
        (d / 2 - 1) * math.log(kappa) - d / 2 * math.log(2 * math.pi) - math.log(ive(d / 2 - 1, kappa)) - kappa
    )
    entropy = -float(((kappa * z @ z.T).exp().mean(1).log() + log_constant).mean())
    potential = float(limits.uniformity_potential(z, temperature=temperature))
    product = float(limits.resubstitution_entropy(z, temperature=temperature))
    return within(max(abs(potential + entropy + log_constant), abs(product - entropy)), 1e-10)


@claim(15, "A collapsed encoder has alignment 0, uniformity 0 and contrastive loss log(M + 1).", tolerance="1e-12")
def collapsed() -> Outcome:
    z = directions(1, 5).repeat(9, 1)
    loss = info_nce(z, z, negatives=z[:1].repeat(31, 1), temperature=0.1)
    errors = (alignment(z, z), uniformity(z), loss - math.log(32))
    return within(max(abs(float(error)) for error in errors), 1e-12)


@claim(16, "Rotating all embeddings changes no loss of inner products and distances.", tolerance="1e-10")
def rotation() -> Outcome:
    z1, z2 = _pairs(16, 6)
    turn = torch.linalg.qr(directions(6, 6, seed=9))[0]
    worst = 0.0
    for name in set(OBJECTIVES) - {*BY_COLUMNS, *BY_DRAWS}:
        alone = dict.fromkeys(("uniformity", "koleo"), lambda z: ())
        extra = {**alone, "supervised": lambda z: (z, torch.arange(16) % 3)}.get(name, lambda z: (z,))
        plain, turned = OBJECTIVES[name](z1, *extra(z2)), OBJECTIVES[name](z1 @ turn, *extra(z2 @ turn))
        worst = max(worst, abs(float(plain - turned)))
    return within(worst, 1e-10)


@claim(
    17,
    "Collapse is locally stable exactly where the noise fraction of the features exceeds t w_u / w_a.",
    tolerance="sign of the loss at scale 0.01",
)
def collapse_is_stable() -> Outcome:
    signal, noise1, noise2 = gaussian(3, 512)
    threshold, seen = 2.0 * 1.0 / 4.0, {}
    for fraction in (0.3, 0.4, 0.6, 0.7):
        views = []
        for noise in (noise1, noise2):
            angle = 0.01 * (math.sqrt(1 - fraction) * signal + math.sqrt(fraction) * noise)
            views.append(torch.stack([angle.cos(), angle.sin()], 1))
        seen[fraction] = float(align_uniform(*views, align_weight=4.0, uniform_weight=1.0, t=2.0)) > 0
    holds = all(stable == (fraction > threshold) for fraction, stable in seen.items())
    return Outcome(holds, f"stable at noise fractions {[f for f, stable in seen.items() if stable]}, not below 0.5")


@claim(
    20, "MoCo's intra-batch uniformity is a mean over K N queue pairs and K (K - 1) / 2 batch pairs.", tolerance="1e-10"
)
def intra_batch_uniformity() -> Outcome:
    batch, queue, t = directions(6, 4), directions(10, 4, seed=1), 2.0
    distances = [float((u - v).square().sum()) for u in batch for v in queue]
    distances += [float((batch[i] - batch[j]).square().sum()) for i in range(6) for j in range(i)]
    loop = math.log(sum(math.exp(-t * distance) for distance in distances) / len(distances))
    tiled = align_uniform(batch, batch, negatives=queue, align_weight=0.0, t=t)
    return within(abs(tiled.item() - loop), 1e-10)
