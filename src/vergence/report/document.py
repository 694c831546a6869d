"""A page: one self-contained HTML file that fetches nothing, made of sections."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from vergence.report.colors import variables
from vergence.report.gains import GOOD
from vergence.report.pieces import TEMPLATES
from vergence.report.sprite import Sprite

ROOM = Path(__file__).parent
# Verdicts that are no faults; every other label is one. A mark shows it too: color is never the only sign.
TONES = {"": "plain"} | dict.fromkeys(
    ("unknown", "not started", "cannot tell", "not examined", "too few rows", "no certain gain"), "caution"
)
TONES |= dict.fromkeys((*GOOD, "confirmed"), "good")


@dataclass(frozen=True)
class Section:
    """A heading and the markup under it."""

    title: str
    body: Markup

    @property
    def anchor(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


def section(title: str, *body: Markup | None) -> Section | None:
    """A section of the given pieces, or None when there are none."""
    pieces = [piece for piece in body if piece]
    return Section(title, Markup("\n").join(pieces)) if pieces else None


def document(
    title: str,
    verdict: str,
    sections: Sequence[Section | None],
    *,
    label: str = "",
    summary: Sequence[str] = (),
    evidence: Sequence[str] = (),
    sprite: Sprite | None = None,
) -> str:
    """A whole page: the verdict first in one sentence, then the summary, the evidence and the sections.

    The content security policy allows the page's own script by its hash and no request at all.
    """
    script = (ROOM / "scatter.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return TEMPLATES.get_template("document.html").render(
        title=title,
        verdict=verdict,
        label=label,
        tone=TONES.get(label.lower(), "bad"),
        summary=summary,
        evidence=evidence,
        sections=[part for part in sections if part],
        sprite=sprite,
        variables=variables(),
        style=Markup((ROOM / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
    )
