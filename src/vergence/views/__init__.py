"""Views: augmentation recipes over whole batches, with randomness that belongs to the sample.

``recipe = simclr(strength=0.5)``, then ``recipe(x, sample_keys(seed, epoch, indices))`` is a tuple of views.
"""

from vergence.tables import Rows
from vergence.views.glyph import glyph
from vergence.views.halves import columns, halves, identity
from vergence.views.image import captions, from_letters, simclr
from vergence.views.random import sample_keys
from vergence.views.recipe import Recipe
from vergence.views.series import series
from vergence.views.tabular import tabular
from vergence.views.text import text

VIEWS = Rows(
    "view recipe",
    {
        "simclr": simclr,
        "glyph": glyph,
        "halves": halves,
        "columns": columns,
        "identity": identity,
        "captions": captions,
        "tabular": tabular,
        "series": series,
        "text": text,
    },
)

GLOSSARY = {
    "size": "Side of the views in pixels; None keeps the size of the images.",
    "crop": "Random resized crop (images), or the smallest share of the time or the tokens that is kept.",
    "blur": "Gaussian blur; None blurs images over 32 pixels only, as the paper does.",
    "grey": "Colour dropping: one view in five is grey.",
    "colour": "Colour distortion: brightness, contrast, saturation and hue.",
    "flip": "Horizontal flip of every second view.",
    "strength": "Strength of the colour distortion, from 0 (none) to 2.5.",
    "first": "How many columns are the first view; 0 for half of them.",
    "smallest": "Smallest share of the area that a crop keeps.",
    "largest": "Largest share of the area that a crop keeps.",
    "turn": "Quarter turns of every view, for images without an upright.",
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
    "mask": "Largest share of the time that is set to 0.",
    "swap": "Probability that two neighbouring tokens change places.",
}

__all__ = ["GLOSSARY", "VIEWS", "Recipe", "from_letters", "sample_keys", *VIEWS]
