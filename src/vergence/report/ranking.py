"""The page of ``vergence views``: the order with its ties, what the views look like, how to train, what theory says."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from matplotlib.figure import Figure
from torch import Tensor

from vergence.report.colors import ACCENT, CATEGORIES, INK, QUIET, category
from vergence.report.document import Section, document, section
from vergence.report.figures import MARKERS, canvas, legend, verbatim
from vergence.report.gains import percent
from vergence.report.graph import graph_figures
from vergence.report.pieces import (
    bullets,
    code,
    details,
    paragraph,
    picture,
    piece,
    shown,
    side_by_side,
    stacked,
    table,
)
from vergence.report.sprite import Sprite, make_sprite
from vergence.views import Recipe, sample_keys

SHOWN = 12  # thumbnails of a class outside its main part
EXAMPLES, VIEWS_EACH = 4, 3  # samples in the gallery, and views of each
DESCRIPTION = (
    "A description, not a recommendation. 1 - sigma is the share of a class that augmentation leaves outside its main "
    "part, mixed the share of pairs of different classes that come close. Destructive sets have a small 1 - sigma "
    "because they bring everything together: with such sets among the candidates its rank correlation with accuracy "
    "is about .25, so it decides nothing here."
)


def ranking_page(ranking: Any, samples: Any, few: Tensor, *, seed: int = 0) -> str:
    """A ``ViewRanking`` of sets of views of ``samples`` as one page; ``few`` are the places that theory looked at."""
    gallery = Gallery(samples, few)
    described = [row.described for row in ranking.sets if row.described]
    parts = [
        _order(ranking),
        _look(ranking, gallery, seed),
        _theory(ranking, described),
        _outside(ranking.best, samples, few, gallery),
        _connections(ranking.best, samples, few, gallery),
        _graph(ranking.graph),
        section(
            "What this does not tell, and how it was measured",
            side_by_side(bullets(ranking.unknown), bullets(_method(ranking))),
        ),
    ]
    label = "" if ranking.labeled else "experimental"
    return document(
        f"Views for {ranking.source}", ranking.sentence, parts, label=label, summary=[*ranking.caution, *ranking.notes],
        sprite=gallery.sprite(),
    )  # fmt: skip


class Gallery:
    """The pictures of a page, collected while its sections are written and stored once as a sprite.

    Only images have pictures; of other samples a number stands in their place.
    """

    def __init__(self, samples: Any, few: Tensor):
        self.samples, self.few = samples, few
        self.collected: list[np.ndarray] = []

    def add(self, image: Tensor, words: str) -> Markup:
        """A thumbnail of an image ``[c, h, w]``, bytes or from 0 to 1."""
        pixels = image if image.dtype == torch.uint8 else (image.clamp(0, 1) * 255).round().to(torch.uint8)
        self.collected.append(pixels.numpy())
        return Sprite("", 0, 0, 1.0, False).thumbnail(len(self.collected) - 1, words)

    def sample(self, place: int) -> Markup:
        """A sample by its place among the described ones."""
        index = int(self.few[place])
        words = f"sample {index}"
        if self.samples.kind != "image":
            return Markup("{}").format(words)
        return self.add(self.samples.x[torch.tensor([index])][0], words)

    def sprite(self) -> Sprite | None:
        return make_sprite(np.stack(self.collected), budget=10**7) if self.collected else None


def race_figure(ranking: Any) -> Figure:
    """The score of every set after each rung that it reached, with 95 % intervals; ties are filled marks."""
    rows = ranking.sets[::-1]
    figure, axes = canvas(ranking.measure, "", height=1.2 + 0.42 * len(rows))
    for place, row in enumerate(rows):
        for number, reading in enumerate(row.tried.readings):
            height, last = place + 0.22 * (1 - number), reading is row.tried.last
            color = ACCENT if row.tried.tied else QUIET
            axes.plot(reading.interval, [height] * 2, color=color, linewidth=1.4 if last else 0.7)
            fill = color if row.tried.tied and last else "none"
            axes.plot(reading.score, height, MARKERS[number], color=color, markersize=5, markerfacecolor=fill)
    axes.set_yticks(range(len(rows)), [verbatim(row.name) for row in rows], color=INK)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    marks = zip(ranking.rungs, MARKERS, strict=False)
    for steps, marker in marks:
        axes.plot([], [], marker, color=QUIET, markerfacecolor="none", label=f"{steps} steps")
    if ranking.chance is not None:
        axes.axvline(ranking.raw or ranking.chance, color=INK, linestyle="-.", linewidth=1.0, label=_reference(ranking))
    legend(axes)
    return figure


def curve_figure(described: Sequence[Any]) -> Figure:
    """The curves 1 - sigma against delta, one a set."""
    figure, axes = canvas(
        "delta: distance allowed within the main part", "1 - sigma", height=2.8 + 0.1 * len(described)
    )
    for number, row in enumerate(described):
        line = "-" if number < len(CATEGORIES) else "--"
        marker = MARKERS[number % len(MARKERS)]
        axes.plot(
            row.deltas, row.curve, line, color=category(number), marker=marker, markersize=4, label=verbatim(row.name)
        )
    axes.set_ylim(0, 1)
    legend(axes)
    return figure


def _reference(ranking: Any) -> str:
    return "largest class" if ranking.raw is None else "neighbors of the inputs"


def _order(ranking: Any) -> Section | None:
    rungs = [f"{steps} steps" for steps in ranking.rungs]
    rows = []
    for place, row in enumerate(ranking.sets, 1):
        readings: list[Any] = [_interval(reading.score, reading.interval) for reading in row.tried.readings]
        readings += ["stopped"] * (len(rungs) - len(readings))
        rows.append([place, row.name, row.view_set.why or row.view_set.recipe().describe(), *readings, _gap(row.tried)])
    caption = (
        f"{ranking.measure.capitalize()} with a 95 % interval after each lap, where all but the best third stop. "
        "The last column compares a set with the best one after the last lap that both ran: a tie is a difference that "
        "these trials cannot tell from 0."
    )
    words = "Each mark is a trial with its interval; filled marks are tied with the best."
    return section(
        "The order",
        table(["", "set", "what it does", *rungs, "behind the best"], rows, caption=caption),
        side_by_side(
            picture(race_figure(ranking), words, description="Scores of all sets with intervals, best at the top."),
            Markup("<h3>{}</h3>").format("Train with the best" if ranking.labeled else "Train")
            + paragraph(_advice(ranking))
            + code(ranking.command),
        ),
    )


def _interval(value: float, interval: tuple[float, float]) -> Markup:
    return stacked(f"{value:.3f}", f"{interval[0]:.3f} to {interval[1]:.3f}")


def _gap(tried: Any) -> Markup | str:
    if tried.best:
        return "best"
    words = f"{tried.interval[0]:.3f} to {tried.interval[1]:.3f}"
    return stacked(f"{'tie, ' if tried.tied else ''}{tried.behind:.3f}", words)


def _advice(ranking: Any) -> str:
    if not ranking.labeled:
        return f"{ranking.lead} (the label-free score has not seen a label, and has put destructive sets first)"
    names = ", ".join(row.name for row in ranking.ties if row is not ranking.taken)
    words = f"{ranking.taken.name}, but by a margin that is not sure: {names} may do as well." if names else ""
    return f"{words or ranking.taken.name + '.'} Run as it stands:"


def _look(ranking: Any, gallery: Gallery, seed: int) -> Section | None:
    """A few samples, and views of them under every set."""
    chosen = gallery.few[torch.linspace(0, len(gallery.few) - 1, EXAMPLES).long()]
    x, keys = gallery.samples.x[chosen], sample_keys(seed, 0, chosen)
    drawn = {row.name: _views(row.view_set.recipe().fitted(x), x, keys) for row in ranking.sets}
    if gallery.samples.kind == "series":
        return section("What the views look like", _lines(x, drawn))
    if gallery.samples.kind != "image":
        return None
    plain = Markup(" ").join(gallery.add(image, "the sample itself") for image in x)
    rows = [["the samples", Markup('<div class="found">{}</div>').format(plain)]]
    for name, views in drawn.items():
        pictures = [gallery.add(view, f"a view of {name}") for own in views for view in own]
        rows.append([name, Markup('<div class="found">{}</div>').format(Markup(" ").join(pictures))])
    words = f"{VIEWS_EACH} views of each sample of the first row, one sample after the other, as training sees them."
    return section("What the views look like", paragraph(words), table(["set", ""], rows))


def _views(recipe: Recipe, x: Tensor, keys: Tensor) -> Tensor:
    """Views ``[samples, views, ...]``."""
    return torch.stack([recipe.view(x, keys, number=number) for number in range(VIEWS_EACH)], 1)


def _lines(x: Tensor, drawn: dict[str, Tensor]) -> Markup:
    """The first channel of a sample and of two of its views, a small figure a set."""
    pictures = []
    for name, views in drawn.items():
        figure, axes = canvas("time", "", height=1.5)
        axes.plot(x[0, 0].numpy(), color=INK, linewidth=1.6)
        for number in range(2):
            axes.plot(views[0, number, 0].numpy(), color=category(number), linewidth=1.0)
        pictures.append(picture(figure, name, description=f"A series in black and two of its views under {name}."))
    return side_by_side(*pictures) or Markup()


def _theory(ranking: Any, described: Sequence[Any]) -> Section | None:
    if not described:
        return None
    rows = [
        [row.name, row.score, "{:.3f} to {:.3f}".format(*row.interval), percent(row.mixed), _kept(ranking, row.name)]
        for row in sorted(described, key=lambda row: row.score)
    ]
    words = "Share of a class outside its main part, the mean over classes, against the distance allowed within it."
    return section(
        "What theory says of the sets",
        paragraph(DESCRIPTION),
        side_by_side(
            table(["set", "1 - sigma", "95 % interval", "mixed", "place by trials"], rows)
            + (_certificate(ranking) or Markup("")),
            picture(curve_figure(described), words, description="Curves of 1 minus sigma against delta, a set each."),
        ),
    )


def _kept(ranking: Any, name: str) -> int:
    return [row.name for row in ranking.sets].index(name) + 1


def _certificate(ranking: Any) -> Markup | None:
    """The bound on the error after the winner's short training, and what a vacuous one means."""
    found = ranking.certificate
    if found is None:
        return None
    meaning = {
        "informative": "It guarantees something: the bound is below the error of guessing.",
        "vacuous": "It guarantees nothing: the bound is not below the error of guessing. After so short a training "
        "that is the rule, and says nothing against the set.",
        "violated": "It is violated, which a theorem cannot be: please report it.",
    }[found.verdict]
    words = f"Certificate for {ranking.best.name} after its trial, on the few samples described: {found.statement}. "
    words += f"Measured {found.left:.3f}, bound {found.right:.3f}: {found.verdict}. {meaning}"
    terms = table(["term", "value"], [[name, value] for name, value in found.terms.items()])
    return paragraph(words) + details(f"The terms ({found.source})", terms)


def _outside(best: Any, samples: Any, few: Tensor, gallery: Gallery) -> Section | None:
    if best.described is None or samples.kind != "image":
        return None
    rows = []
    for label, places in best.described.outside.items():
        pictures = Markup(" ").join(gallery.sample(place) for place in places[:SHOWN])
        name = _class_name(samples, label)
        rows.append([name, len(places), Markup('<div class="found">{}</div>').format(pictures)])
    words = f"Samples that {best.name} does not bring close to the rest of their class, at the middle delta."
    return section(
        "Outside the main part", paragraph(words), details("Show them", table(["class", "samples", ""], rows))
    )


def _connections(best: Any, samples: Any, few: Tensor, gallery: Gallery) -> Section | None:
    if best.described is None or not best.described.connections:
        return None
    cards: list[tuple[Markup, str]] = []
    for pair in best.described.connections:
        pictures = Markup(" ").join(gallery.sample(place) for place in (pair.first, pair.second))
        names = [_class_name(samples, int(samples.labels[few[place]])) for place in (pair.first, pair.second)]
        views = f"views {pair.first_view} and {pair.second_view}, distance {shown(pair.distance)}"
        cards.append((pictures, f"{' and '.join(names)}: {views}"))
    words = (
        "Pairs of views that bring samples of different classes together: too many of them, and a set mixes classes."
    )
    return section("Where classes touch", paragraph(words), piece("strip", "The closest pairs", cards))


def _graph(survey: Any) -> Section | None:
    if survey is None:
        return None
    drawn = [
        picture(figure, name.capitalize(), description=f"{name} of the augmentation graph")
        for name, figure in graph_figures(survey).items()
    ]
    return section("The augmentation graph", bullets(line.strip() for line in survey.summary().splitlines()), *drawn)


def _method(ranking: Any) -> list[str]:
    scored = (
        "leave-one-out accuracy of 10 nearest neighbors among plain samples"
        if ranking.labeled
        else "minus the InfoNCE loss under the views of all sets, the median over sets"
    )
    lines = [
        f"Each set: SimCLR with a small encoder on {ranking.samples:,} of {ranking.total:,} training samples, in "
        f"batches of 128; the score is {scored}.",
        f"After {shown(ranking.rungs[:-1])} steps all but the best third stop (successive halving, by thirds).",
        "Sets share first weights, batches and samples. Intervals hold the drawing of samples and the luck of a seed, "
        "the latter as measured on CIFAR-10 and digits.",
    ]
    if ranking.raw is not None:
        lines.append(f"Neighbors among the inputs themselves are right in {percent(ranking.raw)}.")
    if ranking.chance is not None:
        lines.append(f"Naming the largest class is right in {percent(ranking.chance)}.")
    return [*lines, f"It took {ranking.seconds:.0f} seconds.", f"Command: {ranking.asked}"]


def _class_name(samples: Any, label: int) -> str:
    if samples.labels is None:
        return "all samples"
    return samples.classes[label] if label < len(samples.classes) else str(label)
