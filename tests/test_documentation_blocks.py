"""Every python block of README and of the pages of docs runs as it is written.

The blocks of a page run in their order, in one namespace. A page that says ``<!-- continues
PAGE -->`` goes on from the blocks of that page, as its reader does. Only the numbers of draws
and chains are smaller.
"""

import re
import textwrap
import tomllib
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pymc as pm
import pytensor
import pytest
from models import FAST, python_graphs

import pymc_dshdp as dshdp
from pymc_dshdp.emissions import base

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
CONTINUES = re.compile(r"<!-- continues (\S+) -->")
FENCE = re.compile(r"^ *```(\S*)", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
QUICK = {"README.md", "docs/install.md"}
SHORT = {"draws": 24, "tune": 8, "chains": 2, "progressbar": False, "compile_kwargs": FAST}


def blocks(page):
    """Blocks of a page, those of the page it continues before them."""
    text = page.read_text()
    for before in CONTINUES.findall(text):
        yield from blocks(ROOT / "docs" / before)
    for found in BLOCK.finditer(text):
        line = text[: found.start()].count("\n") + 1
        yield page, line, textwrap.dedent(found[2])


def cases():
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        if BLOCK.search(page.read_text()):
            marks = [] if name in QUICK else [pytest.mark.slow]
            yield pytest.param(page, id=name, marks=marks)


@pytest.fixture
def shortly(monkeypatch, tmp_path):
    """Few draws, graphs in Python, no windows, a folder of its own, and no family that stays."""
    sample, go_on, distributed = pm.sample, dshdp.continue_sampling, dshdp.sample_distributed

    def short(draws=None, **kwargs):
        paths = kwargs.get("initvals")
        chains = len(paths) if isinstance(paths, list) else SHORT["chains"]
        return sample(**{**kwargs, **SHORT, "cores": 1, "chains": chains, "random_seed": 1})

    monkeypatch.setattr(pm, "sample", short)
    monkeypatch.setattr(
        dshdp, "continue_sampling", lambda run, **kw: go_on(run, **{**kw, "draws": 3})
    )
    monkeypatch.setattr(dshdp, "sample_distributed", lambda **kw: distributed(**{**kw, **SHORT}))
    monkeypatch.setattr(base, "_families", list(base._families))
    monkeypatch.chdir(tmp_path)
    backend = matplotlib.get_backend()
    matplotlib.use("Agg")
    python_graphs(monkeypatch)
    with pytensor.config.change_flags(mode=FAST["mode"]):
        yield
    plt.close("all")
    matplotlib.use(backend)


# Chains of two dozen draws disagree, reach the truncation and diverge, and PyMC imputes aloud.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", list(cases()))
def test_blocks(page, shortly):
    """Fails at the first block that does not run, naming its page and line."""
    namespace = {"__name__": "page"}
    for where, line, code in blocks(page):
        exec(compile("\n" * line + code, where, "exec"), namespace)
    if "client" in namespace:
        namespace["client"].shutdown()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fences(page):
    """Fails where a block is opened and not closed, or its language is misspelt."""
    languages = FENCE.findall(page.read_text())
    assert len(languages) % 2 == 0
    directives = {"{toctree}", "{eval-rst}", "{include}", "{literalinclude}"}
    assert set(languages) <= {"", "python", "bash", "text"} | directives
    assert not any(languages[1::2])


def test_readme_is_short():
    """Fails if README grows into the site, or has links that PyPI cannot follow."""
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 900
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert links
    assert all(link.startswith("https://") for link in links)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    site, code = (project["urls"][name] for name in ("Documentation", "Repository"))
    for link in links:
        if link.startswith(site):
            page = link.removeprefix(site) or "index.html"
            assert (ROOT / "docs" / page).with_suffix(".md").exists(), link
        elif link.startswith(code):
            assert (ROOT / link.removeprefix(f"{code}/blob/main/")).exists(), link


def test_links():
    """Fails if a page links to a file that is not there."""
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_public_name_is_in_the_reference():
    """Fails if a name at the top level is missing from docs/api.md, or is used in no example."""
    text = (ROOT / "docs" / "api.md").read_text()
    examples = text + (ROOT / "docs" / "storage.md").read_text()
    for name in set(dshdp.__all__) - {"datasets"}:
        assert f"   {name}\n" in text, name
        abstract = name == "TransitionPrior"
        assert abstract or f"dshdp.{name}(" in examples, name
