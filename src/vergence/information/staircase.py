"""The staircase of the sources: pairs whose information rises in steps, and what an estimator says of each."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from vergence.information.critics import Separable
from vergence.information.entropies import Entropies
from vergence.information.samplers import correlated_gaussians, cubed_gaussians
from vergence.information.trained import training_objective
from vergence.tables import UnknownName

# An upper bound would flatter the critic that it trains, and Jensen-Shannon is not in nats.
CLIMBERS = ("info_nce", "nwj", "donsker_varadhan", "mine", "smile", "interpolated", "entropies")
# The width of Song & Ermon's perceptrons.
WIDTH = 256


class Stair(NamedTuple):
    """What an estimator said of each batch while the pairs shared ``nats``."""

    nats: float
    values: Float[np.ndarray, " steps"]

    @property
    def mean(self) -> float:
        """Over the second half of the steps, when the critic has settled."""
        return float(self.values[len(self.values) // 2 :].mean())

    @property
    def deviation(self) -> float:
        """From one batch to the next, over the same half."""
        return float(self.values[len(self.values) // 2 :].std())


def staircase(
    bound: str = "info_nce",
    *,
    stairs: Sequence[float] = (2.0, 4.0, 6.0, 8.0, 10.0),
    steps: int = 4000,
    d: int = 20,
    batch: int = 64,
    cubed: bool = False,
    learning_rate: float = 5e-4,
    seed: int = 0,
    **options: float,
) -> list[Stair]:
    """What a bound says of d correlated pairs of Gaussians, batch by batch, while their information rises.

    One separable critic learns throughout, ``steps`` batches on each stair. All batches are fresh, and each is judged
    before it is learned from, so no value is of pairs that the critic saw. ``bound`` is a row of BOUNDS (with its
    ``options``, such as the clip of SMILE), or ``entropies``, which trains two Gaussian models instead; ``cubed`` cubes
    y, which leaves the information unchanged. One stair at d = batch = 128 is the setting of McAllester & Stratos.

    References:
        Poole et al. (2019), Fig. 2. https://arxiv.org/abs/1905.06922; Song & Ermon (2020), Fig. 1.
        https://arxiv.org/abs/1910.06222; McAllester & Stratos (2020), Table 1. https://arxiv.org/abs/1811.04251
    """
    if bound not in CLIMBERS:
        raise UnknownName("bound", bound, CLIMBERS)
    model, value = _learner(bound, d, seed, options)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    draw = cubed_gaussians if cubed else correlated_gaussians
    found = []
    for number, nats in enumerate(stairs):
        said = np.empty(steps)
        for step in range(steps):
            pairs = draw(batch, d=d, nats=nats, seed=(seed * len(stairs) + number) * steps + step)
            said[step] = _step(optimizer, value(pairs.x.float(), pairs.y.float()))
        found.append(Stair(nats, said))
    return found


def _learner(
    bound: str, d: int, seed: int, options: dict[str, float]
) -> tuple[nn.Module, Callable[[Tensor, Tensor], Tensor]]:
    """What learns, and the value of a batch, whose gradient teaches it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Entropies(d, d, width=WIDTH) if bound == "entropies" else Separable(d, d, width=WIDTH)
    if bound == "entropies":
        return model, model
    objective = training_objective(bound, **options)
    return model, lambda x, y: objective(model(x, y))


def _step(optimizer: torch.optim.Optimizer, value: Tensor) -> float:
    optimizer.zero_grad()
    (-value).backward()
    optimizer.step()
    return value.item()
