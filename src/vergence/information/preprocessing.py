"""What happens to samples first: checks, and transformations that leave information unchanged."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtri
from torch import Tensor

Rows = Float[np.ndarray, "n _"]
Variable = np.ndarray | Tensor

# Fewer pairs than this give intervals wider than any answer worth having.
FEWEST = 50
# With fewer pairs for each column, canonical correlations of independent variables approach one half and more.
PAIRS_PER_COLUMN = 20
# Beyond so many columns, those turned by the radius would be three times too many.
MOST_TURNED = 50
# The radius of so few columns varies so much that a rotation by it needs its third power: of the 0.12 nats that the
# critic missed without it on development spirals in five columns, it found 0.04.
FEW_TURNED = 10
# Gaussianized rows of a thousand columns differ by at most 250.
FAR = 1e3
# The squares of smaller numbers are lost.
TINY = 1e-100
# A variable is a category if its rows take on average at least this many pairs per value.
PAIRS_PER_VALUE = 10
# So many numbers are ranked at once: ranking holds several copies of them.
RANKED = 10**6


def checked(x: Variable, y: Variable) -> tuple[np.ndarray, np.ndarray]:
    """The two variables as float64 ``[n, d]`` arrays, or an error that says what is wrong with them."""
    rows = _rows("x", x), _rows("y", y)
    if len(rows[0]) != len(rows[1]):
        raise ValueError(f"x has {len(rows[0])} rows and y has {len(rows[1])}: row i of both must belong together.")
    if len(rows[0]) < FEWEST:
        raise ValueError(f"{len(rows[0])} pairs are too few to estimate information; at least {FEWEST} are needed.")
    return rows


def varying(name: str, rows: Rows) -> tuple[Rows, list[str]]:
    """The columns that are not constant, and a sentence if some were."""
    kept = np.ptp(rows, axis=0) > 0
    if not kept.any():
        return rows[:, :0], [f"{name} is constant, so it shares nothing."]
    note = [f"{(~kept).sum()} constant columns of {name} were left out."] if not kept.all() else []
    return rows[:, kept], note


def reduced(name: str, rows: Rows) -> tuple[Rows, list[str]]:
    """At most one column for every 20 pairs, by principal components, and a sentence if that left something out."""
    most = max(2, len(rows) // PAIRS_PER_COLUMN)
    if rows.shape[1] <= most:
        return rows, []
    standard = (rows - rows.mean(0)) / rows.std(0)
    left, values, _ = np.linalg.svd(standard, full_matrices=False)
    note = f"{name} was reduced from {rows.shape[1]} columns to {most} principal components: it can only share less."
    return left[:, :most] * values[:most], [note]


def categorical(rows: Rows) -> bool:
    """Whether the rows are few values repeated, as those of a label or of a short code are."""
    return len(np.unique(rows, axis=0)) * PAIRS_PER_VALUE <= len(rows)


def codes(rows: Rows) -> np.ndarray:
    """Each row's number among the distinct rows."""
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel()


def one_hot(rows: Rows) -> Rows:
    """Categories as corners of a simplex, any two farther apart than rows of Gaussianized numbers ever are.

    Then the neighbors of a row are of its own category, as in Ross (2014). https://doi.org/10.1371/journal.pone.0087357
    """
    number = codes(rows)
    return FAR * np.eye(number.max() + 1)[number]


def gaussianized(rows: Rows) -> Rows:
    """Every column replaced by the normal quantile of its rank: invertible column by column, so nothing is lost."""
    from scipy.stats import rankdata

    found = np.empty(rows.shape)
    for columns in np.array_split(np.arange(rows.shape[1]), max(1, rows.size // RANKED)):
        found[:, columns] = ndtri(rankdata(rows[:, columns], axis=0) / (len(rows) + 1))
    return found


def dithered(rows: Rows, *, seed: int = 0) -> Rows:
    """Every column replaced by its ranks, ties broken at random.

    Noise within the steps of a column, independent of all else, can be undone, so the information stays as it was;
    but then the rows have a density.
    """
    noise = np.random.default_rng(seed).random(rows.shape)
    order = np.argsort(np.lexsort((noise, rows), axis=0), axis=0)
    return order.astype(np.float64)


class Described(NamedTuple):
    """What a critic sees of one variable: Gaussianized columns, the same turned by the radius, and the radius."""

    columns: Rows
    turned: Rows
    radius: Rows


def described(rows: Rows) -> Described:
    """Three descriptions for a critic: the Gaussianized columns, the same turned by the radius, and the radius.

    The radius is how far out a row is, Gaussianized: once among the Gaussianized columns and once among the columns in
    units of their median deviation, because heavy tails show only there. Columns times the radius let a linear map
    follow a rotation that depends on it.
    """
    columns = gaussianized(rows)
    if rows.shape[1] == 1:
        return Described(columns, columns, np.zeros((len(rows), 0)))
    centered = rows - np.median(rows, axis=0)
    scale = np.median(np.abs(centered), axis=0)
    robust = centered / np.where(scale > 0, scale, centered.std(0))
    near, far = (gaussianized((part**2).sum(1, keepdims=True)) for part in (columns, robust))
    turned = columns
    if rows.shape[1] <= min(MOST_TURNED, len(rows) // PAIRS_PER_COLUMN):
        powers = (near, near**2 - 1, near**3 - 3 * near)[: 3 if rows.shape[1] <= FEW_TURNED else 2]
        turned = np.concatenate([columns, *(columns * power for power in powers)], axis=1)
    return Described(columns, turned, np.concatenate([near, near**2 - 1, far], axis=1))


def products(columns: Rows, most: int) -> Rows:
    """The columns with all products of two if they are at most so many in all, else with squares, else alone."""
    d = columns.shape[1]
    if d + d * (d + 1) // 2 <= most:
        i, j = np.triu_indices(d)
        return np.hstack([columns, columns[:, i] * columns[:, j]])
    return np.hstack([columns, columns**2]) if 2 * d <= most else columns


def with_products(x: Rows, y: Rows, most: int) -> tuple[Rows, Rows]:
    """The columns of both with their products, as far as so many columns in all allow."""
    if x.shape[1] < y.shape[1]:  # the variable with fewer columns is served first
        left = products(x, most - y.shape[1])
        return left, products(y, most - left.shape[1])
    right = products(y, most - x.shape[1])
    return products(x, most - right.shape[1]), right


def evenly(n: int, most: int) -> np.ndarray:
    """At most so many row numbers, rising: one drawn from each of so many stretches of equal length.

    Every second row would be of one class where rows of two classes alternate.
    """
    if n <= most:
        return np.arange(n)
    edges = np.arange(most + 1) * n // most
    return edges[:-1] + (np.random.default_rng(n).random(most) * np.diff(edges)).astype(int)


def _rows(name: str, samples: Variable) -> np.ndarray:
    if isinstance(samples, Tensor):
        samples = samples.detach().cpu()
        samples = samples.float() if samples.dtype == torch.bfloat16 else samples  # which numpy does not know
    values = np.asarray(samples)
    if values.dtype.kind not in "biufOUS":
        raise ValueError(f"{name} must hold real numbers or names, not {values.dtype}.")
    if values.dtype.kind in "OUS" or _beyond_float64(values):
        try:  # their order takes the place of values: it carries the same information
            values = np.unique(values, return_inverse=True)[1].reshape(values.shape)
        except TypeError:
            raise ValueError(f"{name} must hold numbers or names, not a mixture of several kinds.") from None
    if values.ndim == 0:
        raise ValueError(f"{name} must have one row per sample; got a single number.")
    values = values.reshape(len(values), math.prod(values.shape[1:])).astype(np.float64)
    bad = ~np.isfinite(values).all(1)
    if bad.any():
        raise ValueError(f"{name} has {bad.sum()} rows with NaN or infinity, the first at row {int(bad.argmax())}.")
    largest = np.abs(values).max(initial=0.0)
    return values / largest if 0 < largest < TINY else values  # no scale changes the information


def _beyond_float64(values: np.ndarray) -> bool:
    """Integers that float64 would merge, such as 2^62 and 2^62 + 1."""
    return values.dtype.kind in "iu" and values.size > 0 and max(abs(int(values.min())), int(values.max())) > 2**53


def tensor(rows: np.ndarray) -> Tensor:
    """float32 for critics: their error is far above its rounding."""
    return torch.from_numpy(rows).float()
