"""Messages by logarithms, for sequences in which states underflow that matter.

What ``filtering``, ``messages`` and ``decoding`` compute, however far apart the states are; several
times as slow.
"""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.chain import add_logs, at_time, log_leave, log_stay

BAND = 250.0  # nats; numbers further apart than that are added up one group after the other
LIFT = 2.0**500  # of the matrix, so that e^-250 times the smallest of its entries is not lost
LOG_LIFT = 500.0 * math.log(2.0)
TINY = 1e-290  # above it the matrix need not have been lifted


@njit(cache=True, nogil=True)
def log_product(x, matrix, out):
    """out[k] = log sum_j exp(x[j]) matrix[j, k], without underflow.

    The largest x and those within 250 nats of it are multiplied as they are, relative to it; then
    the largest of the rest, and so on.

    Parameters
    ----------
    x : ndarray of shape (L,)
    matrix : ndarray of shape (L, L)
        Probabilities.
    out : ndarray of shape (L,)
        Overwritten.
    """
    L = x.shape[0]
    sums = np.empty(L)
    out[:] = -np.inf
    below = np.inf
    while True:
        top = -np.inf
        for j in range(L):
            if top < x[j] <= below:
                top = x[j]
        if math.isinf(top):
            return
        sums[:] = 0.0
        for j in range(L):
            if top - BAND < x[j] <= below:
                factor = math.exp(x[j] - top) * LIFT
                for k in range(L):
                    sums[k] += factor * matrix[j, k]
        for k in range(L):
            if not sums[k] == 0.0:  # also NaN
                total = sums[k] / LIFT
                log_total = math.log(total if total > TINY else sums[k])
                out[k] = add_logs(out[k], log_total + top - (0.0 if total > TINY else LOG_LIFT))
        below = top - BAND


@njit(cache=True, nogil=True)
def predict_by_logarithms(previous, transitions, t, out):
    """out[k] = log sum_j exp(previous[j]) P_tjk."""
    row, pi_bar = at_time(transitions, t)
    leaving = np.empty(previous.shape[0])
    for j in range(previous.shape[0]):
        leaving[j] = previous[j] + log_leave(row[j])
    log_product(leaving, pi_bar, out)
    for k in range(previous.shape[0]):
        out[k] = add_logs(out[k], previous[k] + log_stay(row[k]))


@njit(cache=True, nogil=True)
def filter_by_logarithms(
    log_likelihoods, initial, transitions, start, stop, before, filtered, scores
):
    """Forward filter of the times start..stop - 1 of one sequence.

    a_t(k) = l_tk + log sum_j exp(a_{t-1}(j)) P_tjk - c_t, with c_t such that the exponentials sum
    to 1.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    transitions : Transitions
    start, stop : int
    before : ndarray of shape (L,) or (0,)
        a at the time before, where that is not the beginning of the sequence.
    filtered : ndarray of shape (T, L)
        a_t(k) = log p(z_t = k | y_1..t). Overwritten.
    scores : ndarray of shape (T,) or (0,)
        c. Overwritten.

    Returns
    -------
    log_marginal_likelihood : float
        The sum of c.
    impossible_time : int
        First time at which no state that can be reached has a finite log-density, or any is NaN;
        or -1.
    """
    L = initial.shape[0]
    predicted = np.empty(L)
    total = 0.0
    for t in range(start, stop):
        if t > start:
            predict_by_logarithms(filtered[t - 1], transitions, t, predicted)
        elif before.shape[0] > 0:
            predict_by_logarithms(before, transitions, t, predicted)
        else:
            for k in range(L):
                predicted[k] = -np.inf if initial[k] == 0.0 else math.log(initial[k])
        top = -np.inf
        for k in range(L):
            if math.isnan(log_likelihoods[t, k]) or math.isnan(predicted[k]):
                return total, t
            filtered[t, k] = -np.inf
            if predicted[k] > -np.inf:
                filtered[t, k] = predicted[k] + log_likelihoods[t, k]
                top = max(top, filtered[t, k])
        if math.isinf(top):
            return total, t
        mass = 0.0
        for k in range(L):
            mass += math.exp(filtered[t, k] - top)
        c = top + math.log(mass)
        for k in range(L):
            filtered[t, k] -= c
        total += c
        if scores.shape[0] > 0:
            scores[t] = c
    return total, -1


@njit(cache=True, nogil=True)
def sample_by_logarithms(filtered, transitions, start, stop, uniforms, following, states):
    """Draw the states of one sequence from the logarithms of its filtered probabilities.

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
    transitions : Transitions
        Where they vary and a state follows, also to the time of that state.
    start, stop : int
        The times of the sequence are start..stop - 1.
    uniforms : ndarray of shape (T,)
    following : int
        State after the last time point, or -1 where the sequence ends.
    states : ndarray of shape (T,), integer
        Overwritten.
    """
    L = filtered.shape[1]
    weights = np.empty(L)
    j = following
    for t in range(stop - 1, start - 1, -1):
        row, pi_bar = at_time(transitions, t + 1 if j >= 0 else t)
        top = -np.inf
        for k in range(L):
            weights[k] = filtered[t, k]
            if j >= 0 and weights[k] > -np.inf:
                p = -np.inf if pi_bar[k, j] == 0.0 else log_leave(row[k]) + math.log(pi_bar[k, j])
                weights[k] += add_logs(p, log_stay(row[k])) if k == j else p
            top = max(top, weights[k])
        total = 0.0
        for k in range(L):
            weights[k] = math.exp(weights[k] - top)
            total += weights[k]
        target, cumulative = uniforms[t] * total, 0.0
        for k in range(L):
            if cumulative + weights[k] > cumulative:
                j = k
                cumulative += weights[k]
                if cumulative > target:
                    break
        states[t] = j


@njit(cache=True, nogil=True)
def smooth_by_logarithms(filtered, transitions, start, stop):
    """Turn the logarithms of filtered probabilities into smoothed probabilities, in place.

    s_t(j) = a_t(j) sum_k P_{t+1,jk} s_{t+1}(k) / b_{t+1}(k), b_{t+1} = a_t P_{t+1}, as in
    ``decoding.smooth``.

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
    transitions : Transitions
    start, stop : int
        The times of the sequence are start..stop - 1.
    """
    L = filtered.shape[1]
    predicted, ratio, onward = np.empty(L), np.empty(L), np.empty(L)
    for t in range(stop - 2, start - 1, -1):
        predict_by_logarithms(filtered[t], transitions, t + 1, predicted)
        for k in range(L):
            smoothed = filtered[t + 1, k]
            ratio[k] = smoothed - predicted[k] if smoothed > -np.inf else -np.inf
        row, pi_bar = at_time(transitions, t + 1)
        log_product(ratio, pi_bar.T, onward)
        for j in range(L):
            switch, stay = log_leave(row[j]) + onward[j], log_stay(row[j]) + ratio[j]
            filtered[t, j] += add_logs(switch, stay)
    for t in range(start, stop):
        for k in range(L):
            filtered[t, k] = math.exp(filtered[t, k])
