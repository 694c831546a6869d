"""The site: Sphinx, furo and MyST; tutorials are executed when it is built. `make docs` builds it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import pages  # noqa: E402

from vergence import __version__  # noqa: E402

project, author, release = "Vergence", "The Vergence authors", __version__
copyright = "2026, The Vergence authors"
extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "mathml",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block", "html_image"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
# A tutorial that fails, or a link that leads nowhere, fails the build (make docs turns warnings into errors).
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_custom_sections = [("References", "notes_style")]
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "Vergence"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["gallery_pages"]
html_theme_options = {"footer_icons": [], "navigation_with_keys": True}
suppress_warnings = ["mystnb.unknown_mime_type"]

pages.write(HERE / "generated")
