"""Kernels for self-persistence that varies with time: the filter, the sampler, and w given z.

P_t = diag(kappa_t) + (1 - kappa_t) pi_bar with one pi_bar and a row kappa_t for every time point,
in force from t - 1 to t. The matrices P_t are never formed: a prediction is one product with
pi_bar and one with the diagonal. Rows at the first times of sequences are not used.
"""

import math

import numpy as np
from numba import njit

from pymc_dshdp.kernels.elementary import exp_in_place
from pymc_dshdp.kernels.messages import (
    SMALLEST_NORMALISER,
    PathDraw,
    _shift_by_reachable,
    choose,
)
from pymc_dshdp.kernels.random import copy_probability, sigmoid


def kappa_rows(kappa_logit, shape):
    """Lay out rows (..., T, L) along the flattened states of a shape; contiguous (T_all, L)."""
    L = kappa_logit.shape[-1]
    try:
        rows = np.broadcast_to(kappa_logit, (*shape, L))
    except ValueError as error:
        raise ValueError(
            f"kappa has rows for times of shape {kappa_logit.shape[:-1]}, but the states have "
            f"shape {shape}; set its covariates for the same times"
        ) from error
    return np.ascontiguousarray(rows.reshape(-1, L))


@njit(cache=True, nogil=True)
def _predict(previous, transition, out):
    """out[k] = sum_j previous[j] transition[j, k], skipping states of probability exactly 0."""
    out[:] = 0.0
    for j in range(previous.shape[0]):
        if previous[j] > 0.0:
            for k in range(out.shape[0]):
                out[k] += previous[j] * transition[j, k]


@njit(cache=True, nogil=True)
def forward_filter(log_likelihoods, initial, pi_bar, kappa_logit, lengths):
    """Compute filtered probabilities p(z_t = k | y_1..t) and log p(y) of each sequence.

    a_t(k) = exp(l_tk) [sum_j a_{t-1}(j) (1 - kappa_tj) pi_bar_jk + a_{t-1}(k) kappa_tk] / c_t;
    shifted as in ``messages.forward_filter``, and every row divided by its sum c_t.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    pi_bar : ndarray of shape (L, L)
    kappa_logit : ndarray of shape (T, L)
        Logit of the self-persistence probabilities.
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
    filtered = np.empty((T, L))
    log_marginal = np.zeros(lengths.shape[0])
    weights, leaving, predicted = np.empty(L), np.empty(L), np.empty(L)
    sequence, sequence_end = -1, 0
    for t in range(T):
        if t == sequence_end:
            sequence += 1
            sequence_end += lengths[sequence]
            predicted[:] = initial
        else:
            for k in range(L):
                leaving[k] = filtered[t - 1, k] * sigmoid(-kappa_logit[t, k])
            _predict(leaving, pi_bar, predicted)
            for k in range(L):
                predicted[k] += filtered[t - 1, k] * sigmoid(kappa_logit[t, k])
        top = log_likelihoods[t].max()
        for k in range(L):
            weights[k] = log_likelihoods[t, k] - top
        exp_in_place(weights, L)
        normaliser = 0.0
        for k in range(L):
            filtered[t, k] = predicted[k] * weights[k]
            normaliser += filtered[t, k]
        if not (SMALLEST_NORMALISER <= normaliser < np.inf):  # also NaN
            top = _shift_by_reachable(log_likelihoods[t], predicted, weights)
            if math.isnan(top):
                return filtered, log_marginal, t
            normaliser = 0.0
            for k in range(L):
                filtered[t, k] = predicted[k] * weights[k]
                normaliser += filtered[t, k]
            if not (0.0 < normaliser < np.inf):
                return filtered, log_marginal, t
        for k in range(L):
            filtered[t, k] /= normaliser
        log_marginal[sequence] += math.log(normaliser) + top
    return filtered, log_marginal, -1


@njit(cache=True, nogil=True)
def backward_sample(filtered, pi_bar, kappa_logit, lengths, uniforms):
    """Draw z ~ p(z | y) from the filtered probabilities, last time point first.

    p(z_t = k | z_{t+1} = m, y_1..t) is proportional to
    a_t(k) [(1 - kappa_{t+1,k}) pi_bar_km + kappa_{t+1,k} delta_km].

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
    pi_bar : ndarray of shape (L, L)
    kappa_logit : ndarray of shape (T, L)
    lengths : ndarray of shape (N,)
    uniforms : ndarray of shape (T,)
        In [0, 1).

    Returns
    -------
    states : ndarray of shape (T,), int64
    """
    T, L = filtered.shape
    weights = np.empty(L)
    states = np.empty(T, np.int64)
    t = T - 1
    for sequence in range(lengths.shape[0] - 1, -1, -1):
        states[t] = choose(filtered[t], uniforms[t])
        t -= 1
        for _ in range(lengths[sequence] - 1):
            after = states[t + 1]
            for k in range(L):
                weights[k] = filtered[t, k] * sigmoid(-kappa_logit[t + 1, k]) * pi_bar[k, after]
            weights[after] += filtered[t, after] * sigmoid(kappa_logit[t + 1, after])
            states[t] = choose(weights, uniforms[t])
            t -= 1
    return states


@njit(cache=True, nogil=True)
def forward_filter_backward_sample(
    log_likelihoods, initial, pi_bar, kappa_logit, lengths, uniforms
):
    """Draw the hidden paths of all sequences; a pure function of its arguments.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    pi_bar : ndarray of shape (L, L)
    kappa_logit : ndarray of shape (T, L)
    lengths : ndarray of shape (N,)
    uniforms : ndarray of shape (T,)

    Returns
    -------
    PathDraw
    """
    filtered, log_marginal, impossible = forward_filter(
        log_likelihoods, initial, pi_bar, kappa_logit, lengths
    )
    if impossible >= 0:
        return PathDraw(np.zeros(filtered.shape[0], np.int64), log_marginal, impossible)
    states = backward_sample(filtered, pi_bar, kappa_logit, lengths, uniforms)
    return PathDraw(states, log_marginal, -1)


@njit(cache=True, nogil=True)
def self_persistence_counts(rng, states, lengths, kappa_logit, pi_bar, persistences):
    """Draw w | z, kappa, pi_bar and count w_t = 1 by state.

    Given z the w_t are independent: at z_{t-1} = z_t = j,
    p(w_t = 1) = kappa_tj / (kappa_tj + (1 - kappa_tj) pi_bar_jj); elsewhere w_t = 0.

    Parameters
    ----------
    rng : numpy.random.Generator
    states : ndarray of shape (T,), integer
    lengths : ndarray of shape (N,)
    kappa_logit : ndarray of shape (T, L)
    pi_bar : ndarray of shape (L, L)
    persistences : ndarray of shape (L,), int64
        W_j. Added to in place.
    """
    t = 0
    for length in lengths:
        for i in range(t + 1, t + length):
            j = states[i]
            if j == states[i - 1]:
                persistences[j] += rng.random() < copy_probability(kappa_logit[i, j], pi_bar[j, j])
        t += length
