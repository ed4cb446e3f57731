"""Sequences in lanes that advance together, and the rows that they have come to."""

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.chain import stay_and_leave
from pymc_dshdp.kernels.simd import TALL

HEADROOM = 2.0**60  # by which products of rows that are not scaled yet are kept from underflow


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


@njit(cache=True, nogil=True)
def reached(current, low, high, active):
    """List the states of positive probability in rows low..high - 1; returns their number."""
    n = 0
    for j in range(active.shape[0]):
        for lane in range(low, high):
            if current[lane, j] > 0.0:
                active[n] = j
                n += 1
                break
    return n


@njit(cache=True, nogil=True, inline="always")
def leave_states(current, lane, kappa_logit, stay, leave, leaving, staying):
    """Divide a row into what leaves its states and, times 2^60, what stays in them."""
    stay_and_leave(kappa_logit, stay, leave)
    for k in range(stay.shape[0]):
        leaving[lane, k] = current[lane, k] * leave[k]
        staying[lane, k] = current[lane, k] * stay[k] * HEADROOM
