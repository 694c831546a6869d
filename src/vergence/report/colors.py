"""Every color of the page, once: the figures draw in the light value, the page turns it into a CSS variable.

Categories follow Paul Tol's *muted* scheme, made for color-blind readers (https://personal.sron.nl/~pault/), with
lighter twins of the dark hues for a dark page. No figure relies on color alone: marks differ in shape or carry names.
"""

# name: (light, dark)
ROLES = {
    "paper": ("#fdfdfb", "#13161d"),
    "ink": ("#1b2130", "#e6e9f0"),
    "quiet": ("#5d6677", "#a0a9b9"),
    "line": ("#d8dce4", "#333a48"),
    "accent": ("#2b5fa5", "#7fb0f0"),
    "contrast": ("#b4472f", "#f09a80"),
    "good": ("#1e6f50", "#6fcfa4"),
    "caution": ("#8a5a00", "#e8b75a"),
    "bad": ("#a8242f", "#f58a90"),
}
PAPER, INK, QUIET, LINE, ACCENT, CONTRAST = (light for light, _ in list(ROLES.values())[:6])

CATEGORIES = [
    ("#332288", "#8f86e8"),
    ("#cc6677", "#e88a99"),
    ("#117733", "#4fb36f"),
    ("#a18a24", "#ddcc77"),
    ("#3388b8", "#88ccee"),
    ("#882255", "#d2699f"),
    ("#2f9485", "#5fd0bd"),
    ("#8a8a2c", "#b9b94f"),
    ("#aa4499", "#d884cb"),
    ("#6b7080", "#b4b9c6"),
]


def category(number: int) -> str:
    """The light color of a category; they repeat after ten, so a name or a shape must stand beside it."""
    return CATEGORIES[number % len(CATEGORIES)][0]


def variables() -> dict[str, tuple[str, str]]:
    """CSS variable name to its light and dark value."""
    return ROLES | {f"category-{number}": pair for number, pair in enumerate(CATEGORIES)}
