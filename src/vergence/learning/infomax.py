"""InfoMax: two encoders raise a bound on the mutual information of what they make of two views."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn

from vergence.information import BOUNDS
from vergence.information.critics import Bilinear, Concat, Separable
from vergence.learning.problem import Problem, TwoEncoders, readers
from vergence.methods import Method
from vergence.tables import Table

# Hidden layers as in the notebook of Tschannen et al.: 100 units and 100 outputs, or 200 units.
CRITICS = Table(
    "critic",
    {
        "bilinear": Bilinear,
        "separable": partial(Separable, width=100, embedding=100, layers=1),
        "concat": partial(Concat, width=200, layers=1),
    },
)


def infomax(
    method: Method,
    problem: Problem,
    *,
    bound: Literal["info_nce", "nwj", "donsker_varadhan"] = "info_nce",
    critic: Literal["bilinear", "separable", "concat"] = "bilinear",
    target: float | None = None,
) -> nn.Module:
    r"""Two encoders and a critic that raise a bound I on the information between two views, or bring it to a target t.

    The loss is :math:`-I`, or :math:`\lvert I - t \rvert`; by InfoNCE, with the critic's scores s of n pairs,
    :math:`I = \frac1n \sum_i \log \frac{e^{s_{ii}}}{\frac1n \sum_j e^{s_{ij}}} \le \log n`. At equal
    information, what else differs decides how good the features are.

    References:
        Tschannen et al. (2020), Sec. 3. https://arxiv.org/abs/1907.13625
    """
    places = readers(problem.groups)
    encoders = problem.encoder(0), problem.encoder(places.index(1))
    scores = CRITICS[critic](*(encoder.width for encoder in encoders))
    return Infomax(method, *encoders, critic=scores, bound=BOUNDS[bound], target=target, places=places)


class Infomax(TwoEncoders):
    """The bound is on the information between the two representations."""

    def __init__(
        self,
        method: Method,
        *encoders: Any,
        critic: nn.Module,
        bound: Callable[[Tensor], Tensor],
        target: float | None,
        places: Sequence[int] = (0, 1),
    ):
        first, second = encoders
        super().__init__(method, (first, second), (nn.Identity(), nn.Identity()), width=first.width, places=places)
        self.critic, self.bound, self.target = critic, bound, target

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        information = self.information(outputs)
        return -information if self.target is None else (information - self.target).abs()

    def information(self, outputs: Sequence[Tensor]) -> Tensor:
        """What the bound says of these pairs, in nats."""
        return self.average(lambda first, second: self.bound(self.critic(first, second)), outputs)
