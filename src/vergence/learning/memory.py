"""What a method may remember: past keys, a moving average of weights, of keys or of their products, and its steps."""

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
        self.filled = 0  # how many keys are held: known here too, since to ask an accelerator is to wait for it
        self.register_load_state_dict_post_hook(_count_filled)

    def negatives(self) -> Tensor:
        """The keys held now, at most ``size`` of them, without gradient. A copy: a later push does not change it."""
        return self.keys[: self.filled].clone()

    @torch.no_grad()
    def push(self, keys: Tensor) -> None:
        """Add a batch of keys."""
        if len(keys) > len(self.keys):
            raise ValueError(f"A queue of {len(self.keys)} cannot take a batch of {len(keys)} keys: make it larger.")
        places = (self.pushed + torch.arange(len(keys), device=keys.device)) % len(self.keys)
        self.keys[places] = keys.detach().to(self.keys.dtype)
        self.pushed += len(keys)
        self.filled = min(self.filled + len(keys), len(self.keys))


def _count_filled(queue: Queue, _: object) -> None:
    queue.filled = min(int(queue.pushed), len(queue.keys))


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


class Average(nn.Module):
    """A moving average of a statistic of each batch: ``momentum * value + (1 - momentum) * new``, from 0."""

    value: Tensor

    def __init__(self, *shape: int, momentum: float):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("value", torch.zeros(*shape))

    @torch.no_grad()
    def follow(self, new: Tensor) -> None:
        self.value.lerp_(new.to(self.value.dtype), 1 - self.momentum)


class Clock(nn.Module):
    """How many steps were taken, and which share of the training that is: in the checkpoint, so that both resume."""

    steps: Tensor
    progress: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("progress", torch.zeros((), dtype=torch.float64))
        # Known here too, since to ask an accelerator is to wait for it.
        self.count, self.share = 0, 0.0
        self.register_load_state_dict_post_hook(_read_clock)

    @torch.no_grad()
    def tick(self, progress: float) -> None:
        self.steps += 1
        self.progress.fill_(progress)
        self.count, self.share = self.count + 1, progress


def _read_clock(clock: Clock, _: object) -> None:
    clock.count, clock.share = int(clock.steps), float(clock.progress)
