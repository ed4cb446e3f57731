"""Rows of a filter whose states may have underflowed; see ``filtering.filter_rows``."""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.chain import exact_stay_and_leave, stay_and_leave
from pymc_dshdp.kernels.copies import copy_into
from pymc_dshdp.kernels.simd import LOST, NEGLIGIBLE, weigh, weigh_in_doubt

FEW = 8  # times for each matrix from which on the largest entries of all are found


@njit(cache=True, nogil=True)
def weigh_reachable(log_likelihood, predicted, weights, scale, current, lane, lost):
    """Weigh and normalise a row where next to no mass lies on the most likely state.

    The weights are exp(l_k - m) with m the maximum over states of positive predicted mass.
    Returns the shift m, with the logarithm of the normaliser in it; the number of states of
    positive mass; and the bound on what is lost, infinite where no such state has a finite
    log-density or any is NaN.
    """
    L = log_likelihood.shape[0]
    top = -np.inf
    for k in range(L):
        if math.isnan(log_likelihood[k]):
            return np.nan, 0, np.inf
        if predicted[lane, k] > 0.0:
            top = max(top, log_likelihood[k])
    if math.isinf(top):
        return np.nan, 0, np.inf
    largest = 0.0
    for k in range(L):
        # e^700 times anything lost is too much already, and a larger weight might overflow
        weight = math.exp(min(log_likelihood[k] - top, 700.0))
        if predicted[lane, k] * scale * NEGLIGIBLE < lost:
            largest = max(largest, weight)
        weights[lane, k] = weight if predicted[lane, k] > 0.0 else 0.0
    normaliser, positive = weigh(predicted, lane, scale, weights, lane, current, lane)
    if not (0.0 < normaliser < np.inf):  # also NaN
        return np.nan, 0, np.inf
    copy_into(current[lane], current[lane] / normaliser)  # 1 / normaliser may overflow
    return top + math.log(normaliser), positive, (lost * largest + LOST * L) / normaliser


@njit(cache=True, nogil=True)
def begin_to_watch(transitions, kappa, most, bound, astray):
    """Take what is lost, at most ``bound``, to be in each state, and set ``most`` the first time.

    ``most`` has two rows: the largest probability to stay in each state, and the largest to enter
    it from another one. Where there are nearly as many matrices as times both are 1.
    """
    astray[:] = bound
    if most[0, 0] >= 0.0:
        return
    kappa_logit, pi_bar, index, grouped = transitions
    G, L, _ = pi_bar.shape
    if FEW * G > max(FEW, index.shape[0]):
        most[:] = 1.0
        return
    stay, leave = np.ones(L), np.ones(L)
    if kappa is None and not grouped:
        stay, leave = exact_stay_and_leave(kappa_logit[0])
    most[:] = 0.0
    for g in range(G):
        for j in range(L):
            here = min(stay[j] + leave[j] * pi_bar[g, j, j], 1.0)
            most[0, j] = max(most[0, j], here)
            from_others = most[1, j]
            for k in range(L):  # without exceptions, so that it is done by vectors
                p = leave[j] * pi_bar[g, j, k]
                most[1, k] = p if p > most[1, k] else most[1, k]
            most[1, j] = from_others


@njit(cache=True, nogil=True)
def weigh_and_watch(predicted, lane, scale, weights, current, most, power, bound, astray):
    """As ``weigh``, and bound what is lost before it is normalised; see ``filter_rows``."""
    normaliser, positive, total, largest = weigh_in_doubt(
        predicted, lane, scale, weights, lane, current, lane, most, power, bound, astray
    )
    return normaliser, positive, min(total, bound * largest + LOST * predicted.shape[1])


@njit(cache=True, nogil=True)
def weigh_and_follow(predicted, lane, scale, weights, current, P, kappa, t, power, bound, astray):
    """As ``weigh_and_watch``, where what is lost in each state moves by the matrix itself.

    ``P`` is pi_bar, kappa and 1 - kappa; the latter are 0 and 1 where ``kappa`` has a row for
    each time.
    """
    pi_bar, stay, leave = P
    L, columns = pi_bar.shape[0], predicted.shape[1]
    if kappa is not None:
        stay, leave = np.empty(L), np.empty(L)
        stay_and_leave(kappa[t], stay, leave)
    arriving = np.zeros(columns)
    for j in range(L):
        leaving = astray[lane, j] * leave[j]
        for k in range(L):
            arriving[k] += leaving * pi_bar[j, k]
    for k in range(L):
        arriving[k] += astray[lane, k] * stay[k]
    copy_into(astray[lane], arriving)
    as_it_is = np.ones((2, columns))
    as_it_is[1] = 0.0
    return weigh_and_watch(predicted, lane, scale, weights, current, as_it_is, power, bound, astray)
