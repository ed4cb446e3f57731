"""Divisions of a set of times in two: a launch by hard EM, and one forward-backward pass.

A set S of times is divided between two slots of an emission, one that holds the anchor i and one
that holds j. All that the launch looks at is (S, i, j, y), in the order of time, so that it is the
same whichever division S has at present. Side 0 is that of i, side 1 that of j.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.predictive import include_time, log_densities, restore

PASSES = 5
NEAR = 2  # times around an anchor that the launch begins with
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
def _empty(emission, blank, slots):
    for k in slots:
        restore(emission, blank, k)


@njit(cache=True, nogil=True)
def _chain(launch, path):
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
    launch.stay[:] = stays / (stays + leaves)
    launch.share[:] = begins / begins.sum()


@njit(cache=True, nogil=True)
def prepare_launch(emission, blank, times, first, i, j, slots):
    """Fit the two sides to S by hard EM from the surroundings of i and j.

    Parameters
    ----------
    emission, blank : NamedTuple
        Emissions of ``kernels.predictive``; the two slots are emptied, and hold a division of S
        after the call. ``blank`` has nothing included.
    times : ndarray of int, shape (n,)
        S, ascending.
    first : ndarray of bool, shape (T,)
        Beginnings of sequences.
    i, j : int
        Anchors, among the times.
    slots : ndarray of int, shape (2,)
        Of side 0 and side 1.
    """
    n = times.shape[0]
    linked = np.zeros(n, np.bool_)
    for x in range(1, n):
        linked[x] = times[x] == times[x - 1] + 1 and not first[times[x]]
    launch = Launch(np.empty(n), linked, np.full(2, 0.9), np.full(2, 0.5))
    _empty(emission, blank, slots)
    side = np.full(n, -1)
    for x in range(n):
        to_i, to_j = abs(times[x] - i), abs(times[x] - j)
        if min(to_i, to_j) <= NEAR and to_i != to_j:
            side[x] = int(to_j < to_i)
            include_time(emission, times[x], slots[side[x]])
    path, density = np.empty(n, np.int64), np.empty(2)
    for count in range(PASSES):
        for x in range(n):
            log_densities(emission, times[x], slots, density)
            launch.gain[x] = 0.0
            if density[0] != density[1]:
                launch.gain[x] = density[1] - density[0]
            if times[x] == i:
                launch.gain[x] = -np.inf
            elif times[x] == j:
                launch.gain[x] = np.inf
        if count == PASSES - 1:
            break
        divide(launch, MODE, launch.gain, path)
        if (path == side).all():
            break
        side[:] = path
        _empty(emission, blank, slots)
        for x in range(n):
            include_time(emission, times[x], slots[side[x]])
        _chain(launch, side)
    return launch


@njit(cache=True, nogil=True)
def division_evidence(emission, blank, times, path, slots):
    """Log marginal likelihoods of the two sides of a division, which the slots hold afterwards."""
    out, density = np.zeros(2), np.empty(1)
    _empty(emission, blank, slots)
    for x in range(times.shape[0]):
        side = path[x]
        log_densities(emission, times[x], slots[side : side + 1], density)
        out[side] += density[0]
        include_time(emission, times[x], slots[side])
    return out
