"""Batch norm over the batch of all processes, on any device: torch's own refuses processors."""

import types

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from vergence.learning.collectives import stacked, world


class SharedBatchNorm(_BatchNorm):
    r"""Batch norm whose mean and variance are those of the batch of all processes, with their gradient.

    Each process takes mean and variance of its own part; one exchange brings all of them together, and they are merged
    exactly: with parts of :math:`n_p` values, means :math:`m_p` and variances :math:`v_p`, the mean is
    :math:`m = \sum n_p m_p / n` and the variance :math:`\sum n_p (v_p + (m_p - m)^2) / n`. No sum of squares is
    subtracted from another, which would cancel where the mean is large.

    References:
        Chan, Golub & LeVeque (1979), Updating formulae and a pairwise algorithm for computing sample
        variances, Eq. 2.1.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or world() == 1:
            return super().forward(x)
        axes = [0, *range(2, x.ndim)]
        shape = [1, -1, *[1] * (x.ndim - 2)]
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        own = torch.var_mean(wide, axes, correction=0)
        parts = stacked(torch.cat([*own, wide.new_tensor([x.numel() / x.shape[1]])]))
        variances, means, counts = parts.split([x.shape[1], x.shape[1], 1], dim=1)
        count = counts.detach().sum()
        shares = counts.detach() / count
        mean = (shares * means).sum(0)
        variance = (shares * (variances + (means - mean).square())).sum(0)
        self._remember(mean.detach(), (variance * count / (count - 1)).detach())
        scale = torch.rsqrt(variance + self.eps)
        scale = scale * self.weight if self.affine else scale
        wide = (wide - mean.view(shape)) * scale.view(shape)
        return (wide + self.bias.view(shape) if self.affine else wide).to(x.dtype)

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


def keep_statistics(norm: _BatchNorm) -> None:
    """Let a batch norm use its running mean and variance in training too, and never move them."""
    norm.eval()
    norm.train = types.MethodType(_unmoved, norm)  # type: ignore[method-assign]


def keeps_statistics(module: nn.Module) -> bool:
    return "train" in vars(module)


def _unmoved(module: nn.Module, mode: bool = True) -> nn.Module:
    """A batch norm that stays in evaluation mode."""
    return module


def share_statistics(module: nn.Module) -> nn.Module:
    """The module with every batch norm replaced by one over all processes; weights and statistics are kept.

    On CUDA that is torch's ``SyncBatchNorm``, whose kernels are faster and whose forward and backward passes are the
    same; elsewhere, where torch has none, it is ours. A norm that keeps its statistics has nothing to share.
    """
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm) and not isinstance(child, SharedBatchNorm | nn.SyncBatchNorm):
            if not keeps_statistics(child):
                setattr(module, name, _shared(child))
        else:
            share_statistics(child)
    return module


def _shared(norm: _BatchNorm) -> nn.Module:
    if next((value.is_cuda for value in norm.state_dict().values()), False):
        return nn.SyncBatchNorm.convert_sync_batchnorm(norm)
    made = SharedBatchNorm(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    made = made.to(next(iter(norm.state_dict().values()))) if norm.state_dict() else made
    made.load_state_dict(norm.state_dict())
    for parameter, old in zip(made.parameters(), norm.parameters(), strict=True):
        parameter.requires_grad_(old.requires_grad)
    return made.train(norm.training)
