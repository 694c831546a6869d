"""Independent components: columns that were mixed linearly are separated before they are Gaussianized."""

import warnings

import numpy as np

from vergence.information.copula import copula_information, mardia
from vergence.information.preprocessing import Rows, evenly, gaussianized
from vergence.information.screening import dependence, threshold

# Rows this far from a Gaussian, in deviations of Mardia's kurtosis, may be mixtures of independent columns.
FAR_FROM_GAUSSIAN = 4.0
# Separated columns replace the given ones if the copula rises by so many errors and this share.
CLEAR_RISE, RISE = 2.0, 0.02
# Or if the strongest dependence between two columns rises by this share.
STRONGER = 1.3
# Fewer rows for each column do not determine the components.
ROWS_PER_COLUMN = 40
MOST_ROWS, MOST_COLUMNS = 5000, 50


def unmixed(x: Rows, y: Rows) -> tuple[Rows, Rows, tuple[str, ...]]:
    """x and y with columns replaced by independent components where that shows more dependence, and what was done.

    A linear map that can be undone leaves the information unchanged; but ranks of mixed columns hide what ranks of the
    separate ones show. A network of one layer, tanh(y W) V, becomes Gaussian again when V is undone.

    References:
        Hyvärinen & Oja (2000), on FastICA. https://doi.org/10.1016/S0893-6080(00)00026-5
    """
    notes = []
    for name in ("x", "y"):
        rows, other = (x, y) if name == "x" else (y, x)
        components = _components(rows)
        if components is None or not _shows_more(components, rows, other):
            continue
        x, y = (components, y) if name == "x" else (x, components)
        notes.append(f"The columns of {name} were separated into independent components, which loses nothing.")
    return x, y, tuple(notes)


def _components(rows: Rows) -> Rows | None:
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    n, d = rows.shape
    standard = (rows - rows.mean(0)) / rows.std(0)
    if not 2 <= d <= min(MOST_COLUMNS, n // ROWS_PER_COLUMN) or mardia(gaussianized(rows)) < FAR_FROM_GAUSSIAN:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what was found is judged by what it shows
        model = FastICA(whiten="unit-variance", max_iter=100, tol=1e-3, random_state=0)
        try:
            found = model.fit(standard[evenly(n, MOST_ROWS)]).transform(standard)
        except (ValueError, np.linalg.LinAlgError):
            return None
    whole = found.shape == rows.shape and np.isfinite(found).all() and np.linalg.cond(model.components_) < 1e6
    return found if whole else None


def _shows_more(components: Rows, rows: Rows, other: Rows) -> bool:
    (before, error), (after, _) = copula_information(rows, other), copula_information(components, other)
    if after - before > max(CLEAR_RISE * error, RISE * abs(before)):
        return True
    if after < before - CLEAR_RISE * error:
        return False
    strengths = [dependence(part, other) for part in (rows, components)]
    return bool(strengths[1].max() > max(STRONGER * strengths[0].max(), threshold(strengths[1].size)))
