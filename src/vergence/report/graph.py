"""Figures of the augmentation graph: its spectrum, its nodes, how classes mix, and what a linear probe can tell."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vergence.counters import drawn
from vergence.report.colors import ACCENT, CONTRAST, INK, PAPER, category
from vergence.report.experiments import SHADE
from vergence.report.figures import canvas, legend, verbatim
from vergence.theory.graph import GraphSurvey

POINTS = 4000  # more hide one another


def graph_figures(survey: GraphSurvey) -> dict[str, Figure]:
    """The spectrum, the layout on the leading eigenvectors and, with labels, the mixing and the probe's error."""
    figures = {"spectrum": spectrum(survey), "layout": layout(survey)}
    return figures if survey.labels is None else figures | {"mixing": mixing(survey), "probe": probe(survey)}


def spectrum(survey: GraphSurvey) -> Figure:
    """The leading eigenvalues, with the largest gap marked."""
    figure, axes = canvas("index", "eigenvalue of the normalized adjacency")
    values = survey.eigenvalues.tolist()
    axes.plot(range(1, len(values) + 1), values, "o-", color=ACCENT, markersize=4)
    _mark_gap(axes, survey)
    return figure


def layout(survey: GraphSurvey) -> Figure:
    """The nodes on the second and third eigenvectors, colored by class, or by cluster without labels."""
    figure, axes = canvas("second eigenvector", "third eigenvector", height=4.0)
    graph = survey.graph
    if graph.rank_within(min(3, graph.nodes)) < 3:
        axes.text(0.5, 0.5, "fewer than three eigenvectors", ha="center", transform=axes.transAxes, color=INK)
        return figure
    places = graph.eigenvectors(3)[:, 1:] / graph.degrees.sqrt()[:, None]
    groups = survey.clusters if survey.labels is None else graph.node_labels(survey.labels)
    chosen = drawn(graph.nodes, POINTS, groups=groups, seed=survey.seed)
    values = (survey.clusters if survey.labels is None else survey.labels).unique()
    names = survey.classes or tuple(f"cluster {value}" for value in values.tolist())
    for number, (value, name) in enumerate(zip(values, names, strict=True)):
        own = places[chosen[groups[chosen] == value]]
        axes.scatter(own[:, 0].tolist(), own[:, 1].tolist(), s=4, color=category(number), label=verbatim(name))
    legend(axes)
    return figure


def mixing(survey: GraphSurvey) -> Figure:
    """How each spectral cluster divides among the classes; every row sums to one."""
    figure, axes = canvas("class", "spectral cluster", height=4.0)
    shares = survey.mixing / survey.mixing.sum(dim=1, keepdim=True)
    axes.imshow(shares.numpy(), vmin=0, vmax=1, cmap=SHADE)
    axes.grid(visible=False)
    names = [verbatim(name) for name in survey.classes]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize="small")
    axes.set_yticks(range(len(shares)))
    for row, column in torch.nonzero(shares >= 0.005).tolist():
        share = shares[row, column].item()
        color = PAPER if share > 0.5 else INK
        axes.text(column, row, f"{share:.0%}", ha="center", va="center", fontsize="x-small", color=color)
    return figure


def probe(survey: GraphSurvey) -> Figure:
    """The error of a linear probe against the number of eigenvectors it sees, with the gap marked."""
    figure, axes = canvas("embedding dimension", "error of the linear probe")
    dimensions, errors = zip(*survey.probe_curve, strict=True)
    axes.plot(dimensions, errors, "o-", color=ACCENT, markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    _mark_gap(axes, survey)
    return figure


def _mark_gap(axes: Axes, survey: GraphSurvey) -> None:
    axes.axvline(survey.gap_after + 0.5, linestyle="--", color=CONTRAST, label=f"gap after {survey.gap_after}")
    legend(axes)
