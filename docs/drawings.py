"""Drawings of what a method compares, made from its row."""

from html import escape

from vergence.methods import Method

STYLE = (
    ".b{fill:none;stroke:currentColor;stroke-width:1.4}.t{font:13px system-ui,sans-serif;fill:currentColor}"
    ".s{font:11px system-ui,sans-serif;fill:currentColor;opacity:.75}.l{stroke:currentColor;stroke-width:1.4;fill:none}"
    ".d{stroke-dasharray:5 4}.e{marker-end:url(#arrow)}"
)
ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker>'
)


def branches(name: str, row: Method) -> str:
    """The two branches of a method as an SVG: what each view passes through, where the gradient stops, what is kept."""
    steps = ["encoder", *(["projector"] if row.projector and row.objective else [])]
    upper = [*steps, *(["predictor"] if row.predictor else [])]
    words = {
        "online": ("the same weights", "gradient"),
        "detached": ("the same weights", "no gradient"),
        "momentum": (f"moving average, {row.momentum:g}", "no gradient"),
    }[row.target]
    if row.learner in ("two_modal", "infomax"):
        words = ("an encoder of its own", "gradient")
    if row.objective is None and row.learner not in ("infomax", "two_modal"):
        return _single(name, row)
    loss = row.objective or row.learner
    parts = [_chain(30, "view 1", upper, solid=True), _chain(130, "view 2", steps, solid=row.target == "online")]
    parts.append(f'<text class="s" x="112" y="187">{escape(words[0])}, {escape(words[1])}</text>')
    if row.queue:
        parts.append(_box(390, 178, f"queue of {row.queue:,}", 120) + '<path class="l e" d="M510 198 H575 V112"/>')
    parts.append(
        _box(540, 72, loss, 130) + '<path class="l e" d="M500 50 H605 V72"/><path class="l e" d="M500 150 H605 V112"/>'
    )
    text = (
        f"{name}: view 1 through {', '.join(upper)}; view 2 through {', '.join(steps)} ({words[0]}, {words[1]}); {loss}"
    )
    text += f", with a queue of {row.queue} past keys" if row.queue else ""
    return _figure(text, "".join(parts), 225)


def _single(name: str, row: Method) -> str:
    """A method without pairs: a sample, the encoder, and its own task."""
    parts = _chain(40, "sample", ["encoder"], solid=True)
    parts += _box(400, 40, row.learner.replace("_", " "), 150) + '<path class="l e" d="M240 60 H400"/>'
    return _figure(f"{name}: a sample through the encoder into its own task, {row.learner}", parts, 100)


def _chain(top: int, first: str, steps: list[str], *, solid: bool) -> str:
    """A row of boxes with arrows between them; a dashed one carries no gradient."""
    line = "l" if solid else "l d"
    parts = [f'<text class="t" x="10" y="{top + 25}">{escape(first)}</text>']
    x = 110
    start = 62
    for step in steps:
        parts.append(f'<path class="{line} e" d="M{start} {top + 20} H{x}"/>{_box(x, top, step)}')
        start, x = x + 110, x + 130
    parts.append(f'<path class="{line}" d="M{start} {top + 20} H500"/>')
    return "".join(parts)


def _box(x: int, y: int, text: str, width: int = 110) -> str:
    return (
        f'<rect class="b" x="{x}" y="{y}" width="{width}" height="40" rx="7"/>'
        f'<text class="t" x="{x + width / 2:g}" y="{y + 25}" text-anchor="middle">{escape(text)}</text>'
    )


def _figure(text: str, parts: str, height: int) -> str:
    return (
        f'<div class="drawing" tabindex="0" role="group" aria-label="Drawing"><svg viewBox="0 0 690 {height}" '
        f'style="max-width:44rem;width:100%" role="img" aria-label="{escape(text)}">'
        f"<style>{STYLE}</style>{ARROW}{parts}</svg></div>"
    )
