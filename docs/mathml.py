"""Formulas as MathML, made when the site is built: they need no script and no network."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

# What the converter reads differently from LaTeX.
REWRITTEN = {r"\lvert": "|", r"\rvert": "|", r"\tfrac": r"\frac"}


def formula(text: str, *, display: str) -> str:
    """LaTeX as a ``math`` element."""
    for one, other in REWRITTEN.items():
        text = text.replace(one, other)
    # \frac1n without braces, as LaTeX allows it
    text = re.sub(r"\\frac(\d|\\[a-z]+|[a-z])(\d|\\[a-z]+|[A-Za-z])", r"\\frac{\1}{\2}", text)
    return convert(text, display=display)


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(formula(node.astext(), display="inline"))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    made = formula(node.astext(), display="block")
    translator.body.append(f'<div class="formula" tabindex="0" role="group" aria-label="Formula">{made}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
