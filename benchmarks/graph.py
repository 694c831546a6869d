"""Eigensolvers on an augmentation graph of 60,000 nodes, top 64 eigenvectors: CPU time, residual, peak memory.

    python benchmarks/graph.py [--data mnist] [--samples 30000] [--k 64] [--rounds 3] [--limit 120]

Every solver runs in a process of its own, the solvers in turn; medians over rounds. One that passes the limit of CPU
seconds is stopped. ``pyamg`` and ``primme`` join in when they are installed.
"""

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh, lobpcg, svds
from sklearn.utils.extmath import randomized_svd

from vergence.data import load
from vergence.theory import AugmentationGraph
from vergence.views import sample_keys, simclr


def ours(graph: AugmentationGraph, k: int):
    return graph.eigenvalues(k).numpy(), graph.eigenvectors(k).numpy()


def eigsh_formed(graph: AugmentationGraph, k: int):
    return eigsh(graph.normalized, k=k, which="LA", v0=start(graph.nodes))


def eigsh_product(graph: AugmentationGraph, k: int):
    half = aslinearoperator(root(graph))
    return eigsh(half.T @ half, k=k, which="LA", v0=start(graph.nodes))


def svds_arpack(graph: AugmentationGraph, k: int):
    _, lengths, right = svds(root(graph), k=k, rng=np.random.default_rng(0))
    return lengths**2, right.T


def svds_propack(graph: AugmentationGraph, k: int):
    _, lengths, right = svds(root(graph), k=k, solver="propack", rng=np.random.default_rng(0))
    return lengths**2, right.T


def lobpcg_plain(graph: AugmentationGraph, k: int):
    return block_search(graph, k, None)


def lobpcg_multigrid(graph: AugmentationGraph, k: int):
    import pyamg

    shifted = sparse.csr_matrix(graph.laplacian + 1e-2 * sparse.eye_array(graph.nodes))
    return block_search(graph, k, pyamg.smoothed_aggregation_solver(shifted).aspreconditioner())


def by_randomized_svd(graph: AugmentationGraph, k: int):
    _, lengths, right = randomized_svd(root(graph), k, n_iter=20, random_state=0)
    return lengths**2, right.T


def torch_lobpcg(graph: AugmentationGraph, k: int):
    entries = graph.normalized.tocoo()
    indices = torch.from_numpy(np.stack(entries.coords)).long()
    matrix = torch.sparse_coo_tensor(indices, torch.from_numpy(entries.data), entries.shape, check_invariants=True)
    torch.manual_seed(0)
    values, vectors = torch.lobpcg(matrix.coalesce(), k=k, niter=200, tol=1e-8)
    return values.numpy(), vectors.numpy()


def primme_davidson(graph: AugmentationGraph, k: int):
    import primme

    half = root(graph)
    small = aslinearoperator(half) @ aslinearoperator(half.T)
    values, left = primme.eigsh(small, k, which="LA", tol=1e-10)
    return values, (half.T @ left) / np.sqrt(values)


SOLVERS = {
    "ours (eigsh, smaller side)": ours,
    "eigsh, adjacency formed": eigsh_formed,
    "eigsh, product": eigsh_product,
    "svds, ARPACK": svds_arpack,
    "svds, PROPACK": svds_propack,
    "scipy lobpcg": lobpcg_plain,
    "scipy lobpcg + pyamg": lobpcg_multigrid,
    "sklearn randomized_svd": by_randomized_svd,
    "torch.lobpcg": torch_lobpcg,
    "PRIMME": primme_davidson,
}
NEEDS = {"scipy lobpcg + pyamg": "pyamg", "PRIMME": "primme"}


def root(graph: AugmentationGraph) -> sparse.csr_array:
    return sparse.csr_array(graph.factor / graph.degrees.sqrt().numpy()[None, :])


def start(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(n)


def block_search(graph: AugmentationGraph, k: int, preconditioner: LinearOperator | None):
    block = np.random.default_rng(0).standard_normal((graph.nodes, k))
    return lobpcg(graph.normalized, block, M=preconditioner, largest=True, tol=1e-8, maxiter=200)


def measured(name: str, factor: str, k: int) -> dict[str, float]:
    """One solver in this process: seconds, the worst residual, and the memory that the search added."""
    torch.set_num_threads(1)
    graph = AugmentationGraph(sparse.csr_array(sparse.load_npz(factor)))
    graph.degrees  # noqa: B018  not part of the search
    before, began = peak(), time.process_time()
    values, vectors = SOLVERS[name](graph, k)
    seconds, after = time.process_time() - began, peak()
    half = root(graph)
    residual = np.linalg.norm(half.T @ (half @ vectors) - vectors * values, axis=0).max()
    return {"seconds": seconds, "residual": float(residual), "mebibytes": after - before, "sum": float(values.sum())}


def peak() -> float:
    """The most memory this process held, in MiB; getrusage would count the parent's as well."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def build(source: str, samples: int) -> AugmentationGraph:
    """Two cropped views of each image: 2 x samples nodes."""
    images = load(source, limit=None).x
    count = min(samples, len(images))
    recipe = simclr(size=images[:1].shape[-1], color=False, gray=False, flip=False, blur=False)
    batches = torch.arange(count).split(1000)
    views = torch.cat([torch.stack(recipe(images[batch], sample_keys(0, 0, batch)), dim=1) for batch in batches])
    return AugmentationGraph.from_views(views)


def main() -> None:
    options = arguments()
    if options.solver:
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit))
        print(json.dumps(measured(options.solver, options.factor, options.k)))
        return
    torch.set_num_threads(1)
    began = time.process_time()
    graph = build(options.data, options.samples)
    print(f"{graph.nodes} nodes, {graph.factor.nnz} kernel entries: {graph.note}")
    print(f"views, neighbors and kernel: {time.process_time() - began:.1f} CPU s, peak {peak():.0f} MiB\n")
    with tempfile.TemporaryDirectory() as folder:
        factor = str(Path(folder) / "factor.npz")
        sparse.save_npz(factor, graph.factor)
        contest(factor, options)


def contest(factor: str, options: argparse.Namespace) -> None:
    names = [name for name in SOLVERS if name not in NEEDS or importlib.util.find_spec(NEEDS[name])]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            results[name] += alone(name, factor, options)
    best = statistics.median(run["seconds"] for run in results[names[0]])
    print(f"{'solver':28}{'CPU s':>8}{'ratio':>8}{'residual':>11}{'MiB added':>11}{'sum of eigenvalues':>20}")
    for name, runs in results.items():
        if len(runs) < options.rounds:
            print(f"{name:28}  stopped after {options.limit} CPU s")
            continue
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        print(
            f"{name:28}{middle['seconds']:8.1f}{middle['seconds'] / best:8.2f}{middle['residual']:11.1e}"
            f"{middle['mebibytes']:11.0f}{middle['sum']:20.6f}"
        )


def alone(name: str, factor: str, options: argparse.Namespace) -> list[dict[str, float]]:
    """What one solver measured in a process of its own; nothing when it was stopped."""
    settings = ["--factor", factor, "--k", str(options.k), "--limit", str(options.limit)]
    done = subprocess.run([sys.executable, __file__, "--solver", name, *settings], capture_output=True, text=True)
    if done.returncode > 0:
        raise RuntimeError(f"{name} failed:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()[-1:]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist", help="an image source of vergence.data")
    parser.add_argument("--samples", type=int, default=30_000)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds that a solver may take")
    parser.add_argument("--solver", help=argparse.SUPPRESS)
    parser.add_argument("--factor", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
