"""What a method may remember: a queue of past keys, and a moving average of weights."""

import copy

import torch
from torch import Tensor, nn


class Queue(nn.Module):
    """The last ``size`` keys, oldest overwritten first; they live in the checkpoint as buffers."""

    keys: Tensor
    pushed: Tensor

    def __init__(self, size: int, width: int):
        super().__init__()
        self.register_buffer("keys", torch.zeros(size, width))
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64))

    def negatives(self) -> Tensor:
        """The keys held now, at most ``size`` of them, without gradient. A copy: a later push does not change it."""
        return self.keys[: min(int(self.pushed), len(self.keys))].clone()

    @torch.no_grad()
    def push(self, keys: Tensor) -> None:
        """Add a batch of keys."""
        if len(keys) > len(self.keys):
            raise ValueError(f"A queue of {len(self.keys)} cannot take a batch of {len(keys)} keys: make it larger.")
        places = (self.pushed + torch.arange(len(keys), device=keys.device)) % len(self.keys)
        self.keys[places] = keys.detach().to(self.keys.dtype)
        self.pushed += len(keys)


class MovingAverage(nn.Module):
    """A copy of a module whose weights follow it: ``target = momentum * target + (1 - momentum) * online``.

    Buffers (the running statistics of batch norm) are its own: it sees its own batches.
    """

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = copy.deepcopy(module).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)

    @torch.no_grad()
    def follow(self, online: nn.Module, momentum: float) -> None:
        for target, source in zip(self.module.parameters(), online.parameters(), strict=True):
            target.lerp_(source.detach(), 1 - momentum)
