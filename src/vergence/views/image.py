"""Views of photographs: the five transformations of SimCLR, each of which can be switched off."""

from dataclasses import replace

from vergence.views.recipe import Recipe, require
from vergence.views.steps import DRAWS, distort, drop_colour, image_recipe, look, soften, turn_around

SHARP = 32  # pixels: SimCLR's own CIFAR-10 recipe does not blur (Appendix B.9)
LETTERS = {"a": "crop", "b": "blur", "c": "grey", "d": "colour", "e": "flip"}


def simclr(
    *,
    size: int | None = None,
    crop: bool = True,
    blur: bool | None = None,
    grey: bool = True,
    colour: bool = True,
    flip: bool = True,
    strength: float = 0.5,
    smallest: float = 0.08,
    largest: float = 1.0,
    turn: bool = False,
) -> Recipe:
    """SimCLR's views of images: (a) resized crop, (b) blur, (c) colour dropping, (d) colour distortion, (e) flip.

    A crop keeps a share of the area between ``smallest`` and ``largest``; then come flip with probability 0.5,
    distortion 0.8, grey 0.2, blur 0.5, each as torchvision does it. Strength s lets brightness, contrast and
    saturation change by 0.8 s and the hue by 0.2 s of a turn. ``blur=None`` blurs images over 32 pixels only, as the
    paper does; ``size=None`` keeps the size of the input. ``turn`` adds quarter turns, for what has no upright (cells,
    land seen from above).

    References:
        Chen et al. (2020), Appendix A; the letters are those of Huang et al. (2023). https://arxiv.org/abs/2002.05709
    """
    require(size is None or size >= 1, "size", size, "at least 1 or None")
    require(0 <= strength <= 2.5, "strength", strength, "in [0, 2.5]: beyond it the hue would turn by more than half")
    require(0 < smallest <= 1, "smallest", smallest, "a share of the image's area in (0, 1]")
    require(smallest <= largest <= 1, "largest", largest, "a share of the image's area, from smallest to 1")
    steps = [look(size=size, scale=(smallest, largest) if crop else None, flip=flip)]
    steps += [turn_around()] * turn
    steps += [distort(strength=strength)] * colour
    steps += [drop_colour()] * grey
    steps += [soften(above=0 if blur else SHARP)] * (blur is not False)
    shares = "" if (smallest, largest) == (0.08, 1) else f" {smallest:g} to {largest:g}"
    notes = {"a": shares, "b": f" above {SHARP} px" if blur is None else "", "d": f" {strength:g}"}
    switches = zip(LETTERS, (crop, blur is not False, grey, colour, flip), strict=True)
    parts = [f"({letter}) {LETTERS[letter]}{notes.get(letter, '')}" for letter, on in switches if on]
    parts += ["quarter turns"] * turn
    return image_recipe(steps, draws=DRAWS, description=" + ".join(parts) or "no transformation", size=size)


def captions(*, size: int | None = None, smallest: float = 0.9) -> Recipe:
    """A crop of an image and its caption as the two views; without a caption, two crops.

    CLIP's only augmentation is a random square crop (Sec. 2.4); 0.9 as its smallest share is OpenCLIP's.

    References:
        Radford et al. (2021). https://arxiv.org/abs/2103.00020
    """
    crops = simclr(size=size, blur=False, grey=False, colour=False, flip=False, smallest=smallest)
    return replace(crops, description=f"(a) crop from {smallest:g} + caption", reads=True)


def from_letters(letters: str, *, size: int | None = None, strength: float = 0.5) -> Recipe:
    """SimCLR's recipe with only the transformations whose letters are given, such as ``"ad"`` for crop and colour."""
    unknown = set(letters) - set(LETTERS)
    require(not unknown, "letters", letters, f"made of {', '.join(f'{key} ({name})' for key, name in LETTERS.items())}")
    crop, blur, grey, colour, flip = (letter in letters for letter in LETTERS)
    return simclr(size=size, crop=crop, blur=blur, grey=grey, colour=colour, flip=flip, strength=strength)
