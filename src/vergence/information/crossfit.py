"""Cross-fitting: a critic learns on one part of the pairs, stops on a second, and is heard on a third."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vergence.types import Scalar, Square, Vector

Objective = Callable[[Square], Scalar]
Score = Callable[[Tensor], Square]


class Split(NamedTuple):
    """Row numbers of the three parts of one fold."""

    train: Tensor
    stop: Tensor
    test: Tensor


class Heard(NamedTuple):
    """What a fold says: the bound on unseen pairs, its influence per pair, and the bound on pairs it learned from."""

    unseen: float
    influence: np.ndarray
    seen: float


def splits(n: int, *, folds: int = 3, stop: float = 1 / 6, seed: int = 0) -> Iterator[Split]:
    """Every pair is in the test part of exactly one fold; the rest is divided for training and for stopping."""
    parts = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tensor_split(folds)
    for number, test in enumerate(parts):
        rest = torch.cat([part for other, part in enumerate(parts) if other != number])
        held = int(stop * len(rest))
        yield Split(rest[held:], rest[:held], test)


def two_way(scores: Square) -> Scalar:
    """InfoNCE averaged over rows and columns, with one exponential for both: it fixes a critic up to a constant."""
    largest = scores.detach().max()
    weight = (scores - largest).exp()
    normalizer = 0.5 * (weight.sum(1).log().mean() + weight.sum(0).log().mean()) + largest
    return math.log(len(scores)) + scores.diagonal().mean() - normalizer


def fit(
    critic: nn.Module,
    score: Score,
    split: Split,
    *,
    objective: Objective = two_way,
    batch: int = 256,
    epochs: int = 30,
    patience: int = 6,
    learning_rate: float = 3e-3,
    seed: int = 0,
) -> int:
    """Raise the objective on the training part until the stopping part has not gained for ``patience`` epochs.

    The critic keeps the weights of its best epoch, whose number is returned; zero means that it learned nothing that
    holds on unseen pairs, and that its weights are those it came with.
    """
    batch = min(batch, len(split.train))
    steps = len(split.train) // batch
    optimizer = torch.optim.AdamW(critic.parameters(), lr=learning_rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, epochs * steps, pct_start=0.05)
    generator = torch.Generator().manual_seed(seed)
    best, best_epoch, weights = _value(score, split.stop, objective), 0, _weights(critic)
    for epoch in range(1, epochs + 1):
        order = split.train[torch.randperm(len(split.train), generator=generator)]
        for rows in order[: steps * batch].split(batch):
            optimizer.zero_grad()
            (-objective(score(rows))).backward()
            optimizer.step()
            schedule.step()
        value = _value(score, split.stop, objective)
        if value > best:
            best, best_epoch, weights = value, epoch, _weights(critic)
        elif epoch - best_epoch >= patience:
            break
    critic.load_state_dict(weights)
    return best_epoch


@torch.no_grad()
def hear(score: Score, split: Split) -> Heard:
    """NWJ over all pairs of the test part, for the critic as it stands.

    Its constant is set on the training part and its cap on the stopping part, so that both are fixed before the test
    part is seen and the value is a lower bound in expectation.
    """
    seen, stop, unseen = (score(rows) for rows in (split.train[: len(split.test)], split.stop, split.test))
    # A ratio above the number of pairs it is averaged over, or below its inverse, could not be checked on any part.
    limit = 2 * math.log(len(split.stop)) - 1
    seen, stop, unseen = (part.clamp(-limit, limit) for part in (seen, stop, unseen))
    top = min(1.2 * float(seen.diagonal().max()), limit)
    caps = [share * top for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)]
    ratio = seen.exp().fill_diagonal_(0)
    shifts = [_log_mean(ratio, cap) for cap in caps]
    values = [_nwj_parts(stop.clamp(max=cap) - shift)[0] for cap, shift in zip(caps, shifts, strict=True)]
    cap, shift = max(zip(values, caps, shifts, strict=True))[1:]
    value, influence = _nwj_parts(unseen.clamp(max=cap) - shift)
    return Heard(value, influence.double().numpy(), float(seen.clamp(max=cap).diagonal().mean()) - shift)


@torch.no_grad()
def in_batches(score: Score, rows: Tensor, objective: Objective, *, batch: int) -> np.ndarray:
    """The objective of every whole batch of rows: a bound with a ceiling must be averaged over batches of one size."""
    whole = rows[: len(rows) // batch * batch]
    return np.array([objective(score(part).double()).item() for part in whole.split(batch)])


def _nwj_parts(scores: Square) -> tuple[float, Vector]:
    """NWJ with the tight constant, and each pair's influence on it: one diagonal entry, one row and one column."""
    n = len(scores)
    ratio = scores.exp().fill_diagonal_(0)
    rows, columns = ratio.sum(1) / (n - 1), ratio.sum(0) / (n - 1)
    return float(1 + scores.diagonal().mean() - rows.mean()), scores.diagonal() - rows - columns


def _log_mean(ratio: Square, cap: float) -> float:
    """The logarithm of the mean of capped ratios, whose diagonal is zero."""
    n = len(ratio)
    return math.log(float(ratio.clamp(max=math.exp(cap)).sum(1).double().sum()) / (n * (n - 1)))


@torch.no_grad()
def _value(score: Score, rows: Tensor, objective: Objective) -> float:
    return objective(score(rows)).item()


def _weights(critic: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in critic.state_dict().items()}
