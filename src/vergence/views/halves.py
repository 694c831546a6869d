"""Views without randomness: the halves of an image, two groups of columns, and the sample itself, twice."""

from functools import partial

from torch import Tensor

from vergence.types import Images, Keys
from vergence.views.recipe import Recipe, plain, require


def halves() -> Recipe:
    """The top and the bottom half of an image as its two views; evaluation sees the top.

    The middle row of an odd height is left out.

    References:
        Tschannen et al. (2020), Sec. 3.1. https://arxiv.org/abs/1907.13625
    """
    return Recipe("image", (_top, _bottom), _plain_top, "top half + bottom half")


def columns(*, first: int = 0) -> Recipe:
    """The first columns of a vector and the other ones as its two views: two modalities side by side in one array.

    Evaluation sees the first; 0 stands for half of the columns.
    """
    require(first >= 0, "first", first, "at least 0")
    draws = partial(_first_columns, first=first), partial(_other_columns, first=first)
    return Recipe("vector", draws, partial(_first_columns, keys=None, first=first), "first columns + other columns")


def identity() -> Recipe:
    """The sample itself, twice: no augmentation, the reference that other recipes have to beat."""
    return Recipe("any", (same, same), plain, "the sample itself")


def same(x: Tensor, keys: Keys) -> Tensor:
    """The sample itself, whatever its key."""
    return plain(x)


def _first_columns(x: Tensor, keys: Keys | None, *, first: int) -> Tensor:
    return plain(x)[:, : _edge(first, x)]


def _other_columns(x: Tensor, keys: Keys, *, first: int) -> Tensor:
    return plain(x)[:, _edge(first, x) :]


def _edge(first: int, x: Tensor) -> int:
    require(first < x.shape[1], "first", first, f"less than the number of columns, {x.shape[1]},")
    return first or x.shape[1] // 2


def _plain_top(x: Images) -> Tensor:
    return plain(x)[:, :, : x.shape[2] // 2]


def _top(x: Images, keys: Keys) -> Tensor:
    return _plain_top(x)


def _bottom(x: Images, keys: Keys) -> Tensor:
    return plain(x)[:, :, (x.shape[2] + 1) // 2 :]
