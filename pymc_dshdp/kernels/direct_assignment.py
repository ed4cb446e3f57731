"""The direct assignment sweep: each (z_t, w_t, w_{t+1}) in turn, the rows integrated out.

w_t = 1 where z_t is a copy of z_{t-1}, w_t = 0 where it is drawn from its row; n_jk counts the
draws k from row j (row 0: the sequence starts). ``case_table`` has the conditional of one time
point, ``urns`` the counts, ``predictive`` what the data contribute.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.case_table import (
    COPY_COPY,
    COPY_DRAW,
    DRAW_COPY,
    DRAW_DRAW,
    NEW,
    log_case_weights,
    weigh_cases,
)
from pymc_dshdp.kernels.predictive import exclude, include, log_predictive
from pymc_dshdp.kernels.random import copy_probability
from pymc_dshdp.kernels.simd import exp_in_place
from pymc_dshdp.kernels.urns import (
    HAS_NEXT,
    HAS_PREVIOUS,
    SWITCH,
    add_time,
    close_slot,
    fill_urns,
    open_slot,
)

SMALLEST_TOTAL = 1e-280  # below it the cases are weighed by their logarithms
KEEP, IMPOSSIBLE = -1, -2


class SweepDraw(NamedTuple):
    """Result of one sweep.

    Attributes
    ----------
    states : ndarray of shape (T,), int64
    persists : ndarray of shape (T,), bool
    switches : ndarray of shape (R + 1, L), int64
        n_jk after the sweep, over all paths of the prior.
    visits : ndarray of shape (L,), int64
    moved, births, deaths : int
        Time points whose state changed; those that went to a state nothing else was in; those
        that left a state empty.
    impossible_time : int
        First time point whose present state, and every state it could go to, has log-density
        -inf or NaN, or -1. Where it is not -1 the other fields are not valid.
    """

    states: np.ndarray
    persists: np.ndarray
    switches: np.ndarray
    visits: np.ndarray
    moved: int
    births: int
    deaths: int
    impossible_time: int


@njit(cache=True, nogil=True, error_model="numpy")
def draw_persistences(rng, states, lengths, index, kappa_logit, pi_bar, switches, visits):
    """Draw w | z, kappa, pi_bar and count what it leaves to the rows.

    At z_{t-1} = z_t = j, p(w_t = 1) = kappa_j / (kappa_j + (1 - kappa_j) pi_bar_jj); elsewhere
    w_t = 0.

    Parameters
    ----------
    rng : numpy.random.Generator
    states : ndarray of shape (T,), integer
    lengths : ndarray of shape (N,)
    index : ndarray of shape (T,), int64, or (0,)
        g(t), the group whose transition leads to time t; empty where there is only one.
    kappa_logit : ndarray of shape (R,)
    pi_bar : ndarray of shape (R, L)
        The R = G L rows of the groups, one group after the other.
    switches : ndarray of shape (R + 1, L), int64
        n_jk, row 0 the sequence starts. Added to in place.
    visits : ndarray of shape (L,), int64
        Added to in place.

    Returns
    -------
    ndarray of shape (T,), bool
    """
    T = states.shape[0]
    R, L = pi_bar.shape
    probability = np.empty(R)
    for r in range(R):
        probability[r] = copy_probability(kappa_logit[r], pi_bar[r, r % L])
    persists = np.zeros(T, np.bool_)
    t = 0
    for length in lengths:
        previous = states[t]
        switches[0, previous] += 1
        visits[previous] += 1
        for i in range(t + 1, t + length):
            current = states[i]
            visits[current] += 1
            row = previous + (L * index[i] if index.shape[0] > 0 else 0)
            if current == previous and rng.random() < probability[row]:
                persists[i] = True
            else:
                switches[row + 1, current] += 1
            previous = current
        t += length
    return persists


@njit(cache=True, nogil=True, error_model="numpy")
def _pick(weights, n, total, uniform):
    """Index below n drawn in proportion to weights; never one of weight 0."""
    target = uniform * total
    cumulative = 0.0
    chosen = -1
    for i in range(n):
        if weights[i] > 0.0:
            chosen = i
            cumulative += weights[i]
            if cumulative > target:
                break
    return chosen


@njit(cache=True, nogil=True, error_model="numpy")
def _case_by_logarithms(rng, urns, t, emission, kappa_logit, old, log_likelihoods, weights):
    """Draw a case where the weights themselves underflow or are not finite.

    Where every case has probability 0 the time point keeps what it has (a starting path of
    probability 0), unless what was seen there is impossible in its present state.

    Returns
    -------
    int
        Place in the case weights with one entry for each slot, or KEEP, or IMPOSSIBLE.
    """
    L = urns.place.shape[0]
    log_predictive(emission, t, np.arange(L), L, False, log_likelihoods)
    log_case_weights(urns, t, kappa_logit, log_likelihoods, weights)
    top = -np.inf
    for w in weights:
        if math.isnan(w) or w == np.inf:
            return IMPOSSIBLE
        top = max(top, w)
    if top == -np.inf:
        return KEEP if log_likelihoods[old] > -np.inf else IMPOSSIBLE
    total = 0.0
    for i in range(weights.shape[0]):
        weights[i] = math.exp(weights[i] - top)
        total += weights[i]
    return _pick(weights, weights.shape[0], total, rng.random())


@njit(cache=True, nogil=True, error_model="numpy")
def pick_empty(urns, onward, uniform):
    """Slot outside ``active`` drawn by a_k, times 1 - kappa_k if z_t has a successor.

    ``onward`` is the row of state 0 of the group that leads to it; 0 if there is none.
    """
    L = urns.place.shape[0]
    target = uniform * urns.empty_mass[0 if onward == 0 else 1 + (onward - 1) // L]
    cumulative = 0.0
    chosen = -1
    for k in range(L):
        if urns.place[k] < 0:
            weight = urns.base[0, k] * (urns.rows[SWITCH, onward + k] if onward > 0 else 1.0)
            if weight > 0.0:
                chosen = k
                cumulative += weight
                if cumulative > target:
                    break
    return chosen


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_states(
    rng,
    states,
    persists,
    lengths,
    index,
    switches,
    visits,
    kappa_logit,
    base,
    emission,
    grouped,
    free,
):
    """Draw (z_t, w_t, w_{t+1}) | all else once for each t, pi_bar and pi_init integrated out.

    Parameters
    ----------
    rng : numpy.random.Generator
    states : ndarray of shape (T,), integer
    persists : ndarray of shape (T,), bool
    lengths : ndarray of shape (N,)
        Sequence lengths, which sum to T.
    index : ndarray of shape (T,), int64, or (0,)
        See ``draw_persistences``.
    switches : ndarray of shape (R + 1, L), int64
        n_jk over all paths of the prior, these and others.
    visits : ndarray of shape (L,), int64
        Time points in each state, over all paths of the prior.
    kappa_logit : ndarray of shape (R,)
    base : ndarray of shape (R + 1, L)
        Dirichlet parameters of pi_init and of each row, alpha beta for instance.
    emission : NamedTuple
        One of the kinds of ``kernels.predictive``, with ``states`` included. Its sums are kept
        up to date in place.
    grouped : bool
        Whether the emission is alike in all empty slots and ``base`` in all rows, so that empty
        slots can be weighed together and a time point costs the number of occupied states.
    free : ndarray of shape (m,), int64
        The time points to draw, in the order of time. At the others the state is
        given, and their w_t, drawn before the sweep, are left as they are.

    Returns
    -------
    SweepDraw
    """
    L = base.shape[1]
    urns = fill_urns(states, persists, lengths, index, switches, visits, kappa_logit, base, grouped)
    states, persists, neighbours = urns.states, urns.persists, urns.neighbours
    first = urns.first
    counts, masses, arrivals, rows = urns.counts, urns.masses, urns.arrivals, urns.rows
    visits, empty_mass = urns.visits, urns.empty_mass
    active, place, size = urns.active, urns.place, urns.size
    likelihoods = np.empty(L + 1)
    weights = np.empty(L + DRAW_DRAW)
    moved = births = deaths = 0
    impossible = -1
    for t in free:
        before = states[t - 1] if neighbours[t] & HAS_PREVIOUS else -1
        after = states[t + 1] if neighbours[t] & HAS_NEXT else -1
        row = first[t] + before if before >= 0 else 0
        onward = first[t + 1] if after >= 0 else 0
        old = states[t]
        add_time(states, persists, neighbours, first, counts, base, masses, arrivals, rows, t, -1.0)
        visits[old] -= 1
        if grouped and visits[old] == 0:
            close_slot(urns, old)
        exclude(emission, t, old)

        n = size[0]
        likelihoods[n] = -np.inf
        log_predictive(emission, t, active, n, n < L, likelihoods)
        top = -np.inf
        for i in range(n + 1):
            top = max(top, likelihoods[i])
        for i in range(n + 1):
            likelihoods[i] -= top
        exp_in_place(likelihoods, n + 1)
        total = weigh_cases(
            base,
            masses,
            arrivals,
            rows,
            empty_mass,
            active,
            place,
            n,
            before,
            after,
            row,
            onward,
            likelihoods,
            weights,
        )
        k = -1
        if SMALLEST_TOTAL <= total < np.inf:
            case = _pick(weights, n + DRAW_DRAW, total, rng.random())
            if case >= DRAW_DRAW:
                k = active[case - DRAW_DRAW]
            elif case == NEW:
                k = pick_empty(urns, onward, rng.random())
        else:  # also NaN
            case = _case_by_logarithms(
                rng, urns, t, emission, kappa_logit, old, likelihoods, weights
            )
            k = case - DRAW_DRAW
            if case == IMPOSSIBLE:
                impossible = t
                break

        if case == KEEP:
            k = old
        else:
            if case == COPY_COPY or case == COPY_DRAW:
                k = before
            elif case == DRAW_COPY:
                k = after
            persists[t] = case == COPY_COPY or case == COPY_DRAW
            if after >= 0:
                persists[t + 1] = case == COPY_COPY or case == DRAW_COPY
        if k != old:
            moved += 1
            births += visits[k] == 0
            deaths += visits[old] == 0
        states[t] = k
        visits[k] += 1
        if place[k] < 0:
            open_slot(urns, k)
        add_time(states, persists, neighbours, first, counts, base, masses, arrivals, rows, t, 1.0)
        include(emission, t, k)

    final = np.empty(counts.shape, np.int64)
    for r in range(counts.shape[0]):
        for k in range(L):
            final[r, k] = np.int64(counts[r, k])
    return SweepDraw(states, persists, final, visits, moved, births, deaths, impossible)
