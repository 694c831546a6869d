"""The largest set of samples that are all near each other: maximum clique, exact when time allows, bounded always."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor


@dataclass(frozen=True)
class Clique:
    """A clique, and a size that no clique exceeds; ``exact`` when the two agree."""

    members: tuple[int, ...]
    upper: int

    @property
    def exact(self) -> bool:
        return len(self.members) == self.upper


def maximum_clique(adjacency: Bool[Tensor, "n n"], *, seconds: float = 10.0, known: Sequence[int] = ()) -> Clique:
    """The largest clique, by branch and bound. When the time is up: the best one found, with an upper bound.

    ``known`` is a clique to start from, such as the one at a smaller threshold. The diagonal is ignored.

    References:
        San Segundo, Rodríguez-Losada & Jiménez (2011), An exact bit-parallel algorithm for the maximum clique problem.
    """
    n = len(adjacency)
    if n == 0:
        return Clique((), 0)
    order = _degeneracy_order(adjacency)
    search = _Search(_bitsets(adjacency[order][:, order]), time.monotonic() + seconds)
    place = {vertex: position for position, vertex in enumerate(order.tolist())}
    search.offer([place[vertex] for vertex in known])
    search.offer(_greedy(search.neighbors))
    upper = search.run()
    return Clique(tuple(sorted(order[search.best].tolist())), upper)


def cover_clique(adjacency: Bool[Tensor, "n n"]) -> Clique:
    r"""A clique from the 2-approximate vertex cover of the missing edges, for graphs too large to search.

    Both ends of missing edges are removed until none is left. With :math:`\sigma` the true share and
    :math:`\hat\sigma` the share that survives, :math:`1 - \sigma \le 1 - \hat\sigma \le 2 (1 - \sigma)`.

    References:
        Papadimitriou & Steiglitz (1982), Sec. 17.1: the ends of any maximal matching cover at most twice the minimum.
    """
    missing = ~adjacency.cpu().numpy()
    np.fill_diagonal(missing, False)
    alive = np.ones(len(missing), dtype=bool)
    for vertex in range(len(missing)):
        others = np.flatnonzero(missing[vertex] & alive)
        if alive[vertex] and len(others):
            alive[[vertex, others[0]]] = False
    members = np.flatnonzero(alive)
    matched = (len(missing) - len(members)) // 2  # each matched pair loses at least one end in every clique
    return Clique(tuple(members.tolist()), len(missing) - matched)


class _Search:
    """Branch and bound over vertex sets held as the bits of integers, bounded by greedy coloring."""

    def __init__(self, neighbors: list[int], deadline: float):
        self.neighbors = neighbors
        self.strangers = [~row for row in neighbors]
        self.deadline = deadline
        self.best: list[int] = []

    def offer(self, clique: list[int]) -> None:
        if len(clique) > len(self.best):
            self.best = clique

    def run(self) -> int:
        """Search until done or out of time; return a size that no clique exceeds."""
        everything = (1 << len(self.neighbors)) - 1
        nothing: list[int] = []
        stack = [(nothing, self._branches(everything, 0))]  # cliques outgrow Python's own call stack
        unexplored = 0
        while stack:
            clique, branches = stack[-1]
            branch = next(branches, None)
            if branch is None:
                stack.pop()
                continue
            vertex, bound, rest = branch
            unexplored = bound if not clique else unexplored
            if time.monotonic() > self.deadline:
                return max(unexplored, len(self.best))
            larger, candidates = [*clique, vertex], rest & self.neighbors[vertex]
            if candidates:
                stack.append((larger, self._branches(candidates, len(larger))))
            else:
                self.offer(larger)
        return len(self.best)

    def _branches(self, candidates: int, size: int) -> Iterator[tuple[int, int, int]]:
        """Vertices worth adding, highest color first: each with the size it can lead to and the vertices beside it."""
        needed = len(self.best) - size
        for vertex, color in reversed(self._colored(candidates, needed)):
            if size + color <= len(self.best):
                return
            yield vertex, size + color, candidates
            candidates &= ~(1 << vertex)

    def _colored(self, candidates: int, needed: int) -> list[tuple[int, int]]:
        """Vertices with their color in a greedy coloring, in order of color. Colors up to ``needed`` cannot lead to
        a larger clique and are left out."""
        colored = []
        color = 0
        while candidates:
            color += 1
            available = candidates
            while available:
                lowest = available & -available
                vertex = lowest.bit_length() - 1
                candidates ^= lowest
                available &= self.strangers[vertex] & ~lowest
                if color > needed:
                    colored.append((vertex, color))
        return colored


def _bitsets(adjacency: Tensor) -> list[int]:
    edges = adjacency.cpu().numpy().copy()
    np.fill_diagonal(edges, False)
    return [int.from_bytes(row.tobytes(), "little") for row in np.packbits(edges, axis=1, bitorder="little")]


def _degeneracy_order(adjacency: Tensor) -> Tensor:
    """Vertices so that the one of least degree among the remaining comes last: few branches near the root."""
    edges = adjacency.cpu().numpy().copy()
    np.fill_diagonal(edges, False)
    degree = edges.sum(1).astype(np.int64)
    order: list[int] = []
    for _ in edges:
        order.append(int(degree.argmin()))
        degree -= edges[order[-1]]
        degree[order] = len(edges)
    return torch.tensor(order[::-1])


def _greedy(neighbors: list[int]) -> list[int]:
    """The best of the cliques grown from each vertex by always adding the first common neighbor."""
    best: list[int] = []
    for start in range(len(neighbors)):
        clique, common = [start], neighbors[start]
        while common:
            vertex = (common & -common).bit_length() - 1
            clique.append(vertex)
            common &= neighbors[vertex]
        best = max(best, clique, key=len)
    return best
