"""Where compiled kernels are kept, and a word where they have to be compiled."""

import logging
import tempfile
import time
import warnings

from numba import config, njit
from numba.core.event import Listener, install_listener

__all__ = ["ensure_cache", "telling_of_compilation"]

_log = logging.getLogger("pymc.dshdp")  # below PyMC's logger, which speaks to the user
PATIENCE_SECONDS = 1.0


def _probe():
    """Stand for a kernel."""


def ensure_cache():
    """Keep compiled kernels for this process alone where numba finds no folder to write to.

    Numba looks at ``NUMBA_CACHE_DIR``, beside the source, and in the user's cache, and stops the
    import of the package where it may write to none of them.

    Returns
    -------
    tempfile.TemporaryDirectory or None
        What has to live as long as the process.
    """
    try:
        njit(cache=True)(_probe)
    except RuntimeError:
        folder = tempfile.TemporaryDirectory(prefix="pymc_dshdp_", ignore_cleanup_errors=True)
        config.CACHE_DIR = folder.name
        warnings.warn(
            "no folder can be written to in which compiled kernels could be kept, so that they are "
            "compiled anew in every process (about a minute); name one in the environment variable "
            "NUMBA_CACHE_DIR",
            UserWarning,
            stacklevel=2,
        )
        return folder
    return None


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
