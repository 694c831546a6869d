"""Views of photographs: the five transformations of SimCLR, each of which can be switched off."""

from dataclasses import replace

from vergence.views.recipe import Recipe, require
from vergence.views.steps import DRAWS, distort, drop_color, image_recipe, look, soften

SHARP = 32  # pixels: SimCLR's own CIFAR-10 recipe does not blur (Appendix B.9)
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
) -> Recipe:
    """SimCLR's views of images: (a) resized crop, (b) blur, (c) color dropping, (d) color distortion, (e) flip.

    A crop keeps a share of the area between ``smallest`` and 1; then come flip with probability 0.5, distortion 0.8,
    gray 0.2, blur 0.5, each as torchvision does it. Strength s lets brightness, contrast and saturation change by 0.8 s
    and the hue by 0.2 s of a turn. ``blur=None`` blurs images over 32 pixels only, as the paper does; ``size=None``
    keeps the size of the input.

    References:
        Chen et al. (2020), Appendix A; the letters are those of Huang et al. (2023). https://arxiv.org/abs/2002.05709
    """
    require(size is None or size >= 1, "size", size, "at least 1 or None")
    require(0 <= strength <= 2.5, "strength", strength, "in [0, 2.5]: beyond it the hue would turn by more than half")
    require(0 < smallest <= 1, "smallest", smallest, "a share of the image's area in (0, 1]")
    steps = [look(size=size, scale=(smallest, 1.0) if crop else None, flip=flip)]
    steps += [distort(strength=strength)] * color
    steps += [drop_color()] * gray
    steps += [soften(above=0 if blur else SHARP)] * (blur is not False)
    notes = {"b": f" above {SHARP} px" if blur is None else "", "d": f" {strength:g}"}
    switches = zip(LETTERS, (crop, blur is not False, gray, color, flip), strict=True)
    parts = [f"({letter}) {LETTERS[letter]}{notes.get(letter, '')}" for letter, on in switches if on]
    return image_recipe(steps, draws=DRAWS, description=" + ".join(parts) or "no transformation", size=size)


def captions(*, size: int | None = None, smallest: float = 0.9) -> Recipe:
    """A crop of an image and its caption as the two views; without a caption, two crops.

    CLIP's only augmentation is a random square crop (Sec. 2.4); 0.9 as its smallest share is OpenCLIP's.

    References:
        Radford et al. (2021). https://arxiv.org/abs/2103.00020
    """
    crops = simclr(size=size, blur=False, gray=False, color=False, flip=False, smallest=smallest)
    return replace(crops, description=f"(a) crop from {smallest:g} + caption", reads=True)


def from_letters(letters: str, *, size: int | None = None, strength: float = 0.5) -> Recipe:
    """SimCLR's recipe with only the transformations whose letters are given, such as ``"ad"`` for crop and color."""
    unknown = set(letters) - set(LETTERS)
    require(not unknown, "letters", letters, f"made of {', '.join(f'{key} ({name})' for key, name in LETTERS.items())}")
    crop, blur, gray, color, flip = (letter in letters for letter in LETTERS)
    return simclr(size=size, crop=crop, blur=blur, gray=gray, color=color, flip=flip, strength=strength)
