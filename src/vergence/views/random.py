"""Counter-based random numbers: a draw is a fixed function of a key and a number, so batches, workers and ranks agree.

The function is the finaliser of splitmix64 in wrapping int64 arithmetic. Draws are float64, because transcendental
functions may differ in the last bit between vector and scalar code; rounding the result to float32 hides that bit.

References:
    Steele, Lea & Flood (2014), Fast splittable pseudorandom number generators; Salmon et al. (2011), Random123.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.types import Keys

# The constants of splitmix64 (Steele et al., Fig. 15), as signed 64-bit numbers.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST = 0xBF58476D1CE4E5B9 - 2**64
SECOND = 0x94D049BB133111EB - 2**64


def sample_keys(seed: int, epoch: int, indices: Keys) -> Keys:
    """One key per sample, from the run's seed, the epoch, and the sample's place in the data set."""
    if indices.dtype != torch.int64 or indices.ndim != 1:
        raise ValueError(f"indices must be int64 [n], got {indices.dtype} {list(indices.shape)}")
    return split(split(split(torch.zeros_like(indices), seed), epoch), indices)


def split(keys: Keys, number: int | Keys) -> Keys:
    """New keys, unrelated to the old ones and to those of any other number."""
    number = torch.as_tensor(number, dtype=torch.int64, device=keys.device)
    return _mix(_mix(keys) + GOLDEN * (number + 1))


def uniform(keys: Keys, draws: int, *, low: float = 0.0, high: float = 1.0) -> Float[Tensor, "n draws"]:
    """``draws`` numbers in [low, high) for every key, from the upper 53 bits of the hash."""
    counters = torch.arange(1, draws + 1, device=keys.device)
    bits = _mix(keys[:, None] + GOLDEN * counters)
    return low + (high - low) * (_shift(bits, 11).double() * 2.0**-53)


def normal(keys: Keys, draws: int) -> Float[Tensor, "n draws"]:
    """Standard normal draws, by the inverse of the distribution function."""
    # Half a step up: the inverse is infinite at 0.
    return torch.special.ndtri(uniform(keys, draws) + 2.0**-54)


def integers(keys: Keys, draws: int, *, below: int) -> Keys:
    """Integers in [0, below) for every key."""
    return (uniform(keys, draws) * below).long()


def _mix(state: Tensor) -> Tensor:
    state = (state ^ _shift(state, 30)) * FIRST
    state = (state ^ _shift(state, 27)) * SECOND
    return state ^ _shift(state, 31)


def _shift(state: Tensor, places: int) -> Tensor:
    # torch shifts signed numbers arithmetically; the mask makes the shift logical.
    return (state >> places) & ((1 << (64 - places)) - 1)
