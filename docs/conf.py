"""The documentation site: `sphinx-build -W docs docs/_build/html`. Neither building nor reading it needs a network."""

import os
import runpy
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "_extensions"), str(Path(__file__).parents[1])]
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # what notebooks print comes from CPUs
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # tqdm without ipywidgets, below a notebook's first cell

project = "jattn"
author = "The jattn authors"
project_copyright = author
version = release = runpy.run_path(str(Path(__file__).parents[1] / "jattn/_version.py"))["__version__"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "mathml",  # the folder _extensions has these two
    "signatures",
]
exclude_patterns = ["_build", "_extensions"]
default_role = "py:obj"  # `name` in a docstring links to the name's entry

html_theme = "furo"
html_title = f"jattn {release}"
html_static_path = ["_static"]
html_css_files = ["jattn.css"]
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output

myst_enable_extensions = ["amsmath", "dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"  # what a notebook shows is what the code beside it does
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds of a cell
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "special-members": "__call__"}
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, as that of arguments
