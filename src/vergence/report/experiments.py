"""Figures of experiments: what was measured under several settings, over several seeds, with every seed shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from vergence.report.colors import ACCENT, INK, LINE, QUIET, category
from vergence.report.figures import MARKERS, canvas, legend, level, verbatim

Cells = Mapping[str, Mapping[Any, Sequence[float]]]  # a line's name to its numbers over each place across

STEPS = 50  # of training that a point of a drawn line averages
SHADE = LinearSegmentedColormap.from_list("shade", [f"{ACCENT}00", ACCENT])  # from nothing, so on any page


def curves(
    cells: Cells,
    across: str,
    up: str,
    *,
    levels: Mapping[str, float] | None = None,
    logarithmic: bool = False,
) -> Figure:
    """A line per series through the means, in a band from the least to the largest seed.

    ``cells[series][x]`` holds a value per seed; ``levels`` are horizontal lines with their meaning.
    """
    figure, axes = canvas(across, up)
    for number, (name, points) in enumerate(cells.items()):
        x = np.array(list(points), dtype=float)
        seeds = [np.asarray(values, dtype=float) for values in points.values()]
        color, marker = category(number), MARKERS[number % len(MARKERS)]
        axes.fill_between(x, [v.min() for v in seeds], [v.max() for v in seeds], color=color, alpha=0.15, linewidth=0)
        label = verbatim(name)
        axes.plot(x, [v.mean() for v in seeds], color=color, marker=marker, markersize=5, linewidth=1.6, label=label)
    if logarithmic:
        axes.set_xscale("log", base=2)
        places = sorted({float(x) for points in cells.values() for x in points})
        axes.set_xticks(places, [f"{x:g}" for x in places])
    for text, value in (levels or {}).items():
        level(axes, value, text, "-.", INK, above=True)
    if len(cells) > 1:
        legend(axes)
    return figure


def along_training(
    cells: Mapping[str, Sequence[Mapping[str, Any]]], up: str, levels: Mapping[str, float] | None = None
) -> Figure:
    """Lines along training steps, each ``cells[series][seed]["line"]`` as ``thinned`` makes it."""
    lines = {name: zip(*(row["line"] for row in rows), strict=True) for name, rows in cells.items()}
    points = {name: {STEPS * (i + 0.5): v for i, v in enumerate(values)} for name, values in lines.items()}
    return curves(points, "training step", up, levels=levels)


def thinned(values: np.ndarray) -> list[float]:
    """A number for every step as means of equal parts, about ``STEPS`` long: as many points as a figure can show."""
    return [float(part.mean()) for part in np.array_split(values, max(1, len(values) // STEPS))]


def marks(
    cells: Mapping[str, Mapping[str, Sequence[float]]], across: str, *, levels: Mapping[str, float] | None = None
) -> Figure:
    """A row per setting with a mark per seed and a bar at their mean; each series has its own color and mark."""
    settings = list(dict.fromkeys(name for group in cells.values() for name in group))
    figure, axes = canvas(across, "", height=0.9 + 0.42 * len(settings))
    for number, (name, group) in enumerate(cells.items()):
        shift = 0.22 * (number - (len(cells) - 1) / 2)
        color, marker = category(number), MARKERS[number % len(MARKERS)]
        for row, values in ((settings.index(setting) + shift, values) for setting, values in group.items()):
            axes.plot(values, [row] * len(values), marker, color=color, markersize=4, alpha=0.6)
            axes.plot([np.mean(values)] * 2, [row - 0.1, row + 0.1], color=color, linewidth=2.4)
        axes.plot([], [], marker, color=color, label=verbatim(name))
    for text, value in (levels or {}).items():
        axes.axvline(value, color=INK, linestyle="-.", linewidth=1.2)
        axes.annotate(f"{text}, {value:.3g}", (value, 0.01), (3, 0), xycoords=axes.get_xaxis_transform(),
                      textcoords="offset points", color=INK, fontsize=9)  # fmt: skip
    axes.set_yticks(range(len(settings)), [verbatim(setting) for setting in settings])
    axes.set_ylim(len(settings) - 0.5, -0.5)
    if len(cells) > 1:
        legend(axes)
    return figure


def scatter(points: Mapping[str, Mapping[str, tuple[float, float]]], across: str, up: str) -> Figure:
    """Named points, each series with its own color and mark."""
    figure, axes = canvas(across, up)
    for number, (name, group) in enumerate(points.items()):
        x, y = zip(*group.values(), strict=True)
        axes.plot(x, y, MARKERS[number % len(MARKERS)], color=category(number), markersize=6, label=verbatim(name))
        for text, place in group.items():
            axes.annotate(verbatim(text), place, (4, 4), textcoords="offset points", fontsize=8, color=INK)
    axes.margins(0.12)
    if len(points) > 1:
        legend(axes)
    return figure


def around_the_circle(panels: Mapping[str, np.ndarray], classes: Sequence[str]) -> Figure:
    """Where each class lies on the circle, darker where there is more of it, under the density of all classes.

    ``panels[title]`` counts samples by class and angle, in equal bins from -180 to 180 degrees.
    """
    lines = -(-len(panels) // 2)
    figure = Figure(figsize=(5.0, 2.4 * lines + 0.2), layout="constrained", facecolor="none")
    grid = figure.add_gridspec(2 * lines, 2, height_ratios=[1, 2] * lines)
    for number, (title, counts) in enumerate(panels.items()):
        line, place = divmod(number, 2)
        above = figure.add_subplot(grid[2 * line, place], facecolor="none")
        below = figure.add_subplot(grid[2 * line + 1, place], facecolor="none", sharex=above)
        shares = counts / counts.mean(axis=1, keepdims=True)
        above.stairs(shares.mean(axis=0), np.linspace(-180, 180, counts.shape[1] + 1), color=ACCENT, linewidth=1.4)
        above.axhline(1.0, color=INK, linestyle="-.", linewidth=1.0)
        above.set_title(verbatim(title), color=INK, fontsize=9)
        above.set_ylim(bottom=0)
        below.imshow(shares, aspect="auto", extent=(-180, 180, len(counts) - 0.5, -0.5), cmap=SHADE, vmin=0)
        below.set_yticks(range(len(classes)), [verbatim(name) for name in classes] if not place else [], fontsize=7)
        below.set_xticks([-180, -90, 0, 90, 180])
        for axes in (above, below):
            axes.tick_params(colors=QUIET, length=0, labelsize=7, labelbottom=axes is below)
            axes.spines[:].set_color(LINE)
    figure.supxlabel("angle in degrees", color=QUIET, fontsize=10)
    figure.supylabel("class, and density / uniform density", color=QUIET, fontsize=10)
    return figure
