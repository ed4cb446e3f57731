"""One-step-ahead scores, smoothed probabilities and the Viterbi path, exact for one draw."""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.chain import (
    add_logs,
    at_time,
    exact_stay_and_leave,
    log_leave,
    log_stay,
    stay_and_leave,
    transition_matrix,
)
from pymc_dshdp.kernels.copies import copy_into
from pymc_dshdp.kernels.filtering import forward_filter
from pymc_dshdp.kernels.log_messages import smooth_by_logarithms


def filter_with_scores(log_likelihoods, initial, transitions, lengths):
    """Compute filtered probabilities and one-step-ahead predictive log-likelihoods.

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
    filtered, scores = np.empty(log_likelihoods.shape), np.empty(len(log_likelihoods))
    kappa = transitions.varying
    found = forward_filter(log_likelihoods, initial, transitions, kappa, lengths, filtered, scores)
    _normalise(filtered, scores, found.impossible, found.logarithms, lengths)
    return filtered, scores


@njit(cache=True, nogil=True)
def _normalise(filtered, scores, impossible, logarithms, lengths):
    """Turn what ``forward_filter`` wrote into probabilities, and its shifts into scores."""
    start = 0
    for n in range(lengths.shape[0]):
        stop = start + lengths[n]
        end = stop if impossible[n] < 0 else impossible[n]
        before = 1.0
        for t in range(start, end):
            row = filtered[t]
            if logarithms[n]:
                copy_into(row, np.exp(row))
            else:
                mass = row.sum()
                copy_into(row, row / mass)
                scores[t] += math.log(mass / before)
                before = mass
        filtered[end:stop] = np.nan
        scores[end:stop] = -np.inf
        start = stop


def smooth(log_likelihoods, initial, transitions, lengths):
    """Compute smoothed probabilities p(z_t = k | y_1..T).

    s_t(j) = a_t(j) sum_k P_{t+1,jk} s_{t+1}(k) / b_{t+1}(k),  b_{t+1} = a_t P_{t+1}:
    given z_{t+1}, z_t does not depend on what comes after. States that have underflowed to
    b = 0 are those of paths of next to no posterior probability: see ``filtering.filter_rows``.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    transitions : Transitions
    lengths : ndarray of shape (N,)

    Returns
    -------
    ndarray of shape (T, L)
        NaN throughout a sequence in which an observation is impossible.
    """
    smoothed, kappa = np.empty(log_likelihoods.shape), transitions.varying
    found = forward_filter(
        log_likelihoods, initial, transitions, kappa, lengths, smoothed, np.empty(0)
    )
    _look_back(smoothed, found.impossible, found.logarithms, transitions, kappa, lengths)
    return smoothed


@njit(cache=True, nogil=True, error_model="numpy")
def _look_back(smoothed, impossible, logarithms, transitions, kappa, lengths):
    """Turn what ``forward_filter`` wrote into smoothed probabilities."""
    kappa_logit, pi_bar, index, grouped = transitions
    L = smoothed.shape[1]
    predicted, ratio = np.empty(L), np.empty(L)
    indexed, loaded = index.shape[0] > 0, 0
    P, stay, leave = pi_bar[0], np.zeros(L), np.ones(L)  # beside P itself
    if indexed:
        stay, leave = exact_stay_and_leave(kappa_logit[0])
    elif kappa is None:
        P = transition_matrix(kappa_logit[0], P)
    start = np.int64(0)
    for n in range(lengths.shape[0]):
        stop = start + lengths[n]
        if impossible[n] >= 0:
            smoothed[start:stop] = np.nan
        elif logarithms[n]:
            smooth_by_logarithms(smoothed, transitions, start, stop)
        else:
            last = smoothed[stop - 1]
            copy_into(last, last / last.sum())
            for t in range(stop - 2, start - 1, -1):
                if kappa is not None:
                    stay_and_leave(kappa[t + 1], stay, leave)
                if indexed:
                    P = pi_bar[index[t + 1]]
                    if grouped and index[t + 1] != loaded:
                        loaded = index[t + 1]
                        stay, leave = exact_stay_and_leave(kappa_logit[loaded])
                _step_back(smoothed, t, P, stay, leave, predicted, ratio)
        start = stop


@njit(cache=True, nogil=True, error_model="numpy")
def _step_back(smoothed, t, rows, stay, leave, predicted, ratio):
    """Turn row t of filtered probabilities, up to a factor, into smoothed ones."""
    L = predicted.shape[0]
    for k in range(L):
        predicted[k] = smoothed[t, k] * stay[k]
    for j in range(L):
        if smoothed[t, j] > 0.0:
            leaving = smoothed[t, j] * leave[j]
            for k in range(L):
                predicted[k] += leaving * rows[j, k]
    for k in range(L):
        ratio[k] = smoothed[t + 1, k] / predicted[k] if predicted[k] > 0.0 else 0.0
    for j in range(L):
        if smoothed[t, j] > 0.0:
            onward = 0.0
            for k in range(L):
                onward += rows[j, k] * ratio[k]
            smoothed[t, j] *= leave[j] * onward + stay[j] * ratio[j]


@njit(cache=True, nogil=True)
def most_probable_path(log_likelihoods, initial, transitions, lengths):
    """Find the path that maximises log p(y, z), by Viterbi's recursion in log space.

    v_t(k) = l_tk + max_j v_{t-1}(j) + log P_tjk, and the maximising j are followed back from the
    best last state; the lowest state wins ties. To stay is never less probable than to leave for
    the same state, log P_tjj >= log((1 - kappa_tj) pi_bar_jj), and is tried last.

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
    log_initial, log_rows = np.log(initial), np.log(transitions.pi_bar[0])
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
                copy_into(score, log_initial)
            else:
                logit, pi_bar = at_time(transitions, t)
                if transitions.indices.shape[0] > 0:
                    log_rows = np.log(pi_bar)
                copy_into(previous, score)
                score[:] = -np.inf
                for j in range(L):
                    if previous[j] == -np.inf:
                        continue
                    leave = log_leave(logit[j])
                    leaving = previous[j] + leave
                    for k in range(L):
                        candidate = leaving + log_rows[j, k]
                        if candidate > score[k]:
                            score[k] = candidate
                            came_from[t, k] = j
                    staying = previous[j] + add_logs(log_stay(logit[j]), leave + log_rows[j, j])
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
