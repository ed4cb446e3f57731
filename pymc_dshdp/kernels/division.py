"""Divisions of a set of times in two: what a launch begins with, and a forward-backward pass.

A set S of times is divided in two sides, side 0 with the anchor i and side 1 with j. All that a
launch looks at is (S, i, j, y), the path outside S and random numbers of its own, so that its law
is the same whichever division S has at present.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit

DRAW, GIVEN, MODE = 0, 1, 2


class Launch(NamedTuple):
    """A two-state chain on S.

    Attributes
    ----------
    gain : ndarray of shape (n,)
        Log-density of each time on side 1 less that on side 0; -inf at i and inf at j.
    linked : ndarray of bool, shape (n,)
        Whether the time before, in the same sequence, is in S too.
    stay, share : ndarray of shape (2,)
        Probability of each side to stay where times are linked, and to begin where they are not.
    """

    gain: np.ndarray
    linked: np.ndarray
    stay: np.ndarray
    share: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def divide(launch, how, uniforms, path):
    """Divide S by a forward filter and a backward pass; returns log q of the path.

    Parameters
    ----------
    launch : Launch
    how : int
        ``DRAW`` a path, find the probability of one that is ``GIVEN``, or take the more probable
        side at each step of the backward pass (``MODE``).
    uniforms : ndarray of shape (n,)
        For a draw.
    path : ndarray of int, shape (n,)
        Sides; overwritten unless given.
    """
    gain, linked, stay, share = launch
    n = gain.shape[0]
    filtered = np.empty((n, 2))
    for x in range(n):
        if linked[x]:
            one = filtered[x - 1, 0] * stay[0] + filtered[x - 1, 1] * (1.0 - stay[1])
            two = filtered[x - 1, 0] * (1.0 - stay[0]) + filtered[x - 1, 1] * stay[1]
        else:
            one, two = share
        if gain[x] > 0.0:
            one *= math.exp(-gain[x])
        else:
            two *= math.exp(gain[x])
        filtered[x, 0] = one / (one + two)
        filtered[x, 1] = two / (one + two)
    log_q = 0.0
    for x in range(n - 1, -1, -1):
        one, two = filtered[x]
        if x + 1 < n and linked[x + 1]:
            after = path[x + 1]
            one *= stay[0] if after == 0 else 1.0 - stay[0]
            two *= 1.0 - stay[1] if after == 0 else stay[1]
        if how == DRAW:
            path[x] = uniforms[x] * (one + two) < two
        elif how == MODE:
            path[x] = two > one
        log_q += math.log((two if path[x] == 1 else one) / (one + two))
    return log_q


@njit(cache=True, nogil=True)
def linked_times(times, first):
    """Whether the time before each time of S, in the same sequence, is in S too."""
    linked = np.zeros(times.shape[0], np.bool_)
    for x in range(1, times.shape[0]):
        linked[x] = times[x] == times[x - 1] + 1 and not first[times[x]]
    return linked


@njit(cache=True, nogil=True)
def contexts(states, first, times, n_states):
    """Find the states before and after each time of S, outside S in the same sequence; else L.

    Returns
    -------
    ndarray of int64, shape (2, n)
    """
    n, T = times.shape[0], states.shape[0]
    out = np.full((2, n), n_states)
    for x in range(n):
        t = times[x]
        if not first[t] and (x == 0 or times[x - 1] != t - 1):
            out[0, x] = states[t - 1]
        if t + 1 < T and not first[t + 1] and (x + 1 == n or times[x + 1] != t + 1):
            out[1, x] = states[t + 1]
    return out


@njit(cache=True, nogil=True)
def add_context(gain, around, sides, n_states):
    """Add to the gains what the states before and after say, by their shares on each side."""
    for which in range(2):
        shares = np.full((2, n_states + 1), 0.5)
        for x in range(sides.shape[0]):
            if sides[x] >= 0:
                shares[sides[x], around[which, x]] += 1.0
        for x in range(sides.shape[0]):
            k = around[which, x]
            if k < n_states:
                gain[x] += math.log(shares[1, k] / shares[1].sum())
                gain[x] -= math.log(shares[0, k] / shares[0].sum())


@njit(cache=True, nogil=True)
def surroundings(times, i, j, reach, stride):
    """Sides of the times around i and j, by which is nearer; -1 elsewhere, and where both are.

    Around each anchor are the times within ``reach`` strides of it, ``stride`` apart.
    """
    sides = np.full(times.shape[0], -1)
    for x in range(times.shape[0]):
        to_i, to_j = abs(times[x] - i), abs(times[x] - j)
        near_i = to_i <= reach * stride and to_i % stride == 0
        near_j = to_j <= reach * stride and to_j % stride == 0
        if near_i and (not near_j or to_i < to_j):
            sides[x] = 0
        elif near_j and (not near_i or to_j < to_i):
            sides[x] = 1
    return sides


@njit(cache=True, nogil=True)
def halves(linked):
    """Sides of all times of S: the first half of each run of linked ones, and the second."""
    n, begin = linked.shape[0], 0
    sides = np.zeros(n, np.int64)
    for x in range(1, n + 1):
        if x == n or not linked[x]:
            sides[begin + (x - begin + 1) // 2 : x] = 1
            begin = x
    return sides


@njit(cache=True, nogil=True)
def fit_chain(launch, path):
    """Set the probabilities to stay and to begin from a path, one to one before any count."""
    stays, leaves, begins = np.ones(2), np.ones(2), np.ones(2)
    for x in range(path.shape[0]):
        if launch.linked[x]:
            if path[x] == path[x - 1]:
                stays[path[x]] += 1.0
            else:
                leaves[path[x - 1]] += 1.0
        else:
            begins[path[x]] += 1.0
    for s in range(2):
        launch.stay[s] = stays[s] / (stays[s] + leaves[s])
        launch.share[s] = begins[s] / begins.sum()
