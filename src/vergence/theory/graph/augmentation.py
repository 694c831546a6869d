"""AugmentationGraph: nodes are augmentations, edges say how likely two of them come from one sample."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from vergence.theory.graph.checks import (
    Array,
    adjacency_matrix,
    indicators,
    kernel_matrix,
    label_indices,
    prior_vector,
    reject_isolated,
)
from vergence.theory.graph.eigen import (
    DENSE,
    Eigenpairs,
    leading_eigenpairs,
    leading_gram_eigenpairs,
    smallest_eigenvalue,
)
from vergence.theory.graph.smoothing import smoothed_kernel
from vergence.types import Labels, Vector

# An eigenvalue this close to zero is rounding: float64 solvers return the zeros of a unit matrix to about 1e-15.
ZERO = 1e-10


@dataclass(frozen=True, eq=False)
class AugmentationGraph:
    r"""The graph with weights :math:`w_{xx'} = \mathbb{E}_{\bar x}[A(x|\bar x)A(x'|\bar x)]`, which sum to one.

    ``factor`` is the matrix :math:`R` with :math:`W = R^\top R`, row :math:`\bar x` being
    :math:`\sqrt{p(\bar x)}\,A(\cdot|\bar x)`; it is None for a graph given by its adjacency. Matrices are scipy's
    sparse arrays, vectors are float64 tensors. Build one with ``from_kernel``, ``from_views`` or ``from_adjacency``.

    References:
        HaoChen et al. (2021), Sec. 3.1. https://arxiv.org/abs/2106.04156
    """

    factor: sparse.csr_array | None
    weights: sparse.csr_array | None = None
    note: str = ""
    _solved: list[Eigenpairs] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_kernel(cls, kernel: Array, *, prior: Array | None = None, note: str = "") -> "AugmentationGraph":
        """The exact graph of a finite set: rows are natural samples, columns augmentations, entries A(x | sample)."""
        matrix = kernel_matrix(kernel)
        roots = np.sqrt(prior_vector(prior, matrix.shape[0]))
        graph = cls(sparse.csr_array(matrix * roots[:, None]), note=note)
        reject_isolated(graph.degrees.numpy())
        return graph

    @classmethod
    def from_adjacency(cls, adjacency: Array, *, note: str = "") -> "AugmentationGraph":
        """Any symmetric, non-negative graph without isolated nodes; ``positive_semidefinite`` tells whether some
        augmentation could have made it."""
        return cls(None, adjacency_matrix(adjacency), note)

    @classmethod
    def from_views(
        cls,
        views: Float[Tensor, "n m ..."],
        *,
        neighbors: int = 10,
        bandwidth: float | None = None,
        components: int | None = 64,
    ) -> "AugmentationGraph":
        """The sparse graph estimated from m sampled views of n samples: n x m nodes, sample by sample.

        On real data no two samples share a view, so every view is smoothed over its ``neighbors`` (itself first)
        with a Gaussian; ``note`` states the space, the kernel and the bandwidth. The figures depend on that choice.
        """
        kernel, note = smoothed_kernel(views, neighbors=neighbors, bandwidth=bandwidth, components=components)
        return cls.from_kernel(kernel, note=note)

    @property
    def nodes(self) -> int:
        return self._stored.shape[1]

    @property
    def samples(self) -> int | None:
        """How many natural samples the graph knows of; None when it was given by its adjacency."""
        return None if self.factor is None else self.factor.shape[0]

    @cached_property
    def prior(self) -> Vector:
        """The probability of each natural sample."""
        return torch.from_numpy(self._known_factor("the prior").sum(axis=1) ** 2)

    @cached_property
    def kernel(self) -> sparse.csr_array:
        """A(x | sample), rows summing to one."""
        return sparse.csr_array(self._known_factor("the kernel") / np.sqrt(self.prior.numpy())[:, None])

    @cached_property
    def adjacency(self) -> sparse.csr_array:
        """The joint probability of two views of one sample."""
        return self.weights if self.factor is None else sparse.csr_array(self.factor.T @ self.factor)

    @cached_property
    def degrees(self) -> Vector:
        """The marginal probability of each augmentation."""
        return torch.from_numpy(self.times(np.ones(self.nodes)))

    @cached_property
    def normalized(self) -> sparse.csr_array:
        """The normalized adjacency, the adjacency divided by the roots of both degrees."""
        return sparse.csr_array(self.adjacency * self._inverse_roots[:, None] * self._inverse_roots[None, :])

    @cached_property
    def laplacian(self) -> sparse.csr_array:
        """The identity minus the normalized adjacency."""
        return sparse.csr_array(sparse.eye_array(self.nodes) - self.normalized)

    @cached_property
    def positive_semidefinite(self) -> bool:
        """Whether some augmentation could have made this graph: always so for a kernel's."""
        return self.factor is not None or smallest_eigenvalue(self.normalized) > -ZERO

    def times(self, x: np.ndarray | sparse.sparray) -> np.ndarray | sparse.sparray:
        """The adjacency times a vector or a matrix, dense or sparse, without forming the adjacency."""
        return self.weights @ x if self.factor is None else self.factor.T @ (self.factor @ x)

    def eigenvalues(self, k: int) -> Float[Tensor, " k"]:
        """The k largest eigenvalues of the normalized adjacency, from one downwards."""
        return torch.from_numpy(self._eigenpairs(k).values[:k].copy())

    def eigenvectors(self, k: int) -> Float[Tensor, "nodes k"]:
        """Orthonormal eigenvectors of the k largest eigenvalues; equal eigenvalues leave their basis free.

        Those of the eigenvalue one are the connected components, heaviest first.
        """
        pairs = self._eigenpairs(k)
        if pairs.values[k - 1] < ZERO:
            positive = int((pairs.values > ZERO).sum())
            raise ValueError(
                f"Asked for {k} eigenvectors of a graph of rank {positive} (counting positive eigenvalues): beyond the "
                f"rank every direction is as good as another. Use k <= {positive}."
            )
        return torch.from_numpy(pairs.vectors[:, :k].copy())

    def components(self) -> Labels:
        """The connected component of each node, numbered from the heaviest."""
        return torch.from_numpy(self._components)

    def conductance(self, partition: Array) -> Float[Tensor, " parts"]:
        r"""For each part, the share of its weight that leaves it: :math:`\phi(S) = w(S, \bar S) / w(S)`, in [0, 1].

        The paper gives a single node conductance one; with the self-loop it has, it is :math:`1 - w_{xx}/w_x`.

        References:
            HaoChen et al. (2021), Def. 3.3.
        """
        parts, inside = self._inside(partition)
        return 1 - torch.bincount(parts, inside) / torch.bincount(parts, self.degrees)

    def disagreement(self, labels: Array) -> float:
        """The probability that the two ends of an edge have different labels (of nodes); at most twice alpha."""
        return max(0.0, 1 - self._inside(labels)[1].sum().item())

    def crossing(self, labels: Array) -> Float[Tensor, " nodes"]:
        """For each node, the share of its edges that lead to another label: the nodes that bridge classes have most."""
        return 1 - self._inside(labels)[1] / self.degrees

    def label_probabilities(self, labels: Array) -> Float[Tensor, "nodes c"]:
        """The joint probability of an augmentation and of its sample's label, from labels of the samples."""
        factor = self._known_factor("the error of telling a sample's label")
        _, indices = label_indices(labels, factor.shape[0], "natural samples")
        weighted = indicators(indices) * np.sqrt(self.prior.numpy())[:, None]
        return torch.from_numpy((factor.T @ weighted).toarray())

    def bridging(self, labels: Array) -> Float[Tensor, " samples"]:
        """For each sample, the probability that an augmentation of it comes from a sample of another label."""
        posterior = self.label_probabilities(labels) / self.degrees[:, None]
        agreement = torch.from_numpy(self.kernel @ posterior.numpy())
        own = torch.from_numpy(label_indices(labels, self.kernel.shape[0], "natural samples")[1])
        return 1 - agreement.gather(1, own[:, None]).squeeze(1)

    def label_error(self, labels: Array) -> float:
        r"""The paper's :math:`\alpha`: the least error of a function that tells a sample's label from an augmentation.

        References:
            HaoChen et al. (2021), Assumption 3.5.
        """
        return max(0.0, 1 - self.label_probabilities(labels).amax(dim=1).sum().item())

    def node_labels(self, labels: Array) -> Labels:
        """The label of each augmentation under the best function of ``label_error``, from labels of the samples."""
        values, _ = label_indices(labels, self._known_factor("the label of a sample").shape[0], "natural samples")
        return torch.from_numpy(values)[self.label_probabilities(labels).argmax(dim=1)]

    def cluster(self, k: int, *, seed: int = 0) -> Labels:
        """Spectral clustering: k-means of the rows of the top k eigenvectors, brought to unit length.

        References:
            Ng, Jordan & Weiss (2001), On spectral clustering.
        """
        from sklearn.cluster import KMeans

        rows = torch.nn.functional.normalize(self.eigenvectors(k)).numpy()
        found = KMeans(k, n_init=10, random_state=seed).fit_predict(rows)
        return torch.from_numpy(found.astype(np.int64))

    def sparsest_partition(self, m: int, *, seed: int = 0) -> tuple[float, float]:
        r"""A lower and an upper bound on :math:`\rho_m`, the least that the worst of m parts can leak.

        Below, half the m-th eigenvalue of the Laplacian, since the parts' indicators span m directions of Rayleigh
        quotient at most :math:`2\max\phi`; above, what spectral clustering found.

        References:
            Lee, Oveis Gharan & Trevisan (2014), Multiway spectral partitioning, Thm 1.1 (the easy side).
        """
        lower = max(0.0, (1 - self.eigenvalues(m)[-1].item()) / 2)
        if self.rank_within(m) < m:
            return lower, 1.0
        found = self.conductance(self.cluster(m, seed=seed))
        return lower, found.max().item() if len(found) == m else 1.0

    def rank_within(self, k: int) -> int:
        """How many of the k largest eigenvalues are positive."""
        return int((self.eigenvalues(k) > ZERO).sum())

    @property
    def _stored(self) -> sparse.csr_array:
        stored = self.weights if self.factor is None else self.factor
        assert stored is not None
        return stored

    def _known_factor(self, what: str) -> sparse.csr_array:
        if self.factor is None:
            raise ValueError(f"A graph given by its adjacency does not know its samples, so {what} is not defined.")
        return self.factor

    @cached_property
    def _inverse_roots(self) -> np.ndarray:
        return self.degrees.numpy() ** -0.5

    @cached_property
    def _components(self) -> np.ndarray:
        links = self.weights
        if self.factor is not None:  # samples and augmentations as one bipartite graph, far sparser than the adjacency
            links = sparse.block_array([[None, self.factor], [self.factor.T, None]], format="csr")
        found = csgraph.connected_components(links, directed=False)[1][-self.nodes :]
        mass = np.bincount(found, weights=self.degrees.numpy())
        return np.argsort(np.argsort(-mass, kind="stable"), kind="stable")[found]

    def _inside(self, labels: Array) -> tuple[Tensor, Tensor]:
        """The index of each node's label, and the weight of the node's edges to nodes of the same label."""
        _, indices = label_indices(labels, self.nodes, "nodes")
        ends = indicators(indices)
        return torch.from_numpy(indices), torch.from_numpy((ends * self.times(ends)).sum(axis=1))

    def _eigenpairs(self, k: int) -> Eigenpairs:
        if not 1 <= k <= self.nodes:
            raise ValueError(f"Expected 1 <= k <= {self.nodes}, the number of nodes; got k = {k}.")
        if not self._solved or len(self._solved[-1].values) < k:
            self._solved.append(self._solve(self.nodes if self.nodes <= DENSE else k))
        return self._solved[-1]

    def _solve(self, k: int) -> Eigenpairs:
        members = indicators(self._components) * self.degrees.sqrt().numpy()[:, None]
        components = sparse.csr_array(members / sparse.linalg.norm(members, axis=0)[None, :])
        if self.factor is None:
            return leading_eigenpairs(self.normalized, components, k)
        root = sparse.csr_array(self.factor * self._inverse_roots[None, :])
        return leading_gram_eigenpairs(root, components, k)
