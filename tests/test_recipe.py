"""The conda recipe says what pyproject.toml says."""

import re
import tomllib
from pathlib import Path

import pymc_dshdp as dshdp

ROOT = Path(__file__).parents[1]
CALLED = {"matplotlib": "matplotlib-base"}
"""Packages that conda calls otherwise."""


def test_conda_recipe_and_metadata_agree():
    """Fails if a dependency, a bound or the version is changed in one of them alone."""
    text = (ROOT / ".github" / "conda" / "meta.yaml").read_text()
    assert f'version = "{dshdp.__version__}"' in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = re.search(r"\n  run:\n((?:    - .*\n)+)", text).group(1)
    found = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()}
    wanted = {f"python{project['requires-python']}"}
    for dependency in project["dependencies"]:
        name, bounds = re.fullmatch(r"([a-z]+)(.*)", dependency).groups()
        wanted.add(CALLED.get(name, name) + bounds)
    assert found == wanted
