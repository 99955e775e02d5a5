"""How Sphinx builds these pages: `nox -s docs`."""

import sys
from pathlib import Path

import posenc_core

sys.path.insert(0, str(Path(__file__).parent))
from support import support

project = "posenc"
release = posenc_core.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
default_role = "code"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say shapes, which types do not
napoleon_use_ivar = True  # autodoc lists the fields of named tuples, too
myst_heading_anchors = 2


def setup(app):
    """Write the page of what works where, before pages are read."""
    app.connect("builder-inited", lambda app: Path(app.srcdir, "reference", "support.md").write_text(support()))
