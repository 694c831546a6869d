"""The pieces a page is composed of: each returns markup in which every name and label has been escaped."""

import hashlib
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from vergence.report.colors import variables

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
# A figure and its percent sign stay on one line.
TEMPLATES.filters["tight"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
LONGEST_NAME = 28  # characters of a table cell that stay on one line


def paragraph(text: str) -> Markup:
    """A paragraph of plain text."""
    return Markup("<p>{}</p>").format(text)


def bullets(lines: Iterable[str]) -> Markup:
    """A list of plain sentences."""
    return piece("bullets", list(lines))


def code(text: str) -> Markup:
    """A command or listing, to be copied."""
    return Markup('<pre tabindex="0"><code>{}</code></pre>').format(text)


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "") -> Markup:
    """A table that scrolls inside its own box; numbers are set in columns, the first cell of a row is its heading."""
    cells = [[(cell if isinstance(cell, Markup) else shown(cell), _width(cell)) for cell in row] for row in rows]
    return piece("table", list(headings), cells, caption)


def stacked(text: str, below: str | None) -> Markup:
    """A cell of two lines, the second in small print."""
    return Markup("{}<small>{}</small>").format(text, below) if below else Markup("{}").format(text)


def details(summary: str, *body: Markup) -> Markup:
    """Pieces that stay folded until asked for."""
    return piece("details", summary, Markup("").join(body))


def side_by_side(*body: Markup | None) -> Markup | None:
    """Pieces beside each other where the window is wide enough; None when there are none."""
    parts = [part for part in body if part]
    return piece("side_by_side", parts) if parts else None


def picture(figure: Figure, caption: str, *, description: str) -> Markup:
    """A matplotlib figure as inline SVG that follows light and dark; ``description`` is what a screen reader says."""
    return piece("picture", svg(figure), caption, description)


def svg(figure: Figure) -> Markup:
    """A figure as an SVG element of the page."""
    return themed(drawn(figure))


def drawn(figure: Figure, **options: Any) -> str:
    """A figure as an SVG file: the same bytes for the same figure, its text kept as text."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "vergence"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, **options)
    return buffer.getvalue()


def themed(text: str) -> Markup:
    """An SVG file of ours as an element whose colors are the page's variables and whose identifiers are its own."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text))
    for name, (light, _) in variables().items():
        text = text.replace(light, f"var(--{name})")
    own = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Markup(re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>figure-{own}-", text))


def shown(value: Any) -> str:
    """A value as a person would write it: four significant digits, a dash for nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {shown(item)}" for key, item in value.items())
    return str(value)


def shortened(name: str, most: int = LONGEST_NAME) -> str:
    """A long name with its middle left out: beginnings and endings tell names apart."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most // 2) :]}"


def _width(cell: Any) -> str:
    """Whether a cell may be broken into lines: sentences may, figures and names may not."""
    return "short" if isinstance(cell, Markup) or len(shown(cell)) <= LONGEST_NAME else "long"


def piece(name: str, *arguments: Any) -> Markup:
    """A macro of ``pieces.html``, with its arguments escaped."""
    return getattr(TEMPLATES.get_template("pieces.html").module, name)(*arguments)
