"""Steps of image recipes: draws for a whole batch at once, then pixels a few images at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from jaxtyping import Float
from torch import Tensor

from vergence.counters import uniform
from vergence.types import FloatImages, Images, Keys, Mask, Vector
from vergence.views.blur import blur, kernel_side
from vergence.views.color import Factors, Orders, gray, jitter, jitter_parameters
from vergence.views.constants import unasked
from vergence.views.geometry import Lattice, Resized, crop_windows, lattice, plain_windows, resample
from vergence.views.large import blur_each, is_large, jitter_each
from vergence.views.recipe import Recipe, plain

Draws = Float[Tensor, "n draws"]
Scale = tuple[float, float]

# Chen et al. (2020), SimCLR, Appendix A.
RATIO = (3 / 4, 4 / 3)
FLIP_PROBABILITY = 0.5
COLOR_PROBABILITY = 0.8
GRAY_PROBABILITY = 0.2
BLUR_PROBABILITY = 0.5
SIGMA = (0.1, 2.0)

# Columns of a view's uniform draws, fixed so that switching one transformation off leaves the others as they were.
CROP, FLIP, DISTORTED, DISTORTION, GRAYED, BLURRED, SIGMA_DRAW = slice(0, 22), 22, 23, slice(24, 32), 32, 33, 34
TURNED = 35
DRAWS = 36

# On a processor a transformation is applied to the chosen images only. How many those are, an accelerator would have to
# be asked, which makes every step wait: there it is applied to all, and the chosen ones are kept.

CACHED = 2**19  # numbers in a chunk, so that it stays in a core's cache with its temporaries


@dataclass(frozen=True)
class Transformation:
    """A transformation: ``choose(draws, height, width)`` gives each sample's parameters, ``apply`` uses them."""

    choose: Callable[..., tuple[Tensor, ...]]
    apply: Callable[..., FloatImages]


def image_recipe(steps: Sequence[Transformation], *, draws: int, description: str, size: int | None = None) -> Recipe:
    """Two views of an image, each made by the steps in turn from that many uniform draws."""
    draw = partial(through, steps=steps, draws=draws)
    return Recipe("image", (draw, draw), partial(plain_image, size=size), description)


def plain_image(x: Images, *, size: int | None = None) -> Resized:
    """The image in [0, 1]; with ``size``, its largest central square resized to that side."""
    n, _, height, width = x.shape
    if size is None or (height, width) == (size, size):
        return plain(x)
    x = x if x.dtype == torch.uint8 else x.float()
    windows = plain_windows(n, height, width, square=True, device=x.device)
    still = torch.zeros(n, dtype=torch.bool, device=x.device)
    return resample(x, *lattice(windows, still, (height, width), (size, size)))


def through(x: Images, keys: Keys, *, steps: Sequence[Transformation], draws: int) -> Resized:
    """One view of each image: the steps in turn, their parameters chosen from ``draws`` uniform numbers a key."""
    _keep_freed_memory()
    x = x if x.dtype == torch.uint8 else x.float()
    n, _, height, width = x.shape
    numbers = uniform(keys, draws)
    chunks = -(-x.numel() // CACHED) if x.device.type == "cpu" else 1
    count = max(1, -(-n // max(1, chunks)))
    parameters = [[part.split(count) for part in step.choose(numbers, height, width)] for step in steps]
    views = []
    for chunk, view in enumerate(x.split(count)):
        for step, parts in zip(steps, parameters, strict=True):
            view = step.apply(view, *(part[chunk] for part in parts))
        views.append(view)
    whole = torch.cat(views) if len(views) > 1 else views[0]
    last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return whole.contiguous(memory_format=torch.channels_last) if last else whole


def look(*, size: int | None, scale: Scale | None, flip: bool, share: float = 1.0) -> Transformation:
    """Crop (unless ``scale`` is None), resize to ``size`` or a ``share`` of the sides, and flip, in one resampling."""
    return Transformation(partial(_lattice, size=size, scale=scale, flip=flip, share=share), resample)


def distort(*, strength: float) -> Transformation:
    """Color distortion: brightness, contrast, saturation and hue."""
    return Transformation(partial(_distortion, strength=strength), _distort)


def drop_color() -> Transformation:
    """Color dropping: the gray of each pixel in every channel."""
    return Transformation(_grayed, _drop_color)


def soften(*, above: int) -> Transformation:
    """Gaussian blur of images larger than ``above`` pixels."""
    return Transformation(_softness, partial(_soften, above=above))


def turn_around() -> Transformation:
    """Quarter turns, all four equally likely; of an image that is not square, none or a half turn."""
    return Transformation(_turns, _turn_around)


@cache
def _keep_freed_memory() -> None:
    """Free one large buffer, once: from then on glibc keeps smaller ones instead of returning them to the system.

    Otherwise every temporary is faulted in anew, page by page, and views take three times as long.
    """
    torch.empty(2**23 - 2**12)  # just under 32 MiB, the largest buffer that moves glibc's threshold


def _lattice(
    draws: Draws, height: int, width: int, *, size: int | None, scale: Scale | None, flip: bool, share: float
) -> Lattice:
    if scale is None:
        windows = plain_windows(len(draws), height, width, square=size is not None, device=draws.device)
    else:
        windows = crop_windows(draws[:, CROP], height, width, scale=scale, ratio=RATIO)
    flips = draws[:, FLIP] < (FLIP_PROBABILITY if flip else 0.0)
    rows, columns = (size or max(1, round(share * side)) for side in (height, width))
    return lattice(windows.to(flips.device), flips, (height, width), (rows, columns))


def _turns(draws: Draws, height: int, width: int) -> tuple[Tensor]:
    return ((4 * draws[:, TURNED]).long(),)


def _turn_around(x: FloatImages, quarters: Tensor) -> FloatImages:
    square = x.shape[2] == x.shape[3]
    quarters = (quarters if square else 2 * (quarters // 2)).to(x.device)[:, None, None, None]
    for count in (1, 2, 3) if square else (2,):
        x = torch.where(quarters == count, x.rot90(count, (2, 3)), x)
    return x


def _distortion(draws: Draws, height: int, width: int, *, strength: float) -> tuple[Mask, Factors, Orders]:
    return draws[:, DISTORTED] < COLOR_PROBABILITY, *jitter_parameters(draws[:, DISTORTION], strength=strength)


def _distort(x: FloatImages, chosen: Mask, factors: Factors, order: Orders) -> FloatImages:
    return (jitter_each if is_large(x) else jitter)(x, chosen, factors, order)


def _grayed(draws: Draws, height: int, width: int) -> tuple[Mask]:
    return (draws[:, GRAYED] < GRAY_PROBABILITY,)


def _drop_color(x: FloatImages, chosen: Mask) -> FloatImages:
    if unasked(x):
        return torch.where(chosen.to(x.device)[:, None, None, None], gray(x), x)
    places = chosen.nonzero()[:, 0]
    some = x.index_select(0, places)
    return x.index_copy(0, places, gray(some).expand_as(some))


def _softness(draws: Draws, height: int, width: int) -> tuple[Mask, Vector]:
    return draws[:, BLURRED] < BLUR_PROBABILITY, SIGMA[0] + (SIGMA[1] - SIGMA[0]) * draws[:, SIGMA_DRAW]


def _soften(x: FloatImages, chosen: Mask, sigma: Vector, *, above: int) -> FloatImages:
    side = min(x.shape[2:])
    if side <= above:
        return x
    if unasked(x):
        softened = blur(x, sigma.to(x.device), side=kernel_side(side))
        return torch.where(chosen.to(x.device)[:, None, None, None], softened, x)
    if is_large(x):
        return blur_each(x, chosen, sigma, side=kernel_side(side))
    places = chosen.nonzero()[:, 0]
    return x.index_copy(0, places, blur(x.index_select(0, places), sigma[chosen], side=kernel_side(side)))
