"""Large encoders: weights, gradients and moments sharded over the processes (FSDP2), activations recomputed.

What is computed does not change: the loss and the gradient are those of one process to rounding. Batch norm keeps its
statistics, which are small, whole on every process, and takes them over the batch of all processes as without sharding;
when a block is recomputed its running statistics stay as they are, or each step would count twice.

References:
    Zhao et al. (2023), PyTorch FSDP. https://arxiv.org/abs/2304.11277; Chen et al. (2016), training deep nets with
    sublinear memory cost. https://arxiv.org/abs/1604.06174
"""

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from vergence.learning import collectives

NORMS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
LEAST = 2**16  # parameters of a block that is gathered by itself; smaller ones travel with what holds them


def shard(learner: Any, *, precision: torch.dtype | None = None) -> None:
    """Shard the weights of a learner over all processes, in place; scalars and the weights of norms stay whole.

    Every block, encoder, head and moving average is gathered when it is needed and let go of afterwards. In bfloat16
    the weights travel in it; gradients are summed in float32, in which norms calculate.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    learner.to(memory_format=torch.contiguous_format)  # channels last cannot be cut into parts
    device = next(learner.parameters()).device.type
    mesh = init_device_mesh(device, (collectives.world(),))
    policy = MixedPrecisionPolicy(param_dtype=precision, reduce_dtype=torch.float32 if precision else None)
    norms = {weight for each in learner.modules() if isinstance(each, NORMS) for weight in each.parameters()}
    small = norms | {parameter for parameter in learner.parameters() if not parameter.ndim}
    for part in parts(learner):
        for module in [*blocks(part), part]:
            if any(parameter not in small for parameter in module.parameters()):
                fully_shard(module, mesh=mesh, mp_policy=policy, ignored_params=small, reshard_after_forward=True)


def parts(learner: Any) -> list[nn.Module]:
    """What a learner calls by itself: encoders and heads, and those of its moving average."""
    found: list[nn.Module] = []
    for child in learner.children():
        inner = list(child.module.children()) if hasattr(child, "follow") else [child]
        found += [module for module in inner if any(True for _ in module.parameters())]
    return found


def blocks(module: nn.Module) -> list[nn.Module]:
    """The blocks of a network, inner ones first: members of its sequences that hold many parameters."""
    found = []
    for inner in module.modules():
        if isinstance(inner, nn.Sequential | nn.ModuleList):
            found += [child for child in inner if sum(p.numel() for p in child.parameters()) >= LEAST]
    return list(dict.fromkeys(reversed(found)))


def recompute(encoder: nn.Module) -> None:
    """Let the blocks of an encoder forget their activations and compute them again in the backward pass."""
    outer = _outermost(encoder)
    for block in outer:
        block.forward = partial(_forgetful, block, block.forward)


def _outermost(encoder: nn.Module) -> list[nn.Module]:
    """The members of the outermost sequences that have several members with parameters."""
    for inner in encoder.modules():
        if isinstance(inner, nn.Sequential | nn.ModuleList):
            own = [child for child in inner if any(True for _ in child.parameters())]
            if len(own) > 1:
                return own
    return [encoder]


def _forgetful(block: nn.Module, forward: Any, *inputs: Any, **options: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*inputs, **options)
    contexts = lambda: (contextlib.nullcontext(), _unmoved(block))
    return checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts, **options)


@contextlib.contextmanager
def _unmoved(block: nn.Module) -> Iterator[None]:
    """Batch norms that do not count what they see a second time."""
    norms = [module for module in block.modules() if isinstance(module, _BatchNorm)]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked = norm.num_batches_tracked.clone()
    try:
        yield
    finally:
        for norm, (momentum, seen) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, seen


def is_sharded(tensor: Tensor | None) -> bool:
    """Whether a tensor lies in parts on several processes."""
    return hasattr(tensor, "placements")


def whole(tensor: Tensor) -> Tensor:
    """A tensor with all its parts; every process must ask for it."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def state(learner: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors that a step depends on, each process's parts of them, as they are: loading into them restores."""
    tensors = {f"model.{name}": tensor for name, tensor in learner.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in moments.items() if isinstance(value, Tensor)}
    return tensors


def with_moments(optimizer: torch.optim.Optimizer) -> None:
    """Let the optimizer make its moments, by a step of length 0, so that there is something to load into."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def gathered(learner: nn.Module) -> Mapping[str, Tensor]:
    """The whole state of a sharded learner, on every process."""
    return {name: whole(tensor).detach().cpu().clone() for name, tensor in learner.state_dict().items()}
