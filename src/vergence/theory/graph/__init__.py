"""The augmentation graph: contrastive learning as spectral clustering.

``AugmentationGraph`` is exact for a finite kernel and estimated for real views; the spectral loss factorizes it, its
top eigenvectors are what perfect features span, and its certificates bound the error of a linear probe.
"""

from vergence.theory.graph.augmentation import AugmentationGraph
from vergence.theory.graph.certificates import (
    embedding_dimension,
    label_residual,
    majority_error,
    population_probe,
    probe_error,
    recovery_theorem,
    spectral_probe,
)
from vergence.theory.graph.factorization import (
    matrix_factorization_loss,
    optimal_features,
    spectral_minimum,
    spectral_population_loss,
)
from vergence.theory.graph.subspaces import SubspaceAlignment, subspace_alignment
from vergence.theory.graph.surveys import GraphSurvey, survey, survey_graph

matrix_factorisation_loss = matrix_factorization_loss  # as it was spelled in the first release

__all__ = [
    "AugmentationGraph",
    "GraphSurvey",
    "SubspaceAlignment",
    "embedding_dimension",
    "label_residual",
    "majority_error",
    "matrix_factorization_loss",
    "optimal_features",
    "population_probe",
    "probe_error",
    "recovery_theorem",
    "spectral_minimum",
    "spectral_population_loss",
    "spectral_probe",
    "subspace_alignment",
    "survey",
    "survey_graph",
]
