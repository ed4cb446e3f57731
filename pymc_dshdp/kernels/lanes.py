"""Sequences in lanes that advance together."""

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd import TALL


@njit(cache=True, nogil=True)
def lanes_of(lengths):
    """Divide the sequences into up to four runs of about equal numbers of time points.

    Returns
    -------
    first : ndarray of shape (lanes + 1,)
        First sequence of each lane, and their number.
    start : ndarray of shape (lanes + 1,)
        First time point of each lane, and T.
    """
    N = lengths.shape[0]
    n_lanes = min(N, TALL)
    first = np.full(n_lanes + 1, N)
    start = np.full(n_lanes + 1, lengths.sum())
    first[0] = start[0] = 0
    share = lengths.sum() / n_lanes
    lane, t = 1, 0
    for n in range(N):
        if lane < n_lanes and n >= lane and (t >= lane * share or N - n == n_lanes - lane):
            first[lane], start[lane] = n, t
            lane += 1
        t += lengths[n]
    return first, start
