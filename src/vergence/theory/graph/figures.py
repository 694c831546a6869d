"""Figures of a graph survey. Each returns a matplotlib figure that belongs to no window."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vergence.theory.graph.surveys import GraphSurvey

# More points than this hide one another.
POINTS = 4000


def spectrum(survey: GraphSurvey) -> Figure:
    """The leading eigenvalues, with the largest gap marked."""
    figure, axes = _blank("index", "eigenvalue of the normalized adjacency")
    values = survey.eigenvalues.tolist()
    axes.plot(range(1, len(values) + 1), values, "o-", markersize=4)
    _mark_gap(axes, survey)
    return figure


def layout(survey: GraphSurvey) -> Figure:
    """The nodes on the second and third eigenvectors, colored by class, or by cluster without labels."""
    figure, axes = _blank("second eigenvector", "third eigenvector")
    graph = survey.graph
    if graph.rank_within(min(3, graph.nodes)) < 3:
        axes.text(0.5, 0.5, "fewer than three eigenvectors", ha="center", transform=axes.transAxes)
        return figure
    places = graph.eigenvectors(3)[:, 1:] / graph.degrees.sqrt()[:, None]
    colors = survey.clusters if survey.labels is None else graph.node_labels(survey.labels)
    chosen = torch.randperm(graph.nodes, generator=torch.Generator().manual_seed(survey.seed))[:POINTS]
    values = (survey.clusters if survey.labels is None else survey.labels).unique()
    names = survey.classes or tuple(f"cluster {value}" for value in values.tolist())
    for value, name in zip(values, names, strict=True):
        own = places[chosen[colors[chosen] == value]]
        axes.scatter(own[:, 0].tolist(), own[:, 1].tolist(), s=4, label=name)
    axes.legend(fontsize="x-small", markerscale=2, ncols=2)
    return figure


def mixing(survey: GraphSurvey) -> Figure:
    """How each spectral cluster divides among the classes; every row sums to one."""
    figure, axes = _blank("class", "spectral cluster")
    shares = survey.mixing / survey.mixing.sum(dim=1, keepdim=True)
    axes.imshow(shares.numpy(), vmin=0, vmax=1, cmap="Blues")
    axes.set_xticks(range(len(survey.classes)), survey.classes, rotation=45, ha="right", fontsize="small")
    axes.set_yticks(range(len(shares)))
    for row, column in torch.nonzero(shares >= 0.005).tolist():
        share = shares[row, column].item()
        color = "white" if share > 0.5 else "black"
        axes.text(column, row, f"{share:.0%}", ha="center", va="center", fontsize="x-small", color=color)
    return figure


def probe(survey: GraphSurvey) -> Figure:
    """The error of a linear probe against the number of eigenvectors it sees, with the gap marked."""
    figure, axes = _blank("embedding dimension", "error of the linear probe")
    dimensions, errors = zip(*survey.probe_curve, strict=True)
    axes.plot(dimensions, errors, "o-", markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    _mark_gap(axes, survey)
    return figure


def _blank(horizontal: str, vertical: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot(xlabel=horizontal, ylabel=vertical)
    return figure, axes


def _mark_gap(axes: Axes, survey: GraphSurvey) -> None:
    axes.axvline(survey.gap_after + 0.5, linestyle="--", color="tab:red", label=f"gap after {survey.gap_after}")
    axes.legend()
