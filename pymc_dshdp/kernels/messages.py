"""Forward filter and backward sample of a hidden Markov model over sequences end to end."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.elementary import EXPONENT_AT, bits_of, float_of
from pymc_dshdp.kernels.products import TALL, multiply_flat, multiply_tall
from pymc_dshdp.kernels.simd.vectors import WIDTH, exponentiate, scale_to, weigh

SMALLEST_NORMALISER = 1e-280
HEADROOM = 2.0**60  # by which products of rows that are not scaled yet are kept from underflow
LN2 = math.log(2.0)
ONE_TILE = 20  # columns up to which one row at a time is faster than four
BIASED_TWICE = np.uint64(2046)


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


@njit(cache=True, nogil=True)
def _weigh_reachable(log_likelihood, predicted, weights, scale, current, lane):
    """Weigh and normalise a row where next to no mass lies on the most likely state.

    Returns the shift, with the logarithm of the normaliser in it; the normaliser then, which is
    1, or NaN where the observation is impossible; and the number of states of positive mass.
    """
    L = log_likelihood.shape[0]
    top = _shift_by_reachable(log_likelihood, predicted[lane, :L], weights[lane])
    normaliser, positive = weigh(predicted, lane, scale, weights, lane, current, lane)
    if not (0.0 < normaliser < np.inf):  # also NaN
        return top, np.nan, 0
    current[lane] /= normaliser  # 1 / normaliser may overflow
    return top + math.log(normaliser), 1.0, positive


@njit(cache=True, nogil=True)
def _reached(current, low, high, active):
    """List the states of positive probability in rows low..high - 1; returns their number."""
    n = 0
    for j in range(active.shape[0]):
        for lane in range(low, high):
            if current[lane, j] > 0.0:
                active[n] = j
                n += 1
                break
    return n


@njit(cache=True, nogil=True, inline="always")
def _binary_exponent(x):
    """Return e and 2^-e with 1 <= x 2^-e < 2, for a positive, normal x."""
    biased = bits_of(x) >> EXPONENT_AT
    return np.int64(biased) - 1023, float_of((BIASED_TWICE - biased) << EXPONENT_AT)


@njit(cache=True, nogil=True)
def _lanes(lengths):
    """Divide the sequences into up to four runs of about equal numbers of time points.

    Returns
    -------
    first : ndarray of shape (lanes + 1,)
        First sequence of each lane, and their number.
    start : ndarray of shape (lanes + 1,)
        First time point of each lane, and T.
    """
    N = lengths.shape[0]
    n_lanes = min(N, TALL)
    first = np.full(n_lanes + 1, N)
    start = np.full(n_lanes + 1, lengths.sum())
    first[0] = start[0] = 0
    share = lengths.sum() / n_lanes
    lane, t = 1, 0
    for n in range(N):
        if lane < n_lanes and n >= lane and (t >= lane * share or N - n == n_lanes - lane):
            first[lane], start[lane] = n, t
            lane += 1
        t += lengths[n]
    return first, start


@njit(cache=True, nogil=True, fastmath={"contract"})
def filter_rows(log_likelihoods, initial, transition, lengths, previous, filtered):
    """Forward filter over rows that may begin within a sequence; see ``forward_filter``.

    A row is scaled only when the next product has been formed, so that no product waits for a
    sum. As scaling by a power of two is exact, that changes nothing but where a product
    underflows; the matrix is multiplied by 2^60 for that, and rows that sum to less than 2^-60
    do not wait.

    Where the transition matrix is wide, up to four sequences advance together and it is read
    once for four rows. A state that has probability 0 in all of them is passed over. Every entry
    is computed in the same order whatever runs beside it.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    transition : ndarray of shape (L, L)
    lengths : ndarray of shape (N,)
        Of the pieces of sequences that the rows consist of.
    previous : ndarray of shape (L,) or (0,)
        Row of ``filtered`` before the first, where that is not the beginning of its sequence.
    filtered : ndarray of shape (T, L)
        Overwritten.

    Returns
    -------
    log_marginal_likelihood : ndarray of shape (N,)
    impossible_time : int
    """
    log_likelihoods = np.ascontiguousarray(log_likelihoods)
    L = log_likelihoods.shape[1]
    columns = -(-L // WIDTH) * WIDTH
    matrix = np.zeros((L, columns))
    for j in range(L):
        for k in range(L):
            matrix[j, k] = HEADROOM * transition[j, k]
    log_marginal = np.zeros(lengths.shape[0])
    first, start = _lanes(lengths)
    n_lanes = first.shape[0] - 1
    weights = np.empty((n_lanes, columns))
    predicted = np.zeros((TALL, columns))
    current = np.zeros((TALL, columns))  # filtered rows before they are scaled
    scales = np.full(n_lanes, 1.0 / HEADROOM)  # of the products of each with the matrix
    exponents = np.zeros(n_lanes, np.int64)  # sum of e since the sequence began
    positive = np.full(n_lanes, L)
    active = np.empty(L, np.int64)
    time, ends = start.copy(), start.copy()
    sequence = first - 1
    impossible = -1
    if previous.shape[0] > 0:
        current[0, :L] = previous
        log_marginal[0] = -math.log(previous.sum())
        sequence[0], ends[0] = 0, lengths[0]

    n_live = n_lanes
    while n_live > 0:
        together = n_live > 2 and columns > ONE_TILE
        if together:
            n = -1 if 4 * positive.max() > 3 * L else _reached(current, 0, TALL, active)
            multiply_tall(current, active, n, matrix, predicted)
        for lane in range(n_lanes):
            t, end = time[lane], start[lane + 1]
            if t == end:
                continue
            until = t + 1 if together else end
            i, sequence_end = sequence[lane], ends[lane]
            scale, exponent, n_positive = scales[lane], exponents[lane], positive[lane]
            while t < until:
                if t == sequence_end:
                    i += 1
                    sequence_end += lengths[i]
                    scale = 1.0
                    for k in range(L):
                        predicted[lane, k] = initial[k]
                elif not together:
                    dense = 4 * n_positive > 3 * L
                    n = -1 if dense else _reached(current, lane, lane + 1, active)
                    multiply_flat(current, active, n, matrix, lane, predicted)
                shift = exponentiate(log_likelihoods, t, weights, lane)
                normaliser, n_positive = weigh(predicted, lane, scale, weights, lane, current, lane)
                if not (SMALLEST_NORMALISER <= normaliser < np.inf):  # also NaN
                    shift, normaliser, n_positive = _weigh_reachable(
                        log_likelihoods[t], predicted, weights, scale, current, lane
                    )
                    if math.isnan(normaliser):
                        impossible = t if impossible < 0 else min(impossible, t)
                        t = end
                        break
                e, power = _binary_exponent(normaliser)
                scale_to(current, lane, power, filtered, t)
                if normaliser < 1.0 / HEADROOM:
                    scale_to(current, lane, power, current, lane)
                    scale = 1.0 / HEADROOM
                else:
                    scale = power / HEADROOM
                exponent += e
                log_marginal[i] += shift
                t += 1
                if t == sequence_end:
                    log_marginal[i] += exponent * LN2 + math.log(normaliser * power)
                    exponent = 0
            time[lane], sequence[lane], ends[lane] = t, i, sequence_end
            scales[lane], exponents[lane], positive[lane] = scale, exponent, n_positive
            if t == end:
                current[lane] = 0.0  # its states are no longer among those of any lane
                positive[lane] = 0
                n_live -= 1
    return log_marginal, impossible


@njit(cache=True, nogil=True)
def forward_filter(log_likelihoods, initial, transition, lengths):
    """Compute filtered probabilities p(z_t = k | y_1..t), up to a factor, and log p(y).

    u_t(k) = exp(l_tk - m_t) sum_j a_{t-1}(j) P_jk with m_t = max_k l_tk, and a_0 P replaced by
    pi_init at the first time of a sequence; a_t = 2^-e_t u_t with 1 <= sum_k a_t(k) < 2. Then
    log p(y) = sum_t m_t + log 2 sum_t e_t + log sum_k a_T(k). Where the maximum sits on a state
    that can hardly be reached, sum_k u_t(k) < 1e-280, the row is weighed with the maximum over
    the states that can, and divided by its sum, whose logarithm counts as part of m_t.

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
        a, proportional to p(z_t = k | y_1..t) of the same sequence.
    log_marginal_likelihood : ndarray of shape (N,)
        log p(y_n) of each sequence.
    impossible_time : int
        -1 if every observation is possible.
    """
    filtered = np.empty(log_likelihoods.shape)
    log_marginal, impossible = filter_rows(
        log_likelihoods, initial, transition, lengths, np.empty(0), filtered
    )
    return filtered, log_marginal, impossible


@njit(cache=True, nogil=True)
def choose(weights, uniform):
    """Index drawn in proportion to weights; never one of weight 0, whatever the rounding."""
    total = 0.0
    for weight in weights:
        total += weight
    return _choose(weights, uniform * total)


@njit(cache=True, nogil=True, inline="always")
def _choose(weights, target):
    """First positive weight at which their running sum exceeds the target, or the last one."""
    chosen = -1
    cumulative = 0.0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            chosen = k
            cumulative += weights[k]
            if cumulative > target:
                break
    return chosen


@njit(cache=True, nogil=True, fastmath={"contract"})
def backward_sample(filtered, transition, lengths, uniforms, following=-1):
    """Draw z ~ p(z | y) from the filtered probabilities, last time point first.

    p(z_T = k) is proportional to a_T(k), p(z_t = k | z_{t+1}, y_1..t) to a_t(k) P_{k, z_{t+1}}.

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
        a, each row up to a factor.
    transition : ndarray of shape (L, L)
    lengths : ndarray of shape (N,)
    uniforms : ndarray of shape (T,)
        In [0, 1).
    following : int
        State after the last time point where the last sequence goes on, else -1.

    Returns
    -------
    states : ndarray of shape (T,), int64
    """
    T, L = filtered.shape
    incoming = np.ascontiguousarray(transition.T)
    weights = np.empty((1, L))
    states = np.empty(T, np.int64)
    t = T - 1
    j = following
    for sequence in range(lengths.shape[0] - 1, -1, -1):
        for _ in range(lengths[sequence]):
            if j < 0:
                j = choose(filtered[t], uniforms[t])
            else:
                total, _ = weigh(filtered, t, 1.0, incoming, j, weights, 0)
                j = _choose(weights[0], uniforms[t] * total)
            states[t] = j
            t -= 1
        j = -1
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
