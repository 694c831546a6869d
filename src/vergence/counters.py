"""Counter-based random numbers: a draw is a fixed function of a key and a number, so batches, workers and ranks agree.

Every subset of data is taken by :func:`drawn`: evenly, never from the front, because data are often sorted by class.

The function is the finalizer of splitmix64 in wrapping int64 arithmetic. Draws are float64, because transcendental
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

STRETCH = 2**18  # places whose keys are in memory at a time


def sample_keys(seed: int, epoch: int, indices: Keys) -> Keys:
    """One key per sample, from the run's seed, the epoch, and the sample's place in the data set."""
    if indices.dtype != torch.int64 or indices.ndim != 1:
        raise ValueError(f"indices must be int64 [n], got {indices.dtype} {list(indices.shape)}")
    return split(split(split(torch.zeros_like(indices), seed), epoch), indices)


def content_keys(x: Tensor) -> Keys:
    """One key per sample from its own numbers: equal samples have equal keys in any batch, chunk and process.

    For what is drawn where no key is at hand, as inside an encoder. Sums of whole numbers do not depend on their order.
    """
    bits = x.detach().float().flatten(1).contiguous().view(torch.int32).long()
    return mixed(bits + GOLDEN * torch.arange(1, bits.shape[1] + 1, device=x.device)).sum(1)


def split(keys: Keys, number: int | Keys) -> Keys:
    """New keys, unrelated to the old ones and to those of any other number."""
    if isinstance(number, int):
        # In Python's own numbers, wrapped as int64 would be: a tensor would be one more copy to the device.
        return mixed(mixed(keys) + (GOLDEN * (number + 1) + 2**63) % 2**64 - 2**63)
    return mixed(mixed(keys) + GOLDEN * (number.to(keys.device) + 1))


def uniform(keys: Keys, draws: int, *, low: float = 0.0, high: float = 1.0) -> Float[Tensor, "n draws"]:
    """``draws`` numbers in [low, high) for every key, from the upper 53 bits of the hash."""
    counters = torch.arange(1, draws + 1, device=keys.device)
    bits = mixed(keys[:, None] + GOLDEN * counters)
    return low + (high - low) * (_shift(bits, 11).double() * 2.0**-53)


def normal(keys: Keys, draws: int) -> Float[Tensor, "n draws"]:
    """Standard normal draws, by the inverse of the distribution function."""
    # Half a step up: the inverse is infinite at 0.
    return torch.special.ndtri(uniform(keys, draws) + 2.0**-54)


def integers(keys: Keys, draws: int, *, below: int) -> Keys:
    """Integers in [0, below) for every key."""
    return (uniform(keys, draws) * below).long()


def drawn(n: int, count: int, *, groups: Tensor | None = None, seed: int = 0) -> Keys:
    """At most ``count`` of ``n`` places, rising: all of them, or a draw that depends on ``seed`` and place only.

    With ``groups`` (labels, one for each place) every group gets its share of the draw, and at least one place where
    there is room for it. The draw of a larger ``count`` holds that of a smaller one but for this rounding.
    """
    if count >= n:
        return torch.arange(n)
    if groups is None:
        return _first(n, count, seed).sort().values
    order = sample_keys(seed, -1, torch.arange(n)).argsort(stable=True)
    codes = groups.cpu().unique(return_inverse=True)[1]
    sizes = codes.bincount()
    # The place of each sample within its group, in the drawn order, as a share of the group: small shares come first.
    by_group = order[codes[order].argsort(stable=True)]
    within = torch.arange(n) - (sizes.cumsum(0) - sizes)[codes[by_group]]
    share = torch.empty(n, dtype=torch.float64)
    share[by_group] = torch.where(within == 0, -1.0, (within.double() + 0.5) / sizes[codes[by_group]])
    by_share = order[share[order].argsort(stable=True)]  # ties in the drawn order
    return by_share[:count].sort().values


def _first(n: int, count: int, seed: int) -> Keys:
    """Which ``count`` of ``n`` places have the smallest keys; in memory are those and one stretch of the others."""
    kept, keys = torch.arange(0), torch.arange(0)
    for some in (torch.arange(first, min(n, first + STRETCH)) for first in range(0, n, STRETCH)):
        own = sample_keys(seed, -1, some)
        if len(kept) == count:
            below = own < keys[-1]
            some, own = some[below], own[below]
        kept, keys = torch.cat([kept, some]), torch.cat([keys, own])
        order = keys.argsort()[:count]
        kept, keys = kept[order], keys[order]
    return kept


def shuffled(places: Keys, *, seed: int = 0) -> Keys:
    """Places in an order that depends on ``seed`` and the places only: whatever comes first is a fair draw of them."""
    return places[sample_keys(seed, -1, places).argsort(stable=True)]


def mixed(state: Tensor) -> Tensor:
    """The finalizer of splitmix64: 64 bits in, 64 bits without any order out."""
    state = (state ^ _shift(state, 30)) * FIRST
    state = (state ^ _shift(state, 27)) * SECOND
    return state ^ _shift(state, 31)


def _shift(state: Tensor, places: int) -> Tensor:
    # torch shifts signed numbers arithmetically; the mask makes the shift logical.
    return (state >> places) & ((1 << (64 - places)) - 1)


def seed_from(seed: int, counter: int) -> int:
    """One seed for torch's own generator from two numbers (a multiplicative hash): neighboring seeds share nothing."""
    return ((seed * 0x9E3779B97F4A7C15 + counter * 0xBF58476D1CE4E5B9) ^ (counter << 17)) & 0x7FFFFFFFFFFFFFFF
