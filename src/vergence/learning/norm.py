"""Batch norm over the batch of all processes, on any device: torch's own refuses processors."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from vergence.learning.collectives import gather, world


class SharedBatchNorm(_BatchNorm):
    """Batch norm whose mean and variance are those of the batch of all processes, with their gradient.

    The variance is taken around the common mean, in two passes, so that several processes give what one would give.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or world() == 1:
            return super().forward(x)
        axes = [0, *range(2, x.ndim)]
        shape = [1, -1, *[1] * (x.ndim - 2)]
        count = _total(x.new_tensor([x.numel() / x.shape[1]]))
        mean = _total(x.sum(axes)) / count
        centered = x - mean.view(shape)
        variance = _total(centered.square().sum(axes)) / count
        self._remember(mean.detach(), (variance * count / (count - 1)).detach())
        x = centered * torch.rsqrt(variance + self.eps).view(shape)
        return x * self.weight.view(shape) + self.bias.view(shape) if self.affine else x

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        rate = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
        self.running_var.lerp_(variance.to(self.running_var.dtype), rate)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"Batch norm needs [n, channels, ...], got {list(input.shape)}")


def share_statistics(module: nn.Module) -> nn.Module:
    """The module with every batch norm replaced by one over all processes; weights and statistics are kept."""
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm) and not isinstance(child, SharedBatchNorm):
            shared = SharedBatchNorm(child.num_features, child.eps, child.momentum, child.affine).to(
                next(iter(child.state_dict().values()))
            )
            shared.load_state_dict(child.state_dict())
            for parameter, old in zip(shared.parameters(), child.parameters(), strict=True):
                parameter.requires_grad_(old.requires_grad)
            setattr(module, name, shared.train(child.training))
        else:
            share_statistics(child)
    return module


def _total(x: Tensor) -> Tensor:
    """The sum over processes; its gradient reaches all of them."""
    return gather(x[None]).sum(0)
