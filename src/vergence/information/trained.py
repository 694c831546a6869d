"""A chosen bound, raised by a chosen critic: cross-fitted, and reported on pairs that the critic never saw."""

import copy
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from vergence.information import bounds
from vergence.information.answers import TAILS, Information, answer
from vergence.information.copula import copula_information
from vergence.information.critics import Bilinear, Concat, Critic, InnerProduct, Separable
from vergence.information.crossfit import Objective, Split, fit, in_batches, splits, two_way
from vergence.information.limits import info_nce_ceiling, interpolated_ceiling, kl_ceiling
from vergence.information.preprocessing import Rows, gaussianized, tensor
from vergence.tables import Table
from vergence.types import Square

CRITICS = Table(
    "critic", {"bilinear": Bilinear, "separable": Separable, "concat": Concat, "inner_product": InnerProduct}
)
# These have a ceiling that depends on the number of candidates, so they are averaged over batches of that size. The
# others are computed once over all unseen pairs: averaged over batches, Donsker-Varadhan overestimates.
BATCHED = ("info_nce", "interpolated", "leave_one_out")
# A critic of few pairs takes at least half as many steps as 30 epochs of 10,000 pairs give: with 30 epochs of 400 a
# bilinear one said 0.06 nats of 1.
LEAST_STEPS = 300


def trained_bound(
    x: Rows, y: Rows, *, bound: str | Objective, critic: str | Critic, batch: int = 256, folds: int = 3, seed: int = 0
) -> Information:
    """The mean over folds of a bound on unseen pairs, with an interval from its spread.

    ``bound`` is the name of a row of BOUNDS or a function of a score matrix, which then stands on neither side.
    """
    from scipy.stats import t as student_t

    smallest = len(x) // folds
    if batch > smallest:
        raise ValueError(f"A batch of {batch} does not fit in a fold of {smallest} pairs; lower batch or folds.")
    inputs = tensor(gaussianized(x)), tensor(gaussianized(y))
    parts = [_fold(*inputs, split, bound, critic, batch, seed) for split in splits(len(x), folds=folds, seed=seed)]
    values = np.concatenate(parts)
    spread = float(values.std(ddof=1)) / math.sqrt(len(values))
    below, above = (spread * float(student_t.ppf(1 - tail, len(values) - 1)) for tail in TAILS)
    nats = float(values.mean())
    name = bound if isinstance(bound, str) else getattr(bound, "__name__", "a bound")
    side = bounds.SIDES.get(name, "neither") if isinstance(bound, str) else "neither"
    standing = f"a {side} bound" if side != "neither" else "neither a lower nor an upper bound"
    return answer(
        nats, (nats - below, nats + above), ceiling=_ceiling(bound, batch, len(x)), estimator=name, n=len(x),
        second_opinion=copula_information(x, y)[0], side=side,
        reasons=(f"{name} is {standing}; the interval is its spread, and does not hold what the critic missed.",),
    )  # fmt: skip


def training_objective(bound: str | Objective, **options: float) -> Objective:
    """What is raised: the bound itself, but not an upper bound, which would flatter itself; MINE remembers."""
    if not isinstance(bound, str):
        return bound
    if bound == "leave_one_out":
        return two_way
    return _remembering() if bound == "mine" else partial(getattr(bounds, bound), **options)


def _remembering() -> Objective:
    average = torch.zeros(())

    def objective(scores: Square) -> Tensor:
        nonlocal average
        if torch.is_grad_enabled():
            average = bounds.moving_average(scores, average)
        return bounds.mine(scores, log_average=average)

    return objective


def _fold(
    x: Tensor, y: Tensor, split: Split, bound: str | Objective, critic: str | Critic, batch: int, seed: int
) -> np.ndarray:
    module = _critic(critic, x.shape[1], y.shape[1], seed)

    def score(rows: Tensor) -> Square:
        return module(x[rows], y[rows])

    if any(parameter.requires_grad for parameter in module.parameters()):
        epochs = max(30, LEAST_STEPS // max(1, len(split.train) // batch))
        fit(
            module, score, split, objective=training_objective(bound), batch=batch, epochs=epochs, patience=epochs // 5,
            learning_rate=1e-3, seed=seed,
        )  # fmt: skip
    value: Objective = getattr(bounds, bound) if isinstance(bound, str) else bound
    with torch.no_grad():
        return (
            in_batches(score, split.test, value, batch=batch)
            if bound in BATCHED
            else np.array([value(score(split.test).double()).item()])
        )


def _critic(critic: str | Critic, dx: int, dy: int, seed: int) -> nn.Module:
    if not isinstance(critic, str):
        # A copy for every fold: weights that saw another fold's pairs have seen this fold's unseen ones.
        return copy.deepcopy(critic) if isinstance(critic, nn.Module) else _Given(critic)
    name = "separable" if critic == "auto" else critic
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return CRITICS[name]() if name == "inner_product" else CRITICS[name](dx, dy)


class _Given(nn.Module):
    """A critic that is a plain function: it has nothing to learn."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.function(x, y)


def _ceiling(bound: str | Objective, batch: int, n: int) -> float:
    """What the bound cannot exceed or, where it has no such end, what its samples cannot check."""
    if bound in ("info_nce", "leave_one_out"):  # above ln K the upper bound is off by as much as the lower one
        return info_nce_ceiling(batch)
    return min(interpolated_ceiling(batch), kl_ceiling(n)) if bound == "interpolated" else kl_ceiling(n)
