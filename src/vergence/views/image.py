"""Views of photographs: the five transformations of SimCLR, each of which can be switched off."""

from dataclasses import replace
from functools import partial

from vergence.views.halves import same
from vergence.views.recipe import Recipe, View, require
from vergence.views.steps import (
    DRAWS,
    Transformation,
    distort,
    drop_color,
    image_recipe,
    look,
    soften,
    through,
    turn_around,
)

SHARP = 32  # pixels: SimCLR's own CIFAR-10 recipe does not blur (Appendix B.9)
LOCAL = 96 / 224  # side of SwAV's and DINO's local crops, as a share of that of the global ones
LETTERS = {"a": "crop", "b": "blur", "c": "gray", "d": "color", "e": "flip"}


def simclr(
    *,
    size: int | None = None,
    crop: bool = True,
    blur: bool | None = None,
    gray: bool = True,
    color: bool = True,
    flip: bool = True,
    strength: float = 0.5,
    smallest: float = 0.08,
    largest: float = 1.0,
    turn: bool = False,
) -> Recipe:
    """SimCLR's views of images: (a) resized crop, (b) blur, (c) color dropping, (d) color distortion, (e) flip.

    A crop keeps a share of the area between ``smallest`` and ``largest``; then come flip with probability 0.5,
    distortion 0.8, gray 0.2, blur 0.5, each as torchvision does it. Strength s lets brightness, contrast and
    saturation change by 0.8 s and the hue by 0.2 s of a turn. ``blur=None`` blurs images over 32 pixels only, as the
    paper does; ``size=None`` keeps the size of the input. ``turn`` adds quarter turns, for what has no upright (cells,
    land seen from above).

    References:
        Chen et al. (2020), Appendix A; the letters are those of Huang et al. (2023). https://arxiv.org/abs/2002.05709
    """
    require(size is None or size >= 1, "size", size, "at least 1 or None")
    require(0 < smallest <= 1, "smallest", smallest, "a share of the image's area in (0, 1]")
    require(smallest <= largest <= 1, "largest", largest, "a share of the image's area, from smallest to 1")
    looks = look(size=size, scale=(smallest, largest) if crop else None, flip=flip)
    steps = [looks, *[turn_around()] * turn, *_tints(blur=blur, gray=gray, color=color, strength=strength)]
    shares = "" if (smallest, largest) == (0.08, 1) else f" {smallest:g} to {largest:g}"
    notes = {"a": shares, "b": f" above {SHARP} px" if blur is None else "", "d": f" {strength:g}"}
    switches = zip(LETTERS, (crop, blur is not False, gray, color, flip), strict=True)
    parts = [f"({letter}) {LETTERS[letter]}{notes.get(letter, '')}" for letter, on in switches if on]
    parts += ["quarter turns"] * turn
    return image_recipe(steps, draws=DRAWS, description=" + ".join(parts) or "no transformation", size=size)


def multi_crop(
    *,
    size: int | None = None,
    local_size: int | None = None,
    local_count: int = 6,
    border: float = 0.14,
    smallest: float = 0.05,
    blur: bool | None = None,
    gray: bool = True,
    color: bool = True,
    flip: bool = True,
    strength: float = 0.5,
) -> Recipe:
    """Two global crops of an image and several smaller local ones; colors change as in ``simclr``.

    A global crop keeps a share of the area between ``border`` and 1, a local one between ``smallest`` and ``border``,
    resized to ``local_size``: by default 3/7 of the global side, as 96 of 224 pixels. The defaults are SwAV's; DINO has
    ``border=0.4`` and ``local_count=8``. A method's ``pairs`` say which crops are compared.

    References:
        Caron et al. (2020), SwAV, Sec. 3.2. https://arxiv.org/abs/2006.09882
        Caron et al. (2021), DINO, Sec. 3.1. https://arxiv.org/abs/2104.14294
    """
    require(size is None or size >= 1, "size", size, "at least 1 or None")
    require(local_size is None or local_size >= 1, "local_size", local_size, "at least 1 or None")
    require(local_count >= 0, "local_count", local_count, "at least 0")
    require(
        0 < smallest < border < 1, "smallest and border", (smallest, border), "shares with 0 < smallest < border < 1"
    )
    tints = _tints(blur=blur, gray=gray, color=color, strength=strength)
    whole = look(size=size, scale=(border, 1.0), flip=flip)
    side = local_size or (size and max(1, round(LOCAL * size)))
    part = look(size=side, scale=(smallest, border), flip=flip, share=LOCAL)
    crops = image_recipe([whole, *tints], draws=DRAWS, description="", size=size)
    large = View(crops.draws[0], group="global")
    small = View(partial(through, steps=[part, *tints], draws=DRAWS), group="local")
    description = f"2 global crops from {border:g} + {local_count} local crops from {smallest:g}"
    return replace(crops, draws=(large, large, *[small] * local_count), description=description)


def captions(*, size: int | None = None, smallest: float = 0.9) -> Recipe:
    """A crop of an image and its caption as the two views.

    CLIP's only augmentation is a random square crop (Sec. 2.4); 0.9 as its smallest share is OpenCLIP's.

    References:
        Radford et al. (2021). https://arxiv.org/abs/2103.00020
    """
    crops = simclr(size=size, blur=False, gray=False, color=False, flip=False, smallest=smallest)
    pair = View(crops.draws[0], group="image"), View(same, group="caption", field="captions", kind="text")
    return replace(crops, draws=pair, description=f"(a) crop from {smallest:g} + caption")


def from_letters(letters: str, *, size: int | None = None, strength: float = 0.5) -> Recipe:
    """SimCLR's recipe with only the transformations whose letters are given, such as ``"ad"`` for crop and color."""
    unknown = set(letters) - set(LETTERS)
    require(not unknown, "letters", letters, f"made of {', '.join(f'{key} ({name})' for key, name in LETTERS.items())}")
    crop, blur, gray, color, flip = (letter in letters for letter in LETTERS)
    return simclr(size=size, crop=crop, blur=blur, gray=gray, color=color, flip=flip, strength=strength)


def _tints(*, blur: bool | None, gray: bool, color: bool, strength: float) -> list[Transformation]:
    """What SimCLR does to the pixels after cropping."""
    require(0 <= strength <= 2.5, "strength", strength, "in [0, 2.5]: beyond it the hue would turn by more than half")
    steps = [distort(strength=strength)] * color + [drop_color()] * gray
    return steps + [soften(above=0 if blur else SHARP)] * (blur is not False)
