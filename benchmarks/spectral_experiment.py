"""Do networks trained with a contrastive loss find the top of the augmentation graph's spectrum?

    python benchmarks/spectral_experiment.py [--figures DIR] [--data digits] [--steps 3000] [--seed 0]

The graph of the views is the whole world: positive pairs are its edges, so the population loss of a network and its
minimum are exact. The spectral loss, SimCLR's and Barlow Twins' train the same perceptron on the same pairs; the angles
are between its outputs, with a constant beside them, and the top k eigenvectors.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from vergence.data import load
from vergence.objectives import barlow_twins, nt_xent, spectral
from vergence.report.graph import graph_figures
from vergence.theory.graph import (
    AugmentationGraph,
    optimal_features,
    population_probe,
    spectral_minimum,
    spectral_population_loss,
    subspace_alignment,
    survey_graph,
)
from vergence.views import sample_keys, simclr

BATCH = 512
Record = dict[str, list[float]]


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    options.figures.mkdir(parents=True, exist_ok=True)
    toy(options)
    points, graph, labels, classes = world(options)
    survey = survey_graph(graph, labels, classes=classes)
    print(survey.summary())
    for name, figure in graph_figures(survey).items():
        figure.savefig(options.figures / f"{name}.png", dpi=120)
    records = compare(points, graph, labels, survey.gap_after, options)
    draw_training(records).savefig(options.figures / "training.png", dpi=120)
    errors = sweep(points, graph, labels, options)
    draw_sweep(errors, survey.probe_curve, survey.gap_after).savefig(options.figures / "dimension.png", dpi=120)


def toy(options: argparse.Namespace) -> None:
    """Three classes of two sub-graphs: a small network on noisy codes of the nodes."""
    inside, across, far = (np.full((4, 4), share / 4) for share in (0.84, 0.1, 0.015))
    same, other = np.block([[inside, across], [across, inside]]), np.block([[far, far], [far, far]])
    graph = AugmentationGraph.from_kernel(np.kron(np.eye(3), same) + np.kron(1 - np.eye(3), other))
    codes = torch.randn(graph.nodes, 16, generator=torch.Generator().manual_seed(options.seed))
    network = fresh_network(16, 6, options.seed, hidden=64)
    for _ in trained(network, spectral_loss(graph, 6), codes, graph, options.steps // 3, options.seed):
        pass
    found = subspace_alignment(outputs(network, codes), graph)
    loss, least = spectral_population_loss(outputs(network, codes), graph).item(), spectral_minimum(graph, 6)
    print(f"toy of 24 nodes, k = 6: population loss {loss:.4f}, minimum {least:.4f}; largest principal angle "
          f"{found.largest_angle:.2f} degrees\n")  # fmt: skip


def world(options: argparse.Namespace) -> tuple[Tensor, AugmentationGraph, Tensor, tuple[str, ...]]:
    """Four views of each image, their graph, and the labels of the images."""
    samples = load(options.data)
    indices = torch.arange(min(options.samples, len(samples.x)))
    recipe = simclr(color=False, gray=False, flip=False, blur=False, smallest=options.smallest)
    drawn = [
        view for epoch in range(2) for view in recipe(samples.x[indices], sample_keys(options.seed, epoch, indices))
    ]
    views = torch.stack(drawn, dim=1).float()
    points = views.reshape(len(indices) * len(drawn), -1)
    standard = (points - points.mean()) / points.std()
    return standard, AugmentationGraph.from_views(views), samples.labels[indices], tuple(map(str, samples.classes))


def compare(points: Tensor, graph: AugmentationGraph, labels: Tensor, k: int, options: argparse.Namespace):
    """The losses on the same network and pairs; what their features capture, along training."""
    losses = {
        "spectral": spectral_loss(graph, k),
        "SimCLR": nt_xent,
        "Barlow Twins": barlow_twins,
        # The paper's 5e-3 is for thousands of columns; few need more weight to be decorrelated at all.
        "Barlow 0.1": partial(barlow_twins, off_diagonal=0.1),
    }
    print(f"\nk = {k} features, minimum of the spectral loss {spectral_minimum(graph, k):.4f}")
    return {name: follow(name, loss, points, graph, labels, k, options) for name, loss in losses.items()}


def follow(
    name: str, loss: Callable, points: Tensor, graph: AugmentationGraph, labels: Tensor, k: int, options
) -> Record:
    network = fresh_network(points.shape[1], k, options.seed)
    record: Record = {key: [] for key in ("step", "loss", "captured", "largest", "median", "error")}
    for step in trained(network, loss, points, graph, options.steps, options.seed):
        if step % (options.steps // 10) == 0:
            f = outputs(network, points)
            seen = torch.cat([f, torch.ones(len(f), 1)], dim=1)
            found = subspace_alignment(seen, graph, k=k)
            probe = population_probe(seen, graph, graph.node_labels(labels))
            values = (step, spectral_population_loss(f, graph).item(), found.mean_captured, found.largest_angle)
            for key, value in zip(record, (*values, found.angles.median().item(), probe.error), strict=True):
                record[key].append(value)
    last = {key: values[-1] for key, values in record.items()}
    angles = f"median {last['median']:.1f}, largest {last['largest']:.1f} degrees"
    excess = f", population loss {last['loss']:.4f}" if name == "spectral" else ""
    print(
        f"{name:13} captured {last['captured']:.1%}, angles: {angles}; probe error {last['error']:.1%}{excess}",
        flush=True,
    )
    return record


def sweep(
    points: Tensor, graph: AugmentationGraph, labels: Tensor, options: argparse.Namespace
) -> list[tuple[int, float]]:
    """The probe's error on spectral networks of growing width, trained half as long."""
    errors = []
    for k in (2, 4, 8, 16, 32):
        network = fresh_network(points.shape[1], k, options.seed)
        for _ in trained(network, spectral_loss(graph, k), points, graph, options.steps // 2, options.seed):
            pass
        errors.append((k, population_probe(outputs(network, points), graph, graph.node_labels(labels)).error))
        print(f"spectral network with k = {k:2}: probe error {errors[-1][1]:.1%}", flush=True)
    return errors


def spectral_loss(graph: AugmentationGraph, k: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The batch loss with a ball that holds the minimizer twice over, so that it clips nothing that matters."""
    return partial(spectral, mu=2 * optimal_features(graph, k).square().sum(dim=1).max().item())


def trained(
    network: nn.Module, loss: Callable, points: Tensor, graph: AugmentationGraph, steps: int, seed: int
) -> Iterator[int]:
    """Train on edges of the graph; yields the number of steps done."""
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for step, (first, second) in enumerate(edges(graph, steps, seed), start=1):
        z1, z2 = network(points[torch.cat([first, second])]).chunk(2)
        optimizer.zero_grad()
        loss(z1, z2).backward()
        optimizer.step()
        schedule.step()
        yield step


def edges(graph: AugmentationGraph, batches: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of positive pairs: a sample, then two of its augmentations, independently."""
    rng = np.random.default_rng(seed)
    kernel = graph.kernel
    # One cumulative sum over all rows: row s covers the interval from s to s + 1.
    marks = np.cumsum(kernel.data)
    for _ in range(batches):
        samples = rng.choice(graph.samples, size=BATCH, p=graph.prior.numpy())
        places = np.searchsorted(marks, samples + rng.random((2, BATCH)) * (1 - 1e-9))
        first, second = torch.from_numpy(kernel.indices[places.clip(max=len(marks) - 1)]).long()
        yield first, second


def fresh_network(inputs: int, k: int, seed: int, hidden: int = 256) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, k)
    )


@torch.no_grad()
def outputs(network: nn.Module, points: Tensor) -> Tensor:
    return network(points)


def draw_training(records: dict[str, Record]) -> Figure:
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    captured, error = figure.subplots(1, 2)
    for name, record in records.items():
        captured.plot(record["step"], record["captured"], "o-", markersize=3, label=name)
        error.plot(record["step"], record["error"], "o-", markersize=3, label=name)
    captured.set(xlabel="step", ylabel="share of the top eigenvectors captured", ylim=(0, 1))
    error.set(xlabel="step", ylabel="error of the linear probe")
    captured.legend()
    return figure


def draw_sweep(trained_errors: list[tuple[int, float]], exact: list[tuple[int, float]], gap: int) -> Figure:
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="embedding dimension", ylabel="error of the linear probe")
    for curve, name in ((exact, "eigenvectors"), (trained_errors, "trained network")):
        axes.plot(*zip(*curve, strict=True), "o-", markersize=4, label=name)
    axes.axvline(gap + 0.5, linestyle="--", color="tab:red", label=f"gap after {gap}")
    axes.set_xscale("log", base=2)
    axes.legend()
    return figure


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", type=Path, default=Path("runs/spectral_experiment"), help="where to save figures")
    parser.add_argument("--data", default="digits", help="an image source of vergence.data")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--smallest", type=float, default=0.5, help="the smallest crop, as a share of the area")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
