"""The switch between vector instructions and plain loops, and what both agree on."""

import os
from pathlib import Path

from numba import config

VARIABLE = "PYMC_DSHDP_SIMD"
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
    value = os.environ.get(VARIABLE, "1")
    if value not in ("0", "1"):
        raise ValueError(f"the environment variable {VARIABLE} must be 0 or 1, received {value!r}")
    return value == "1" and not config.DISABLE_JIT


def keep_apart():
    """Have what is compiled without vectors cached in a folder of its own.

    Numba finds compiled functions again by their own source, whatever they call, and would take
    those of the other kind.
    """
    parent = Path(config.CACHE_DIR or Path(__file__).parents[1] / "__pycache__")
    config.CACHE_DIR = str(parent / "plain")
