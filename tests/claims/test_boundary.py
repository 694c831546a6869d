"""Claim 212: with a separable critic, the boundary between encoder and critic is a name."""

import torch
from torch import nn

from vergence.claims.tschannen.boundary import DEPTH, WIDTH
from vergence.encoders.mlp import perceptron
from vergence.information.critics import Separable


def test_layers_moved_into_a_separable_critic_leave_the_same_network():
    scores = []
    x, y = torch.randn(2, 9, 20, generator=torch.Generator().manual_seed(1))
    for inner in range(DEPTH):
        torch.manual_seed(0)
        sides = [perceptron((20,), hidden=(WIDTH,) * (DEPTH - inner), norm=False) for _ in range(2)]
        critic = Separable(WIDTH, WIDTH, width=WIDTH, embedding=WIDTH, layers=inner)
        chains = [nn.Sequential(sides[0], critic.x), nn.Sequential(sides[1], critic.y)]
        for chain, seed in zip(chains, (2, 3), strict=True):
            generator = torch.Generator().manual_seed(seed)
            for weights in chain.parameters():
                nn.init.normal_(weights, std=0.1, generator=generator)
        scores.append(critic(sides[0](x), sides[1](y)))
    for moved in scores[1:]:
        torch.testing.assert_close(moved, scores[0])
