"""The switch between vector instructions and plain loops, and what both agree on."""

import os

from numba import config

from pymc_dshdp.kernels.cache import SWITCH

WIDTH = 4  # doubles in a vector
TALL = 4  # rows of a matrix multiplied together
SMALLEST_EXPONENT = -708.0  # below this exp is (nearly) subnormal and counts as 0
LOST = 2.0**-1018  # the most that underflows in a row, in each state
NEGLIGIBLE = 2.0**-64


def uses_vectors():
    """Whether kernels are compiled to vector instructions.

    They are not where the environment variable ``PYMC_DSHDP_SIMD`` is 0, or where numba compiles
    nothing (``NUMBA_DISABLE_JIT=1``, for debuggers and for measuring coverage).

    Raises
    ------
    ValueError
        If the variable is neither 0 nor 1.
    """
    value = os.environ.get(SWITCH, "1")
    if value not in ("0", "1"):
        raise ValueError(f"the environment variable {SWITCH} must be 0 or 1, received {value!r}")
    return value == "1" and not config.DISABLE_JIT
