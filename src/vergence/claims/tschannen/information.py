"""Claims of Tschannen et al. about mutual information: what a bound says of it, and when a bound is too high."""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vergence.claims.claim import Outcome, claim, within
from vergence.claims.draws import gaussian, mean_and_error, optimal_scores
from vergence.claims.evidence import contrast
from vergence.claims.laboratory import Laboratory, Row, column, mean, stated
from vergence.information import BOUNDS, bounds, estimate, exact, samplers
from vergence.information.critics import Concat
from vergence.information.exact import correlated_information
from vergence.information.samplers import shared_offset
from vergence.report.experiments import along_training, thinned


@claim(45, "InfoNCE is a lower bound of mutual information in expectation.", kind="monte_carlo", tolerance="5 s.e.")
def info_nce_is_below_the_information() -> Outcome:
    nats, draws = 1.5, [optimal_scores(1.5, seed, n=64) for seed in range(200)]
    mean, error = mean_and_error([bounds.info_nce(scores) for scores in draws])
    return Outcome(mean - 5 * error <= nats, f"InfoNCE {mean:.3f} +- {error:.3f}, information {nats}")


@claim(56, "Cubing every coordinate leaves mutual information unchanged.", kind="monte_carlo", tolerance="0.05 nats")
def cubing_changes_nothing() -> Outcome:
    draws = [draw(2000, nats=1.0, seed=7) for draw in (samplers.correlated_gaussians, samplers.cubed_gaussians)]
    straight, cubed = (estimate(pairs.x, pairs.y, bound="neighbors").nats for pairs in draws)
    holds = abs(straight - cubed) < 1e-9 and abs(straight - 1) < 0.05
    return Outcome(holds, f"{straight:.4f} before and {cubed:.4f} after cubing; the true value is 1")


@claim(57, "Processing loses information: I(X; f(Y)) is at most I(X; Y).", tolerance="1e-12")
def processing_loses() -> Outcome:
    gains = []
    for seed in range(50):
        joint, channel = _table(seed, 4, 5), _table(seed + 100, 5, 3)
        channel = channel / channel.sum(1, keepdim=True)
        gains.append(float(exact.mutual_information(exact.processed(joint, channel)) - exact.mutual_information(joint)))
    return within(max(gains), 1e-12, "largest gain")


@claim(
    60,
    "Batches that are not independent make InfoNCE exceed the true information.",
    kind="monte_carlo",
    tolerance="factor 5",
)
def dependent_batches_look_informative() -> Outcome:
    dependent, independent = (samplers.shared_offset(128 * 160, batch=batch, seed=8) for batch in (128, 1))
    seen, control = (_trained_info_nce(pairs) for pairs in (dependent, independent))
    return Outcome(
        seen >= 5 * dependent.nats and control < 2 * dependent.nats,
        f"InfoNCE {seen:.3f}, with independent pairs {control:.4f}, information {dependent.nats:.4f}",
    )


@claim(61, "InfoNCE is log K less the multi-class K-pair loss.", tolerance="1e-12")
def info_nce_is_the_k_pair_loss() -> Outcome:
    scores = 3.0 * gaussian(9, 9, seed=10)
    others = (scores - scores.diagonal()[:, None]).exp().fill_diagonal_(0).sum(1)
    pairwise = math.log(9) - float(torch.log1p(others).mean())
    return within(abs(float(bounds.info_nce(scores)) - pairwise), 1e-12)


@claim(
    213,
    "Critics trained on batches that share an offset find more information than there is.",
    kind="training",
    tolerance="InfoNCE and NWJ: above the truth, and above what independent pairs give, each with probability .95",
    minutes=5.0,
)
def dependent_batches_deceive_a_trained_critic(laboratory: Laboratory) -> Outcome:
    steps = {"smallest": 20, "small": 2000, "medium": 2000, "paper": 20_000}[laboratory.name]
    cells = {
        name: {
            kind: [_deceived(laboratory, bound, steps, shared, seed) for seed in laboratory.seeds]
            for kind, shared in {"dependent pairs": True, "independent pairs": False}.items()
        }
        for name, bound in {"InfoNCE": "info_nce", "NWJ": "nwj"}.items()
    }
    truth = correlated_information(0.2)
    means = {name: [mean(rows, "mean") for rows in group.values()] for name, group in cells.items()}
    words = [
        f"{name} of {kind} {stated(rows, 'mean')}" for name, group in cells.items() for kind, rows in group.items()
    ]
    contrasts = []
    for name, (seen, control) in ((name, group.values()) for name, group in cells.items()):
        found, alone = column(seen, "mean"), column(control, "mean")
        contrasts.append(contrast(f"{name} over the truth", found, [truth] * len(found), about=name))
        contrasts.append(contrast(f"{name} over independent pairs", found, alone, about=name))
    factors = ", ".join(f"{name} {seen / truth:.1f} times the truth" for name, (seen, _) in means.items())
    return Outcome(
        all(seen > max(truth, control) for seen, control in means.values()),
        f"true information {truth:.4f} nats; {', '.join(words)}",
        means,
        {name: along_training(group, f"{name} in nats", {"truth": truth}) for name, group in cells.items()},
        why=f"{factors}.",
        contrasts=contrasts,
    )


def _deceived(laboratory: Laboratory, bound: str, steps: int, shared: bool, seed: int) -> Row:
    setting = {"method": bound, "steps": steps, "shared": shared, "seed": seed}
    return laboratory.remember("deceived", setting, partial(_trained, bound, steps, shared, seed))


def _trained(bound: str, steps: int, shared: bool, seed: int, *, batch: int = 128) -> Row:
    """A bound on fresh batches while a critic of pairs is trained on them; the authors' critic has 5 layers of 10."""
    torch.manual_seed(seed)
    critic, values = Concat(1, 1, width=10, layers=5), np.empty(steps)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(steps):
        pairs = shared_offset(batch, batch=batch if shared else 1, seed=seed * steps + step)
        value = BOUNDS[bound](critic(pairs.x.float(), pairs.y.float()))
        optimizer.zero_grad()
        (-value).backward()
        optimizer.step()
        values[step] = value.item()
    return {"mean": float(values[steps // 2 :].mean()), "line": thinned(values)}


def _trained_info_nce(pairs: samplers.Pairs, *, batch: int = 128) -> float:
    """InfoNCE of the critic a x y + b y^2 on three quarters of the batches, trained on the first quarter."""
    x, y = pairs.x.view(-1, batch, 1), pairs.y.view(-1, 1, batch)
    weight = torch.tensor([0.1, -0.01], dtype=torch.float64, requires_grad=True)

    def value(part: slice) -> Tensor:
        scores = weight[0] * x[part] * y[part] + weight[1] * y[part] ** 2
        return torch.stack([bounds.info_nce(matrix) for matrix in scores]).mean()

    optimizer = torch.optim.LBFGS([weight], max_iter=15, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = -value(slice(0, len(x) // 4))
        loss.backward()
        return loss

    optimizer.step(closure)
    return value(slice(len(x) // 4, None)).item()


def _table(seed: int, rows: int, columns: int) -> Tensor:
    table = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return table / table.sum()
