"""Several processes, one batch: gather embeddings with their gradient *before* the loss, never in it.

In anyone's loop, under DDP, Fabric, Lightning or accelerate:

    loss = nt_xent(gather(z1), gather(z2))

Every process then holds the loss of the whole batch, and the average of the processes' gradients, which DDP and
``average_gradients`` take, is the gradient of one process that had the whole batch. With one process nothing happens.
"""

from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, distributed, nn


def world() -> int:
    """How many processes train together; 1 when no group was started."""
    return distributed.get_world_size() if _started() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if _started() else 0


def gather(z: Shaped[Tensor, "local ..."]) -> Shaped[Tensor, "n ..."]:
    """The rows of all processes in the order of their ranks; they may hold different numbers of rows.

    Its gradient is what the losses of *all* processes ask of this one's rows, so both ways of writing a loss are right
    after averaging: the same loss of the whole batch everywhere, or each process its own anchors against all. Half
    precision is gathered in float32: sums over processes should not round.

    A warning for other gathers: without a gradient (accelerate) or with this process's share alone (open_clip by
    default), training goes on and is silently wrong.
    """
    if world() == 1:
        return z
    z = z.float() if z.dtype in (torch.float16, torch.bfloat16) else z
    return _Gather.apply(z) if z.is_floating_point() else _rows_of_all(z)[0]


def stacked(x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "processes ..."]:
    """One tensor of each process, all of one shape, in the order of their ranks, by one exchange.

    Its gradient is what the losses of all processes ask of this one's.
    """
    return x[None] if world() == 1 else _Stack.apply(x)


def meet() -> None:
    """Wait for all processes."""
    if world() > 1:
        distributed.barrier()


def average_gradients(module: nn.Module) -> None:
    """Replace every parameter's gradient by its mean over the processes, as DDP does; sharded ones are so."""
    if world() == 1:
        return
    for parameter in module.parameters():
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = _average_of_rows(parameter.grad)
    given = (parameter.grad for parameter in module.parameters() if parameter.grad is not None)
    gradients = [gradient for gradient in given if not gradient.is_sparse and not hasattr(gradient, "placements")]
    if not gradients:
        return
    # torch's own parameters_to_vector refuses gradients that lie with their channels last.
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    parts = (flat / world()).split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def _average_of_rows(gradient: Tensor) -> Tensor:
    """The mean over processes of gradients that have rows for some tokens only."""
    own = gradient.coalesce()
    rows, values = _rows_of_all(own.indices()[0])[0], _rows_of_all(own.values())[0]
    return torch.sparse_coo_tensor(rows[None], values / world(), gradient.shape).coalesce()


class _Gather(torch.autograd.Function):
    """All rows forward; backward, the sum over processes of the gradients on this one's rows."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        gathered, ctx.own = _rows_of_all(z)
        return gathered

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total[ctx.own]


class _Stack(torch.autograd.Function):
    """The tensors of all processes forward; backward, the sum over processes of the gradients on this one's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        whole = x.new_zeros(world(), *x.shape)
        whole[rank()] = x.detach()
        distributed.all_reduce(whole)  # all others hold 0 there, so the sum is exact
        return whole

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total[rank()]


def _rows_of_all(z: Tensor) -> tuple[Tensor, slice]:
    """All rows, and which of them are this process's."""
    sizes = torch.zeros(world(), dtype=torch.int64, device=z.device)
    sizes[rank()] = len(z)
    distributed.all_reduce(sizes)
    first = int(sizes[: rank()].sum())
    own = slice(first, first + len(z))
    # A sum in which all others are 0 gathers exactly, also where processes hold different numbers of rows.
    rows = z.new_zeros(int(sizes.sum()), *z.shape[1:])
    rows[own] = z.detach()
    distributed.all_reduce(rows)
    return rows, own


def _started() -> bool:
    return distributed.is_available() and distributed.is_initialized()
