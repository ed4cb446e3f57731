"""Forward filter and backward sample of a hidden Markov model over sequences end to end."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.elementary import exp_in_place
from pymc_dshdp.kernels.products import TALL, WIDTH, multiply_flat, multiply_tall, weigh

SMALLEST_NORMALISER = 1e-280
BLOCK_ELEMENTS = 4096  # table entries exponentiated at a time, which stay in cache


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
def _exponentiate(table, low, n_rows, columns, weights, shift):
    """weights[i, k] = exp(l_k - m) with m = shift[i] the maximum of row low + i; 0 for k >= L.

    Parameters
    ----------
    table : ndarray of shape (T, L)
    weights : ndarray of shape (rows * columns,)
    shift : ndarray of shape (rows,)
    """
    L = table.shape[1]
    for i in range(n_rows):
        row = table[low + i]
        a = b = c = d = row[0]
        k = 0
        while k + 4 <= L:  # four chains: a comparison waits for the one before it
            a = row[k] if row[k] > a else a
            b = row[k + 1] if row[k + 1] > b else b
            c = row[k + 2] if row[k + 2] > c else c
            d = row[k + 3] if row[k + 3] > d else d
            k += 4
        while k < L:
            a = row[k] if row[k] > a else a
            k += 1
        a = b if b > a else a
        c = d if d > c else c
        top = shift[i] = c if c > a else a
        w = weights[i * columns : (i + 1) * columns]
        for k in range(L):
            w[k] = row[k] - top
        for k in range(L, columns):
            w[k] = -np.inf
    exp_in_place(weights, n_rows * columns)


@njit(cache=True, nogil=True)
def _reached(current, low, high, active):
    """Count and list the states of positive probability in rows low..high - 1.

    -1 with nothing listed where they are more than three quarters of the states: a factor 0
    costs less than the list.
    """
    L = active.shape[0]
    n = 0
    if high - low == 1:
        for j in range(L):
            n += 1 if current[low, j] > 0.0 else 0
    else:
        for j in range(L):
            n += 1 if (current[0, j] + current[1, j]) + (current[2, j] + current[3, j]) > 0.0 else 0
    if 4 * n > 3 * L:
        return -1
    n = 0
    for j in range(L):
        for lane in range(low, high):
            if current[lane, j] > 0.0:
                active[n] = j
                n += 1
                break
    return n


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

    Up to four sequences advance together, so that the transition matrix is read once for four
    rows; a state that has probability 0 in all of them is passed over. Every entry is computed
    in the same order whatever runs beside it.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    transition : ndarray of shape (L, L)
    lengths : ndarray of shape (N,)
        Of the pieces of sequences that the rows consist of.
    previous : ndarray of shape (L,) or (0,)
        Filtered row before the first, where that is not the beginning of its sequence.
    filtered : ndarray of shape (T, L)
        Overwritten.

    Returns
    -------
    log_marginal_likelihood : ndarray of shape (N,)
    impossible_time : int
    """
    T, L = log_likelihoods.shape
    columns = -(-L // WIDTH) * WIDTH
    matrix = np.zeros((L, columns))
    for j in range(L):
        for k in range(L):
            matrix[j, k] = transition[j, k]
    log_marginal = np.zeros(lengths.shape[0])
    first, start = _lanes(lengths)
    n_lanes = first.shape[0] - 1
    rows = max(1, BLOCK_ELEMENTS // columns)
    weights = np.empty((n_lanes, rows * columns))
    shift = np.empty((n_lanes, rows))
    predicted = np.zeros((TALL, columns))
    current = np.zeros((TALL, columns))
    product = np.ones(n_lanes)  # of normalisers whose logarithms are still to be added
    active = np.empty(L, np.int64)
    every = np.arange(L)
    time = start.copy()
    sequence = first - 1
    sequence_end = start.copy()
    impossible = -1
    if previous.shape[0] > 0:
        for k in range(L):
            current[0, k] = previous[k]
        sequence[0], sequence_end[0] = 0, lengths[0]

    n_live = n_lanes
    step = 0
    while n_live > 0:
        i = step % rows
        if n_live > 2:
            n = _reached(current, 0, TALL, active)
            if n < 0:
                multiply_tall(current, every, L, matrix, predicted)
            else:
                multiply_tall(current, active, n, matrix, predicted)
        for lane in range(n_lanes):
            t = time[lane]
            if t == start[lane + 1]:
                continue
            if i == 0:
                n = min(rows, start[lane + 1] - t)
                _exponentiate(log_likelihoods, t, n, columns, weights[lane], shift[lane])
            if t == sequence_end[lane]:
                sequence[lane] += 1
                sequence_end[lane] += lengths[sequence[lane]]
                for k in range(L):
                    predicted[lane, k] = initial[k]
            elif n_live <= 2:
                n = _reached(current, lane, lane + 1, active)
                if n < 0:
                    multiply_flat(current, every, L, matrix, lane, predicted)
                else:
                    multiply_flat(current, active, n, matrix, lane, predicted)
            offset = i * columns
            normaliser = weigh(predicted, weights, lane, offset, current)
            if SMALLEST_NORMALISER <= normaliser < np.inf:
                inverse = 1.0 / normaliser
                for k in range(L):
                    current[lane, k] *= inverse
                    filtered[t, k] = current[lane, k]
            else:  # also NaN
                w = weights[lane, offset : offset + columns]
                top = _shift_by_reachable(log_likelihoods[t], predicted[lane], w)
                normaliser = weigh(predicted, weights, lane, offset, current)
                if not (0.0 < normaliser < np.inf):  # also NaN
                    impossible = t if impossible < 0 else min(impossible, t)
                    for k in range(L):
                        current[lane, k] = 0.0
                    n_live -= 1
                    time[lane] = start[lane + 1]
                    continue
                shift[lane, i] = top
                for k in range(L):  # dividing: 1 / normaliser may overflow
                    current[lane, k] /= normaliser
                    filtered[t, k] = current[lane, k]
            log_marginal[sequence[lane]] += shift[lane, i]
            if product[lane] * normaliser < SMALLEST_NORMALISER:
                log_marginal[sequence[lane]] += math.log(product[lane])
                product[lane] = normaliser
            else:
                product[lane] *= normaliser
            t += 1
            time[lane] = t
            if t == sequence_end[lane]:
                log_marginal[sequence[lane]] += math.log(product[lane])
                product[lane] = 1.0
                if t == start[lane + 1]:
                    for k in range(L):
                        current[lane, k] = 0.0
                    n_live -= 1
        step += 1
    return log_marginal, impossible


@njit(cache=True, nogil=True)
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
    filtered = np.empty(log_likelihoods.shape)
    log_marginal, impossible = filter_rows(
        log_likelihoods, initial, transition, lengths, np.empty(0), filtered
    )
    return filtered, log_marginal, impossible


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
def backward_sample(filtered, transition, lengths, uniforms, following=-1):
    """Draw z ~ p(z | y) from the filtered probabilities, last time point first.

    p(z_T = k) = a_T(k);  p(z_t = k | z_{t+1}, y_1..t) is proportional to a_t(k) P_{k, z_{t+1}}.

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
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
    weights = np.empty(L)
    states = np.empty(T, np.int64)
    t = T - 1
    j = following
    for sequence in range(lengths.shape[0] - 1, -1, -1):
        for _ in range(lengths[sequence]):
            if j < 0:
                for k in range(L):
                    weights[k] = filtered[t, k]
            else:
                for k in range(L):
                    weights[k] = filtered[t, k] * incoming[j, k]
            j = choose(weights, uniforms[t])
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
