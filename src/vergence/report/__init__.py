"""Pages: a run, or several side by side, as one self-contained HTML file that opens from disk without a network.

A page is ``document(title, verdict, [section(title, piece, piece, ...), ...])``; the pieces (tables, pictures, lists,
maps) are functions that return escaped markup, and the figures in them are plain matplotlib, for notebooks as well.
"""

from vergence.report import figures
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
