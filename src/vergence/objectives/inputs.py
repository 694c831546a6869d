"""What an objective accepts: checked once, at its door, in the cost of the row norms.

The values are not looked at while ``torch.compile`` traces: a compiled graph cannot stop to raise.
"""

import torch
from torch import Tensor


def checked(**embeddings: Tensor) -> tuple[Tensor, ...]:
    """The named embeddings in float32 or better: finite, at least two rows, one shape."""
    tensors = _shaped(embeddings)
    for name, z in zip(embeddings, tensors, strict=True):
        _finite(name, torch.linalg.vector_norm(z.detach(), dim=1))
    return tensors


def directions(**embeddings: Tensor) -> tuple[Tensor, ...]:
    """The named embeddings as ``checked``, every row divided by its length; a row of length zero has no direction."""
    return tuple(direction(name, z) for name, z in zip(embeddings, _shaped(embeddings), strict=True))


def direction(name: str, z: Tensor) -> Tensor:
    """The rows of ``z`` divided by their lengths, in float32 or better."""
    z = _floating(name, z)
    norms = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    _finite(name, norms.detach(), above=0.0)
    return z / norms


def positive(**values: float | Tensor) -> None:
    """Refuse hyperparameters that are not above zero."""
    for name, value in values.items():
        if not torch.compiler.is_compiling() and not value > 0:
            raise ValueError(f"{name} must be above 0; got {float(value):g}.")


def not_negative(**values: float) -> None:
    """Refuse hyperparameters below zero."""
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"{name} must be at least 0; got {value:g}.")


def class_numbers(labels: Tensor, *, n: int) -> Tensor:
    """One label per sample, renumbered from zero."""
    if labels.is_floating_point() or labels.shape != (n,):
        raise ValueError(
            f"labels must be {n} whole numbers, one per sample; got {labels.dtype} of shape {tuple(labels.shape)}."
        )
    return labels.unique(return_inverse=True)[1]


def _shaped(embeddings: dict[str, Tensor]) -> tuple[Tensor, ...]:
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


def _floating(name: str, z: Tensor) -> Tensor:
    if not isinstance(z, Tensor) or not z.is_floating_point():
        kind = str(z.dtype) if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(f"{name} must be a tensor of floating-point numbers; got {kind}.")
    if z.dim() != 2 or z.shape[1] == 0:
        raise ValueError(f"{name} must have two axes, samples by dimensions; got shape {tuple(z.shape)}.")
    return z.to(torch.promote_types(z.dtype, torch.float32))


def _finite(name: str, norms: Tensor, *, above: float = -1.0) -> None:
    if torch.compiler.is_compiling():
        return
    # Not-a-number fails both comparisons, and an infinite entry has an infinite norm.
    if bool(((norms > above) & (norms < torch.inf)).all()):
        return
    norms = norms.flatten()
    row = int((~((norms > above) & (norms < torch.inf))).nonzero()[0])
    wrong = "a zero vector, which has no direction" if norms[row] == 0 else "NaN or infinity"
    raise ValueError(
        f"{name} must hold finite numbers{' and no zero row' if above == 0 else ''}; row {row} has {wrong}."
    )
