"""What an objective accepts: checked once, at the cost of the row norms.

Values are looked at on the processor only. A graph that ``torch.compile`` traces cannot stop to raise, and a look at an
accelerator would make every step wait for it: there a bad row makes the loss NaN, which stops training when it is read.
"""

import math
from typing import Any

import torch
from torch import Tensor


def checked(**embeddings: Tensor) -> tuple[Tensor, ...]:
    """The named embeddings in float32 or better: finite, at least two rows, one shape."""
    tensors = shaped(**embeddings)
    # A plain sum sees whether anything is wrong; the norms say where.
    if readable(tensors[0]) and not math.isfinite(sum(z.sum().item() for z in tensors)):
        for name, z in zip(embeddings, tensors, strict=True):
            finite((name,), torch.linalg.vector_norm(z.detach(), dim=1))
    return tensors


def directions(**embeddings: Tensor) -> tuple[Tensor, ...]:
    """The named embeddings as ``checked``, every row divided by its length; a row of length zero has no direction."""
    return stacked_directions(**embeddings).chunk(len(embeddings))


def stacked_directions(**embeddings: Tensor) -> Tensor:
    """The directions of several embeddings below each other, in one tensor."""
    u, norms = _Direction.apply(*shaped(**embeddings))
    finite(tuple(embeddings), norms, above=0.0)
    return u


def direction(name: str, z: Tensor, *, width: int) -> Tensor:
    """The rows of ``z``, of which there may be any number, divided by their lengths."""
    z = _floating(name, z)
    if z.shape[1] != width or not len(z):
        raise ValueError(f"{name} must have {width} columns and at least one row; got shape {tuple(z.shape)}.")
    u, norms = _Direction.apply(z)
    finite((name,), norms, above=0.0)
    return u


def shaped(**embeddings: Tensor) -> tuple[Tensor, ...]:
    """The named embeddings in float32 or better, if they have at least two rows and one shape; values unseen."""
    tensors = tuple(_floating(name, z) for name, z in embeddings.items())
    (first, z), *rest = zip(embeddings, tensors, strict=True)
    if z.shape[0] < 2:
        raise ValueError(f"{first} must hold at least two samples, one to compare with; got {z.shape[0]}.")
    for name, other in rest:
        if other.shape != z.shape:
            raise ValueError(
                f"{name} must have the shape of {first}, {tuple(z.shape)}: row i of both is sample i; "
                f"got {tuple(other.shape)}."
            )
    return tensors


def finite(names: tuple[str, ...], norms: Tensor, *, above: float = -1.0) -> None:
    """Refuse rows with NaN or infinity, and with norms not above the given one; the names share the rows evenly."""
    if not readable(norms):
        return
    low, high = torch.aminmax(norms)
    # Not-a-number fails both comparisons.
    if float(low) > above and float(high) < torch.inf:
        return
    norms = norms.flatten()
    row = int((~((norms > above) & (norms < torch.inf))).nonzero()[0])
    name, wrong = names[row * len(names) // len(norms)], "a zero vector" if norms[row] == 0 else "NaN or infinity"
    allowed = "finite numbers and no zero vector" if above == 0 else "finite numbers"
    raise ValueError(f"{name} must hold {allowed}; row {row % (len(norms) // len(names))} has {wrong}.")


def readable(tensor: Tensor) -> bool:
    """Whether values may be looked at: neither in a graph that is being traced nor on an accelerator."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def unit_rows(*tensors: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the tensors, below each other, divided by their lengths; and the lengths."""
    z = torch.cat(tensors) if len(tensors) > 1 else tensors[0]
    norms = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return z / norms, norms


def through_unit_rows(grad: Tensor, u: Tensor, norms: Tensor) -> Tensor:
    """The gradient on the rows from that on their directions."""
    return torch.addcmul(grad, u, (u * grad).sum(1, keepdim=True), value=-1).div_(norms)


def positive(**values: float | Tensor) -> None:
    """Refuse hyperparameters that are not finite and above zero."""
    for name, value in values.items():
        if (readable(value) if isinstance(value, Tensor) else not torch.compiler.is_compiling()) and not (
            0 < value < math.inf
        ):
            raise ValueError(f"{name} must be above 0 and finite; got {float(value):g}.")


def not_negative(**values: float) -> None:
    """Refuse hyperparameters that are below zero or not finite."""
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be at least 0 and finite; got {value:g}.")


def class_numbers(labels: Tensor, *, n: int) -> Tensor:
    """One label per sample, renumbered from zero."""
    if labels.is_floating_point() or labels.shape != (n,):
        raise ValueError(
            f"labels must be {n} whole numbers, one per sample; got {labels.dtype} of shape {tuple(labels.shape)}."
        )
    # What ``unique`` does, without a shape that depends on the labels: an accelerator would have to be waited for.
    ordered, places = labels.sort(stable=True)
    starts = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).long()])
    return torch.empty_like(places).scatter(0, places, starts.cumsum(0))


def _floating(name: str, z: Tensor) -> Tensor:
    if not isinstance(z, Tensor) or not z.is_floating_point():
        kind = str(z.dtype) if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(f"{name} must be a tensor of floating-point numbers; got {kind}.")
    if z.dim() != 2 or z.shape[1] == 0:
        raise ValueError(f"{name} must have two axes, samples by dimensions; got shape {tuple(z.shape)}.")
    return z if z.dtype in (torch.float32, torch.float64) else z.float()


class _Direction(torch.autograd.Function):
    """``unit_rows`` as one node of the graph for what would be five."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        u, norms = unit_rows(*tensors)
        ctx.save_for_backward(u, norms)
        ctx.mark_non_differentiable(norms)
        return u, norms

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        return through_unit_rows(grad, *ctx.saved_tensors).chunk(len(ctx.needs_input_grad))
