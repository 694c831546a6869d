"""Views: augmentation recipes over whole batches, with randomness that belongs to the sample.

``recipe = simclr(strength=0.5)``, then ``recipe(x, sample_keys(seed, epoch, indices))`` is a tuple of views: two or
more, of one kind or of several.
"""

from typing import Any

from vergence.counters import sample_keys
from vergence.tables import Table
from vergence.views.glyph import glyph
from vergence.views.halves import columns, halves, identity
from vergence.views.image import captions, from_letters, multi_crop, simclr
from vergence.views.outside import from_callable, returns_recipe
from vergence.views.recipe import Recipe, View
from vergence.views.series import series
from vergence.views.tabular import tabular
from vergence.views.text import dropout, pairs, text

VIEWS = Table(
    "view recipe",
    {
        "simclr": simclr,
        "multi_crop": multi_crop,
        "glyph": glyph,
        "halves": halves,
        "columns": columns,
        "identity": identity,
        "captions": captions,
        "tabular": tabular,
        "series": series,
        "text": text,
        "pairs": pairs,
        "dropout": dropout,
    },
    room="views",
)

GLOSSARY = {
    "size": "Side of the views in pixels; None keeps the size of the images.",
    "crop": "Random resized crop (images), or the smallest share of the time or the tokens that is kept.",
    "blur": "Gaussian blur; None blurs images over 32 pixels only, as the paper does.",
    "gray": "Color dropping: one view in five is gray.",
    "color": "Color distortion: brightness, contrast, saturation and hue.",
    "flip": "Horizontal flip of every second view.",
    "strength": "Strength of the color distortion, from 0 (none) to 2.5.",
    "first": "How many columns are the first view; 0 for half of them.",
    "largest": "Largest share of the area that a crop keeps.",
    "turn": "Quarter turns of every view, for images without an upright.",
    "smallest": "Smallest share of the area that a crop keeps.",
    "local_count": "How many local crops come after the two global ones.",
    "local_size": "Side of the local crops in pixels; None for 3/7 of the global ones' side.",
    "border": "Share of the area that separates crops: global ones keep more of it, local ones less.",
    "rotate": "Largest rotation either way, in degrees.",
    "shear": "Largest shear either way, in degrees.",
    "zoom": "Largest relative change of each side: 0.25 is from four fifths to five quarters.",
    "translate": "Largest shift, as a share of the side.",
    "elastic": "Largest local shift of the elastic warp, as a share of the side.",
    "tone": "Largest change of contrast and of brightness.",
    "cover": "Largest side of the black rectangle, as a share of the image's side.",
    "corruption": "Probability that a cell is replaced by its column's value in another row.",
    "noise": "Standard deviation of the noise on every cell, as a share of its column's.",
    "segments": "How many stretches of time change places; 1 leaves them in order.",
    "scaling": "Largest relative change of a channel's values.",
    "jitter": "Standard deviation of the noise, as a share of the channel's own.",
    "dropout": "Probability that a channel (series) or a token (text) is lost.",
    "negatives": "How many hard negatives of each sample are used; -1 for as many as the data has.",
    "mask": "Largest share of the time that is set to 0.",
    "swap": "Probability that two neighboring tokens change places.",
}


def build(name: str, **options: Any) -> Recipe:
    """The recipe ``name``: a row of VIEWS, or from outside a recipe, what makes one, or a transform of a sample."""
    row = VIEWS[name]
    if isinstance(row, Recipe):
        return row
    if name in VIEWS or returns_recipe(row):
        made = row(**options)
        return made if isinstance(made, Recipe) else from_callable(made)
    return from_callable(row)


__all__ = ["GLOSSARY", "VIEWS", "Recipe", "View", "build", "from_callable", "from_letters", "sample_keys", *VIEWS]
