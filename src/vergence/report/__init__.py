"""Pages: a run, or several side by side, as one self-contained HTML file that opens from disk without a network.

A page is ``document(title, verdict, [section(title, piece, piece, ...), ...])``; the pieces (tables, pictures, lists,
maps) are functions that return escaped markup, and the figures in them are plain matplotlib, for notebooks as well.

Names are imported when they are first used: plain text needs no matplotlib.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vergence.report import figures as figures
    from vergence.report.comparison import compare
    from vergence.report.document import Section, document, section
    from vergence.report.embedding import principal_plane, scatter
    from vergence.report.page import page, write
    from vergence.report.pieces import bullets, code, details, paragraph, picture, side_by_side, table
    from vergence.report.sprite import Sprite, make_sprite
    from vergence.report.summary import summary

__all__ = [
    "Section",
    "Sprite",
    "bullets",
    "code",
    "compare",
    "details",
    "document",
    "figures",
    "make_sprite",
    "page",
    "paragraph",
    "picture",
    "principal_plane",
    "scatter",
    "section",
    "side_by_side",
    "summary",
    "table",
    "write",
]

_PLACES = {
    "compare": "comparison", "Section": "document", "document": "document", "section": "document",
    "principal_plane": "embedding", "scatter": "embedding", "page": "page", "write": "page", "bullets": "pieces",
    "code": "pieces", "details": "pieces", "paragraph": "pieces", "picture": "pieces", "side_by_side": "pieces",
    "table": "pieces", "Sprite": "sprite", "make_sprite": "sprite", "summary": "summary",
}  # fmt: skip


class _Room(ModuleType):
    """Keeps its functions in sight: importing ``report.page`` must not put the module in the place of ``page()``."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _PLACES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    if name == "figures":
        return importlib.import_module(f"{__name__}.figures")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
