"""Augmented distance against chunked cdist, maximum clique against other solvers: process CPU time of one thread.

    python benchmarks/concentration.py            # synthetic graphs
    VERGENCE_DATA=... python benchmarks/concentration.py --cifar

Each solver runs in a process of its own, which ends when it has used its seconds. Those that are not installed are
skipped: pip install networkx igraph cliquematch networkit.
"""

import argparse
import importlib.util
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

import torch
from torch import Tensor

from vergence.theory import augmented_distance, maximum_clique

LIMIT = 10  # seconds that a solver is given
GRACE = 5  # seconds beyond the limit for solvers that stop themselves and give the best clique so far


def seconds(function: Callable[[], object]) -> tuple[float, object]:
    start = time.process_time()
    answer = function()
    return time.process_time() - start, answer


def chunked(views: Tensor, rows: int = 50) -> Tensor:
    """The obvious way: cdist of a few samples' views with all the others', then the least."""
    n, m = views.shape[:2]
    flat = views.flatten(2)
    parts = [torch.cdist(block.flatten(0, 1), flat.flatten(0, 1)) for block in flat.split(rows)]
    return torch.cat([part.view(-1, m, n, m).amin((1, 3)) for part in parts]).fill_diagonal_(0)


def distances(n: int, m: int, rounds: int) -> None:
    """Images of smooth random fields: like photographs, few directions hold most of the variance."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(n * m, 3, 8, 8, generator=generator)
    views = torch.nn.functional.interpolate(coarse, size=32, mode="bilinear").view(n, m, 3, 32, 32)
    limit = augmented_distance(views[:50]).quantile(0.05).item()
    contenders = {
        "chunked cdist": lambda: chunked(views),
        "augmented_distance": lambda: augmented_distance(views),
        "with a limit (5 % near)": lambda: augmented_distance(views, limit=limit),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, function in contenders.items():
            times[name].append(seconds(function)[0])
    reference = statistics.median(times["chunked cdist"])
    for name, measured in times.items():
        median = statistics.median(measured)
        print(f"d_A n={n} m={m} D=3072  {name:<24} {median:8.2f} s  {reference / median:5.2f}x")


def solvers() -> dict[str, Callable[[Tensor], int]]:
    """Each gives the size of the clique it found."""
    found: dict[str, Callable[[Tensor], int]] = {
        "vergence": lambda graph: len(maximum_clique(graph, seconds=LIMIT).members)
    }
    if importlib.util.find_spec("cliquematch"):
        import cliquematch

        found["cliquematch"] = lambda graph: len(
            cliquematch.Graph.from_matrix(graph.numpy()).get_max_clique(time_limit=LIMIT)
        )
    if importlib.util.find_spec("networkx"):
        import networkx

        found["networkx"] = lambda graph: len(
            networkx.max_weight_clique(networkx.from_numpy_array(graph.numpy()), weight=None)[0]
        )
    if importlib.util.find_spec("igraph"):
        import igraph

        found["igraph"] = lambda graph: igraph.Graph.Adjacency(graph.numpy(), mode="undirected").clique_number()
    if importlib.util.find_spec("networkit"):
        import networkit

        networkit.setNumberOfThreads(1)
        found["networkit"] = lambda graph: len(_networkit(networkit, graph))
    return found


def _networkit(networkit: object, graph: Tensor) -> list[int]:
    built = networkit.Graph(len(graph))  # type: ignore[attr-defined]
    for i, j in graph.triu(1).nonzero().tolist():
        built.addEdge(i, j)
    search = networkit.clique.MaximalCliques(built, maximumOnly=True)  # type: ignore[attr-defined]
    search.run()
    return search.getCliques()[0]


def threshold_graph(distance: Tensor, density: float) -> Tensor:
    away = ~torch.eye(len(distance), dtype=torch.bool)
    return (distance <= distance[away].quantile(density)) & away


def graphs(cifar: bool) -> dict[str, Tensor]:
    """Threshold graphs, from easy to hard, and a random graph, which has no geometry to help."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(1000, 8, generator=generator)
    found = {
        f"geometric n={n} density={density}": threshold_graph(torch.cdist(points[:n], points[:n]), density)
        for n, density in ((100, 0.3), (100, 0.7), (300, 0.3), (1000, 0.3), (1000, 0.7))
    }
    noise = torch.rand(500, 500, generator=generator).triu(1)
    found["random n=500 density=0.3"] = threshold_graph(noise + noise.T, 0.3)
    if cifar:
        aeroplanes = _cifar()
        found |= {f"cifar10 n=500 density={p}": threshold_graph(aeroplanes, p) for p in (0.1, 0.3, 0.5, 0.8)}
    return found


def _cifar() -> Tensor:
    """Augmented distances of 500 aeroplanes under crop and color distortion, six views each."""
    from vergence.data import load
    from vergence.views import from_letters, sample_keys

    samples, recipe = load("cifar10", limit=5000), from_letters("ad")
    x = samples.x[samples.labels == 0]
    keys = sample_keys(0, 0, torch.arange(len(x)))
    views = [recipe.plain(x), *[recipe.view(x, keys, number=number) for number in range(5)]]
    return augmented_distance(torch.stack(views, 1))


def cliques(cifar: bool) -> None:
    contenders = solvers()
    for name, graph in graphs(cifar).items():
        for solver, function in contenders.items():
            found = alone(partial(function, graph))
            words = f"{found[0]:8.3f} s  size {found[1]:>4}" if found else f"stopped after {LIMIT + GRACE} s"
            print(f"clique {name:<32} {solver:<12} {words}", flush=True)


def alone(function: Callable[[], object]) -> tuple[float, object] | None:
    """Seconds and answer of a function in a process of its own; nothing if it had to be stopped."""
    context = multiprocessing.get_context("fork")
    answers, sender = context.Pipe(duplex=False)
    process = context.Process(target=_limited, args=(function, sender))
    process.start()
    process.join()
    return answers.recv() if process.exitcode == 0 else None


def _limited(function: Callable[[], object], sender: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT + GRACE, LIMIT + GRACE))
    sender.send(seconds(function))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", action="store_true", help="also graphs of CIFAR-10")
    parser.add_argument("--n", type=int, default=300, help="samples in the comparison of distances")
    parser.add_argument("--views", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    distances(arguments.n, arguments.views, arguments.rounds)
    cliques(arguments.cifar)
