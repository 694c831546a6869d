"""Claims of Huang et al. that need images: which augmentations concentrate the classes, and which train well."""

from vergence.claims.claim import Outcome, claim
from vergence.claims.laboratory import Laboratory
from vergence.data import load
from vergence.ranking import rank_views
from vergence.views import from_letters


@claim(
    43,
    "1 - sigma of crop pairs on CIFAR-10: with colour distortion < with colour dropping < with blur and with flip.",
    source="huang",
    kind="training",
    tolerance="order of means over 5 drawings",
    minutes=2.0,
)
def order_of_crop_pairs(laboratory: Laboratory) -> Outcome:
    sets = {letters: from_letters(letters) for letters in ("ab", "ac", "ad", "ae")}
    ranking = rank_views(load("cifar10", limit=500), sets, deltas=(9.1, 10.7, 12.4))
    scores = {row.name: row.score for row in ranking.sets}
    holds = scores["ad"] < scores["ac"] < min(scores["ab"], scores["ae"])
    return Outcome(holds, ", ".join(f"({','.join(name)}) {score:.3f}" for name, score in scores.items()), scores)
