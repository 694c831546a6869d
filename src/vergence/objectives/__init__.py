"""Objectives: embeddings in, one differentiable number out."""

from vergence.objectives.contrastive import decoupled, flat_nce, info_nce, nt_xent
from vergence.objectives.hypersphere import align_uniform, alignment, uniformity
from vergence.tables import Rows

OBJECTIVES = Rows(
    "objective",
    {
        "info_nce": info_nce,
        "nt_xent": nt_xent,
        "decoupled": decoupled,
        "flat_nce": flat_nce,
        "alignment": alignment,
        "uniformity": uniformity,
        "align_uniform": align_uniform,
    },
)
