"""Cross-fitting: a critic learns on one part of the pairs, stops on a second, and is judged on a third."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vergence.types import Scalar, Square, Vector

Objective = Callable[[Square], Scalar]
Score = Callable[[Tensor], Square]


# The share of the pairs outside the test part that stop the training and choose the model; more where they are few.
STOPPING, MORE_STOPPING, FEW_PAIRS = 1 / 6, 1 / 4, 2000
# Scores of so many rows with each other are held at once: 25 MB. More negatives for each pair change little.
MOST_ROWS = 2500
# Epochs are fewer where there are many pairs: what the network learns, it learns in about so many steps.
MOST_STEPS = 700


class Split(NamedTuple):
    """Row numbers of the three parts of one fold."""

    train: Tensor
    stop: Tensor
    test: Tensor


class Judged(NamedTuple):
    """What a fold says: the bound on unseen pairs, its influence per pair, and the bound on pairs it learned from."""

    unseen: float
    influence: np.ndarray
    seen: float


def splits(n: int, *, folds: int = 3, stop: float | None = None, block: int = 1, seed: int = 0) -> Iterator[Split]:
    """Every pair is in the test part of exactly one fold; the rest is divided for training and for stopping.

    Rows that depend on their neighbors in time are divided in runs of ``block`` rows, so that few have a relative in
    another part.
    """
    stop = stop or (MORE_STOPPING if n < FEW_PAIRS else STOPPING)
    runs = torch.arange(n).split(block)
    order = torch.randperm(len(runs), generator=torch.Generator().manual_seed(seed)).tolist()
    parts = torch.cat([runs[number] for number in order]).tensor_split(folds)
    for number, test in enumerate(parts):
        rest = torch.cat([part for other, part in enumerate(parts) if other != number])
        held = int(stop * len(rest))
        yield Split(rest[held:], rest[:held], test)


def two_way(scores: Square) -> Scalar:
    """InfoNCE averaged over rows and columns, with one exponential for both: it fixes a critic up to a constant."""
    largest = scores.detach().max()
    weight = (scores - largest).exp()
    rows, columns = weight.sum(1), weight.sum(0)
    if min(rows.min(), columns.min()) == 0:  # one exponential is not enough: some row is far below the largest score
        return two_way_terms(scores).mean()
    normalizer = 0.5 * (rows.log().mean() + columns.log().mean()) + largest
    return math.log(len(scores)) + scores.diagonal().mean() - normalizer


def two_way_terms(scores: Square) -> Vector:
    """Each pair's part in ``two_way``: their mean is its value, their spread its sampling error."""
    normalizer = 0.5 * (scores.logsumexp(1) + scores.logsumexp(0))
    return math.log(len(scores)) + scores.diagonal() - normalizer


def fit(
    critic: nn.Module,
    score: Score,
    split: Split,
    *,
    objective: Objective = two_way,
    batch: int = 256,
    epochs: int | None = None,
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
    epochs = epochs or min(30, max(10, MOST_STEPS // steps))
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
def judged(score: Score, split: Split) -> Judged:
    """NWJ over all pairs of the test part, for the critic as it stands.

    Its constant is set on the training part and its cap on the stopping part, so that both are fixed before the test
    part is seen and the value is a lower bound in expectation. A large test part is taken in blocks.
    """
    blocks = split.test.tensor_split(math.ceil(len(split.test) / MOST_ROWS))
    # A ratio above the number of pairs it is averaged over, or below its inverse, could not be checked on any part.
    limit = 2 * math.log(len(split.stop)) - 1
    seen, stop = (score(rows).clamp_(-limit, limit) for rows in (split.train[: len(blocks[0])], split.stop[:MOST_ROWS]))
    best, cap, shift = _cap(seen, stop, limit)
    if best <= 0:  # worse than saying nothing, which the test part has no part in deciding
        return Judged(0.0, np.zeros(len(split.test)), 0.0)
    parts = [_nwj_parts(score(rows).clamp_(-limit, limit).clamp_(max=cap).sub_(shift)) for rows in blocks]
    value = sum(part[0] * len(rows) for part, rows in zip(parts, blocks, strict=True)) / len(split.test)
    influence = torch.cat([part[1] for part in parts])
    return Judged(value, influence.double().numpy(), float(seen.clamp_(max=cap).diagonal().mean()) - shift)


def _cap(seen: Tensor, stop: Tensor, limit: float) -> tuple[float, float, float]:
    """The best value on the stopping part, where it caps ratios, and the constant that this asks for in training."""
    top = min(1.2 * float(seen.diagonal().max()), limit)
    caps = [share * top for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)]
    ratio = seen.exp().fill_diagonal_(0)
    shifts = [_log_mean(ratio, cap) for cap in caps]
    values = [_nwj_parts(stop.clamp(max=cap) - shift)[0] for cap, shift in zip(caps, shifts, strict=True)]
    return max(zip(values, caps, shifts, strict=True))


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
