"""The page of a ranking of views: the order, the curves, who is left outside, and which classes touch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from vergence.report.document import Section, document, section
from vergence.report.graph import graph_figures
from vergence.report.pieces import bullets, code, paragraph, percent, picture, table
from vergence.report.sprite import Sprite, make_sprite

SHOWN = 12  # thumbnails of a class outside its main part


def ranking_page(ranking: Any, samples: Any, *, survey: Any = None, command: str = "") -> str:
    """A ``Ranking`` of augmentation sets of ``samples``, and with a ``GraphSurvey`` the graph, as one page."""
    best = ranking.sets[0]
    wanted = sorted({index for group in best.outside.values() for index in group[:SHOWN]} | _touching(best))
    sprite = _pictures(samples, wanted)
    return document(
        f"Views for {samples.source}",
        f"{best.name} concentrates the classes best: {percent(best.score)} of a class lies outside its main part.",
        [
            _order_section(ranking),
            _outside_section(best, sprite, wanted),
            _connection_section(best, samples, sprite, wanted),
            _graph_section(survey),
            section("How it was measured", bullets(_method(ranking)), code(command) if command else None),
        ],
        summary=list(ranking.notes),
        sprite=sprite,
    )


def _order_section(ranking: Any) -> Section | None:
    rows = [
        [place, row.name, row.description, row.score, "{:.3f} to {:.3f}".format(*row.interval), percent(row.mixed)]
        for place, row in enumerate(ranking.sets, 1)
    ]
    caption = (
        "1 - sigma, the mean over delta and classes: lower is better. Mixed: pairs of different classes that touch."
    )
    words = "Share of a class outside its main part, the mean over classes, against the distance allowed within it."
    return section(
        "The order",
        table(["", "set", "what it does", "1 - sigma", "95 % interval", "mixed"], rows, caption=caption),
        picture(ranking.figure(), words, description="Curves of 1 minus sigma against delta, one for each set."),
    )


def _outside_section(best: Any, sprite: Sprite | None, wanted: Sequence[int]) -> Section | None:
    rows = []
    for name, indices in best.outside.items():
        rows.append([name, len(indices), _thumbnails(sprite, wanted, indices[:SHOWN])])
    return section(
        "Outside the main part",
        paragraph(f"Samples that {best.name} does not bring close to the rest of their class, at the middle delta."),
        table(["class", "samples", ""], rows),
    )


def _connection_section(best: Any, samples: Any, sprite: Sprite | None, wanted: Sequence[int]) -> Section | None:
    if not best.connections:
        return None
    rows = [
        [
            _thumbnails(sprite, wanted, (pair.first, pair.second)),
            f"{_label(samples, pair.first)} and {_label(samples, pair.second)}",
            f"view {pair.first_view} and view {pair.second_view}",
            pair.distance,
        ]
        for pair in best.connections
    ]
    words = "Pairs of views that connect samples of different classes: too many of them, and the set mixes classes."
    return section("Where classes touch", paragraph(words), table(["pair", "classes", "views", "distance"], rows))


def _graph_section(survey: Any) -> Section | None:
    if survey is None:
        return None
    drawn = [
        picture(figure, name.capitalize(), description=f"{name} of the augmentation graph")
        for name, figure in graph_figures(survey).items()
    ]
    return section("The augmentation graph", bullets(line.strip() for line in survey.summary().splitlines()), *drawn)


def _method(ranking: Any) -> list[str]:
    return [
        f"Distances in {ranking.space} between {ranking.views} views of each of {ranking.samples} samples.",
        f"Intervals over {ranking.resamples} resamplings of the views.",
    ]


def _touching(best: Any) -> set[int]:
    return {index for pair in best.connections for index in (pair.first, pair.second)}


def _pictures(samples: Any, wanted: Sequence[int]) -> Sprite | None:
    if samples.kind != "image" or not wanted:
        return None
    import torch

    return make_sprite(np.asarray(samples.x[torch.tensor(wanted)]))


def _thumbnails(sprite: Sprite | None, wanted: Sequence[int], indices: Sequence[int]) -> Markup:
    row = Markup(" ").join(_thumbnail(sprite, wanted, index) for index in indices)
    return Markup('<div class="found">{}</div>').format(row)


def _thumbnail(sprite: Sprite | None, wanted: Sequence[int], index: int) -> Markup:
    place = wanted.index(index)
    if sprite is None or place >= sprite.count:
        return Markup("{}").format(f"sample {index}")
    return sprite.thumbnail(place, f"sample {index}")


def _label(samples: Any, index: int) -> str:
    if samples.labels is None:
        return "?"
    label = int(samples.labels[index])
    return samples.classes[label] if label < len(samples.classes) else str(label)
