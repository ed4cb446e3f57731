"""Configuration of the documentation: ``python -m sphinx -W -b html docs build/site``."""

import warnings

# ArviZ 0.x announces its own successor on import.
warnings.filterwarnings("ignore", "\\nArviZ is undergoing", FutureWarning)

import pymc_dshdp  # noqa: E402

project = "pymc_dshdp"
author = "pymc_dshdp developers"
copyright = author  # noqa: A001
version = release = pymc_dshdp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
myst_heading_anchors = 3
exclude_patterns = ["generated/*.md"]

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "pymc_dshdp"
html_theme_options = {
    "github_url": "https://github.com/pymc-dshdp/pymc-dshdp",
    "navigation_with_keys": False,
    "show_toc_level": 2,
}
html_sidebars = {"index": []}
html_copy_source = False
