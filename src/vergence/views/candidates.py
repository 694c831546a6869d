"""Candidate sets of views: what ``vergence views`` compares when nothing is named, and how a person names others.

Every list holds sets that ought to fail beside those that ought to do well: where the order is right, they come last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vergence import tables
from vergence.views import VIEWS
from vergence.views.image import LETTERS
from vergence.views.recipe import Recipe

TRUTH = {"true": True, "false": False, "yes": True, "no": False, "none": None}
GRAMMAR = (
    "Name a set of the list, letters with a strength (ad, abc, ad:0.25; a crop, b blur, c gray, d color, e flip), or a "
    "row of `vergence list views` with options (simclr:strength=1,flip=false)."
)


@dataclass(frozen=True)
class ViewSet:
    """A named set of views: a row of VIEWS with some options, and why it is among the candidates."""

    name: str
    views: str
    options: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    @property
    def control(self) -> bool:
        """Whether it is among the candidates because it ought to fail."""
        return self.why.startswith("control")

    def recipe(self) -> Recipe:
        """The recipe itself; an option out of range is an error that names the set."""
        try:
            return VIEWS[self.views](**self.options)
        except ValueError as error:
            raise ValueError(f"The set {self.name!r}: {error}") from error

    def arguments(self) -> list[str]:
        """What ``vergence train`` needs to use this set, on the command line."""
        known, words = tables.keywords("views", self.views), ["--views", self.views]
        for key, value in self.options.items():
            option, default = key.replace("_", "-"), known[key].default
            if value == default:
                continue
            if isinstance(default, bool):
                words.append(f"--view.{option}" if value else f"--view.no-{option}")
            else:
                words += [f"--view.{option}", str(value)]
        return words


def candidates(kind: str, shape: Sequence[int]) -> tuple[ViewSet, ...]:
    """The sets that are compared by default for samples of a kind and shape."""
    if kind == "image":
        return COLOR if shape[0] == 3 else GRAY
    if kind == "series" and shape[0] > 1:
        return (*SERIES, CHANNELS)
    return {"series": SERIES, "vector": TABULAR, "text": TEXT}[kind]


def named(name: str, known: Sequence[ViewSet]) -> ViewSet:
    """The set that a person named: one of the known, letters with a strength, or a row of VIEWS with options."""
    for one in known:
        if one.name == name:
            return one
    head, _, rest = name.partition(":")
    if head in VIEWS:
        return ViewSet(name, head, _options(name, head, rest))
    if head and set(head) <= set(LETTERS):
        return _lettered(name, head, rest)
    raise ValueError(f"Unknown set {name!r}. The list: {', '.join(one.name for one in known)}. {GRAMMAR}")


def _photo(name: str, why: str, **options: Any) -> ViewSet:
    """Views of images without blur, which a reduced image would not show as the whole one does."""
    return ViewSet(name, "simclr", {"blur": False, **options}, why)


def _only(views: str, name: str, why: str, **options: Any) -> ViewSet:
    """A set of a row whose options are all off but those given."""
    return ViewSet(name, views, {**OFF[views], **options}, why)


def _lettered(name: str, letters: str, strength: str) -> ViewSet:
    switches = {option: letter in letters for letter, option in LETTERS.items()}
    if not strength:
        return ViewSet(name, "simclr", switches)
    try:
        return ViewSet(name, "simclr", {**switches, "strength": float(strength)})
    except ValueError:
        raise ValueError(f"{name!r}: expected a strength after the colon, such as ad:0.25. {GRAMMAR}") from None


def _options(name: str, views: str, text: str) -> dict[str, Any]:
    known, options = tables.keywords("views", views), {}
    for part in text.split(",") if text else ():
        key, sign, value = part.strip().partition("=")
        key = key.replace("-", "_")
        if key not in known:
            raise tables.UnknownName(f"option of {views} in {name!r}", key, known)
        if not sign:
            raise ValueError(f"{name!r}: {key} needs a value, as in {views}:{key}={known[key].default}.")
        options[key] = _value(name, key, value, known[key].default)
    return options


def _value(name: str, key: str, text: str, default: Any) -> Any:
    if text.lower() in TRUTH and not isinstance(default, float):
        return TRUTH[text.lower()]
    try:
        return int(text) if isinstance(default, int) and not isinstance(default, bool) else float(text)
    except ValueError:
        raise ValueError(f"{name!r}: {key} is like {default!r}, so {text!r} makes no sense.") from None


OFF: dict[str, dict[str, Any]] = {
    "simclr": {"blur": False, "crop": False, "gray": False, "color": False, "flip": False},
    "glyph": {"rotate": 0.0, "shear": 0.0, "zoom": 0.0, "translate": 0.0, "elastic": 0.0, "tone": 0.0, "cover": 0.0},
    "series": {"crop": 1.0, "scaling": 0.0, "jitter": 0.0, "dropout": 0.0, "mask": 0.0},
    "tabular": {"corruption": 0.0, "noise": 0.0},
    "text": {"crop": 1.0, "dropout": 0.0, "swap": 0.0},
}
NONE = ViewSet("none", "identity", {}, "control: two views that are the same sample")

COLOR = (
    _photo("usual", "the recipe of SimCLR: crop, color .5, gray, flip"),
    _photo("strong-color", "the usual recipe with twice the color distortion", strength=1.0),
    _photo(
        "weak-color", "the usual recipe with a quarter of the color distortion and no gray", strength=0.125, gray=False
    ),
    _photo("crop-flip", "no change of color: for data whose color matters", color=False, gray=False),
    _only("simclr", "crop", "crop alone: for data that neither flips nor changes color", crop=True),
    _photo("crop-color", "the usual recipe without flip: for data where left is not right", flip=False),
    _photo("gentle", "crops of at least half the image, weak color", smallest=0.5, strength=0.25),
    _photo("turns", "the usual recipe with quarter turns: for images without an upright", turn=True),
    _only("simclr", "color-only", "control: color distortion without crop", color=True, gray=True),
    _photo("extreme-color", "control: five times the usual color distortion", strength=2.5),
    _photo("tiny-crop", "control: crops of 1 to 5 % of the image", smallest=0.01, largest=0.05),
    NONE,
)
GRAY = (
    ViewSet("usual", "glyph", {}, "warps of glyphs: rotation, shear, zoom, shift, elastic, tone, a covered part"),
    ViewSet(
        "gentle-warp",
        "glyph",
        {"rotate": 10.0, "shear": 10.0, "zoom": 0.1, "translate": 0.05, "elastic": 0.05, "cover": 0.0},
        "half of the usual warps, nothing covered",
    ),
    ViewSet(
        "strong-warp",
        "glyph",
        {"rotate": 40.0, "shear": 40.0, "zoom": 0.5, "translate": 0.2, "elastic": 0.2, "cover": 0.4},
        "twice the usual warps",
    ),
    _photo("photo", "crop, brightness and contrast, flip: the recipe of photographs", gray=False),
    _only("simclr", "crop", "crop alone", crop=True),
    _only("simclr", "crop-flip", "crop and flip: mirrors glyphs", crop=True, flip=True),
    _only("simclr", "gentle-crop", "crops of at least half the image", crop=True, smallest=0.5),
    ViewSet(
        "rotations", "glyph", {"rotate": 180.0}, "the usual warps with any rotation: for images without an upright"
    ),
    _only("glyph", "tone-only", "control: brightness and contrast alone", tone=1.0),
    _only("glyph", "cover-only", "control: a covered rectangle alone", cover=1.0),
    _only("simclr", "tiny-crop", "control: crops of 1 to 5 % of the image", crop=True, smallest=0.01, largest=0.05),
    NONE,
)
SERIES = (
    ViewSet("usual", "series", {}, "half of the time or more, rescaled, shaken, partly hidden"),
    _only("series", "crop", "a stretch of the time, at least half of it", crop=0.5),
    _only("series", "gentle", "most of the time, slightly shaken and rescaled", crop=0.8, jitter=0.05, scaling=0.1),
    _only("series", "jitter", "noise of a tenth of the deviation", jitter=0.1),
    _only("series", "scale", "channels rescaled by up to a half: for data whose size does not matter", scaling=0.5),
    _only("series", "mask", "up to half of the time hidden, slightly shaken", mask=0.5, jitter=0.1),
    _only("series", "short-crop", "a stretch of the time, a tenth or more", crop=0.1),
    ViewSet("usual-shuffle", "series", {"segments": 4}, "the usual views with four stretches in any order"),
    _only("series", "shuffle", "control: sixteen stretches in any order", segments=16),
    _only("series", "noise", "control: noise of three deviations", jitter=3.0),
    _only("series", "mask-most", "control: up to all of the time hidden", mask=1.0),
    NONE,
)
CHANNELS = _only("series", "channels", "half of the channels lost, slightly shaken", dropout=0.5, jitter=0.1)
TABULAR = (
    ViewSet("usual", "tabular", {}, "three cells in ten replaced, slight noise"),
    _only("tabular", "few-cells", "one cell in ten replaced", corruption=0.1),
    _only("tabular", "cells", "three cells in ten replaced, no noise", corruption=0.3),
    _only("tabular", "half-cells", "half of the cells replaced", corruption=0.5),
    _only("tabular", "most-cells", "seven cells in ten replaced", corruption=0.7),
    _only("tabular", "slight-noise", "noise of a tenth of a deviation", noise=0.1),
    _only("tabular", "noise", "noise of half a deviation", noise=0.5),
    _only("tabular", "both", "three cells in ten replaced and noise of half a deviation", corruption=0.3, noise=0.5),
    _only("tabular", "heavy-noise", "noise of a whole deviation", noise=1.0),
    _only("tabular", "all-cells", "control: nearly every cell replaced", corruption=0.95),
    _only("tabular", "extreme-noise", "control: noise of four deviations", noise=4.0),
    NONE,
)
TEXT = (
    ViewSet("usual", "text", {}, "a span, some tokens lost, some neighbors swapped"),
    _only("text", "span", "at least half of the text", crop=0.5),
    _only("text", "short-span", "at least a fifth of the text", crop=0.2),
    _only("text", "dropout", "one token in ten lost", dropout=0.1),
    _only("text", "more-dropout", "three tokens in ten lost", dropout=0.3),
    _only("text", "swap", "three in ten pairs of neighbors swapped", swap=0.3),
    ViewSet("strong", "text", {"crop": 0.4, "dropout": 0.3, "swap": 0.3}, "a shorter span with more losses"),
    _only("text", "most-lost", "control: nine tokens in ten lost", dropout=0.9),
    _only("text", "tiny-span", "control: as little as one token", crop=0.01),
    NONE,
)
