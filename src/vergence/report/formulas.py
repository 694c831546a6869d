"""What each figure is: a name that leads to its formula, on the same page."""

from collections.abc import Iterable

from markupsafe import Markup

from vergence import tables
from vergence.report.pieces import details

# Figures that do not bear the name of the diagnostic they come from.
ORIGINS = {
    "participation ratio": "spectrum",
    "stable rank": "spectrum",
    "decay exponent": "spectrum",
    "norm": "norms",
    "embedding norm": "norms",
    "divergence max": "divergence",
    "divergence mean": "divergence",
    "false negatives": "negatives",
    "effective negatives": "negatives",
    "vanished float32": "negatives",
    "vanished float16": "negatives",
    "held out loss": "thermometer",
    "matching through a map": "matching",
    "collapse of embeddings": "collapse",
}


def linked(name: str) -> Markup:
    """A figure's name, as a link to its formula where there is one."""
    origin = _origin(name)
    return Markup('<a href="#{}">{}</a>').format(_anchor(origin[1]), name) if origin else Markup("{}").format(name)


def formulas(names: Iterable[str]) -> Markup | None:
    """The formulas of these figures, each once, folded."""
    origins = dict.fromkeys(origin for name in names if (origin := _origin(name)))
    if not origins:
        return None
    line = Markup('<dt id="{}">{}</dt><dd>{}</dd>')
    lines = [line.format(_anchor(row), row.replace("_", " "), tables.summary(room, row)) for room, row in origins]
    return details("How each is computed", Markup("<dl>{}</dl>").format(Markup("").join(lines)))


def _origin(name: str) -> tuple[str, str] | None:
    """The table and the row that a figure comes from."""
    classifier, _, _ = name.partition(",")
    if classifier in tables.names("evaluation"):
        return "evaluation", classifier
    known = name.replace(" ", "_")
    diagnostic = known if known in tables.names("diagnostics") else ORIGINS.get(name)
    return ("diagnostics", diagnostic) if diagnostic else None


def _anchor(row: str) -> str:
    return f"formula-{row.replace(' ', '_')}"
