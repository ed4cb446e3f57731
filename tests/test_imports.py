"""What ``import pymc_dshdp`` brings in."""

import ast
from pathlib import Path

import pymc_dshdp as dshdp

LATER = {"arviz", "matplotlib", "scipy.stats"}  # seconds that a run does not need


def test_pictures_and_diagnostics_are_imported_when_they_are_used():
    for path in Path(dshdp.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                within = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                for name in node.names:
                    found = f"{within}{name.name}."
                    assert not any(found.startswith(f"{x}.") for x in LATER), (path, found)
