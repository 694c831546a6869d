"""How many nats two variables share: bounds, estimators, and what no estimator can do."""

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
from vergence.tables import Rows

BOUNDS = Rows(
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
