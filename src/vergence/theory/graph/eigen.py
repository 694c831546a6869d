"""The leading eigenpairs of a normalized adjacency, its eigenvalue one given in closed form by the components."""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

# Up to this many rows LAPACK takes under a second and, unlike Lanczos, cannot miss a copy of a repeated eigenvalue.
DENSE = 1500
# ARPACK's relative accuracy of an eigenvalue: an eighth less time than full precision, residuals still near 1e-10.
TOLERANCE = 1e-9
# The Lanczos start: any vector with no special direction; fixed, so that two runs agree.
SEED = 0


class Eigenpairs(NamedTuple):
    """Eigenvalues in decreasing order, and their eigenvectors as columns, each with its largest entry positive."""

    values: np.ndarray
    vectors: np.ndarray


def leading_eigenpairs(matrix: sparse.csr_array, components: sparse.csr_array, k: int) -> Eigenpairs:
    """The k largest eigenpairs of a symmetric matrix with eigenvalues in [-1, 1].

    ``components`` holds orthonormal eigenvectors of the eigenvalue one, all of them. They are moved to -1 before the
    search: a disconnected graph repeats its top eigenvalue, and Krylov methods may miss repeated ones.
    """
    found = _search(_deflated(aslinearoperator(matrix), components), k - components.shape[1])
    return _joined(components, found, k)


def leading_gram_eigenpairs(root: sparse.csr_array, components: sparse.csr_array, k: int) -> Eigenpairs:
    """The k largest eigenpairs of ``root.T @ root``, found on the smaller side of ``root``; zero beyond its rank."""
    wide = root.shape[0] < root.shape[1]
    side = aslinearoperator(root.T if wide else root)
    known = sparse.csr_array(root @ components) if wide else components
    found = _search(_deflated(side.T @ side, known), min(k, *root.shape) - components.shape[1])
    values = np.clip(found.values, 0, 1)
    vectors = _other_side(root, values, found.vectors) if wide else found.vectors
    return _joined(components, Eigenpairs(values, vectors), k)


def smallest_eigenvalue(matrix: sparse.csr_array) -> float:
    """The smallest eigenvalue of a symmetric matrix."""
    return -_search(-aslinearoperator(matrix), 1).values.item()


def _search(operator: LinearOperator, k: int) -> Eigenpairs:
    size = operator.shape[0]
    if k <= 0:
        return Eigenpairs(np.zeros(0), np.zeros((size, 0)))
    if size <= DENSE:
        dense = operator @ np.eye(size)
        values, vectors = scipy.linalg.eigh((dense + dense.T) / 2, subset_by_index=[size - k, size - 1])
    else:
        start = np.random.default_rng(SEED).standard_normal(size)
        values, vectors = eigsh(operator, k=k, which="LA", v0=start, tol=TOLERANCE)
    order = np.argsort(-values, kind="stable")
    return Eigenpairs(values[order], vectors[:, order])


def _deflated(operator: LinearOperator, known: sparse.csr_array) -> LinearOperator:
    """The operator with the known eigenvectors' eigenvalue moved from 1 to -1."""

    def product(x: np.ndarray) -> np.ndarray:
        return operator @ x - 2 * (known @ (known.T @ x))

    return LinearOperator(operator.shape, matvec=product, matmat=product, dtype=np.float64)


def _other_side(root: sparse.csr_array, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Right singular vectors from left ones; zero where the singular value is."""
    lengths = np.sqrt(values)
    return (root.T @ vectors) * np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _joined(components: sparse.csr_array, found: Eigenpairs, k: int) -> Eigenpairs:
    """The components' pairs, then those found, then zeros."""
    known = components[:, :k].toarray()
    missing = k - known.shape[1] - len(found.values)
    values = np.concatenate([np.ones(known.shape[1]), found.values, np.zeros(missing)])
    return Eigenpairs(values, np.hstack([known, _signed(found.vectors), np.zeros((len(known), missing))]))


def _signed(vectors: np.ndarray) -> np.ndarray:
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0, keepdims=True), axis=0)
    return vectors * np.where(largest < 0, -1, 1)
