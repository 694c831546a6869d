"""Views of small gray glyphs, such as digits and characters: bend the strokes and cover some, never mirror them."""

import math
from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vergence.types import FloatImages, Images
from vergence.views.geometry import Resized
from vergence.views.recipe import Recipe, require
from vergence.views.steps import Draws, Transformation, image_recipe, plain_image

Matrices = Float[Tensor, "n 2 3"]
Knots = Float[Tensor, "n 2 k k"]
Rectangles = Float[Tensor, "n 4"]
Tones = Float[Tensor, "n 2"]

KNOTS = 4  # the elastic field is drawn on a lattice of 4 x 4 points and interpolated
AFFINE, TONE, COVER, ELASTIC = slice(0, 6), slice(6, 8), slice(8, 12), slice(12, 12 + 2 * KNOTS**2)
DRAWS = ELASTIC.stop
LARGEST = {"rotate": 180.0, "shear": 60.0, "zoom": 4.0}  # of the options that are not shares


def glyph(
    *,
    size: int | None = None,
    rotate: float = 20.0,
    shear: float = 20.0,
    zoom: float = 0.25,
    translate: float = 0.1,
    elastic: float = 0.1,
    tone: float = 0.3,
    cover: float = 0.2,
) -> Recipe:
    """Views of small gray-scale glyphs: affine and elastic warps, contrast and brightness, a covered rectangle.

    ``rotate`` and ``shear`` are the largest angles in degrees, ``zoom`` the largest relative change of each side;
    ``translate``, ``elastic`` and ``cover`` (the sides of a black rectangle) are shares of the image's side. There is
    no flip: it would change what a glyph means.
    """
    warp = {"rotate": rotate, "shear": shear, "zoom": zoom, "translate": translate, "elastic": elastic}
    options = {**warp, "tone": tone, "cover": cover}
    require(size is None or size >= 1, "size", size, "at least 1 or None")
    for name, value in options.items():
        largest = LARGEST.get(name, 1.0)
        require(0 <= value <= largest, name, value, f"in [0, {largest:g}]")
    steps = [
        Transformation(partial(_bends, warp=warp), partial(warp_images, size=size)),
        Transformation(partial(_tones, tone=tone), _tint),
        Transformation(partial(_rectangles, cover=cover), _cover),
    ]
    description = " + ".join(f"{name} {value:g}" for name, value in options.items() if value) or "no transformation"
    return image_recipe(steps, draws=DRAWS, description=description, size=size)


def warp_images(x: Images, matrices: Matrices, knots: Knots, *, size: int | None = None) -> Resized:
    """The images at the affine maps of the view's coordinates plus the elastic field; black outside."""
    rows, columns = size or x.shape[2], size or x.shape[3]
    across = (torch.arange(columns, device=x.device) + 0.5) * (2 / columns) - 1
    down = ((torch.arange(rows, device=x.device) + 0.5) * (2 / rows) - 1)[:, None]
    along_x, along_y, shift = matrices.to(x.device)[..., None, None].unbind(dim=2)
    bend = F.interpolate(knots.to(x.device), (rows, columns), mode="bicubic", align_corners=True)
    grid = along_x * across + along_y * down + shift + bend
    return F.grid_sample(plain_image(x), grid.permute(0, 2, 3, 1), mode="bilinear", align_corners=False)


def _bends(draws: Draws, height: int, width: int, *, warp: Mapping[str, float]) -> tuple[Matrices, Knots]:
    """Affine maps from the view's coordinates in [-1, 1] to the image's, and what the elastic field adds to them."""
    signed = 2 * draws - 1
    turn, slant, zoom_x, zoom_y, *shift = signed[:, AFFINE].unbind(dim=1)
    cosine, sine = (math.radians(warp["rotate"]) * turn).cos(), (math.radians(warp["rotate"]) * turn).sin()
    slope = (math.radians(warp["shear"]) * slant).tan()
    wide, tall = (1 + warp["zoom"]) ** zoom_x, (1 + warp["zoom"]) ** zoom_y
    right, below = (2 * warp["translate"] * part for part in shift)
    rows = [
        torch.stack([cosine * wide, (cosine * slope - sine) * tall, right], dim=1),
        torch.stack([sine * wide, (sine * slope + cosine) * tall, below], dim=1),
    ]
    knots = 2 * warp["elastic"] * signed[:, ELASTIC].reshape(-1, 2, KNOTS, KNOTS)
    return torch.stack(rows, dim=1).float(), knots.float()


def _tones(draws: Draws, height: int, width: int, *, tone: float) -> tuple[Tones]:
    return ((tone * (2 * draws[:, TONE] - 1)).float(),)


def _tint(x: FloatImages, tones: Tones) -> FloatImages:
    """Contrast around a half, then brightness."""
    contrast, brightness = (part[:, None, None, None].to(x.device) for part in tones.unbind(dim=1))
    return ((x - 0.5) * (1 + contrast) + 0.5 + brightness).clamp_(0.0, 1.0)


def _rectangles(draws: Draws, height: int, width: int, *, cover: float) -> tuple[Rectangles]:
    """Top, bottom, left and right as shares of the side; each side of the rectangle is uniform up to ``cover``."""
    sides = cover * draws[:, COVER][:, :2]
    corners = (1 - sides) * draws[:, COVER][:, 2:]
    return (torch.stack([corners, corners + sides], dim=2).flatten(1),)


def _cover(x: FloatImages, rectangles: Rectangles) -> FloatImages:
    top, bottom, left, right = rectangles.to(x.device)[:, :, None].unbind(dim=1)
    down = (torch.arange(x.shape[2], device=x.device) + 0.5) / x.shape[2]
    across = (torch.arange(x.shape[3], device=x.device) + 0.5) / x.shape[3]
    rows, columns = (down >= top) & (down < bottom), (across >= left) & (across < right)
    return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)
