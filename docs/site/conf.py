"""Settings of Sphinx. The sources are those that `gather.py` makes; `python docs/site/build.py` builds them."""

import re
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import lmgp

project = "lmgp"
author = "the authors of lmgp"
version = release = lmgp.__version__
project_copyright = f"{author}, MIT licence"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "numpydoc", "sphinx_design"]
root_doc = "index"
exclude_patterns = ["benchmarks/**", "lmgp/**"]
default_role = "py:obj"  # a name of the package is a link, anything else is code
highlight_language = "text"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"

autodoc_typehints = "none"  # the docstrings say shapes and units
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
viewcode_line_numbers = True
toc_object_entries_show_parents = "hide"
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "lmgp"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "benchmarks": [], "CHANGELOG": [], "CONTRIBUTING": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "lmgp"},
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

FOREIGN = {"sklearn", "gpytorch", "torch", "linear_operator", "abc", "builtins"}
# Code between backticks, and a name with an underscore at its end, or a bar, that is neither.
SPAN = re.compile(r"(``.+?``|`[^`]+`_?)")
BACK = re.compile(r'<a class="viewcode-back"[^>]*>.*?</a>')
MARK = re.compile(r"(?<=\w)_(?!\w)|\|")


def skip_members(app, what, name, member, skip, options):
    """Leave out what another library defines: it stands in that library's reference."""
    module = getattr(member, "__module__", None) or ""
    return True if module.split(".")[0] in FOREIGN else None


def escape_formulas(app, what, name, obj, options, lines):
    """Let ``center_`` and ``|y − m|`` stand in docstrings as they are: to Sphinx they are a link and a substitution."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = SPAN.split(line)
            parts[::2] = [MARK.sub(r"\\\g<0>", part) for part in parts[::2]]
            lines[i] = "".join(parts)


def visit_math(translator, node):
    """Write formulas as MathML, which browsers show by themselves."""
    translator.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def without_ways_back(app, pagename, templatename, context, doctree):
    """Leave out the links from source to reference: of a name that is documented by another, they lead nowhere."""
    if pagename.startswith("_modules/"):
        context["body"] = BACK.sub("", context.get("body", ""))


def setup(app):
    app.connect("html-page-context", without_ways_back)
    app.connect("autodoc-skip-member", skip_members)
    app.connect("autodoc-process-docstring", escape_formulas, priority=900)  # after numpydoc
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
