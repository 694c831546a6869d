"""What a kernel, an adjacency, a prior and labels must be, with the reason when they are not."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy import sparse
from torch import Tensor

Array: TypeAlias = Tensor | np.ndarray | sparse.sparray | sparse.spmatrix | Sequence
# Probabilities written in float32 sum to one within a few 1e-7 per entry.
ROUNDING = 1e-5


def kernel_matrix(kernel: Array) -> sparse.csr_array:
    """A matrix of probabilities: rows sum to one, every column is reached."""
    matrix = _matrix(kernel, "kernel")
    _reject_negative(matrix, "kernel", "its entries are probabilities")
    sums = matrix.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROUNDING:
        raise ValueError(
            f"Expected each row of the kernel to sum to one: row xbar holds the probabilities A(x | xbar) of the "
            f"augmentations of sample xbar. Row {worst} sums to {sums[worst]:.6g}."
        )
    return sparse.csr_array(matrix / sums[:, None])


def prior_vector(prior: Array | None, n: int) -> np.ndarray:
    """Probabilities of the n natural samples; uniform when none are given."""
    if prior is None:
        return np.full(n, 1 / n)
    vector = _array(prior).astype(np.float64)
    if vector.shape != (n,) or not (vector > 0).all() or abs(vector.sum() - 1) > ROUNDING:
        raise ValueError(
            f"Expected a prior of {n} positive probabilities that sum to one, one per row of the kernel; got shape "
            f"{vector.shape}, smallest {vector.min():.3g}, sum {vector.sum():.6g}. Leave out samples of probability 0."
        )
    return vector / vector.sum()


def adjacency_matrix(adjacency: Array) -> sparse.csr_array:
    """A symmetric, non-negative matrix without empty rows, scaled to sum to one."""
    matrix = _matrix(adjacency, "adjacency")
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"Expected a square adjacency, one row and one column per node; got shape {matrix.shape}.")
    _reject_negative(matrix, "adjacency", "an edge is a joint probability")
    gap = abs(matrix - matrix.T)
    if gap.max() > ROUNDING * matrix.max():
        row, column = (int(i) for i in np.unravel_index(gap.tocoo().argmax(), gap.shape))
        raise ValueError(
            f"Expected a symmetric adjacency (two views of one sample have no order); entry ({row}, {column}) is "
            f"{matrix[row, column]:.6g} and entry ({column}, {row}) is {matrix[column, row]:.6g}."
        )
    reject_isolated(matrix.sum(axis=1))
    return sparse.csr_array((matrix + matrix.T) / (2 * matrix.sum()))


def reject_isolated(degrees: np.ndarray) -> None:
    """Every node needs an edge, if only to itself: the normalized adjacency divides by the degrees."""
    isolated = np.flatnonzero(degrees <= 0)
    if len(isolated):
        some = ", ".join(map(str, isolated[:5])) + (", ..." if len(isolated) > 5 else "")
        raise ValueError(
            f"{len(isolated)} isolated nodes ({some}): no sample has them as an augmentation, so they have no edge, "
            f"not even to themselves, and no place in the spectrum. Leave them out."
        )


def label_indices(labels: Array, n: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, and for each of n things the index of its own."""
    vector = _array(labels)
    if vector.shape != (n,) or vector.dtype.kind not in "biu":
        raise ValueError(
            f"Expected one integer label for each of the {n} {what}; got {vector.dtype} of shape {vector.shape}."
        )
    return np.unique(vector, return_inverse=True)


def indicators(indices: np.ndarray) -> sparse.csr_array:
    """One row per thing, one column per label, a one where they meet."""
    n = len(indices)
    return sparse.csr_array((np.ones(n), (np.arange(n), indices)))


def _array(given: Array) -> np.ndarray:
    return given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)


def _matrix(given: Array, what: str) -> sparse.csr_array:
    matrix = sparse.csr_array(given if sparse.issparse(given) else _array(given), dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"Expected the {what} to be a matrix with rows and columns; got shape {matrix.shape}.")
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"The {what} has entries that are not finite.")
    return matrix


def _reject_negative(matrix: sparse.csr_array, what: str, reason: str) -> None:
    if matrix.nnz and matrix.data.min() < 0:
        row, column = (int(i[matrix.tocoo().data.argmin()]) for i in matrix.tocoo().coords)
        raise ValueError(
            f"Expected a non-negative {what} ({reason}); entry ({row}, {column}) is {matrix[row, column]:.6g}."
        )
