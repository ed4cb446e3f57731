"""Where compiled kernels are kept, and a word where they have to be compiled.

Numba keeps what it compiles beside the source, where an uninstaller leaves it and Python then finds
an empty package, and finds it again by the time of the source file alone: it sees no change of what
a kernel calls. Kernels are therefore kept in a folder of the user, ``pymc_dshdp`` where
``NUMBA_CACHE_DIR`` says, else in the cache of the user, and in it in a folder of all that their
machine code is made from: the kernels' sources, the versions of numba, llvmlite and NumPy, and the
switch of vector instructions. Environments of one user that agree in these share it. Other
packages' functions are kept where numba keeps them.
"""

import hashlib
import logging
import os
import sys
import tempfile
import time
import warnings
from functools import lru_cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.event import Listener, install_listener

__all__ = ["SWITCH", "kernels_folder", "njit", "telling_of_compilation"]

SWITCH = "PYMC_DSHDP_SIMD"
PATIENCE_SECONDS = 1.0
_SOURCES = Path(__file__).parent
_alone: list[tempfile.TemporaryDirectory] = []  # which is removed with the process
_log = logging.getLogger("pymc.dshdp")  # below PyMC's logger, which speaks to the user


def _user_cache():
    """Folder in which a program keeps what it can compute again, by the custom of the system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _made_from():
    """One name for the sources of the kernels and all else that shapes what they compile to."""
    versions = numba.__version__, llvmlite.__version__, np.__version__
    digest = hashlib.sha256("|".join((*versions, os.environ.get(SWITCH, "1"))).encode())
    for source in sorted(_SOURCES.rglob("*.py")):
        digest.update(source.relative_to(_SOURCES).as_posix().encode() + source.read_bytes())
    return digest.hexdigest()[:20]


def _writable(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@lru_cache
def kernels_folder():
    """Find the folder in which compiled kernels are kept, one of this process alone if need be."""
    name = _made_from()
    if config.CACHE_DIR and _writable(named := Path(config.CACHE_DIR).absolute() / "pymc_dshdp"):
        return named / name
    try:
        if _writable(own := _user_cache() / "pymc_dshdp"):
            return own / name
    except RuntimeError:  # there is no home
        pass
    warnings.warn(
        "no folder can be written to in which compiled kernels could be kept, so that they are "
        "compiled anew in every process (about a minute); name one in the environment variable "
        "NUMBA_CACHE_DIR",
        UserWarning,
        stacklevel=2,
    )
    _alone.append(tempfile.TemporaryDirectory(prefix="pymc_dshdp_", ignore_cleanup_errors=True))
    return Path(_alone[0].name) / name


class _Locator(_CacheLocator):
    """Tells numba where the code of one kernel is."""

    def __init__(self, py_func, py_file):
        self._py_file = py_file
        self._line = py_func.__code__.co_firstlineno
        self._folder = kernels_folder().joinpath(*py_func.__module__.split(".")[2:-1])

    @classmethod
    def from_function(cls, py_func, py_file):
        locator = cls(py_func, py_file)
        locator._folder.mkdir(parents=True, exist_ok=True)
        return locator

    def get_cache_path(self):
        return str(self._folder)

    def get_source_stamp(self):
        return kernels_folder().name

    def get_disambiguator(self):
        return str(self._line)


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _KernelCache(FunctionCache):
    _impl_class = _KernelCacheImpl


def njit(*, cache, **options):
    """Decorate a kernel as ``numba.njit`` does; see the module for where its code is kept.

    Parameters
    ----------
    cache : bool
        Whether it is kept.
    **options
        Of ``numba.njit``.
    """

    def decorate(function):
        # Without the entry for callers in C, which nobody is: a sixth less to compile.
        kernel = numba.njit(**options, no_cfunc_wrapper=True)(function)
        if cache and kernel is not function:  # which it is where numba compiles nothing
            kernel._cache = _KernelCache(function)
        return kernel

    return decorate


class _Teller(Listener):
    """Says once per process that kernels are being compiled, when it has taken a second."""

    told = False

    def __init__(self):
        self._began = None

    def on_start(self, event):
        now = time.monotonic()
        self._began = self._began or now
        if not _Teller.told and now - self._began > PATIENCE_SECONDS:
            _Teller.told = True
            _log.info(
                "Compiling kernels, once per installation (about a minute; python -m "
                "pymc_dshdp.warm does it beforehand)"
            )

    def on_end(self, event):
        pass


def telling_of_compilation():
    """Context in which the user is told of kernels that are compiled, not read from the cache."""
    return install_listener("numba:compile", _Teller())
