"""How Sphinx builds these pages: `nox -s docs`."""

import posenc_core

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
