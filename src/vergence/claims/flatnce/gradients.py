"""Claims of FlatNCE about values and gradients, and what InfoNCE loses to rounding."""

import itertools
import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from vergence.claims.claim import Outcome, claim, within
from vergence.claims.draws import gaussian
from vergence.diagnostics import negatives
from vergence.objectives import decoupled, flat_nce, info_nce, nt_xent
from vergence.objectives.pairwise import contrast, cross_contrast, cross_log_sums

T = 0.2


def _views(n: int = 8, d: int = 5) -> tuple[Tensor, Tensor]:
    z1, noise = gaussian(2, n, d)
    return z1.requires_grad_(), (z1.detach() + 0.5 * noise).requires_grad_()


def _gaps(z1: Tensor, z2: Tensor) -> Tensor:
    """Every anchor's 2n - 2 negative scores minus its positive score, computed directly."""
    n, z = len(z1), normalize(torch.cat([z1, z2]), dim=1)
    scores = z @ z.T / T
    positive = torch.arange(2 * n).roll(n)
    others = ~(torch.eye(2 * n, dtype=torch.bool) | torch.eye(2 * n, dtype=torch.bool)[positive])
    return scores[others].view(2 * n, 2 * n - 2) - scores[torch.arange(2 * n), positive][:, None]


def _difference(first: Tensor, second: Tensor, *inputs: Tensor) -> Outcome:
    """Whether two losses have one gradient."""
    gradients = zip(torch.autograd.grad(first, inputs), torch.autograd.grad(second, inputs), strict=True)
    return within(max(float((a - b).abs().max()) for a, b in gradients), 1e-6, "largest difference of gradients")


@claim(81, "FlatNCE's gradient weighs negatives by their softmax and the positive by -1.", tolerance="1e-6")
def flat_gradient() -> Outcome:
    z1, z2 = _views()
    gaps = _gaps(z1, z2)
    weighted = (gaps.softmax(1).detach() * gaps).sum(1).mean()
    return _difference(flat_nce(z1, z2, temperature=T), weighted, z1, z2)


@claim(82, "With the positive inside, FlatNCE has InfoNCE's gradient.", tolerance="1e-6")
def flat_with_the_positive() -> Outcome:
    z1, z2 = _views()
    inside = 1 + _gaps(z1, z2).exp().sum(1)
    return _difference((inside / inside.detach()).mean(), nt_xent(z1, z2, temperature=T), z1, z2)


@claim(
    83,
    "InfoNCE's gradient is FlatNCE's times (1 - p), anchor by anchor, p being the positive's probability.",
    tolerance="1e-6",
)
def info_nce_fades() -> Outcome:
    z1, z2 = _views()
    c = contrast(normalize(torch.cat([z1, z2]), dim=1), temperature=T)
    flat = torch.exp(c - c.detach())
    faded = torch.sigmoid(c).detach()
    return _difference((faded * flat).mean(), nt_xent(z1, z2, temperature=T), z1, z2)


@claim(84, "FlatNCE's value is always 1.", tolerance="exact")
def flat_value() -> Outcome:
    values = {flat_nce(z, z.roll(shift, 0), temperature=T).item() for z in _views() for shift in range(4)}
    return Outcome(values == {1.0}, f"values seen: {sorted(values)}")


@claim(
    85,
    "InfoNCE is at least 1 - u - e^-u x for every u, with equality at u = log x, x the mean of e^(g_k - g_1).",
    tolerance="1e-6",
)
def fenchel_dual() -> Outcome:
    gaps = _gaps(*_views()).detach()
    x = (1 + gaps.exp().sum(1)) / (gaps.shape[1] + 1)
    bound = math.log(gaps.shape[1] + 1) - torch.log1p(gaps.exp().sum(1))
    u = torch.linspace(-8, 8, 1001, dtype=torch.float64)[:, None]
    slack = float((bound - (1 - u - torch.exp(-u) * x)).min())
    equality = float((bound - (1 - x.log() - 1)).abs().max())
    product = abs(float(bound.mean()) - math.log(gaps.shape[1] + 1) + nt_xent(*_views(), temperature=T).item())
    return Outcome(slack >= 0 and max(equality, product) < 1e-6, f"least slack {slack:.1e}, at u* {equality:.0e}")


@claim(86, "Corollary 3.4: FlatNCE's log K - log xi is a lower bound on the information.", false=True)
def flat_is_no_bound() -> Outcome:
    independent = math.log(4) - math.log(3)  # a constant critic: xi = K - 1 = 3, and the information is 0
    symbols = torch.eye(2, dtype=torch.float64)
    negatives_ = [symbols[list(draw)] for draw in itertools.product((0, 1), repeat=3)]
    estimate = {
        c: math.log(4) - sum(float(cross_log_sums(symbols, k, temperature=1 / c).mean()) - c for k in negatives_) / 8
        for c in (20.0, 100.0)
    }
    holds = independent <= 0 and max(estimate.values()) <= math.log(2)
    seen = f"independent: {independent:.3f} for 0; two symbols: {estimate[20.0]:.2f}, {estimate[100.0]:.1f} for 0.693"
    return Outcome(holds, seen)


@claim(
    87,
    "In float32 a softmax cross-entropy and its positive's gradient are exactly 0 at a gap of 20; FlatNCE's is not.",
    tolerance="exact",
)
def float32_vanishes() -> Outcome:
    scores = _one_above(20.0, torch.float32).requires_grad_()
    loss = cross_entropy(scores, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(loss, scores)
    kept = _flat_share(torch.float32, gap=20.0)
    stable = float(info_nce(torch.eye(32), torch.eye(32), temperature=1 / 20))
    holds = loss.item() == 0 == float(gradient[0, 0]) and abs(kept - 1) < 1e-5
    return Outcome(
        holds, f"softmax {loss.item():g}, FlatNCE keeps {kept:.6f} of its gradient; our InfoNCE {stable:.2e}"
    )


@claim(
    88,
    "In float16 all gradients of a softmax cross-entropy are 0 at a gap of 18; FlatNCE's are finite and not 0.",
    tolerance="exact",
)
def float16_vanishes() -> Outcome:
    scores = _one_above(18.0, torch.float16)
    exponentials = (scores - scores.max()).exp()
    gradient = exponentials / exponentials.sum() - _one_above(1.0, torch.float16)
    kept = _flat_share(torch.float16, gap=18.0)
    largest = float(gradient.abs().max())
    return Outcome(
        largest == 0 and abs(kept - 1) < 1e-2, f"softmax {largest:g}, FlatNCE keeps {kept:.4f} of its gradient"
    )


@claim(
    89,
    "The effective number of negatives is between 1 and all of them: all when equal, 1 at low temperature.",
    tolerance="1e-6",
)
def effective_negatives() -> Outcome:
    z1, z2 = (z.detach() for z in _views(n=16))
    count = 2 * 16 - 2
    one = z1[:1].repeat(16, 1)
    equal = negatives(one, one, temperature=T).effective.value
    cold = negatives(z1, z2, temperature=1e-5).effective.value * count
    middle = negatives(z1, z2, temperature=T).effective.value * count
    holds = abs(equal - 1) < 1e-6 and abs(cold - 1) < 1e-6 and 1 <= middle <= count
    return Outcome(holds, f"equal {equal * count:.4f}, T = {T}: {middle:.2f}, T = 1e-5: {cold:.4f}, of {count}")


@claim(
    90,
    "FlatNCE's gradient on the score of the positive is -1/T for every anchor: the positive is not in the denominator.",
    tolerance="1e-6",
)
def positive_is_outside() -> Outcome:
    query, key = (normalize(z.detach(), dim=1) for z in _views())
    key.requires_grad_()
    worst = 0.0
    for i in range(len(key)):
        c = cross_contrast(query, key, temperature=T)[0][i]
        (gradient,) = torch.autograd.grad(torch.exp(c - c.detach()), key)
        worst = max(worst, float((gradient[i] + query[i] / T).abs().max()))
    return within(worst, 1e-6)


@claim(91, "The decoupled loss and FlatNCE have one gradient.", tolerance="1e-6")
def decoupled_is_flat() -> Outcome:
    z1, z2 = _views()
    return _difference(decoupled(z1, z2, temperature=T), flat_nce(z1, z2, temperature=T), z1, z2)


@claim(
    181,
    "Proposition 3.2 as printed: FlatNCE's gradient is the softmax-weighted sum of the candidates' alone.",
    false=True,
)
def flat_gradient_as_printed() -> Outcome:
    z1, z2 = _views()
    gaps = _gaps(z1, z2)
    positive = (normalize(z1, dim=1) * normalize(z2, dim=1)).sum(1).mean() / T
    printed = (gaps.softmax(1).detach() * gaps).sum(1).mean() + positive
    return _difference(flat_nce(z1, z2, temperature=T), printed, z1, z2)


def _one_above(gap: float, dtype: torch.dtype) -> Tensor:
    """The scores of one positive above 31 equal negatives."""
    scores = torch.zeros(1, 32, dtype=dtype)
    scores[0, 0] = gap
    return scores


def _flat_share(dtype: torch.dtype, gap: float) -> float:
    """FlatNCE's gradient, in units of 1/T, at a gap between positives and negatives over that at a gap of 1."""
    norms = []
    for temperature in (1 / gap, 1.0):
        z1, z2 = torch.eye(32, dtype=dtype).requires_grad_(), torch.eye(32, dtype=dtype)
        (gradient,) = torch.autograd.grad(flat_nce(z1, z2, temperature=temperature), z1)
        norms.append(temperature * float(gradient.double().norm()))
    return norms[0] / norms[1]
