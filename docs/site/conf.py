"""Configuration of Sphinx for the documentation site; ``python -m docs.site`` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import kerneldsl  # noqa: E402

project = "kerneldsl"
author = "The kerneldsl authors"
copyright = "2026, the kerneldsl authors"
version = release = kerneldsl.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_nb",
    "docs.site.mathml",
    "docs.site.references",
]
nitpicky = True
# In docstrings single backticks stand around names and code.
default_role = "code"
# Blocks that do not say what they are, are printed text.
highlight_language = "none"
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# Types are in the text of a docstring, as numpydoc writes them.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
# Of LLVM's newer instructions, which the lexer does not know.
suppress_warnings = ["misc.highlighting_failure"]

# Notebooks are shown as they are stored: the tests execute them.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
myst_enable_extensions = ["attrs_block", "colon_fence", "dollarmath", "html_image"]
myst_heading_anchors = 5

html_theme = "furo"
html_title = f"kerneldsl {release}"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_favicon = html_logo = str(HERE / "static" / "logo.svg")
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0a6c3d", "color-brand-content": "#0a6c3d"},
    "dark_css_variables": {"color-brand-primary": "#7ee787", "color-brand-content": "#7ee787"},
}
