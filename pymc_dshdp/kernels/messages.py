"""Forward filter and backward sample of a hidden Markov model over sequences end to end."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.elementary import exp_in_place

SMALLEST_NORMALISER = 1e-280
BLOCK_ELEMENTS = 4096  # table entries exponentiated at a time; three such buffers stay in cache


class PathDraw(NamedTuple):
    """One draw of the hidden paths.

    Attributes
    ----------
    states : ndarray of shape (T,)
        z ~ p(z | y, pi_init, P).
    log_marginal_likelihood : ndarray of shape (N,)
        log p(y_n | pi_init, P) of each sequence, the path summed out.
    impossible_time : int
        First time point at which no reachable state has a finite log-density, or -1.
        Where it is not -1 the other fields are not valid.
    """

    states: np.ndarray
    log_marginal_likelihood: np.ndarray
    impossible_time: int


@njit(cache=True, nogil=True, fastmath={"contract"})
def _predict(previous, transition, active, out):
    """out[k] = sum_j previous[j] transition[j, k], skipping states of probability exactly 0."""
    L = previous.shape[0]
    n = 0
    for j in range(L):
        if previous[j] > 0.0:
            active[n] = j
            n += 1
    out[:] = 0.0
    i = 0
    while i + 4 <= n:
        a, b, c, d = active[i], active[i + 1], active[i + 2], active[i + 3]
        pa, pb, pc, pd = previous[a], previous[b], previous[c], previous[d]
        row_a, row_b, row_c, row_d = transition[a], transition[b], transition[c], transition[d]
        for k in range(L):
            out[k] += (pa * row_a[k] + pb * row_b[k]) + (pc * row_c[k] + pd * row_d[k])
        i += 4
    while i < n:
        pa = previous[active[i]]
        row_a = transition[active[i]]
        for k in range(L):
            out[k] += pa * row_a[k]
        i += 1


@njit(cache=True, nogil=True)
def _shift_by_reachable(log_likelihood, predicted, weights):
    """Weights exp(l_k - m) with m the maximum over states of positive predicted mass.

    Returns m, or NaN where no reachable state has a finite log-density or any is NaN.
    """
    L = predicted.shape[0]
    top = -np.inf
    for k in range(L):
        if math.isnan(log_likelihood[k]):
            return np.nan
        if predicted[k] > 0.0:
            top = max(top, log_likelihood[k])
    if math.isinf(top):
        return np.nan
    for k in range(L):
        weights[k] = math.exp(log_likelihood[k] - top) if predicted[k] > 0.0 else 0.0
    return top


@njit(cache=True, nogil=True, fastmath={"contract"})
def forward_filter(log_likelihoods, initial, transition, lengths):
    """Compute filtered probabilities p(z_t = k | y_1..t) and log p(y) of each sequence.

    a_t(k) = exp(l_tk - max_k l_tk) sum_j a_{t-1}(j) P_jk / c_t, with a_0 P replaced by pi_init
    at the first time of a sequence; log p(y) = sum_t log c_t + max_k l_tk. Where the maximum
    sits on a state that cannot be reached, so that c_t < 1e-280, the row is shifted by the
    maximum over the states that can.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
        log p(y_t | z_t = k).
    initial : ndarray of shape (L,)
    transition : ndarray of shape (L, L)
        Rows sum to one.
    lengths : ndarray of shape (N,)
        Positive integers that sum to T.

    Returns
    -------
    filtered : ndarray of shape (T, L)
    log_marginal_likelihood : ndarray of shape (N,)
    impossible_time : int
        -1 if every observation is possible.
    """
    T, L = log_likelihoods.shape
    N = lengths.shape[0]
    filtered = np.empty((T, L))
    log_marginal = np.zeros(N)
    rows = max(1, BLOCK_ELEMENTS // L)
    weights = np.empty(rows * L)
    scratch_a = np.empty(rows * L)
    scratch_b = np.empty(rows * L)
    shift = np.empty(rows)
    predicted = np.empty(L)
    active = np.empty(L, np.int64)

    sequence = -1
    sequence_end = 0
    for block in range(0, T, rows):
        block_rows = min(rows, T - block)
        for i in range(block_rows):
            row = log_likelihoods[block + i]
            top = row[0]
            for k in range(1, L):
                top = max(top, row[k])
            shift[i] = top
            w = weights[i * L : (i + 1) * L]
            for k in range(L):
                w[k] = row[k] - top
        exp_in_place(weights, block_rows * L, scratch_a, scratch_b)

        for i in range(block_rows):
            t = block + i
            if t == sequence_end:
                sequence += 1
                sequence_end += lengths[sequence]
                predicted[:] = initial
            else:
                _predict(filtered[t - 1], transition, active, predicted)
            w = weights[i * L : (i + 1) * L]
            out = filtered[t]
            normaliser = 0.0
            for k in range(L):
                out[k] = predicted[k] * w[k]
                normaliser += out[k]
            top = shift[i]
            if not (SMALLEST_NORMALISER <= normaliser < np.inf):  # also NaN
                top = _shift_by_reachable(log_likelihoods[t], predicted, w)
                if math.isnan(top):
                    return filtered, log_marginal, t
                normaliser = 0.0
                for k in range(L):
                    out[k] = predicted[k] * w[k]
                    normaliser += out[k]
                if not (0.0 < normaliser < np.inf):
                    return filtered, log_marginal, t
                for k in range(L):  # dividing: 1 / normaliser may overflow
                    out[k] /= normaliser
            else:
                inverse = 1.0 / normaliser
                for k in range(L):
                    out[k] *= inverse
            log_marginal[sequence] += math.log(normaliser) + top
    return filtered, log_marginal, -1


@njit(cache=True, nogil=True)
def choose(weights, uniform):
    """Index drawn in proportion to weights; never one of weight 0, whatever the rounding."""
    L = weights.shape[0]
    total = 0.0
    for k in range(L):
        total += weights[k]
    target = uniform * total
    chosen = -1
    cumulative = 0.0
    for k in range(L):
        if weights[k] > 0.0:
            chosen = k
            cumulative += weights[k]
            if cumulative > target:
                break
    return chosen


@njit(cache=True, nogil=True, fastmath={"contract"})
def backward_sample(filtered, transition, lengths, uniforms):
    """Draw z ~ p(z | y) from the filtered probabilities, last time point first.

    p(z_T = k) = a_T(k);  p(z_t = k | z_{t+1}, y_1..t) is proportional to a_t(k) P_{k, z_{t+1}}.

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
    transition : ndarray of shape (L, L)
    lengths : ndarray of shape (N,)
    uniforms : ndarray of shape (T,)
        In [0, 1).

    Returns
    -------
    states : ndarray of shape (T,), int64
    """
    T, L = filtered.shape
    incoming = np.ascontiguousarray(transition.T)
    weights = np.empty(L)
    states = np.empty(T, np.int64)
    t = T - 1
    for sequence in range(lengths.shape[0] - 1, -1, -1):
        states[t] = choose(filtered[t], uniforms[t])
        t -= 1
        for _ in range(lengths[sequence] - 1):
            into = incoming[states[t + 1]]
            now = filtered[t]
            for k in range(L):
                weights[k] = now[k] * into[k]
            states[t] = choose(weights, uniforms[t])
            t -= 1
    return states


@njit(cache=True, nogil=True)
def forward_filter_backward_sample(log_likelihoods, initial, transition, lengths, uniforms):
    """Draw the hidden paths of all sequences; a pure function of its arguments.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    transition : ndarray of shape (L, L)
    lengths : ndarray of shape (N,)
    uniforms : ndarray of shape (T,)

    Returns
    -------
    PathDraw
    """
    filtered, log_marginal, impossible = forward_filter(
        log_likelihoods, initial, transition, lengths
    )
    if impossible >= 0:
        return PathDraw(np.zeros(filtered.shape[0], np.int64), log_marginal, impossible)
    states = backward_sample(filtered, transition, lengths, uniforms)
    return PathDraw(states, log_marginal, -1)
