"""The cases of (z_t, w_t, w_{t+1}) at one time point, the rows integrated out, and their weights.

Paper letters: w_t = 1 where z_t is a copy of z_{t-1} (probability kappa_j, j = z_{t-1}), w_t = 0
where it is drawn from row j's Dirichlet(a_j), a_j = alpha beta unless rows have parameters of
their own; n_jk counts the draws k from row j (row 0: the sequence starts, which are draws
always). With the rows integrated out (pi_bar and pi_init) the draws of a row are a Polya urn: the
next one is k with probability (a_jk + n_jk) / (a_j. + n_j.), and draws of one row are
exchangeable.

Time point t with predecessor j, successor l, all counts without t's own two draws. The joint
probability of what involves z_t = k is

    p(w_t | j) p(k | row j, if w_t = 0) p(w_{t+1} | k) p(l | row k, if w_{t+1} = 0; the draw of k)

    w_t w_t+1
     1   1    k = j = l   kappa_j^2
     1   0    k = j       kappa_j (1-kappa_j) (a_jl + n_jl) / (a_j. + n_j.)
     0   1    k = l       (1-kappa_j) kappa_l (a_jl + n_jl) / (a_j. + n_j.)
     0   0    k           (1-kappa_j) (a_jk + n_jk) / (a_j. + n_j.)
                          x (1-kappa_k) (a_kl + n_kl + d) / (a_k. + n_k. + e)

with e = 1 where k = j (the draw of k came from the row that l is drawn from) and d = 1 where also
l = k. In the second case z_t took no draw, so nothing is added to n_jl. A first time point draws
from row 0, with kappa_0 = 0, and is nobody's copy; a last one has the factors of t alone:
kappa_j for w_t = 1, k = j, and (1-kappa_j) (a_jk + n_jk) / (a_j. + n_j.) for w_t = 0.

Where the transition to t is that of group g and the one to t + 1 that of group h, row and kappa in
the factors of w_t are those of g, in the factors of w_{t+1} those of h, and e = d = 0 unless g = h.
"""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.random import softplus
from pymc_dshdp.kernels.urns import (
    DEPARTURES,
    HAS_NEXT,
    HAS_PREVIOUS,
    KAPPA,
    OUTFLOW,
    SWITCH,
    TOTAL,
)

COPY_COPY, COPY_DRAW, DRAW_COPY, NEW, DRAW_DRAW = 0, 1, 2, 3, 4  # places in the case weights


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def weigh_cases(
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
):
    """Weigh every case of a time point that has been taken out; see the module.

    Parameters
    ----------
    base, masses, arrivals, rows, empty_mass, active, place : ndarray
        Of ``Urns``.
    n : int
        Number of slots in ``active``.
    before, after : int
        States of the neighbours, -1 where there is none.
    row : int
        That z_t is drawn from.
    onward : int
        Row of state 0 of the group whose transition leads to t + 1, if that is of the sequence.
    likelihoods : ndarray of shape (L + 1,)
        Of z_t in each slot of ``active``, then in an empty slot, up to a common factor.
    weights : ndarray of shape (L + 4,)
        Overwritten. (w_t, w_{t+1}) = (1, 1), (1, 0), (0, 1), then (0, 0) with an empty slot, then
        (0, 0) with each slot of ``active``. A last time point has w_t = 1 in the first entry.

    Returns
    -------
    float
        Sum of the weights.
    """
    L = active.shape[0]
    into = rows[OUTFLOW, row]
    weights[COPY_COPY] = weights[COPY_DRAW] = weights[DRAW_COPY] = 0.0
    if after < 0:
        for i in range(n):
            k = active[i]
            weights[DRAW_DRAW + i] = into * masses[row, k] * likelihoods[i]
        weights[NEW] = into * empty_mass[0] * likelihoods[n]
        if before >= 0:
            weights[COPY_COPY] = rows[KAPPA, row] * likelihoods[place[before]]
    else:
        if n == L:  # every slot, in order: the loop without look-ups is faster
            for k in range(n):
                weights[DRAW_DRAW + k] = (
                    (into * masses[row, k])
                    * (rows[OUTFLOW, onward + k] * arrivals[after, onward + k])
                    * likelihoods[k]
                )
        else:
            for i in range(n):
                k = active[i]
                weights[DRAW_DRAW + i] = (
                    (into * masses[row, k])
                    * (rows[OUTFLOW, onward + k] * arrivals[after, onward + k])
                    * likelihoods[i]
                )
        share = base[0, after] / rows[TOTAL, 0]  # of l in a row without draws
        weights[NEW] = into * empty_mass[1 + (onward - 1) // L] * share * likelihoods[n]
        enter = into * masses[row, after]
        weights[DRAW_COPY] = enter * rows[KAPPA, onward + after] * likelihoods[place[after]]
        if before >= 0:
            same = 1.0 if before == after else 0.0
            likelihood = likelihoods[place[before]]
            out = onward + before  # the row that z_{t+1} is drawn from
            if out == row:
                weights[DRAW_DRAW + place[before]] = (
                    (into * masses[row, before])
                    * (rows[SWITCH, row] * (masses[row, after] + same))
                    / (rows[TOTAL, row] + rows[DEPARTURES, row] + 1.0)
                    * likelihood
                )
            leave = rows[OUTFLOW, out] * masses[out, after]
            weights[COPY_DRAW] = rows[KAPPA, row] * leave * likelihood
            weights[COPY_COPY] = rows[KAPPA, row] * rows[KAPPA, out] * same * likelihood
    total = 0.0
    for i in range(n + DRAW_DRAW):
        total += weights[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def log_case_weights(urns, t, kappa_logit, log_likelihoods, weights):
    """Logarithms of ``weigh_cases``, every slot on its own; entry 3 is -inf.

    The products of small numbers that ``weigh_cases`` may lose to underflow are sums here.
    """
    L = urns.place.shape[0]
    before = urns.states[t - 1] if urns.neighbours[t] & HAS_PREVIOUS else -1
    row = urns.first[t] + before if before >= 0 else 0
    has_next = urns.neighbours[t] & HAS_NEXT
    after = urns.states[t + 1] if has_next else -1
    onward = urns.first[t + 1] if has_next else 1
    log_switch = 0.0 if row == 0 else -softplus(kappa_logit[row - 1])
    log_into = log_switch - math.log(urns.rows[TOTAL, row] + urns.rows[DEPARTURES, row])
    weights[:] = -np.inf
    for k in range(L):
        mass = urns.masses[row, k]
        if mass == 0.0:
            continue
        w = log_into + math.log(mass) + log_likelihoods[k]
        if has_next:
            out = onward + k
            same_row = 1.0 if out == row else 0.0
            mass = urns.masses[out, after] + (same_row if after == k else 0.0)
            if mass > 0.0:
                weights[DRAW_DRAW + k] = (
                    w
                    - softplus(kappa_logit[out - 1])
                    + math.log(mass)
                    - math.log(urns.rows[TOTAL, out] + urns.rows[DEPARTURES, out] + same_row)
                )
            if k == after:
                weights[DRAW_COPY] = w - softplus(-kappa_logit[out - 1])
        else:
            weights[DRAW_DRAW + k] = w
    if row > 0:
        copy = log_likelihoods[before] - softplus(-kappa_logit[row - 1])
        if not has_next:
            weights[COPY_COPY] = copy
        else:
            out = onward + before
            mass = urns.masses[out, after]
            if mass > 0.0:
                total = urns.rows[TOTAL, out] + urns.rows[DEPARTURES, out]
                leave = math.log(mass) - math.log(total) - softplus(kappa_logit[out - 1])
                weights[COPY_DRAW] = copy + leave
            if before == after:
                weights[COPY_COPY] = copy - softplus(-kappa_logit[out - 1])
