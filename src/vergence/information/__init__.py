"""How many nats two variables share: bounds, estimators, and what no estimator can do."""

from vergence.information.answers import Estimate as Estimate
from vergence.information.answers import Information as Information
from vergence.information.bounds import (
    donsker_varadhan,
    info_nce,
    interpolated,
    jensen_shannon,
    leave_one_out,
    mine,
    nwj,
    smile,
)
from vergence.information.choice import automatic
from vergence.information.choice import estimate as estimate
from vergence.information.estimators import copula, entropies, labels, neighbors, neural, table
from vergence.information.staircase import staircase as staircase
from vergence.information.usable import usable_information as usable_information
from vergence.information.usable import wasserstein_dependency as wasserstein_dependency
from vergence.tables import Table

ESTIMATORS = Table(
    "estimator",
    {
        "auto": automatic,
        "neighbors": neighbors,
        "copula": copula,
        "neural": neural,
        "entropies": entropies,
        "table": table,
        "labels": labels,
    },
    room="estimators",
)

BOUNDS = Table(
    "bound",
    {
        "info_nce": info_nce,
        "nwj": nwj,
        "donsker_varadhan": donsker_varadhan,
        "mine": mine,
        "jensen_shannon": jensen_shannon,
        "smile": smile,
        "interpolated": interpolated,
        "leave_one_out": leave_one_out,
    },
)
