"""Small tensors that every step needs: brought to a device once, since each copy would make the processor wait."""

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
