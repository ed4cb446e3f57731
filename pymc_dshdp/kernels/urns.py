"""Urns of a path: the draws from each row, kept while time points are taken out and put back.

Rows are numbered 0 for the sequence starts and 1 + g L + j for state j of group g, which makes
R = G L beside the first. ``rows[OUTFLOW]`` saves a division for every candidate of every time
point. The functions on bare arrays are what the sweep uses: a tuple of arrays is slow to take apart
at each time point.
"""

from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.random import sigmoid

HAS_PREVIOUS = 1
HAS_NEXT = 2
DEPARTURES, OUTFLOW, KAPPA, SWITCH, TOTAL = 0, 1, 2, 3, 4  # places in ``Urns.rows``


class Urns(NamedTuple):
    """What a sweep keeps up to date: the path, the draws from each row, the states in use.

    Attributes
    ----------
    states : ndarray of shape (T,), int64
        z.
    persists : ndarray of shape (T,), bool
        w; False at the first time point of a sequence.
    neighbours : ndarray of shape (T,), int8
        Whether t has a predecessor (1) and a successor (2) in its sequence.
    first : ndarray of shape (T,), int64
        Row of state 0 of the group whose transition leads to t.
    counts, base : ndarray of shape (R + 1, L)
        n_jk and a_jk, the Dirichlet parameters of the rows; entries of a may be exactly 0.
    masses, arrivals : ndarray of shape (R + 1, L) and (L, R + 1)
        a_jk + n_jk and its transpose, formed from whole counts so that rounding never adds up.
    rows : ndarray of shape (5, R + 1)
        n_j., (1 - kappa_j) / (a_j. + n_j.), kappa_j, 1 - kappa_j and a_j.; kappa is 0 for the
        starts.
    visits : ndarray of shape (L,), int64
        Time points in each state, over all paths of the prior.
    active, place : ndarray of shape (L,), int64
        The slots that are weighed one by one, in increasing order in the first ``size`` entries,
        and where each slot stands among them (-1: nowhere). The others are empty and are weighed
        together.
    size : ndarray of shape (1,), int64
    empty_mass : ndarray of shape (1 + G,)
        sum of a_k, and of a_k (1 - kappa_gk) for each group, over the slots not in ``active``; all
        rows have the same a where there are such.
    """

    states: np.ndarray
    persists: np.ndarray
    neighbours: np.ndarray
    first: np.ndarray
    counts: np.ndarray
    base: np.ndarray
    masses: np.ndarray
    arrivals: np.ndarray
    rows: np.ndarray
    visits: np.ndarray
    active: np.ndarray
    place: np.ndarray
    size: np.ndarray
    empty_mass: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def fill_urns(states, persists, lengths, index, switches, visits, kappa_logit, base, grouped):
    """Build ``Urns`` from copies of the arrays; for the parameters see ``sweep_states``."""
    T = states.shape[0]
    R, L = base.shape[0] - 1, base.shape[1]
    first = np.ones(T, np.int64)
    for i in range(index.shape[0]):
        first[i] += L * index[i]
    neighbours = np.zeros(T, np.int8)
    t = 0
    for length in lengths:
        for i in range(t, t + length):
            if i > t:
                neighbours[i] |= HAS_PREVIOUS
            if i < t + length - 1:
                neighbours[i] |= HAS_NEXT
        t += length
    counts = np.empty((R + 1, L))
    masses = np.empty((R + 1, L))
    arrivals = np.empty((L, R + 1))
    rows = np.zeros((5, R + 1))
    for r in range(R + 1):
        for k in range(L):
            counts[r, k] = switches[r, k]
            masses[r, k] = arrivals[k, r] = base[r, k] + counts[r, k]
            rows[DEPARTURES, r] += switches[r, k]
            rows[TOTAL, r] += base[r, k]
        rows[KAPPA, r] = sigmoid(kappa_logit[r - 1]) if r > 0 else 0.0
        rows[SWITCH, r] = sigmoid(-kappa_logit[r - 1]) if r > 0 else 1.0
        rows[OUTFLOW, r] = rows[SWITCH, r] / (rows[TOTAL, r] + rows[DEPARTURES, r])
    active = np.empty(L, np.int64)
    place = np.full(L, -1)
    n = 0
    for k in range(L):
        if visits[k] > 0 or not grouped:
            place[k] = n
            active[n] = k
            n += 1
    urns = Urns(
        states.astype(np.int64),
        persists.copy(),
        neighbours,
        first,
        counts,
        base,
        masses,
        arrivals,
        rows,
        visits.copy(),
        active,
        place,
        np.full(1, n),
        np.zeros(1 + R // L),
    )
    _weigh_empty(urns)
    return urns


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_empty(urns):
    """Sum the weights of the slots outside ``active`` afresh, so that rounding never adds up."""
    L = urns.place.shape[0]
    urns.empty_mass[:] = 0.0
    for k in range(L):
        if urns.place[k] < 0:
            urns.empty_mass[0] += urns.base[0, k]
            for g in range(urns.empty_mass.shape[0] - 1):
                urns.empty_mass[1 + g] += urns.base[0, k] * urns.rows[SWITCH, 1 + g * L + k]


@njit(cache=True, nogil=True, error_model="numpy")
def open_slot(urns, k):
    """Move a slot into ``active``."""
    i = urns.size[0]
    while i > 0 and urns.active[i - 1] > k:
        urns.active[i] = urns.active[i - 1]
        urns.place[urns.active[i]] = i
        i -= 1
    urns.active[i] = k
    urns.place[k] = i
    urns.size[0] += 1
    _weigh_empty(urns)


@njit(cache=True, nogil=True, error_model="numpy")
def close_slot(urns, k):
    """Move a slot out of ``active``."""
    urns.size[0] -= 1
    for i in range(urns.place[k], urns.size[0]):
        urns.active[i] = urns.active[i + 1]
        urns.place[urns.active[i]] = i
    urns.place[k] = -1
    _weigh_empty(urns)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def add_draw(counts, base, masses, arrivals, rows, row, k, change):
    """Add ``change`` draws of k from a row."""
    counts[row, k] += change
    masses[row, k] = arrivals[k, row] = base[row, k] + counts[row, k]
    rows[DEPARTURES, row] += change
    rows[OUTFLOW, row] = rows[SWITCH, row] / (rows[TOTAL, row] + rows[DEPARTURES, row])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def add_time(states, persists, neighbours, first, counts, base, masses, arrivals, rows, t, change):
    """Add ``change`` times the draws that involve z_t: its own, and that of its successor."""
    if not persists[t]:
        row = first[t] + states[t - 1] if neighbours[t] & HAS_PREVIOUS else 0
        add_draw(counts, base, masses, arrivals, rows, row, states[t], change)
    if neighbours[t] & HAS_NEXT and not persists[t + 1]:
        row = first[t + 1] + states[t]
        add_draw(counts, base, masses, arrivals, rows, row, states[t + 1], change)
