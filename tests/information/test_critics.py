"""Facts about critics."""

import torch

from vergence.information.critics import Bilinear, Concat, InnerProduct, Separable


def rows(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def test_every_critic_scores_every_pair_by_itself():
    torch.manual_seed(0)
    x, y = rows(5, 3), rows(4, 2, seed=1)
    for critic in (Bilinear(3, 2), Separable(3, 2), Concat(3, 2)):
        scores = critic(x, y)
        assert scores.shape == (5, 4)
        torch.testing.assert_close(critic(x[2:3], y[1:2]), scores[2:3, 1:2])


def test_the_concat_critic_is_a_perceptron_of_the_pair():
    torch.manual_seed(0)
    critic = Concat(3, 2, width=8)
    x, y = rows(1, 3), rows(1, 2, seed=1)
    first = torch.cat([critic.x.weight, critic.y.weight], dim=1)
    hidden = torch.cat([x, y], dim=1) @ first.T + critic.x.bias
    torch.testing.assert_close(critic(x, y), critic.rest(hidden))


def test_chunks_do_not_change_the_scores():
    torch.manual_seed(0)
    x, y = rows(50, 3), rows(40, 2, seed=1)
    critic = Concat(3, 2, width=8)
    whole = critic(x, y)
    critic.chunk = 90
    torch.testing.assert_close(critic(x, y), whole)


def test_a_bilinear_critic_with_the_identity_is_the_inner_product():
    critic = Bilinear(3, 3)
    critic.weight.data = torch.eye(3)
    x, y = rows(5, 3), rows(4, 3, seed=1)
    torch.testing.assert_close(critic(x, y), InnerProduct()(x, y))
    torch.testing.assert_close(InnerProduct(temperature=0.5)(x, y), 2 * critic(x, y))
