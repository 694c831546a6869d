"""BiGAN: a generator and an encoder as its inverse, trained against a discriminator."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import softplus

from vergence.counters import uniform
from vergence.encoders import mlp
from vergence.learning.collectives import gather
from vergence.learning.problem import OneEncoder, Problem
from vergence.methods import Method


def bigan(method: Method, problem: Problem, *, latent: int = 50, hidden: int = 1024) -> nn.Module:
    r"""A generator and an encoder that a discriminator of pairs (sample, latent) cannot tell apart.

    :math:`\min_{G,E} \max_D \mathbb{E} \log D(x, E(x)) + \mathbb{E} \log(1 - D(G(z), z))`, with the labels swapped for
    G and E, so that their gradient does not fade.

    All three are perceptrons with two hidden layers, as the authors' for digits, but for the encoder, which is yours.

    References:
        Donahue et al. (2017), Sec. 3 and 4.1. https://arxiv.org/abs/1605.09782
    """
    if problem.kind == "text":
        raise ValueError("bigan generates numbers, and texts are tokens: there is nothing between two of them.")
    return BiGAN(method, problem.encoder(0), problem.shape, latent=latent, hidden=hidden)


class BiGAN(OneEncoder):
    """Two players and one optimizer: each term of the loss has a gradient to one player only.

    The discriminator scores (x, E(x)) against (G(z), z); encoder and generator want its answers swapped, the form that
    does not saturate. At equilibrium the loss is 4 log 2: all pairs look the same.
    """

    def __init__(self, method: Method, encoder: Any, shape: tuple[int, ...], *, latent: int, hidden: int):
        super().__init__(method, encoder)
        pixels = math.prod(shape)
        self.latent = latent
        self.head = nn.Linear(encoder.width, latent)
        self.generator = mlp([latent, hidden, hidden, pixels])
        self.discriminator = mlp([pixels + latent, hidden, hidden, 1], norm=False)

    def outputs(self, views: Sequence[Tensor]) -> list[Tensor]:
        view = views[0]
        z = uniform(_keys(view), self.latent, low=-1.0).to(view.dtype)
        return [view.flatten(1), self.head(self.encoder(view)), self.generator(z), z]

    def loss(self, outputs: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        x, code, made, z = (gather(output) for output in outputs)
        n = len(x)
        pairs = torch.cat([torch.cat([x, code], dim=1), torch.cat([made, z], dim=1)])
        fixed = {name: parameter.detach() for name, parameter in self.discriminator.named_parameters()}
        judged = self.discriminator(pairs.detach()).squeeze(1)
        swapped = functional_call(self.discriminator, fixed, (pairs,)).squeeze(1)
        # softplus(-s) is the cross-entropy of a score s with "real", softplus(s) with "made".
        discriminator = softplus(-judged[:n]).mean() + softplus(judged[n:]).mean()
        return discriminator + softplus(swapped[:n]).mean() + softplus(-swapped[n:]).mean()


def _keys(view: Tensor) -> Tensor:
    """A number for each view, from its bits: noise that belongs to a sample is the same in any chunk or process."""
    places = torch.arange(1, view[0].numel() + 1, device=view.device)
    return (view.float().flatten(1).contiguous().view(torch.int32).long() * places).sum(1)
