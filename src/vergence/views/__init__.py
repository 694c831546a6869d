"""Views: augmentation recipes over whole batches, with randomness that belongs to the sample.

``recipe = simclr(strength=0.5)``, then ``recipe(x, sample_keys(seed, epoch, indices))`` is a tuple of views.
"""

from vergence.tables import Rows
from vergence.views.image import from_letters, simclr
from vergence.views.random import sample_keys
from vergence.views.recipe import Recipe

VIEWS = Rows("view recipe", {"simclr": simclr})

__all__ = ["VIEWS", "Recipe", "from_letters", "sample_keys", "simclr"]
