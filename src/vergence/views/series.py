"""Views of time series: look at a part of the time, shake, rescale, reorder, and hide."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.counters import normal, split, uniform
from vergence.types import Keys
from vergence.views.geometry import lattice, resample
from vergence.views.recipe import Recipe, plain, require

Series = Float[Tensor, "n c t"]

WINDOW, ORDER, FACTOR, NOISE, DROPPED, MASK = range(6)


def series(
    *,
    crop: float = 0.5,
    segments: int = 1,
    scaling: float = 0.2,
    jitter: float = 0.1,
    dropout: float = 0.1,
    mask: float = 0.2,
) -> Recipe:
    """Views of time series: a stretch of time resized to the whole, rescaled, shaken, with channels and moments lost.

    ``crop`` is the smallest share of the time that is kept, ``mask`` the largest share set to 0; ``scaling`` is the
    largest relative change of a channel, ``jitter`` the noise as a share of a channel's own deviation, ``dropout`` the
    probability that one of several channels is set to 0. With ``segments`` above 1 that many stretches change places.

    References:
        Um et al. (2017), Data augmentation of wearable sensor data. https://arxiv.org/abs/1706.00527
    """
    require(0 < crop <= 1, "crop", crop, "in (0, 1]")
    require(segments >= 1, "segments", segments, "at least 1")
    for name, value in [("scaling", scaling), ("dropout", dropout), ("mask", mask)]:
        require(0 <= value <= 1, name, value, "in [0, 1]")
    require(jitter >= 0, "jitter", jitter, "at least 0")
    draw = partial(_view, crop=crop, segments=segments, scaling=scaling, jitter=jitter, dropout=dropout, mask=mask)
    parts = {"crop": crop, "segments": segments, "scaling": scaling, "jitter": jitter, "dropout": dropout, "mask": mask}
    return Recipe("series", (draw, draw), plain, " + ".join(f"{name} {value:g}" for name, value in parts.items()))


def _view(
    x: Series, keys: Keys, *, crop: float, segments: int, scaling: float, jitter: float, dropout: float, mask: float
) -> Series:
    x = _stretched(x.float(), uniform(split(keys, WINDOW), 2), crop)
    x = _reordered(x, uniform(split(keys, ORDER), segments))
    x = _shaken(x, keys, scaling, jitter)
    return _hidden(x, keys, dropout, mask)


def _stretched(x: Series, draws: Tensor, crop: float) -> Series:
    """A random stretch of the time, resized to the whole: a crop of an image one row high."""
    n, _, t = x.shape
    length = ((crop + (1 - crop) * draws[:, 0]) * t).round().long().clamp(min=1)
    start = (draws[:, 1] * (t - length + 1)).long()
    row = torch.ones_like(start)
    windows = torch.stack([row - 1, start, row, length], dim=1)
    still = torch.zeros(n, dtype=torch.bool, device=row.device)
    return resample(x[:, :, None], *lattice(windows, still, (1, t), (1, t)))[:, :, 0]


def _reordered(x: Series, draws: Tensor) -> Series:
    n, c, t = x.shape
    segment = torch.arange(t, device=draws.device) * draws.shape[1] // t
    # Stable: the moments of a segment share its draw, and keep their order.
    moments = draws[:, segment].argsort(dim=1, stable=True).to(x.device)
    return x.gather(2, moments[:, None].expand(n, c, t))


def _shaken(x: Series, keys: Keys, scaling: float, jitter: float) -> Series:
    n, c, t = x.shape
    factor = uniform(split(keys, FACTOR), c, low=1 - scaling, high=1 + scaling).float().to(x.device)[:, :, None]
    noise = normal(split(keys, NOISE), c * t).view(n, c, t).float().to(x.device) * jitter
    spread = (x - x.mean(dim=2, keepdim=True)).square().mean(dim=2, keepdim=True).sqrt()
    return x * factor + noise * spread


def _hidden(x: Series, keys: Keys, dropout: float, mask: float) -> Series:
    c, t = x.shape[1:]
    kept = uniform(split(keys, DROPPED), c) >= (dropout if c > 1 else 0.0)
    share, place = uniform(split(keys, MASK), 2)[:, :, None].unbind(dim=1)
    share = share * mask
    moment = (torch.arange(t, device=keys.device) + 0.5) / t - place * (1 - share)
    seen = (moment < 0) | (moment >= share)
    return x * (kept[:, :, None] & seen[:, None]).to(x)
