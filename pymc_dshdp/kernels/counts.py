"""Counts of a hidden path."""

import numpy as np

from pymc_dshdp.kernels.cache import njit


@njit(cache=True, nogil=True)
def path_counts(states, lengths, index, counts):
    """Add the starts and transitions of paths laid end to end to ``counts``.

    Parameters
    ----------
    states : ndarray of shape (T,)
        Integers in 0..L-1.
    lengths : ndarray of shape (N,)
        Sequence lengths; no transition is counted across a sequence boundary.
    index : ndarray of shape (T,), int64, or (0,)
        g(t), the group whose transition leads to time t; empty where there is only one.
    counts : ndarray of shape (1 + G L, L), int64
        Row 0 counts sequence starts N_0k, row 1 + g L + j the transitions N_gjk. Added to in place.
    """
    L, grouped = counts.shape[1], index.shape[0] > 0
    t = 0
    for length in lengths:
        previous = states[t]
        counts[0, previous] += 1
        for i in range(t + 1, t + length):
            current = states[i]
            first = 1 + L * index[i] if grouped else 1
            counts[first + previous, current] += 1
            previous = current
        t += length


@njit(cache=True, nogil=True)
def occupied_states(counts):
    """Count the states visited at least once, from the counts of ``path_counts``."""
    occupied = 0
    for k in range(counts.shape[1]):
        for j in range(counts.shape[0]):
            if counts[j, k] > 0:
                occupied += 1
                break
    return occupied


@njit(cache=True, nogil=True)
def row_sums(counts):
    """Sum over the columns; ``sum(axis=1)`` takes a second longer to compile."""
    sums = np.zeros(counts.shape[0], np.int64)
    for j in range(counts.shape[0]):
        for k in range(counts.shape[1]):
            sums[j] += counts[j, k]
    return sums


@njit(cache=True, nogil=True)
def number_of(flags):
    """Count what is true; ``np.count_nonzero`` takes half a second to compile."""
    number = 0
    for flag in flags:
        number += flag
    return number


def empty_counts(n_states, n_groups=1):
    """Zero counts of shape (1 + G L, L) for ``path_counts`` to add to."""
    return np.zeros((n_groups * n_states + 1, n_states), np.int64)
