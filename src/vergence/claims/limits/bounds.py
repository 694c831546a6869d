"""Claims about bounds of mutual information and their limits."""

import math

import torch
from torch import Tensor

from vergence.claims.claim import Outcome, claim, within
from vergence.claims.draws import gaussian, mean_and_error, optimal_scores
from vergence.information import bounds, exact, limits


@claim(44, "InfoNCE never exceeds log K, whatever the critic.", tolerance="1e-12")
def info_nce_stays_below_log_k() -> Outcome:
    certain = 50 * torch.eye(16, dtype=torch.float64)
    excess = max(
        float(bounds.info_nce(certain + 10.0 * gaussian(16, 16, seed=seed))) - math.log(16) for seed in range(50)
    )
    return within(excess, 1e-12, "largest excess over log K")


@claim(46, "For the same critic Donsker-Varadhan is at least NWJ.")
def donsker_varadhan_is_above_nwj() -> Outcome:
    gaps = [
        float(bounds.donsker_varadhan(s) - bounds.nwj(s))
        for s in (3.0 * gaussian(12, 12, seed=seed) for seed in range(50))
    ]
    return Outcome(min(gaps) >= -1e-12, f"smallest difference {min(gaps):.3g}")


@claim(
    47,
    "NWJ with the critic one plus the log ratio is the mutual information in expectation.",
    kind="monte_carlo",
    tolerance="5 s.e.",
)
def nwj_is_tight() -> Outcome:
    mean, error = mean_and_error([bounds.nwj(1 + optimal_scores(0.5, seed, n=256)) for seed in range(100)])
    return Outcome(abs(mean - 0.5) <= 5 * error, f"NWJ {mean:.4f} +- {error:.4f}, information 0.5")


@claim(
    48,
    "The density ratio of Gaussians varies by e^{2I} - 1, which is above e^I - 1.",
    kind="monte_carlo",
    tolerance="5 %",
)
def the_gaussian_ratio_varies() -> Outcome:
    nats = exact.correlated_information(0.5)
    x, y = gaussian(2, 400_000, 1, seed=0)
    ratio = _paired_ratio(x, y, 0.5)
    seen, expected = float(ratio.var()), limits.gaussian_ratio_variance(nats)
    holds = abs(seen / expected - 1) < 0.05 and seen > math.expm1(nats)
    return Outcome(holds, f"variance {seen:.4f}, e^2I - 1 = {expected:.4f}, e^I - 1 = {math.expm1(nats):.4f}")


@claim(
    49,
    "Donsker-Varadhan with the true critic overestimates by about (e^{2I} - 1) / 2n for Gaussians.",
    kind="monte_carlo",
    tolerance="10 %",
)
def donsker_varadhan_overestimates() -> Outcome:
    nats, n = exact.correlated_information(0.5), 64
    x, y = gaussian(2, 20_000, n, 1, seed=1)
    mean = _paired_ratio(x, y, 0.5).mean(1)
    bias = float((mean - 1 - mean.log()).mean())  # the mean of the ratio is one, so this only removes noise
    expected = limits.gaussian_ratio_variance(nats) / (2 * n)
    holds = abs(bias / expected - 1) < 0.1 and bias > limits.donsker_varadhan_bias(nats, n)
    return Outcome(
        holds, f"bias {bias:.5f}, expected {expected:.5f}, at least {limits.donsker_varadhan_bias(nats, n):.5f}"
    )


@claim(50, "n times the variance of the logarithm of the mean ratio is at least e^I - 1.", kind="monte_carlo")
def the_log_mean_ratio_varies() -> Outcome:
    nats, n = exact.correlated_information(0.5), 256
    x, y = gaussian(2, 4000, n, 1, seed=2)
    seen = n * float(_paired_ratio(x, y, 0.5).mean(1).log().var())
    return Outcome(seen >= math.expm1(nats), f"{seen:.4f}, floor {math.expm1(nats):.4f}")


@claim(51, "The mean of n ratios clipped at c varies by at most (e^c - e^-c)^2 / 4n.", kind="monte_carlo")
def clipped_ratios_vary_little() -> Outcome:
    x, y = gaussian(2, 4000, 32, 1, seed=3)
    ratio = _paired_ratio(x, y, 0.9)
    shares = []
    for clip in (0.5, 1.0, 5.0):
        seen = float(ratio.clamp(math.exp(-clip), math.exp(clip)).mean(1).var())
        shares.append(seen / limits.smile_variance(clip, 32))
    return Outcome(max(shares) <= 1, f"largest share of the allowed variance {max(shares):.3f}")


@claim(52, "With a wide clip SMILE is Donsker-Varadhan.", tolerance="1e-10")
def smile_tends_to_donsker_varadhan() -> Outcome:
    scores = 3.0 * gaussian(10, 10, seed=4)
    return within(abs(float(bounds.smile(scores, clip=1e3) - bounds.donsker_varadhan(scores))), 1e-10)


@claim(53, "SMILE trains with the gradient of Jensen-Shannon; only its value differs.", tolerance="1e-8")
def smile_has_the_jensen_shannon_gradient() -> Outcome:
    scores = 3.0 * gaussian(10, 10, seed=5).requires_grad_()
    smile, js = (torch.autograd.grad(f(scores), scores)[0] for f in (bounds.smile, bounds.jensen_shannon))
    return within(float((smile - js).abs().max()), 1e-8)


@claim(
    54,
    "With the true critic the leave-one-out bound is above the information, and InfoNCE below.",
    kind="monte_carlo",
    tolerance="5 s.e.",
)
def leave_one_out_is_above() -> Outcome:
    nats = exact.correlated_information(0.9)
    draws = [optimal_scores(nats, seed, n=32) for seed in range(300)]
    (above, up), (below, down) = (
        mean_and_error([bounds.leave_one_out(s) for s in draws]),
        mean_and_error([bounds.info_nce(s) for s in draws]),
    )
    holds = above + 5 * up >= nats >= below - 5 * down
    return Outcome(holds, f"InfoNCE {below:.3f}, information {nats:.3f}, leave-one-out {above:.3f}")


@claim(55, "The interpolated bound is InfoNCE over the columns at alpha 1 and NWJ at alpha 0.", tolerance="1e-10")
def the_interpolated_bound_has_two_known_ends() -> Outcome:
    scores = 3.0 * gaussian(9, 9, seed=6)
    ends = (
        bounds.interpolated(scores, alpha=1.0) - bounds.info_nce(scores.T),
        bounds.interpolated(scores, alpha=0.0) - bounds.nwj(scores),
    )
    return within(max(abs(float(end)) for end in ends), 1e-10)


@claim(155, "The interpolated bound never exceeds log(K / alpha).", false=True)
def the_interpolated_bound_exceeds_its_printed_ceiling() -> Outcome:
    certain = 200 * torch.eye(8, dtype=torch.float64) - 100
    seen, printed = float(bounds.interpolated(certain, alpha=0.1)), math.log(8 / 0.1)
    corrected = limits.interpolated_ceiling(8, alpha=0.1)
    return Outcome(
        seen <= printed, f"{seen:.3f} with a certain critic; printed {printed:.3f}, corrected {corrected:.3f}"
    )


@claim(
    58,
    "Mixing 1/N of p into q brings KL(p || q) down to ln N, unseen by N samples with probability 1/4.",
    tolerance="1e-12",
)
def a_little_of_p_hides_the_divergence() -> Outcome:
    excess = []
    for n in (2, 10, 1000):
        p, q = torch.eye(2, dtype=torch.float64)
        excess.append(float(exact.kl_divergence(p, (1 - 1 / n) * q + p / n)) - limits.kl_ceiling(n))
        excess.append(0.25 - (1 - 1 / n) ** n)
    return within(max(excess), 1e-12, "largest excess")


@claim(59, "The entropy ceiling ln(2 * 34 * N^2) is below 2 ln N + 5.")
def the_entropy_ceiling_is_below() -> Outcome:
    slack = [limits.information_ceiling(n) - limits.entropy_ceiling(n, k=34.0) for n in (50, 10**4, 10**9)]
    return Outcome(min(slack) >= 0, f"smallest slack {min(slack):.3f}")


@claim(159, "The entropy ceiling is ln 2 * k * N^2.", false=True)
def the_entropy_ceiling_is_not_a_product() -> Outcome:
    n, k = 100, 34.0
    printed, meant = math.log(2) * k * n**2, limits.entropy_ceiling(n, k=k)
    return Outcome(abs(printed - meant) < 1e-9, f"read as a product {printed:.0f} nats; ln(2 k N^2) is {meant:.2f}")


@claim(161, "KL divergence differs when its arguments are exchanged.", false=True)
def divergence_may_be_symmetric() -> Outcome:
    p, q = torch.tensor([0.8, 0.2], dtype=torch.float64), torch.tensor([0.2, 0.8], dtype=torch.float64)
    one, other = float(exact.kl_divergence(p, q)), float(exact.kl_divergence(q, p))
    return Outcome(abs(one - other) > 1e-12, f"{one:.4f} and {other:.4f} for (.8, .2) and (.2, .8): only in general")


def _paired_ratio(x: Tensor, y: Tensor, correlation: float) -> Tensor:
    """The density ratio of each x with its own y, for coordinates on the last axis."""
    remaining = 1 - correlation**2
    exponent = correlation * x * y - 0.5 * correlation**2 * (x**2 + y**2)
    return (exponent / remaining - 0.5 * math.log(remaining)).sum(-1).exp()
