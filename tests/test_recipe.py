"""The conda recipe, the citation and the workflows say what pyproject.toml says."""

import re
import tomllib
from pathlib import Path

import pymc_dshdp as dshdp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CALLED = {"matplotlib": "matplotlib-base"}
"""Packages that conda calls otherwise."""


def test_conda_recipe_and_metadata_agree():
    """Fails if a dependency, a bound or the version is changed in one of them alone."""
    text = (ROOT / ".github" / "conda" / "recipe.yaml").read_text()
    assert f'version: "{dshdp.__version__}"' in text
    files = "".join(f"    - {file}\n" for file in PROJECT["license-files"])
    assert f"license: {PROJECT['license']}\n  license_file:\n{files}" in text
    assert f'summary: "{PROJECT["description"]}"' in text
    assert f"homepage: {PROJECT['urls']['Homepage']}\n" in text
    assert f"documentation: {PROJECT['urls']['Documentation']}\n" in text
    assert f"imports:\n        - {dshdp.__name__}\n" in text
    run = re.search(r"\n  run:\n((?:    - .*\n)+)", text).group(1)
    found = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()}
    wanted = {f"python{PROJECT['requires-python']}"}
    for dependency in PROJECT["dependencies"]:
        name, bounds = re.fullmatch(r"([a-z]+)(.*)", dependency).groups()
        wanted.add(CALLED.get(name, name) + bounds)
    assert found == wanted


def test_citation_and_metadata_agree():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {dshdp.__version__}\n" in text
    code, *data = PROJECT["license"].split(" AND ")
    assert f"\nlicense: {code}\n" in text and data, "what is cited is the code"
    assert f'\nrepository-code: "{PROJECT["urls"]["Repository"]}"\n' in text


def test_the_pythons_declared_are_tested():
    """Fails if a Python is declared and not tested on every system, or tested and not declared."""
    matrix = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    tested = re.search(r"\n        python: \[(.*)\]", matrix).group(1).replace('"', "")
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert tested.split(", ") == declared
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in matrix
    assert PROJECT["requires-python"] == f">={declared[0]}"
