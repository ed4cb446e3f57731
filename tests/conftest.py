"""Fixtures for all tests; its presence puts ``tests`` on the import path too."""

import pytensor
import pytest
from models import python_graphs


@pytest.fixture(scope="module")
def python_readers():
    """The graphs of our steps and analyses are evaluated in Python; kernels stay compiled."""
    with pytest.MonkeyPatch.context() as patch:
        python_graphs(patch)
        yield


@pytest.fixture(scope="module")
def python_pymc():
    """PyMC's own graphs are evaluated in Python."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


@pytest.fixture(scope="module")
def python_mode(python_readers, python_pymc):
    """All graphs are evaluated in Python; kernels stay compiled."""


@pytest.fixture
def quick(monkeypatch):
    """Graphs are evaluated in Python in one test; kernels stay compiled."""
    python_graphs(monkeypatch)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield
