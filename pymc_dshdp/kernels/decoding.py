"""Filter with one-step-ahead scores, backward smoother and Viterbi path, exact for one draw.

These run once per posterior draw; the sampler's own filters are in ``messages`` and ``varying``.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

SMALLEST_DIVISOR = 1e-290


class Transitions(NamedTuple):
    """The matrices P_t = diag(stay_t) + leave_t pi_bar, from t - 1 to t, which are never formed.

    Attributes
    ----------
    stay : ndarray of shape (R, L)
        kappa_t: one row for all times (R = 1), or one for each (R = T), of which those at first
        times of sequences are not used.
    leave : ndarray of shape (R, L)
        1 - kappa_t, not rounded off where kappa_t is near 1.
    pi_bar : ndarray of shape (L, L)
    """

    stay: np.ndarray
    leave: np.ndarray
    pi_bar: np.ndarray


@njit(cache=True, nogil=True, inline="always")
def predict(filtered, t, transitions, predicted):
    """b_t(k) = a_{t-1}(k) stay_tk + sum_j a_{t-1}(j) leave_tj pi_bar_jk.

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
        a_t; only row t - 1 is read.
    t : int
    transitions : Transitions
    predicted : ndarray of shape (L,)
        b_t. Overwritten.
    """
    stay, leave, pi_bar = transitions
    L = predicted.shape[0]
    r = t if stay.shape[0] > 1 else 0
    for k in range(L):
        predicted[k] = filtered[t - 1, k] * stay[r, k] if filtered[t - 1, k] > 0.0 else 0.0
    for j in range(L):
        if filtered[t - 1, j] > 0.0:
            leaving = filtered[t - 1, j] * leave[r, j]
            for k in range(L):
                predicted[k] += leaving * pi_bar[j, k]


@njit(cache=True, nogil=True)
def filter_with_scores(log_likelihoods, initial, transitions, lengths):
    """Compute filtered probabilities and one-step-ahead predictive log-likelihoods.

    b_t = a_{t-1} P_t (pi_init at the first time of a sequence);
    p(y_t | y_1..t-1) = sum_k b_t(k) exp(l_tk);  a_t(k) = b_t(k) exp(l_tk) / p(y_t | y_1..t-1).
    The terms are shifted by the largest l_tk over states with b_t(k) > 0.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
        l_tk = log p(y_t | z_t = k).
    initial : ndarray of shape (L,)
    transitions : Transitions
    lengths : ndarray of shape (N,)

    Returns
    -------
    filtered : ndarray of shape (T, L)
        p(z_t = k | y_1..t); NaN from an impossible observation to the end of its sequence.
    log_predictive : ndarray of shape (T,)
        log p(y_t | y_1..t-1), within the sequence; -inf from an impossible observation on.
    """
    T, L = log_likelihoods.shape
    filtered = np.full((T, L), np.nan)
    log_predictive = np.full(T, -np.inf)
    predicted = np.empty(L)
    start = 0
    for length in lengths:
        predicted[:] = initial
        for t in range(start, start + length):
            if t > start:
                predict(filtered, t, transitions, predicted)
            row = log_likelihoods[t]
            top = -np.inf
            for k in range(L):
                if predicted[k] > 0.0 and not row[k] <= top:  # a NaN wins, and is caught below
                    top = row[k]
            if not math.isfinite(top):
                break
            total = 0.0
            for k in range(L):
                weight = predicted[k] * math.exp(row[k] - top) if predicted[k] > 0.0 else 0.0
                filtered[t, k] = weight
                total += weight
            for k in range(L):
                filtered[t, k] /= total
            log_predictive[t] = math.log(total) + top
        start += length
    return filtered, log_predictive


@njit(cache=True, nogil=True)
def smooth_backward(filtered, transitions, lengths):
    """Compute smoothed probabilities p(z_t = k | y_1..T) from the filtered ones, last time first.

    s_t(j) = a_t(j) sum_k P_{t+1,jk} s_{t+1}(k) / b_{t+1}(k),  b_{t+1} = a_t P_{t+1}:
    given z_{t+1}, z_t does not depend on what comes after.

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
        a_t(k) = p(z_t = k | y_1..t).
    transitions : Transitions
    lengths : ndarray of shape (N,)

    Returns
    -------
    ndarray of shape (T, L)
        NaN throughout a sequence whose filter met an impossible observation.
    """
    T, L = filtered.shape
    stay, leave, pi_bar = transitions
    smoothed = filtered.copy()
    predicted = np.empty(L)
    ratio = np.empty(L)
    start = 0
    for length in lengths:
        for t in range(start + length - 2, start - 1, -1):
            predict(filtered, t + 1, transitions, predicted)
            r = t + 1 if stay.shape[0] > 1 else 0
            tiny = False
            for k in range(L):
                ratio[k] = 0.0
                if predicted[k] >= SMALLEST_DIVISOR:
                    ratio[k] = smoothed[t + 1, k] / predicted[k]
                elif smoothed[t + 1, k] > 0.0:
                    tiny = True
            invalid = math.isnan(smoothed[t + 1, 0])
            for j in range(L):
                total = np.nan if invalid else 0.0
                mass = filtered[t, j]
                if mass == 0.0 and not invalid:
                    smoothed[t, j] = 0.0
                    continue
                for k in range(L):
                    total += pi_bar[j, k] * ratio[k]
                total = mass * (leave[r, j] * total + stay[r, j] * ratio[j])
                if tiny:  # s / b may overflow, a P / b may not
                    for k in range(L):
                        if 0.0 < predicted[k] < SMALLEST_DIVISOR:
                            p = leave[r, j] * pi_bar[j, k] + (stay[r, j] if j == k else 0.0)
                            total += mass * p / predicted[k] * smoothed[t + 1, k]
                smoothed[t, j] = total
        start += length
    return smoothed


@njit(cache=True, nogil=True)
def most_probable_path(log_likelihoods, initial, transitions, lengths):
    """Find the path that maximises log p(y, z), by Viterbi's recursion in log space.

    v_t(k) = l_tk + max_j v_{t-1}(j) + log P_tjk, and the maximising j are followed back from the
    best last state; the lowest state wins ties. To stay is never less probable than to leave for
    the same state, log P_tjj >= log(leave_tj pi_bar_jj), and is tried last.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    transitions : Transitions
    lengths : ndarray of shape (N,)

    Returns
    -------
    path : ndarray of shape (T,), int64
    log_joint : ndarray of shape (N,)
        log p(y_n, z_n) of each sequence; -inf where no path is possible, NaN read as impossible.
    """
    T, L = log_likelihoods.shape
    stay, leave, pi_bar = transitions
    log_initial, log_leave, log_rows = np.log(initial), np.log(leave), np.log(pi_bar)
    log_same = np.log(stay + leave * np.diag(pi_bar))
    path = np.zeros(T, np.int64)
    log_joint = np.empty(lengths.shape[0])
    came_from = np.zeros((T, L), np.int32)
    score = np.empty(L)
    previous = np.empty(L)
    start = 0
    for n in range(lengths.shape[0]):
        stop = start + lengths[n]
        for t in range(start, stop):
            if t == start:
                score[:] = log_initial
            else:
                r = t if stay.shape[0] > 1 else 0
                previous[:] = score
                score[:] = -np.inf
                for j in range(L):
                    if previous[j] == -np.inf:
                        continue
                    leaving = previous[j] + log_leave[r, j]
                    for k in range(L):
                        candidate = leaving + log_rows[j, k]
                        if candidate > score[k]:
                            score[k] = candidate
                            came_from[t, k] = j
                    staying = previous[j] + log_same[r, j]
                    if staying > score[j]:
                        score[j] = staying
                        came_from[t, j] = j
            for k in range(L):
                ell = log_likelihoods[t, k]
                score[k] += -np.inf if math.isnan(ell) else ell
        best = 0
        for k in range(1, L):
            if score[k] > score[best]:
                best = k
        log_joint[n] = score[best]
        for t in range(stop - 1, start - 1, -1):
            path[t] = best
            best = came_from[t, best]
        start = stop
    return path, log_joint
