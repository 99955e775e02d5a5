"""How Sphinx builds these pages: `nox -s docs`."""

import gc
import os
import sys
from pathlib import Path

import posenc_core

sys.path.insert(0, str(Path(__file__).parent))
from architecture import architecture
from bibliography import bibliography
from costs import costs
from covered import coverage
from devices import devices
from directives import Commands, Functions, Layers, plain_signature
from drawings import pictures, write_figures
from drawn import FOLDER
from fields import join_names
from figures import Drawn
from formulas import displayed, inline
from heads import describe, lead_to_notebooks
from interactive import Interactive
from keywords import add_keywords
from languages import Elsewhere, OwnText, lead_elsewhere, others, show_contents
from mistakes import mistakes, mistakes_of_caches
from notebooks import write_notebooks
from on_gpu import on_gpu
from scored import scoreboard
from speed import behind, first_screen, reasons, speed, without_kernel
from suites import suites
from support import support
from versions import versions

gc.set_threshold(100_000, 20, 20)  # a look for garbage goes through the trees of all pages: half of reading them

project = "posenc"
release = posenc_core.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]
html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_js_files = [("interactive.js", {"defer": "defer"})]
html_title = "posenc"
html_logo = "_static/logo.svg"
html_favicon = "_static/favicon.svg"
html_show_copyright = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6673", "color-brand-content": "#0b6673"},
    "dark_css_variables": {"color-brand-primary": "#5cc8d7", "color-brand-content": "#5cc8d7"},
}
html_baseurl = os.environ.get("POSENC_PAGES", "")
if repository := os.environ.get("POSENC_REPOSITORY"):
    html_theme_options |= {"source_repository": repository, "source_branch": "main", "source_directory": "docs/"}
numfig = True
default_role = "code"
exclude_patterns = ["_build", "_drawn"]
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings give shapes, which types do not
napoleon_use_ivar = True  # autodoc lists the fields of named tuples as well
myst_heading_anchors = 2
myst_enable_extensions = ["attrs_block", "colon_fence", "dollarmath"]
copybutton_selector = "div.highlight-python pre"  # output is not copied
locale_dirs = ["locale"]
gettext_compact = False
gettext_location = False
if tags.has("translated"):  # noqa: F821  # pages with a catalogue, after the English ones are built
    exclude_patterns += others()
    suppress_warnings = ["toc.not_readable"]
    extensions.append("sphinx.ext.intersphinx")
    html_search_options = {"dict": str(Path(__file__).parent / "locale" / "zh_CN" / "words.txt")}  # beside jieba's own
    intersphinx_mapping = {"english": ("..", "_build/objects.inv")}


def setup(app):
    """Write what is generated from known failures and committed results, before pages are read."""
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    app.add_directive("layers", Layers)
    app.add_directive("functions", Functions)
    app.add_directive("commands", Commands)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("doctree-read", add_keywords)
    app.connect("doctree-read", join_names)
    app.connect("html-page-context", lead_elsewhere)
    app.add_directive("drawn", Drawn)
    app.add_directive("interactive", Interactive)
    app.connect("html-page-context", describe)
    if repository:
        app.connect("source-read", name_owner)
    app.connect("html-page-context", lead_to_notebooks)
    app.connect("build-finished", finish)
    if app.tags.has("translated"):
        app.add_transform(OwnText)
        app.add_post_transform(Elsewhere)
        app.connect("doctree-read", show_contents)
    else:
        app.connect("builder-inited", lambda app: write_drawn())


def finish(app, error):
    """Write the notebooks beside the pages; catalogues have none."""
    if app.builder.format == "html":
        write_notebooks(Path(app.outdir, "notebooks"), in_chinese=app.tags.has("translated"))


def name_owner(app, page, source):
    """Write the address of the repository, which whoever hosts it gives, into a page."""
    source[0] = source[0].replace("https://github.com/OWNER/posenc", repository)


def write_drawn():
    """Write the pictures and tables of the benchmarks, and the pictures of the tutorial."""
    FOLDER.mkdir(exist_ok=True)
    drawn = [*pictures()]
    write_figures(drawn)
    for name, text in [
        ("architecture", architecture()),
        ("bibliography", bibliography()),
        ("speed", speed()),
        ("speed-first", first_screen()),
        ("speed-without", without_kernel()),
        ("speed-behind", behind()),
        ("speed-reasons", reasons()),
        ("gpu", on_gpu()),
        ("costs", costs()),
        ("coverage", coverage()),
        ("mistakes", mistakes()),
        ("cache_mistakes", mistakes_of_caches()),
        ("scoreboard", scoreboard()),
        ("suites", suites()),
        ("support", support()),
        ("devices", devices()),
        ("versions", versions()),
        *drawn,
    ]:
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
