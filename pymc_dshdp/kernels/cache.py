"""Where compiled kernels are kept."""

import tempfile
import warnings

from numba import config, njit

__all__ = ["ensure_cache"]


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
