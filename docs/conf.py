"""How Sphinx makes the site (`make docs`): its source is the whole checkout, so that links are as in the repository."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs import reference  # noqa: E402

reference.write()

project = "lrpnumpy"
copyright = author = "the lrpnumpy authors"

# What is a page. Everything else that pages link to, such as examples/river.py, becomes a download.
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "docs/**.rst",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "benchmarks/river/README.md",
]
exclude_patterns = [".*", "docs/_build", "build", "dist", "*.egg-info"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_copybutton"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4  # as the repository's web view makes them
autodoc_typehints = "none"  # docs/reference.py writes the signatures
copybutton_prompt_text = "$ "

# Tutorials and the gallery run when the site is built, each in a fresh folder that has the examples of a checkout.
nb_execution_mode = "force"
nb_execution_timeout = 600  # seconds for a cell by the clock; a page has a minute of the processor: notebook_startup.py
nb_execution_raise_on_error = True
nb_merge_streams = True
IPYTHON = Path(__file__).parent / "_build" / "ipython"
(IPYTHON / "profile_default" / "startup").mkdir(parents=True, exist_ok=True)
shutil.copy(Path(__file__).parent / "notebook_startup.py", IPYTHON / "profile_default" / "startup")
os.environ["IPYTHONDIR"] = str(IPYTHON)
os.environ["LRPNUMPY_CHECKOUT"] = str(ROOT)
os.environ.setdefault("LRPNUMPY_COMPILE", "wait")

html_theme = "furo"
html_title = "lrpnumpy"
html_static_path = ["static"]
html_extra_path = ["root"]  # leads from the top of the site to its first page
html_css_files = ["site.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"


def inline_math(writer: Any, node: nodes.math) -> None:
    """A formula in a line, as MathML: browsers and screen readers know it, and nothing is fetched from elsewhere."""
    writer.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def block_math(writer: Any, node: nodes.math_block) -> None:
    """A formula as a block."""
    writer.body.append(f'<div class="formula">{latex2mathml.tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Math without a script."""
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
