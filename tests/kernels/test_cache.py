"""Where compiled kernels are kept."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
import warnings

import numba
import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_dshdp import kernels
from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.kernels import blocks, cache

CODE = """
import warnings
import numba.core.caching as caching

def read_only(self):
    raise OSError(30, "Read-only file system")

for name, locator in list(vars(caching).items()):
    if isinstance(locator, type) and ("InTreeCache" in name or "UserWideCache" in name):
        locator.ensure_cache_path = read_only
import pymc
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import pymc_dshdp
from pymc_dshdp.kernels.slice import slice_sample
from pymc_dshdp.kernels.counts import occupied_states, empty_counts
print(occupied_states(empty_counts(3)))
print([str(w.message) for w in seen if "NUMBA_CACHE_DIR" in str(w.message)])
"""


def test_no_folder_can_be_written_to(monkeypatch):
    """The package is imported and compiles, and one line says how to keep what it compiled."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    occupied, warned = run.stdout.strip().splitlines()
    assert occupied == "0"
    assert warned.count("NUMBA_CACHE_DIR") == 1


def test_the_user_is_told_once_of_kernels_that_are_compiled(monkeypatch, caplog):
    """Fails if a minute of compilation is silent, or if every kernel is announced."""
    monkeypatch.setattr(cache._Teller, "told", False)
    monkeypatch.setattr(cache, "PATIENCE_SECONDS", -1.0)
    with caplog.at_level("INFO", "pymc"), cache.telling_of_compilation():
        numba.njit(lambda x: x + 1)(1)
        numba.njit(lambda x: x + 2)(1)
    [record] = caplog.records
    assert record.message.startswith("Compiling kernels, once per installation")


def test_the_user_is_not_told_of_what_is_quick(monkeypatch, caplog):
    monkeypatch.setattr(cache._Teller, "told", False)
    monkeypatch.setattr(cache, "PATIENCE_SECONDS", 1e6)
    with caplog.at_level("INFO", "pymc"), cache.telling_of_compilation():
        numba.njit(lambda x: x + 3)(1)
    assert not caplog.records


def test_the_user_is_not_told_of_the_layout_of_arrays():
    """Fails on PyMC 5.28 if ``X @ phi.T`` warns of arrays that are not contiguous."""
    X, phi = pt.as_tensor(np.eye(4, 3)), pt.dmatrix("phi")
    with (
        pytensor.config.change_flags(numba__cache=False),
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        [found] = point_function([X @ phi.T])({"phi": np.ones((2, 3))})
    np.testing.assert_array_equal(found, np.eye(4, 3) @ np.ones((3, 2)))
    assert not said


def test_kernels_read_no_empty_constant():
    """Numba takes it to be read-only, and compiles what it is passed to a second time.

    Fails if the forward filter passes a constant on as the row before the first.
    """
    n_kernels = 0
    for info in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        for name, kernel in vars(importlib.import_module(info.name)).items():
            function = getattr(kernel, "py_func", kernel)
            if not inspect.isfunction(function) or "pymc_dshdp" not in function.__module__:
                continue
            if function.__module__ == blocks.__name__:  # which numba does not see
                continue
            read = [function.__globals__.get(word) for word in function.__code__.co_names]
            assert not any(isinstance(x, np.ndarray) and x.size == 0 for x in read), name
            n_kernels += 1
    assert n_kernels > 150
