"""The figures of the page as plain matplotlib: arrays in, a Figure out, for notebooks as well.

Figures are narrow, so that their text is readable on a phone; the page puts them side by side where there is room.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vergence.report.colors import ACCENT, CONTRAST, INK, LINE, PAPER, QUIET, category
from vergence.runs.results import Score

Series = Float[np.ndarray, " n"]

# Above this many points a curve is drawn as means of equal bins: more cannot be told apart at the width of a page.
MOST_POINTS = 400
MARKERS = "osD^vPX*<>"


def loss_curve(
    steps: Series,
    loss: Series,
    *,
    chance: float | None = None,
    floor: float | None = None,
    random: float | None = None,
) -> Figure:
    """The loss along training between the value at collapse and the value that nothing can be below."""
    figure, axes = canvas("step", "loss")
    axes.plot(*_thinned(steps, loss), color=ACCENT, linewidth=1.6)
    level(axes, chance, "chance: all embeddings coincide", "--", CONTRAST, above=True)
    level(axes, random, "random embeddings", ":", QUIET)
    level(axes, floor, "floor: nothing can be below", "-.", INK)
    axes.margins(y=0.12)
    return figure


def loss_curves(curves: Mapping[str, tuple[Series, Series]], *, label: str = "loss") -> Figure:
    """Several runs on one axis; each line ends in a mark of its own shape."""
    figure, axes = canvas("step", label)
    for number, (name, (steps, loss)) in enumerate(curves.items()):
        x, y = _thinned(steps, loss)
        color, marker = category(number), MARKERS[number % len(MARKERS)]
        axes.plot(x, y, color=color, linewidth=1.6, marker=marker, markevery=[-1], markersize=6, label=verbatim(name))
    legend(axes)
    return figure


def alignment_uniformity_plane(
    alignment: Series, uniformity: Series, *, steps: Series | None = None, floor: float | None = None
) -> Figure:
    """The path of training in the plane of Wang & Isola (2020): lower left is better in both respects."""
    figure, axes = canvas("alignment: squared distance of two views", "uniformity")
    axes.plot(alignment, uniformity, color=LINE, linewidth=1.4, zorder=1)
    axes.scatter(alignment, uniformity, s=20, color=ACCENT, alpha=0.5, linewidths=0, zorder=2)
    axes.scatter(alignment[:1], uniformity[:1], s=46, facecolor=PAPER, edgecolor=ACCENT, linewidths=1.6, zorder=3)
    axes.scatter(alignment[-1:], uniformity[-1:], s=54, color=ACCENT, zorder=3)
    ends = ("start", "end") if steps is None else (f"step {steps[0]:,.0f}", f"step {steps[-1]:,.0f}")
    for end, text in ((0, ends[0]), (-1, ends[1])) if len(alignment) > 1 else ((-1, ends[1]),):
        axes.annotate(text, (alignment[end], uniformity[end]), (6, -14), textcoords="offset points", color=INK)
    level(axes, floor, "floor: the uniform law", "-.", INK)
    axes.margins(0.16)
    return figure


def progress(steps: Series, values: Series, *, label: str) -> Figure:
    """A figure that was measured from time to time along training."""
    figure, axes = canvas("step", label, height=1.9)
    axes.plot(steps, values, color=ACCENT, linewidth=1.6, marker="o", markersize=3)
    return figure


def axis_note(low: float, high: float, whole: float) -> str:
    """What to say of an axis that shows only part of what is possible: differences look larger than they are."""
    share = (high - low) / whole
    return f"The axis shows {100 * share:.0f} % of the whole range, so differences look larger." if share < 0.5 else ""


def spectrum(singular_values: Series, *, effective_rank: float | None = None) -> Figure:
    """Singular values of the representation over the largest: after a sharp drop the directions are unused."""
    figure, axes = canvas("direction, in order", "singular value / largest")
    values = np.sort(np.asarray(singular_values, dtype=float))[::-1]
    largest = values[0] if values[0] > 0 else 1.0
    # A direction below this has no float32 digits left; drawing it there keeps the axis readable.
    shares = np.maximum(values / largest, float(np.finfo(np.float32).eps))
    axes.plot(np.arange(1, len(shares) + 1), shares, color=ACCENT, linewidth=1.6, marker="o", markersize=2.5)
    axes.set_yscale("log")
    axes.set_ylim(min(0.05, shares[-1] / 2), 1.5)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda *_: "")
    if effective_rank is not None:
        axes.axvline(effective_rank, color=CONTRAST, linestyle="--", linewidth=1.2)
        text = f"effective rank {effective_rank:.1f} of {len(shares)}"
        left = effective_rank < len(shares) / 2
        axes.annotate(
            text, (effective_rank, 0.96), (4 if left else -4, 0), xycoords=axes.get_xaxis_transform(),
            textcoords="offset points", ha="left" if left else "right", va="top", color=CONTRAST,
        )  # fmt: skip
    return figure


def accuracies(rows: Sequence[Score]) -> Figure:
    """Accuracies with their intervals, grouped by classifier and labels; each kind of features has its own mark."""
    groups = list(dict.fromkeys(_group(row) for row in rows))
    kinds = list(dict.fromkeys(row.features for row in rows))
    figure, axes = canvas("accuracy on held-out samples", "", height=0.8 + 0.62 * len(groups))
    for number, kind in enumerate(kinds):
        mine = [row for row in rows if row.features == kind]
        values = [row.accuracy for row in mine]
        lows, highs = zip(*(row.interval for row in mine), strict=True)
        places = [groups.index(_group(row)) + 0.2 * (number - (len(kinds) - 1) / 2) for row in mine]
        color, marker = (ACCENT, QUIET, CONTRAST)[number % 3], MARKERS[number % len(MARKERS)]
        axes.hlines(places, lows, highs, color=color, linewidth=1.6)
        axes.plot(values, places, marker, color=color, markersize=6, label=verbatim(kind))
    axes.set_yticks(range(len(groups)), [verbatim(group) for group in groups])
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    legend(axes)
    return figure


def label_curves(rows: Sequence[Score]) -> Figure:
    """Accuracy against labels a class, a line for each kind of features; the band is one deviation over draws."""
    figure, axes = canvas("labels of each class", "accuracy", height=3.4)
    for number, kind in enumerate(dict.fromkeys(row.features for row in rows)):
        mine = [row for row in rows if row.features == kind]
        counts, values = (np.array([getattr(row, key) for row in mine]) for key in ("per_class", "accuracy"))
        spread = np.array([row.spread or 0.0 for row in mine])
        color, marker = (ACCENT, QUIET, CONTRAST)[number % 3], MARKERS[number % len(MARKERS)]
        axes.fill_between(counts, values - spread, np.minimum(1, values + spread), color=color, alpha=0.18, linewidth=0)
        axes.plot(counts, values, color=color, marker=marker, linewidth=1.6, markersize=5, label=verbatim(kind))
    axes.set_xscale("log")
    ticks = sorted({row.per_class or 0.0 for row in rows})
    axes.set_xticks(ticks, [f"{tick:.0f}" for tick in ticks[:-1]] + [f"all\n({ticks[-1]:,.0f})"])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    legend(axes)
    return figure


def thermometer(positions: Mapping[str, float], *, chance: float | None = None, floor: float | None = None) -> Figure:
    """Where losses stand between chance (0) and the floor (1); outside means worse than chance, or impossible.

    A mark far outside is drawn at the edge; the number beside it is true.
    """
    figure, axes = canvas("", "", height=0.75 + 0.36 * len(positions))
    for row, position in enumerate(positions.values()):
        place = float(np.clip(position, -0.2, 1.2))
        axes.plot([0, 1], [row, row], color=LINE, linewidth=7, solid_capstyle="round", zorder=1)
        axes.plot([0, place], [row, row], color=ACCENT, linewidth=7, solid_capstyle="round", zorder=2)
        axes.plot(place, row, "o", markersize=10, color=PAPER, markeredgecolor=ACCENT, markeredgewidth=2, zorder=3)
        axes.annotate(f"{position:.2f}", (place, row), (0, 9), textcoords="offset points", ha="center", color=INK)
    axes.set_yticks(range(len(positions)), [verbatim(name) for name in positions])
    axes.set_ylim(len(positions) - 0.5, -0.7)
    ends = [name if value is None else f"{name}\n{value:.3f}" for name, value in (("chance", chance), ("floor", floor))]
    axes.set_xticks([0, 1], ends)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return figure


def circle_density(z: Float[np.ndarray, "n 2"], *, concentration: float = 60.0) -> Figure:
    """Density of directions around the circle, over that of the uniform law: a flat line at 1 is perfect uniformity.

    A von Mises kernel of the given concentration (a spread of about 7 degrees) smooths the angles.
    """
    figure, axes = canvas("angle in degrees", "density / uniform density")
    angles = np.arctan2(z[:, 1], z[:, 0])
    grid = np.linspace(-np.pi, np.pi, 361)
    counts, edges = np.histogram(angles, bins=720, range=(-np.pi, np.pi))
    centers = (edges[1:] + edges[:-1]) / 2
    kernel = np.exp(concentration * (np.cos(grid[:, None] - centers) - 1))
    density = kernel @ counts / (len(angles) * kernel.mean(axis=1))
    axes.fill_between(np.degrees(grid), density, color=ACCENT, alpha=0.25, linewidth=0)
    axes.plot(np.degrees(grid), density, color=ACCENT, linewidth=1.6)
    level(axes, 1.0, "uniform", "-.", INK, above=True)
    axes.set_xticks([-180, -90, 0, 90, 180])
    axes.set_ylim(bottom=0)
    return figure


def trade_off(curves: Mapping[str, Sequence[float]], *, chance: float | None = None) -> Figure:
    """What epsilon trades in the bound on the error: unstable samples against the margin between centers."""
    figure, axes = canvas("epsilon: distance allowed between views of a sample", "")
    names = {"R": "R, share of unstable samples", "rho": "rho, margin that centers need", "bound": "bound on the error"}
    for number, (name, words) in enumerate(names.items()):
        order = np.argsort(curves["epsilon"])
        x, y = (np.asarray(values)[order] for values in (curves["epsilon"], curves[name]))
        axes.plot(x, y, color=category(number), linewidth=1.6, marker=MARKERS[number], markevery=[-1], label=words)
    level(axes, chance, "error of naming the largest class", "--", CONTRAST)
    legend(axes)
    return figure


def canvas(across: str, up: str, *, height: float = 3.2) -> tuple[Figure, Axes]:
    """An empty figure in the page's manner: no box, a light grid, text large enough at phone width."""
    figure = Figure(figsize=(5.0, height), layout="constrained", facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    axes.set_xlabel(across, color=QUIET)
    axes.set_ylabel(up, color=QUIET)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, which="both", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    return figure, axes


def level(axes: Axes, value: float | None, text: str, style: str, color: str, *, above: bool = False) -> None:
    """A horizontal line with its meaning and value written under it, or above."""
    if value is None or not np.isfinite(value):
        return
    axes.axhline(value, color=color, linestyle=style, linewidth=1.2)
    axes.annotate(
        f"{text}, {value:.3f}", (0.99, value), (0, 3 if above else -4), xycoords=axes.get_yaxis_transform(),
        textcoords="offset points", ha="right", va="bottom" if above else "top", color=color, fontsize=9,
    )  # fmt: skip


def _group(row: Score) -> str:
    return f"{row.classifier}\n{row.labels}"


def legend(axes: Axes) -> None:
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.legend(frameon=False, labelcolor=INK, fontsize=9, loc="outside upper left", ncols=3, handletextpad=0.4)


def _thinned(x: Series, y: Series) -> tuple[Series, Series]:
    if len(x) <= MOST_POINTS:
        return x, y
    parts = [np.array_split(values, MOST_POINTS) for values in (x, y)]
    return np.array([part.mean() for part in parts[0]]), np.array([part.mean() for part in parts[1]])


def verbatim(text: str) -> str:
    """``text`` with its dollars kept: matplotlib would read what stands between two of them as mathematics."""
    return str(text).replace("$", r"\$")
