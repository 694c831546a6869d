"""What every step needs without asking a device: small tensors brought to it once, and whether it may be asked.

To copy a tensor to an accelerator or to ask it for a value makes the processor wait for all that it was told to do.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


@lru_cache(maxsize=256)
def constant(values: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers, given as a tuple, as a tensor on a device. It is shared: never change it in place."""
    return torch.tensor(values, dtype=dtype, device=device)


@lru_cache(maxsize=16)
def brought(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor that does not change, on a device; the copies of the last few are kept."""
    return tensor.to(device)


def unasked(x: Tensor) -> bool:
    """Whether values must not be asked for: on an accelerator, or in a graph that is being traced, which has none."""
    return x.device.type != "cpu" or torch.compiler.is_compiling()
