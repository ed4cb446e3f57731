"""Divisions of the times of a state in two by what is known of transitions alone.

Two states alike are not told apart by the data, and there are very many divisions of one state in
two alike. Their law is nearly that of the path before any data: stays come, end and change sides
with probabilities learnt from the stays before, as from urns.

S is divided run by run (times of S next to each other), first the run of the time i, which is on
side 0, then the others in the order of time. Given the counts n and stays of the sides s so far,
with a = alpha (beta_a + beta_b) / 2 for each side, kappa_s = (rho1 + W_s) / (rho1 + rho2 + W_s +
n_s.) and c_s = (1 - kappa_s) / (alpha + n_s.), a run that comes from k and goes to l is a Markov
chain with

    p(first side s) ~ a + n_ks,   p(s, s) = kappa_s + c_s a,   p(s, s') = c_s (a + n_ss')
    and the factor c_s (alpha beta_l + n_sl) at its end,

from which it is drawn exactly, forward and backward; only then are the counts of S updated. The
probability of a division depends on (S, i), the path outside S and beta_a + beta_b alone.
"""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit

__all__ = ["divide_by_prior"]

LEAST = 1e-200  # a weight that has underflowed


@njit(cache=True, nogil=True)
def _runs(times, first, i):
    """Begin and end in S of each run, that of the time i first."""
    n = times.shape[0]
    out = np.empty((n, 2), np.int64)
    m, own = 0, 0
    for x in range(n):
        if x == 0 or first[times[x]] or times[x] != times[x - 1] + 1:
            out[m, 0] = x
            m += 1
        out[m - 1, 1] = x + 1
        if times[x] == i:
            own = m - 1
    for r in range(own, 0, -1):  # those before it move up by one
        for end in range(2):
            out[r, end], out[r - 1, end] = out[r - 1, end], out[r, end]
    return out[:m]


@njit(cache=True, nogil=True, error_model="numpy")
def divide_by_prior(path, prior, times, i, slots, uniforms, given, sides):
    """Divide S, or find the probability of a division; see the module.

    Parameters
    ----------
    path : kernels.split_merge.Path
        Its states at S do not matter.
    prior : kernels.pair_density.Prior
    times : ndarray of int64, shape (n,)
        S, in the order of time.
    i : int
        A time of S, on side 0.
    slots : ndarray of int64, shape (2,)
        The states a and b of the sides.
    uniforms : ndarray of shape (n,)
        For a draw.
    given : bool
    sides : ndarray of int64, shape (n,)
        Overwritten unless given.

    Returns
    -------
    float
        Log-probability of the sides.
    """
    states, first, groups = path.states, path.first, path.groups
    alpha, persistence, grouped = prior.alpha, prior.persistence, groups.shape[0] > 0
    n, T, L = times.shape[0], states.shape[0], path.log_beta.shape[0]
    G = persistence.stay.shape[0] // L
    arrivals, departures = np.zeros((G, 2, L + 1)), np.zeros((G, 2, L + 1))
    crossings, copies, draws = np.zeros((G, 2)), np.zeros((G, 2)), np.zeros((G, 2))
    base = 0.5 * alpha * (math.exp(path.log_beta[slots[0]]) + math.exp(path.log_beta[slots[1]]))
    base = max(base, LEAST)
    filtered, move = np.empty((n, 2)), np.empty((G, 2, 2))
    copied, leave = np.empty((G, 2)), np.empty((G, 2))
    log_q = 0.0
    for begin, end in _runs(times, first, i):
        for g in range(G):
            for s in range(2):
                stay, go = persistence.stay[g * L + slots[s]], persistence.leave[g * L + slots[s]]
                if persistence.integrated:
                    stay, go = stay + copies[g, s], go + draws[g, s]
                kappa, leave[g, s] = stay / (stay + go), go / (stay + go) / (alpha + draws[g, s])
                move[g, s, s] = kappa + leave[g, s] * base
                move[g, s, 1 - s] = leave[g, s] * (base + crossings[g, s])
                copied[g, s] = kappa / move[g, s, s]
        t, after = times[begin], times[end - 1] + 1
        g = groups[t] if grouped else 0
        k = L if first[t] else states[t - 1]
        one, two = base + arrivals[g, 0, k], base + arrivals[g, 1, k]
        for x in range(begin, end):
            if x > begin:
                g = groups[times[x]] if grouped else 0
                one = filtered[x - 1, 0] * move[g, 0, 0] + filtered[x - 1, 1] * move[g, 1, 0]
                two = filtered[x - 1, 0] * move[g, 0, 1] + filtered[x - 1, 1] * move[g, 1, 1]
            if times[x] == i:
                two = 0.0
            filtered[x, 0] = one / (one + two)
            filtered[x, 1] = two / (one + two)
        ends = after < T and not first[after]
        one, two = filtered[end - 1]
        to, g_end = 0, 0
        if ends:
            to, g_end = states[after], groups[after] if grouped else 0
            weight = max(alpha * math.exp(path.log_beta[to]), LEAST)
            one *= leave[g_end, 0] * (weight + departures[g_end, 0, to])
            two *= leave[g_end, 1] * (weight + departures[g_end, 1, to])
        for x in range(end - 1, begin - 1, -1):
            if x + 1 < end:
                g = groups[times[x + 1]] if grouped else 0
                one = filtered[x, 0] * move[g, 0, sides[x + 1]]
                two = filtered[x, 1] * move[g, 1, sides[x + 1]]
            if not given:
                sides[x] = uniforms[x] * (one + two) < two
            log_q += math.log((two if sides[x] == 1 else one) / (one + two))
        g = groups[t] if grouped else 0
        arrivals[g, sides[begin], k] += 1.0
        for x in range(begin + 1, end):
            s, g = sides[x - 1], groups[times[x]] if grouped else 0
            if sides[x] == s:
                copies[g, s] += copied[g, s]
                draws[g, s] += 1.0 - copied[g, s]
            else:
                crossings[g, s] += 1.0
                draws[g, s] += 1.0
        if ends:
            departures[g_end, sides[end - 1], to] += 1.0
            draws[g_end, sides[end - 1]] += 1.0
    return log_q
