"""Forward simulation of hidden paths."""

import numpy as np
from numba import njit

from pymc_dshdp.kernels.messages import choose


@njit(cache=True, nogil=True)
def simulate_path(rng, initial, pi_bar, kappa, lengths, known, out):
    """Draw z_1 ~ pi_init of each sequence and z_t ~ kappa_tj delta_j + (1 - kappa_tj) pi_bar_j.

    Parameters
    ----------
    rng : numpy.random.Generator
    initial : ndarray of shape (L,)
    pi_bar : ndarray of shape (L, L)
    kappa : ndarray of shape (1, L) or (T, L)
        Row t is in force from t - 1 to t.
    lengths : ndarray of shape (N,)
    known : ndarray of shape (0,) or (T,), integer
        States to condition on, -1 where there is none.
    out : ndarray of shape (T,), integer
        Overwritten.
    """
    if known.shape[0] > 0:
        if known.shape[0] != out.shape[0]:
            raise ValueError("the states have another length than what is known of them")
        _simulate_given_known(rng, initial, pi_bar, kappa, lengths, known, out)
        return
    varies = kappa.shape[0] > 1
    t = 0
    for length in lengths:
        state = choose(initial, rng.random())
        out[t] = state
        for i in range(t + 1, t + length):
            if rng.random() >= kappa[i if varies else 0, state]:
                state = choose(pi_bar[state], rng.random())
            out[i] = state
        t += length


@njit(cache=True, nogil=True)
def _simulate_given_known(rng, initial, pi_bar, kappa, lengths, known, out):
    """Draw z | known states: b_t(k) = p(known from t on | z_t = k) backwards, then z forwards.

    b_t(k) = 1[k is allowed at t] sum_l P_t+1[k, l] b_t+1(l);  p(z_1 = k | known) is proportional
    to pi_init_k b_1(k), p(z_t = k | z_t-1 = j, known) to P_t[j, k] b_t(k). Where rows have
    underflowed so that what is known from t on has probability exactly 0, the states before t do
    not regard it.
    """
    T, L = out.shape[0], initial.shape[0]
    varies = kappa.shape[0] > 1
    ahead = np.empty((T, L))
    weights = np.empty(L)
    t = T
    for n in range(lengths.shape[0] - 1, -1, -1):
        for i in range(t - 1, t - lengths[n] - 1, -1):
            total = 0.0
            if i < t - 1:
                row = kappa[i + 1 if varies else 0]
                for k in range(L):
                    onward = 0.0
                    for m in range(L):
                        onward += pi_bar[k, m] * ahead[i + 1, m]
                    ahead[i, k] = (1.0 - row[k]) * onward + row[k] * ahead[i + 1, k]
                    if known[i] >= 0 and known[i] != k:
                        ahead[i, k] = 0.0
                    total += ahead[i, k]
            for k in range(L):
                if total > 0.0:
                    ahead[i, k] /= total
                else:
                    ahead[i, k] = 0.0 if known[i] >= 0 and known[i] != k else 1.0
        t -= lengths[n]
    t = 0
    for length in lengths:
        for i in range(t, t + length):
            total = 0.0
            for k in range(L):
                if i == t:
                    prior = initial[k]
                else:
                    j = out[i - 1]
                    stay = kappa[i if varies else 0, j]
                    prior = (1.0 - stay) * pi_bar[j, k] + (stay if j == k else 0.0)
                weights[k] = prior * ahead[i, k]
                total += weights[k]
            if total > 0.0:
                out[i] = choose(weights, rng.random())
            elif known[i] >= 0:
                out[i] = known[i]
            elif i == t:
                out[i] = choose(initial, rng.random())
            else:
                j = out[i - 1]
                stays = rng.random() < kappa[i if varies else 0, j]
                out[i] = j if stays else choose(pi_bar[j], rng.random())
        t += length
