"""Planted defects are caught."""

import pytest
from mutations import MUTATIONS, caught, mutated_source

QUICK = {"no-delta"}  # enumeration: a few seconds


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_defect_still_has_its_place(name):
    assert mutated_source(MUTATIONS[name])


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MUTATIONS]
)
def test_every_defect_is_caught(name, tmp_path):
    """By the test that ``MUTATIONS`` names, in an interpreter of its own."""
    draws, output = caught(name, tmp_path)
    assert draws is not None, output
