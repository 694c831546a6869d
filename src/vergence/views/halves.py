"""Views that need no chance: the two halves of an image, and the sample itself, twice."""

from torch import Tensor

from vergence.types import Images, Keys
from vergence.views.recipe import Recipe, plain


def halves() -> Recipe:
    """The top and the bottom half of an image as its two views; evaluation sees the top.

    The middle row of an odd height is left out.

    References:
        Tschannen et al. (2020), Sec. 3.1. https://arxiv.org/abs/1907.13625
    """
    return Recipe("image", (_top, _bottom), _plain_top, "top half + bottom half")


def identity() -> Recipe:
    """The sample itself, twice: no augmentation, the reference that other recipes have to beat."""
    return Recipe("any", (_same, _same), plain, "the sample itself")


def _same(x: Tensor, keys: Keys) -> Tensor:
    return plain(x)


def _plain_top(x: Images) -> Tensor:
    return plain(x)[:, :, : x.shape[2] // 2]


def _top(x: Images, keys: Keys) -> Tensor:
    return _plain_top(x)


def _bottom(x: Images, keys: Keys) -> Tensor:
    return plain(x)[:, :, (x.shape[2] + 1) // 2 :]
