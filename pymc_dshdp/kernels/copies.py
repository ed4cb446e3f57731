"""Copies of arrays into parts of others."""

import numpy as np

from pymc_dshdp.kernels.cache import njit


@njit(cache=True, nogil=True)
def copy_into(out, values):
    """Overwrite ``out`` with values of its shape.

    In a kernel ``out[:] = values`` brings with it the text of numba's error for shapes that
    differ, some fifteen seconds of compilation, and again in every kernel that calls it.
    """
    for index, value in np.ndenumerate(values):
        out[index] = value
