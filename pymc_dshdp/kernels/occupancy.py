"""Running counts of where hidden paths have been."""

import numpy as np

from pymc_dshdp.kernels.cache import njit

__all__ = ["count_path"]


@njit(cache=True)
def count_path(path, is_first, visits, switches):
    """Add one path to running counts, in place.

    Parameters
    ----------
    path : ndarray of int, shape (T,)
    is_first : ndarray of bool, shape (T,)
        Whether a time point is the first of its sequence.
    visits : ndarray of int, shape (T, L)
        Number of paths in state k at time t.
    switches : ndarray of int, shape (T,)
        Number of paths whose state at t is not that at t - 1 of the same sequence.

    Returns
    -------
    ndarray of int64, shape (L,)
        Number of time points that this path spends in each state.
    """
    T, L = visits.shape
    occupancy = np.zeros(L, np.int64)
    for t in range(T):
        state = path[t]
        visits[t, state] += 1
        occupancy[state] += 1
        if not is_first[t] and path[t - 1] != state:
            switches[t] += 1
    return occupancy
