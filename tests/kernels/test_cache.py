"""Where compiled kernels are kept."""

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_dshdp import kernels
from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.kernels import blocks, cache

IMPORT = """
import sys, types, warnings
package = types.ModuleType("pymc_dshdp")  # the kernels alone, without PyMC
package.__path__ = [sys.argv[1]]
sys.modules["pymc_dshdp"] = package
from numba import config
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    from pymc_dshdp.kernels.cache import kernels_folder
    from pymc_dshdp.kernels.counts import occupied_states, empty_counts
    from pymc_dshdp.kernels import filtering
print(occupied_states(empty_counts(3)))
print(len([str(w.message) for w in seen if "NUMBA_CACHE_DIR" in str(w.message)]))
print(kernels_folder())
print(sum(occupied_states.stats.cache_hits.values()), config.CACHE_DIR == {given!r})
"""


def imported(given="", **variables):
    """Import in a process of its own: the words that it prints, line by line."""
    own = {"NUMBA_CACHE_DIR", "PYMC_DSHDP_SIMD", "XDG_CACHE_HOME"}
    environment = {k: v for k, v in os.environ.items() if k not in own} | variables
    run = subprocess.run(
        [sys.executable, "-c", IMPORT.format(given=given), Path(kernels.__file__).parents[1]],
        capture_output=True,
        text=True,
        check=False,
        env=environment | ({"NUMBA_CACHE_DIR": given} if given else {}),
    )
    assert run.returncode == 0, run.stderr
    occupied, warned, folder, hits = run.stdout.strip().splitlines()
    assert occupied == "0"
    hits, others_kept = hits.split()
    assert others_kept == "True"  # what other packages compile stays where numba keeps it
    return int(warned), Path(folder), int(hits)


def user_cache(folder):
    """Environment of a user whose cache is in a folder."""
    if sys.platform == "win32":
        return folder, {"LOCALAPPDATA": str(folder)}
    if sys.platform == "darwin":
        return folder / "Library" / "Caches", {"HOME": str(folder)}
    return folder, {"XDG_CACHE_HOME": str(folder)}


def test_no_folder_can_be_written_to(tmp_path):
    """The package is imported and compiles, and one line says how to keep what it compiled."""
    (tmp_path / "file").write_text("")
    nowhere = tmp_path / "file" / "folder"
    _, variables = user_cache(nowhere)
    warned, folder, _ = imported(str(nowhere), **variables)
    assert warned == 1 and not folder.exists()


def test_kernels_are_kept_in_the_cache_of_the_user(tmp_path):
    """In a folder of ours; nothing lies in the package, where an uninstaller would leave it."""
    cache_folder, variables = user_cache(tmp_path / "user")
    warned, folder, hits = imported(**variables)
    assert (warned, hits) == (0, 0) and folder.parent == cache_folder / "pymc_dshdp"
    assert any("occupied_states" in path.name for path in folder.glob("*.nbc"))
    assert imported(**variables) == (0, folder, 1)  # found again by the next process
    package = Path(kernels.__file__).parents[1]
    assert not [*package.rglob("*.nbi"), *package.rglob("*.nbc")]


def test_a_folder_that_is_named_goes_first(tmp_path):
    _, variables = user_cache(tmp_path / "user")
    _, folder, _ = imported(str(tmp_path / "named"), **variables)
    assert folder.parent == tmp_path / "named" / "pymc_dshdp"
    assert not (tmp_path / "user" / "pymc_dshdp").exists()
    without_vectors = imported(str(tmp_path / "named"), PYMC_DSHDP_SIMD="0", **variables)[1]
    assert without_vectors.parent == folder.parent and without_vectors != folder


def test_a_change_of_what_a_kernel_calls_is_seen(tmp_path, monkeypatch):
    """Numba goes by the file of the kernel itself: fails if the folder is that of its sources."""
    sources = tmp_path / "kernels"
    (sources / "simd").mkdir(parents=True)
    for name in ("one.py", "simd/two.py"):
        (sources / name).write_text("a = 1")
    monkeypatch.setattr(cache, "_SOURCES", sources)
    before = cache._made_from()
    assert cache._made_from() == before
    (sources / "simd" / "two.py").write_text("a = 2")
    after = cache._made_from()
    monkeypatch.setattr(cache.np, "__version__", "0.0")
    assert len({before, after, cache._made_from()}) == 3


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


def test_every_kernel_is_kept_there():
    """Fails if a kernel is decorated by numba's own njit."""
    package = Path(kernels.__file__).parents[1]
    for source in package.rglob("*.py"):
        if source.name != "cache.py":
            assert "from numba import njit" not in source.read_text(), source
