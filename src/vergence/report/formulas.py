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
    return Markup('<a href="#formula-{}">{}</a>').format(origin, name) if origin else Markup("{}").format(name)


def formulas(names: Iterable[str]) -> Markup | None:
    """The formulas of these figures, each once, folded."""
    origins = dict.fromkeys(origin for name in names if (origin := _origin(name)))
    if not origins:
        return None
    line = Markup('<dt id="formula-{}">{}</dt><dd>{}</dd>')
    lines = [line.format(name, name.replace("_", " "), tables.summary("diagnostics", name)) for name in origins]
    return details("How each is computed", Markup("<dl>{}</dl>").format(Markup("").join(lines)))


def _origin(name: str) -> str | None:
    known = name.replace(" ", "_")
    return known if known in tables.names("diagnostics") else ORIGINS.get(name)
