"""Maps of the plane: rows of PROJECTIONS, of which the one that keeps most neighbors is shown.

``neighbor_map`` is PaCMAP, written here with numpy alone, as t-SNE is for few rows; UMAP and openTSNE are tried too
where they are installed.
"""

import importlib.util
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from vergence.report.embedding import Points, Projection, nearest, preserved_neighbors, principal_plane
from vergence.report.tsne import FROM_A_MAP, FROM_NOTHING, tsne_map
from vergence.tables import Table

Rows = Float[np.ndarray, "n d"]
Told = Callable[[int, int], None]  # steps done, steps in all

LANDMARKS = 20_000  # rows that are laid out; the rest of a larger set is put among its nearest landmarks
REDUCED = 50  # principal components in which neighbors are looked for, as the authors of PaCMAP do
NEIGHBORS, MIDDLE, FURTHER = 10, 5, 20  # pairs of each row (Wang et al. 2021, Sec. 4: n_NB = 10, 0.5 and 2 times that)
CANDIDATES = 40  # nearest rows among which scaled distances choose the neighbors
PHASES = ((100, 1000.0, 3.0, 2.0), (100, 3.0, 3.0, 3.0), (250, 0.0, 0.0, 1.0))  # steps, middle from, to, neighbors
STEPS = sum(phase[0] for phase in PHASES)


def neighbor_map(h: Rows, told: Told | None = None) -> Points:
    r"""PaCMAP: near pairs attract, pairs at a middle distance hold the whole together at first, random pairs repel.

    With :math:`d = \|y_i - y_j\|^2 + 1` it minimizes the sum of :math:`w d / (10 + d)` over neighbors,
    :math:`w d / (10^4 + d)` over middle pairs and :math:`1 / (1 + d)` over further ones, by Adam from the principal
    plane, with weights that change in three phases. Distances between far groups mean little.

    References:
        Wang, Huang, Rudin & Shaposhnik (2021), JMLR 22 (201). https://arxiv.org/abs/2012.04456
    """
    x = _components(h)
    generator = np.random.default_rng(0)
    pairs = np.concatenate(
        [_near_pairs(x), _middle_pairs(x, generator), generator.integers(0, len(x), (len(x), FURTHER))], axis=1
    )
    return _laid_out(x[:, :2], pairs, told)


def landmarks(n: int) -> Int[np.ndarray, " m"]:
    """The rows that are laid out: all, or a fair draw of them."""
    return np.arange(n) if n <= LANDMARKS else np.sort(np.random.default_rng(0).permutation(n)[:LANDMARKS])


def umap(h: Rows, told: Told | None = None) -> Points:
    """UMAP of umap-learn, with its defaults. McInnes, Healy & Melville (2018). https://arxiv.org/abs/1802.03426"""
    from umap import UMAP

    return np.asarray(UMAP(random_state=0).fit_transform(_components(h)), dtype=np.float32)


def tsne(h: Rows, told: Told | None = None, *, start: Points | None = None) -> Points:
    """t-SNE: openTSNE where it is installed, else our own of all pairs, which is for small sets only.

    From a map that holds groups together already, early exaggeration has nothing left to do: 80 steps keep as many
    neighbors as scikit-learn's 250 (digits .60, a run on CIFAR-10 .48), and so do two thirds of the near points.

    References:
        van der Maaten & Hinton (2008), JMLR 9; Policar, Strazar & Zupan (2024), J. Stat. Softw. 109 (3).
    """
    x = _components(h)
    if importlib.util.find_spec("openTSNE") is not None:
        from openTSNE import TSNE

        return np.asarray(TSNE(random_state=0).fit(x), dtype=np.float32)
    begun = x[:, :2] if start is None else start
    begun = 1e-4 / max(float(begun[:, 0].std()), 1e-12) * begun
    if start is None:
        return tsne_map(x, begun, perplexity=30.0, phases=FROM_NOTHING)
    return tsne_map(x, begun, perplexity=20.0, phases=FROM_A_MAP)


PROJECTIONS = Table("projection", {"PaCMAP": neighbor_map, "UMAP": umap, "t-SNE": tsne})
SLOW = 2000  # rows up to which t-SNE of all pairs takes a second or two
LEAST_ROWS = 60  # below, a neighbor is a sixth of everything and the principal plane says all


def best_projection(h: Rows, *, told: Told | None = None) -> Projection:
    """The map that keeps the largest measured share of each row's nearest neighbors; PCA is always among them."""
    plain = principal_plane(h)
    if len(h) < LEAST_ROWS or h.shape[1] < 3 or not np.ptp(h, axis=0).any():
        return plain
    chosen = landmarks(len(h))
    tried = {plain.name: plain}
    for name, row in PROJECTIONS.items():
        if not _possible(name, len(chosen)):
            continue
        begun = {"start": tried["PaCMAP"].points[chosen]} if name == "t-SNE" and "PaCMAP" in tried else {}
        points = _completed(h, chosen, row(h[chosen], told, **begun))
        preserved = preserved_neighbors(h - h.mean(axis=0), points, neighbors=plain.neighbors)
        tried[name] = Projection(points, plain.explained, preserved, plain.chance, plain.neighbors, name)
    measured = tuple((name, each.preserved) for name, each in tried.items())
    best = max(tried.values(), key=lambda each: each.preserved)
    return Projection(**{**vars(best), "tried": measured})


def _possible(name: str, n: int) -> bool:
    """Whether a map can be made in seconds: its package is there, or the rows are few."""
    if name == "UMAP":
        return importlib.util.find_spec("umap") is not None
    return name != "t-SNE" or n <= SLOW or importlib.util.find_spec("openTSNE") is not None


def _components(h: Rows) -> np.ndarray:
    """Centered rows in their leading principal components."""
    centered = (h - h.mean(axis=0)).astype(np.float32)
    _, directions = np.linalg.eigh((centered.T @ centered).astype(np.float64))
    leading = directions[:, ::-1][:, :REDUCED]
    signs = np.where(leading.sum(axis=0) < 0, -1.0, 1.0)  # as in principal_plane: the same rows, the same map
    return np.ascontiguousarray(centered @ (leading * signs).astype(np.float32))


def _near_pairs(x: np.ndarray) -> Int[np.ndarray, "n k"]:
    """The nearest by distances divided by the scale around both rows: the mean distance to the 4th to 6th neighbor."""
    found = nearest(x, np.arange(len(x)), min(CANDIDATES, len(x) - 1))
    squares = np.stack([np.square(x - x[found[:, place]]).sum(axis=1) for place in range(found.shape[1])], axis=1)
    scale = np.maximum(np.sqrt(squares[:, 3:6]).mean(axis=1), 1e-10)
    order = np.argsort(squares / scale[:, None] / scale[found], axis=1, kind="stable")[:, :NEIGHBORS]
    return np.take_along_axis(found, order, axis=1)


def _middle_pairs(x: np.ndarray, generator: np.random.Generator) -> Int[np.ndarray, "n k"]:
    """Of six random rows the second nearest, a few times."""
    columns = []
    for _ in range(MIDDLE):
        some = generator.integers(0, len(x), (len(x), 6))
        squares = np.stack([np.square(x - x[some[:, place]]).sum(axis=1) for place in range(6)], axis=1)
        columns.append(some[np.arange(len(x)), np.argpartition(squares, 1, axis=1)[:, 1]])
    return np.stack(columns, axis=1)


def _laid_out(start: np.ndarray, pairs: Int[np.ndarray, "n k"], told: Told | None) -> Points:
    y = (0.01 * start).astype(np.float32)
    first = second = np.zeros(y.shape)  # Adam's moments
    counts = (pairs.shape[1] - MIDDLE - FURTHER, MIDDLE, FURTHER)
    reach = np.repeat([10.0, 10_000.0, 1.0], counts).astype(np.float32)
    step = 0
    for steps, high, low, near in PHASES:
        for number in range(steps):
            middle = high + (low - high) * number / steps
            weight = np.repeat([near, middle, -1.0], counts).astype(np.float32) * 2 * reach
            gradient = _gradient(y, pairs, weight, reach)
            step += 1
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * np.square(gradient)
            rate = np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            y = (y - rate * first / (np.sqrt(second) + 1e-7)).astype(np.float32)
            if told is not None and (step % 10 == 0 or step == STEPS):
                told(step, STEPS)
    return y


def _gradient(y: Points, pairs: Int[np.ndarray, "n k"], weight: np.ndarray, reach: np.ndarray) -> Points:
    # Coordinates apart from each other: sums over an axis of two are slow.
    apart = [column[:, None] - column[pairs] for column in np.ascontiguousarray(y.T)]
    distance = np.square(apart[0]) + np.square(apart[1]) + 1
    scale = weight / np.square(reach + distance)
    flat, made = pairs.ravel(), np.empty_like(y)
    for axis, each in enumerate(apart):
        force = scale * each
        made[:, axis] = force.sum(axis=1) - np.bincount(flat, force.ravel(), minlength=len(y))
    return made


def _completed(h: Rows, chosen: Int[np.ndarray, " m"], points: Float[np.ndarray, "m 2"]) -> Points:
    """Places of all rows: a row that was not laid out stands in the middle of its three nearest landmarks."""
    if len(chosen) == len(h):
        return points
    every = np.empty((len(h), 2), dtype=np.float32)
    every[chosen] = points
    rest = np.setdiff1d(np.arange(len(h)), chosen)
    for block in np.array_split(rest, -(-len(rest) // 1000)):
        every[block] = points[near_bank(h[block], h[chosen], 3)].mean(axis=1)
    return every


def near_bank(rows: Rows, bank: Float[np.ndarray, "m d"], count: int) -> Int[np.ndarray, "n k"]:
    """The ``count`` rows of ``bank`` nearest to each row, in no order."""
    distances = np.einsum("nd,nd->n", bank, bank) - 2 * (rows @ bank.T)
    return np.argpartition(distances, count - 1, axis=1)[:, :count]
