"""Graphs of the families' parameters are evaluated in Python: compiling them takes longest."""

import pytest
from models import python_graphs
from pytensor.compile.mode import Mode


@pytest.fixture(autouse=True)
def without_compiling(monkeypatch):
    """All rewrites are kept: that of log(sigmoid(x)), for one, decides about the last digits."""
    python_graphs(monkeypatch, Mode(linker="py", optimizer="fast_run").excluding("fusion"))
