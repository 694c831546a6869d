"""What frozen features are worth downstream: classifiers on top of them, with intervals. Labels needed.

Arrays or tensors go in; every row of EVALUATIONS takes training rows and labels, test rows and labels, and gives an
:class:`Accuracy`, or several along a curve. Only fine-tuning moves an encoder, and it moves a copy.
"""

from vergence.evaluation.accuracy import Accuracy
from vergence.evaluation.classifiers import NearestCenter, knn, linear_probe, nearest_center
from vergence.evaluation.few_labels import LABELS, few_labels, label_curve
from vergence.evaluation.finetuning import fine_tuning
from vergence.tables import Table

EVALUATIONS = Table(
    "evaluation",
    {
        "linear probe": linear_probe,
        "kNN": knn,
        "nearest center": nearest_center,
        "few labels": few_labels,
        "label curve": label_curve,
        "fine-tuning": fine_tuning,
    },
    room="evaluation",
)

# Those that few labels can be given to.
CLASSIFIERS = {"linear probe": linear_probe, "kNN": knn, "nearest center": nearest_center}

# Former spellings.
nearest_centre, NearestCentre = nearest_center, NearestCenter

__all__ = [
    "CLASSIFIERS",
    "EVALUATIONS",
    "LABELS",
    "Accuracy",
    "NearestCenter",
    "few_labels",
    "fine_tuning",
    "knn",
    "label_curve",
    "linear_probe",
    "nearest_center",
    "nearest_centre",
]
