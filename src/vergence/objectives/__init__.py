"""Objectives: embeddings in, one differentiable number out.

Each normalizes its inputs itself where its paper does, computes in float32 or better, and refuses bad input by name.
"""

from vergence.objectives.characteristic import lejepa, sigreg
from vergence.objectives.codes import dino, swav
from vergence.objectives.contrastive import (
    decoupled,
    flat_nce,
    info_nce,
    linear_contrastive,
    nt_xent,
    revised_info_nce,
    supervised,
    two_modal,
)
from vergence.objectives.hypersphere import align_uniform, alignment, uniformity, uniformity_floor
from vergence.objectives.module import Objective
from vergence.objectives.moments import frossl, mmcr, tico, w_mse
from vergence.objectives.nearest import koleo
from vergence.objectives.negative_free import barlow_twins, negative_cosine, vicreg
from vergence.objectives.sigmoid import siglip
from vergence.objectives.spectral import spectral
from vergence.objectives.triplet import triplet
from vergence.tables import Table

OBJECTIVES = Table(
    "objective",
    {
        "info_nce": info_nce,
        "nt_xent": nt_xent,
        "decoupled": decoupled,
        "flat_nce": flat_nce,
        "revised_info_nce": revised_info_nce,
        "linear_contrastive": linear_contrastive,
        "two_modal": two_modal,
        "supervised": supervised,
        "triplet": triplet,
        "alignment": alignment,
        "uniformity": uniformity,
        "align_uniform": align_uniform,
        "spectral": spectral,
        "negative_cosine": negative_cosine,
        "barlow_twins": barlow_twins,
        "vicreg": vicreg,
        "sigreg": sigreg,
        "lejepa": lejepa,
        "siglip": siglip,
        "swav": swav,
        "dino": dino,
        "tico": tico,
        "w_mse": w_mse,
        "mmcr": mmcr,
        "frossl": frossl,
        "koleo": koleo,
    },
    room="objectives",
)

GLOSSARY: dict[str, str] = {
    "temperature": "What scores are divided by: lower looks harder at the nearest negatives. SigLIP's multiplies them.",
    "weight": "How much repulsion or regularization counts against the attraction of positives.",
    "margin": "By how much a negative must be farther than the positive, in squared distance.",
    "mining": "Which negative a triplet takes: the nearest (hard), or the nearest beyond the positive (semi_hard).",
    "alpha": "The power of the distance between positives.",
    "t": "The sharpness of the Gaussian potential between embeddings.",
    "align_weight": "How much alignment counts.",
    "uniform_weight": "How much uniformity counts.",
    "mu": "The squared radius of the ball that embeddings are kept in; on its surface, the weight of the repulsion.",
    "off_diagonal": "How much correlations between different columns count.",
    "invariance": "How much the distance between positives counts.",
    "variance": "How much columns with a deviation below one count.",
    "covariance": "How much covariance between different columns counts.",
    "slices": "Random directions along which embeddings are compared with a Gaussian.",
    "knots": "Points at which the characteristic function is compared, both ends among them.",
    "limit": "The largest of these points.",
    "seed": "What the random directions depend on; while training, the step as well.",
    "bias": "What is added to every score; learned, from a value at which most pairs count as different.",
    "epsilon": "Sharpness of the codes (SwAV; lower is sharper), or what is added to variances before whitening.",
    "iterations": "How often the codes are made even.",
    "key_temperature": "What the teacher's scores are divided by at first; lower is sharper.",
    "memory": "Weight of the past in the covariance that embeddings are pushed from.",
}

__all__ = ["GLOSSARY", "OBJECTIVES", "Objective", "uniformity_floor", *OBJECTIVES]
